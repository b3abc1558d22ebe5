"""What an engine may do at a site: build our two classes, and nothing that travels.

The engine's own defaults upload a hospital's error log to the server and let a job bring code
along. Both are switched off here, in the files that its owner keeps (`local/` of its workspace).

Some settings the engine finds by walking the workspace, where jobs are unpacked too: a job could
bring a `comm_config.json` that names a folder of Python files, and all of them were run. What
stands in the root of the workspace is found first, so every such file stands there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tripheno.errors import SettingsError

ALLOWED = (
    "nvflare.collab.runtime.controller.CollabController",
    "nvflare.collab.runtime.executor.CollabExecutor",
    "tripheno.federation.job.HospitalPost",
    "tripheno.federation.job.ServerPost",
)
# Links in the root of a workspace → the file its owner keeps.
FOUND_BY_WALKING = {
    "resources.json": "local/resources.json",
    "fed_client.json": "startup/fed_client.json",
    "fed_server.json": "startup/fed_server.json",
}
# A sender waits so long before it takes a piece for lost: a slow line is not a broken one.
COMMUNICATION = {"streaming_retry_wait": 30.0}
REMOVED = ("site_log_streamer", "log_receiver")
LAUNCHERS = {
    "nvflare.app_common.job_launcher.client_process_launcher.ClientProcessJobLauncher": (
        "tripheno.federation.launching.HospitalLauncher"
    ),
    "nvflare.app_common.job_launcher.server_process_launcher.ServerProcessJobLauncher": (
        "tripheno.federation.launching.ServerLauncher"
    ),
}
# A job whose hospital is away for a moment is tried again soon, as often as it takes: the engine
# doubles its pause up to ten minutes and gives up after ten times. Old jobs never block a new one.
SCHEDULE = {
    "max_jobs": 1000,
    "min_schedule_interval": 1.0,
    "max_schedule_interval": 1.0,
    "max_schedule_count": 100_000,
}
NOBODY = {
    "clone_job": "none",
    "download_job": "none",
    "operate": "none",
    "shell_commands": "none",
    "byoc": "none",
    "server-predeployed-flwr": "none",
}


def harden(workspace: Path) -> None:
    """Write the site's own resources and permissions over the engine's defaults.

    At every start: a kit that an older version installed has the newest rules, too.
    """
    local, storage = workspace / "local", workspace.parents[3] / "store" / workspace.name
    resources = json.loads((local / "resources.json.default").read_text(encoding="utf-8"))
    _write(local / "resources.json", hardened_resources(resources, storage))
    _write(local / "authorization.json", permissions())
    _write(local / "log_config.json", _log_config())
    _write(workspace / "comm_config.json", COMMUNICATION)
    for name, kept in FOUND_BY_WALKING.items():
        if (workspace / kept).is_file():
            (workspace / name).unlink(missing_ok=True)
            (workspace / name).symlink_to(kept)


def check_workspace(workspace: Path) -> None:
    """A workspace of a network that is there already: its owner must have let us in, and no more.

    What `harden` writes into kits of our own, the owner of this one writes; all faults at once.
    """
    local, faults = workspace / "local", []
    kept = local / "resources.json"
    try:
        found = json.loads(kept.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise SettingsError(
            "cannot be read", where=str(kept),
            fix="copy resources.json.default to it, then change it as docs/howto/network.md says",
        ) from None  # fmt: skip
    missing = [one for one in ALLOWED if one not in found.get("class_allow_list", [])]
    if missing:
        faults.append(f"class_allow_list lacks {', '.join(missing)}")
    if found.get("class_list_enforcement_mode") != "enforce":
        faults.append('class_list_enforcement_mode is not "enforce"')
    if "client" in found and found.get("allow_log_streaming") is not False:
        faults.append("allow_log_streaming is not false: this hospital's logs would be uploaded")
    if not (workspace / "comm_config.json").is_file():
        faults.append(
            "no comm_config.json in the workspace's root: a job could bring one, and code"
        )
    if faults:
        raise SettingsError(
            "; ".join(faults),
            where=str(workspace),
            fix="docs/howto/network.md, `A network you have`",
        )


def hardened_resources(resources: dict[str, Any], storage: Path) -> dict[str, Any]:
    """Our classes only, no log streaming, and storage in a folder that is kept."""
    made = {**resources, "class_list_enforcement_mode": "enforce"}
    made["class_allow_list"] = list(ALLOWED)
    made["components"] = [
        _component(one) for one in made.get("components", []) if one["id"] not in REMOVED
    ]
    if "client" in made:
        made["allow_log_streaming"] = False
        guard = {"id": "app_deployer", "path": "tripheno.federation.launching.GuardedDeployer"}
        made["components"].append({**guard, "args": {}})
    if "servers" in made:
        guard = {"id": "name_guard", "path": "tripheno.federation.name_guard.NameGuard"}
        made["components"].append({**guard, "args": {}})
    text = json.dumps(made).replace("/tmp/nvflare", json.dumps(str(storage))[1:-1])  # noqa: S108
    return dict(json.loads(text))


def _component(one: dict[str, Any]) -> dict[str, Any]:
    """A part of the engine, set as we need it."""
    if one["id"] == "job_scheduler":
        return {**one, "args": {**one.get("args", {}), **SCHEDULE}}
    return {**one, "path": LAUNCHERS.get(one["path"], one["path"])} if "path" in one else one


def permissions() -> dict[str, Any]:
    """The coordinator may submit and stop its own jobs, and look; nobody may bring code."""
    lead = {"submit_job": "any", "manage_job": "n:submitter", "view": "any", **NOBODY}
    nothing = {"submit_job": "none", "manage_job": "none", "view": "none", **NOBODY}
    roles = {"project_admin": nothing, "org_admin": nothing, "lead": lead, "member": nothing}
    return {"format_version": "1.0", "permissions": roles}


def _log_config() -> dict[str, Any]:
    """One file a process, warnings and worse, and our own lines."""
    shape = {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}
    file = {
        "class": "logging.handlers.RotatingFileHandler",
        "formatter": "plain",
        "filename": "log.txt",
        "maxBytes": 10_000_000,
        "backupCount": 3,
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": shape},
        "handlers": {"logFileHandler": file},
        "loggers": {"root": {"level": "WARNING", "handlers": ["logFileHandler"]}},
    }


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
