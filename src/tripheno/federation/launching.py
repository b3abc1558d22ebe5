"""How the engine unpacks a job here and starts its process: ours alone, as its own child."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from pathlib import Path
from typing import Any

from nvflare.apis.fl_constant import FLContextKey, JobConstants
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.process_launcher import ProcessHandle
from nvflare.app_common.job_launcher.server_process_launcher import ServerProcessJobLauncher
from nvflare.private.fed.utils.app_deployer import AppDeployer

from tripheno.errors import ForeignJob
from tripheno.federation.child import words_of_child
from tripheno.federation.job_files import check_app, files_of_folder, files_of_zip
from tripheno.federation.journal import Journal


def followed(command: str) -> str:
    """``python -m MODULE WORDS…`` as a child of this process."""
    words = shlex.split(command)
    at = words.index("-m")
    return shlex.join([*words_of_child(os.getpid(), words[at + 1]), *words[at + 2 :]])


def check_unpacked(job_meta: dict[str, Any], fl_ctx: Any) -> None:
    """Refuse to start what is not our job, and leave none of its files behind."""
    workspace, job = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT), job_meta[JobConstants.JOB_ID]
    try:
        check_app(files_of_folder(Path(workspace.get_app_dir(job))))
    except ForeignJob:
        shutil.rmtree(workspace.get_run_dir(job), ignore_errors=True)
        raise


class GuardedDeployer(AppDeployer):  # type: ignore[misc]
    """At a hospital: what is not our job is not even unpacked."""

    def deploy(self, *words: Any, app_data: bytes, **more: Any) -> Any:
        """The engine's own way, for our job; else what is wrong, as the engine wants it told."""
        try:
            check_app(files_of_zip(app_data))
        except ForeignJob as fault:
            return str(fault)
        return super().deploy(*words, app_data=app_data, **more)


class LoggedHandle(ProcessHandle):  # type: ignore[misc]
    """A job's process whose beginning and end stand in our own log, with the reason."""

    def __init__(self, handle: Any, journal: Journal, job: str) -> None:
        super().__init__(process_adapter=handle.adapter)
        self._journal, self._job, self._logged = journal, job, False
        journal.note("job", "a job of the engine began", job=job)

    def wait(self) -> None:
        """The engine waits for the end."""
        super().wait()
        if not self._logged:
            self._logged = True
            code = self.adapter.poll() or 0
            self._journal.note("job", f"a job of the engine {ending(code)}", job=self._job)


def ending(code: int) -> str:
    """How a process ended, for a person: a signal, an error, or as it should."""
    if code == 0:
        return "ended"
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        return f"was ended by {name}; SIGKILL without a person is memory (dmesg)"
    return f"failed ({code}); its folder in the engine's workspace has log.txt"


def _logged(handle: Any, job_meta: dict[str, Any], fl_ctx: Any) -> LoggedHandle:
    workspace = Path(fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_root_dir()).resolve()
    return LoggedHandle(handle, Journal(workspace.parents[4]), str(job_meta[JobConstants.JOB_ID]))


class HospitalLauncher(ClientProcessJobLauncher):  # type: ignore[misc]
    """At a hospital."""

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        """The engine's own command, followed."""
        check_unpacked(job_meta, fl_ctx)
        return followed(super().get_command(job_meta, fl_ctx))

    def launch_job(self, job_meta: Any, fl_ctx: Any) -> Any:
        """The engine's own way, told in our log."""
        return _logged(super().launch_job(job_meta, fl_ctx), job_meta, fl_ctx)


class ServerLauncher(ServerProcessJobLauncher):  # type: ignore[misc]
    """At the server."""

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        """The engine's own command, followed."""
        check_unpacked(job_meta, fl_ctx)
        return followed(super().get_command(job_meta, fl_ctx))

    def launch_job(self, job_meta: Any, fl_ctx: Any) -> Any:
        """The engine's own way, told in our log."""
        return _logged(super().launch_job(job_meta, fl_ctx), job_meta, fl_ctx)
