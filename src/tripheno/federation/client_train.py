"""A hospital's agent: the engine's own, deaf to every request that a study has no use for.

The engine lets the server say whether a request needs the hospital's permission. A server that was
tampered with would say no, and read the hospital's files with the engine's shell commands. So
requests that we never send have nobody to answer them here. Nor does the text of an error leave,
which the engine would send with paths in it.
"""

from __future__ import annotations

import runpy

ENGINE = "nvflare.private.fed.app.client.client_train"
ANSWERED = frozenset({
    "DeployProcessor", "CheckResourceProcessor", "CancelResourceProcessor", "StartJobProcessor",
    "AbortAppProcessor", "NotifyJobStatusProcessor", "ClientStatusProcessor",
})  # fmt: skip


def kind_of(fault: Exception) -> str:
    """What is said of an error inside the engine, in place of its text."""
    return type(fault).__name__


def main() -> None:
    """``python -m tripheno.federation.client_train WORDS…``, as the engine's own."""
    from nvflare.private.fed.client import admin, scheduler_cmds  # noqa: PLC0415
    from nvflare.private.fed.client.client_req_processors import (  # noqa: PLC0415
        ClientRequestProcessors,
    )

    admin.secure_format_exception = scheduler_cmds.secure_format_exception = kind_of

    known = ClientRequestProcessors.request_processors
    known[:] = [one for one in known if type(one).__name__ in ANSWERED]
    runpy.run_module(ENGINE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
