"""The one job that the engine runs for us, as files; and the guard that knows no other.

A job is data that travels from the coordinator to every hospital. Ours never changes: it names
classes that every site has installed. So a site need not judge a job: it compares.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tripheno.errors import ForeignJob

SECONDS_BETWEEN_TASKS = 0.5  # a job begins with two tasks; the engine's own pause is 2 s
# The submitter's signature, which the engine adds to every folder.
SIGNED = (".__nvfl_sig.json", ".__nvfl_submitter.crt")
SIGNATURES = frozenset(folder + name for folder in ("", "config/") for name in SIGNED)
MOST_BYTES = 1 << 20


def app_files() -> dict[str, bytes]:
    """What the engine is told to build at the server and at a hospital; no code."""
    runtime = "nvflare.collab.runtime"
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
    return {
        "config/config_fed_server.json": _as_bytes(server),
        "config/config_fed_client.json": _as_bytes(client),
    }


def write_job(folder: Path, hospitals: Iterable[str]) -> Path:
    """The job as files, to be submitted."""
    names = list(hospitals)
    meta = {
        "name": "tripheno",
        "resource_spec": {},
        "min_clients": len(names),
        "mandatory_clients": names,
        "deploy_map": {"app": ["server", *names]},
    }
    parts = {f"app/{name}": data for name, data in app_files().items()}
    for name, data in {"meta.json": _as_bytes(meta), **parts}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def check_app(found: Mapping[str, bytes]) -> None:
    """Refuse whatever is not our job, byte for byte; names stay at home, they are others' words."""
    own = {name: data for name, data in found.items() if name not in SIGNATURES}
    if own != app_files():
        raise ForeignJob(
            "a job that is not tripheno's, or of another version, was refused",
            fix="install the same version everywhere; if it is, ask the coordinator what it sent",
        )


def files_of_zip(data: bytes) -> dict[str, bytes]:
    """The files of an app as it travels; one that is too large to be ours is not unpacked."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as parts:
            listed = [one for one in parts.infolist() if not one.is_dir()]
            if sum(one.file_size for one in listed) > MOST_BYTES:
                return {}
            return {one.filename.removeprefix("./"): parts.read(one) for one in listed}
    except (zipfile.BadZipFile, RuntimeError, ValueError, NotImplementedError):
        return {}


def files_of_folder(folder: Path) -> dict[str, bytes]:
    """The files of an app as it was unpacked."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if not path.is_dir()
    }


def _as_bytes(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
