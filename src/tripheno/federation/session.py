"""The coordinator's seat at the engine's server: who is connected, jobs submitted and stopped."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nvflare.fuel.flare_api.flare_api import Session as EngineSession

from tripheno.errors import EngineRefused
from tripheno.federation.provisioning import LEAD

SECONDS_TO_LOG_IN = 10.0
TRIES_TO_LOG_IN = 2  # after that the caller tries again, or gives up in its own time
OVER = ("FINISHED", "FAILED", "ABORTED", "REJECTED")
SECONDS_BETWEEN_TASKS = 0.5  # a job begins with two tasks; the engine's own pause is 2 s


class Session:
    """Logged in at the server. Close it: an open one keeps the process alive."""

    def __init__(self, workspace: Path) -> None:
        self._seat = EngineSession(username=LEAD, startup_path=str(workspace))
        self._seat.api.auto_login_max_tries = TRIES_TO_LOG_IN
        try:
            with redirect_stdout(io.StringIO()):  # it greets whoever logs in
                self._seat.try_connect(SECONDS_TO_LOG_IN)
        except BaseException as fault:
            self._seat.api.close()  # also when a person interrupts: its threads would stay
            if not isinstance(fault, Exception):
                raise
            raise EngineRefused(
                "the coordinator could not log in at its own server",
                why=type(fault).__name__,
                fix="is `tripheno serve` running on this machine?",
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(Exception):
            self._seat.close()

    def connected(self) -> set[str]:
        """The hospitals whose agents are connected now."""
        info = self._call(self._seat.get_system_info)
        return {client.name for client in info.client_info}

    def submit(self, folder: Path) -> str:
        """Start a job; its number."""
        return str(self._call(self._seat.submit_job, str(folder)))

    def over(self, job: str) -> str:
        """Why a job is over, or '' while it is not."""
        status = str(self._call(self._seat.get_job_meta, job).get("status", ""))
        return status if status.startswith(OVER) else ""

    def abort(self, job: str) -> None:
        """Stop a job; one that is over already is no fault."""
        with suppress(Exception):
            self._seat.abort_job(job)

    def _call(self, function: Any, *words: Any) -> Any:
        try:
            return function(*words)
        except Exception as fault:
            raise EngineRefused(
                "the engine's server refused a request",
                why=f"{type(fault).__name__}: {fault}"[:300],
            ) from None


def write_job(folder: Path, hospitals: Iterable[str]) -> Path:
    """The job as files: names of classes that every site has installed, and no code."""
    names = list(hospitals)
    runtime = "nvflare.collab.runtime"
    config = folder / "app" / "config"
    config.mkdir(parents=True, exist_ok=True)
    meta = {
        "name": "tripheno",
        "resource_spec": {},
        "min_clients": len(names),
        "mandatory_clients": names,
        "deploy_map": {"app": ["server", *names]},
    }
    controller = {"server_obj_id": "post", "sync_task_timeout": 60}
    server = {
        "format_version": 2,
        "server": {"task_request_interval": SECONDS_BETWEEN_TASKS},
        "components": [{"id": "post", "path": "tripheno.federation.job.ServerPost", "args": {}}],
        "workflows": [
            {"id": "controller", "path": f"{runtime}.controller.CollabController",
             "args": controller}
        ],
    }  # fmt: skip
    executor = {"path": f"{runtime}.executor.CollabExecutor", "args": {"client_obj_id": "post"}}
    client = {
        "format_version": 2,
        "components": [{"id": "post", "path": "tripheno.federation.job.HospitalPost", "args": {}}],
        "executors": [{"tasks": ["*"], "executor": executor}],
    }
    for path, value in (
        (folder / "meta.json", meta),
        (config / "config_fed_server.json", server),
        (config / "config_fed_client.json", client),
    ):
        path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    return folder
