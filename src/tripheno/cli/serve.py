"""``tripheno serve``: the coordinator's server."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tripheno.cli.checks import need_engine
from tripheno.cli.console import Format, FormatOption, show_event
from tripheno.cli.study_files import (
    Folder,
    _until_stopped,
    study_of,
)


def serve(folder: Folder = Path(), form: FormatOption = Format.text) -> None:
    """Run the coordinator's server until it is stopped; it is started again when it dies.

    With `--format json`, one JSON object a line: what is served on stdout, the log on stderr.
    """
    need_engine()
    from tripheno.federation.home import CoordinatorHome, alone
    from tripheno.federation.journal import Journal
    from tripheno.federation.supervision import Supervised, server_words

    protocol, home = study_of(folder), CoordinatorHome(folder)
    journal = Journal(home.state, show_event(form))
    with alone(home.state / "engine", "a server"), _until_stopped() as stopped:
        fingerprint, kit = home.prepare(protocol)
        home.forget_jobs(kit)
        address = protocol.operation.address
        journal.note(
            "serving",
            f"serving {protocol.study!r} at {address}; the authority's fingerprint is "
            f"{fingerprint}",
            result=True, study=protocol.study, address=address, fingerprint=fingerprint,
        )  # fmt: skip
        tell = partial(journal.note, "engine")
        with Supervised(server_words(kit.workspace), kit.workspace, tell):
            stopped.wait()
    journal.note("stopped", "stopped", result=True)
