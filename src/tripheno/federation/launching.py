"""How the engine starts the process of a job here: as a child that does not outlive it."""

from __future__ import annotations

import os
import shlex
from typing import Any

from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.server_process_launcher import ServerProcessJobLauncher

from tripheno.federation.child import words_of_child


def followed(command: str) -> str:
    """``python -m MODULE WORDS…`` as a child of this process."""
    words = shlex.split(command)
    at = words.index("-m")
    return shlex.join([*words_of_child(os.getpid(), words[at + 1]), *words[at + 2 :]])


class HospitalLauncher(ClientProcessJobLauncher):  # type: ignore[misc]
    """At a hospital."""

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        """The engine's own command, followed."""
        return followed(super().get_command(job_meta, fl_ctx))


class ServerLauncher(ServerProcessJobLauncher):  # type: ignore[misc]
    """At the server."""

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        """The engine's own command, followed."""
        return followed(super().get_command(job_meta, fl_ctx))
