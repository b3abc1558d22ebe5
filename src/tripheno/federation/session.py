"""The coordinator's login at the engine's server: who is connected, jobs submitted and stopped."""

from __future__ import annotations

import io
import logging
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, Self

from nvflare.fuel.flare_api.flare_api import Session as EngineSession

from tripheno.errors import EngineRefused, ForeignJob

SECONDS_TO_LOG_IN = 10.0
TRIES_TO_LOG_IN = 2  # after that the caller tries again, or gives up in its own time
SECONDS_TO_ANSWER = 30.0  # a server that starts a job on a busy machine is slow, and not away
# What it says of a server that is away, a person is told in our words.
logging.getLogger("nvflare").addHandler(logging.NullHandler())
OVER = ("FINISHED", "FAILED", "ABORTED", "REJECTED")


class ServerLogin:
    """Logged in at the server. Close it: an open one keeps the process alive."""

    def __init__(self, workspace: Path) -> None:
        self._engine = EngineSession(username=workspace.name, startup_path=str(workspace))
        self._engine.api.auto_login_max_tries = TRIES_TO_LOG_IN
        try:
            with redirect_stdout(io.StringIO()):  # it greets whoever logs in
                self._engine.try_connect(SECONDS_TO_LOG_IN)
            self._engine.set_timeout(SECONDS_TO_ANSWER)
            self.server_began = str(self._engine.get_system_info().server_info.start_time)
        except BaseException as fault:
            self._engine.api.close()  # also when a person interrupts: its threads would stay
            if not isinstance(fault, Exception):
                raise
            raise EngineRefused(
                "the coordinator could not log in at its own server",
                why=type(fault).__name__,
                fix="is `tripheno serve` running on this machine?",
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_ending: object) -> None:
        with suppress(Exception):
            self._engine.unset_timeout()  # nobody waits so long for a farewell
            self._engine.close()

    def connected(self) -> set[str]:
        """The hospitals whose agents are connected now."""
        info = self._call(self._engine.get_system_info)
        return {client.name for client in info.client_info}

    def submit(self, folder: Path) -> str:
        """Start a job; its number."""
        return str(self._call(self._engine.submit_job, str(folder)))

    def over(self, job: str) -> str:
        """Why a job is over, or '' while it is not; what a site said of it included."""
        meta = self._call(self._engine.get_job_meta, job)
        status = str(meta.get("status", ""))
        if not status.startswith(OVER):
            return ""
        said = [str(one) for one in meta.get("job_deploy_detail") or () if ": OK" not in str(one)]
        if any(ForeignJob.code in one for one in said):
            raise ForeignJob(
                "the job was refused", where=", ".join(one.partition(":")[0] for one in said[:-1]),
                why="another version of tripheno there, or other files than its own",
                fix="install the same version everywhere",
            )  # fmt: skip
        return f"{status} {' '.join(said)[:300]}".strip()

    def abort(self, job: str) -> None:
        """Stop a job; one that is over already is no fault."""
        with suppress(Exception):
            self._engine.abort_job(job)

    def _call(self, function: Any, *words: Any) -> Any:
        try:
            return function(*words)
        except Exception as fault:
            raise EngineRefused(
                "the engine's server refused a request",
                why=f"{type(fault).__name__}: {fault}"[:300],
            ) from None
