"""``tripheno audit``: the record of what left, and whether it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tripheno.cli.console import Format, FormatOption, out, print_json, table

RunFolder = Annotated[Path, typer.Argument(help="A run folder with audit.jsonl.")]


def verify(
    run: RunFolder,
    head: Annotated[
        Path | None,
        typer.Option(help="The coordinator's copy of the last head; else audit.head.json."),
    ] = None,
    federation: Annotated[
        Path | None,
        typer.Option(help="The study's protocol: its keys must have signed, not only any."),
    ] = None,
    hospital: Annotated[
        str, typer.Option(help="Whose log it is, as federation.toml names it.")
    ] = "",
    form: FormatOption = Format.text,
) -> None:
    """Check the chain, the signatures and that the tail is there; name the first broken line."""
    from tripheno.privacy import audit

    text = _read(run / "audit.jsonl")
    kept = audit.read_head(_read(head or run / "audit.head.json"))
    keeper, coordinator = _agreed_keys(federation, hospital) if federation else (None, None)
    lines = audit.verify(text, kept, keeper=keeper, coordinator=coordinator)
    if form is Format.json:
        print_json({"ok": True, "lines": lines, "head": kept.hash, "agreed_keys": bool(keeper)})
        return
    whose = "as agreed on" if keeper else "as the log names them; --federation pins them"
    out().print(f"OK  {lines:,} lines hold, up to the head {kept.hash[:16]}…  (keys: {whose})")


def _agreed_keys(federation: Path, hospital: str) -> tuple[str, str]:
    """The fingerprints of the keeper of the log and of the coordinator."""
    from tripheno.cli.layers import layers_over
    from tripheno.errors import UnknownMember
    from tripheno.protocol.agreed import read_protocol

    protocol = read_protocol(federation, layers_over("federation"))
    for member in protocol.members:
        if member.name == hospital:
            return member.fingerprint, protocol.coordinator
    raise UnknownMember(
        f"'{hospital}' is no member of the study",
        fix="name the hospital whose log it is with --hospital",
    )


def show(run: RunFolder, form: FormatOption = Format.text) -> None:
    """What went in and out: messages and bytes by hospital and kind of step."""
    from tripheno.privacy.audit import tally

    rows = tally(_read(run / "audit.jsonl").splitlines())
    if form is Format.json:
        print_json(rows)
        return
    shown = table(
        "", {"Hospital": False, "Step": False, "Way": False, "Messages": True, "Bytes": True}
    )
    for row in rows:
        shown.add_row(
            row["hospital"], row["step"], row["direction"], f"{row['messages']:,}",
            f"{row['bytes']:,}",
        )  # fmt: skip
    out().print(shown)


def _read(path: Path) -> str:
    from tripheno.errors import RunNotFound

    if not path.is_file():
        raise RunNotFound(
            f"No file {path}",
            fix="name a run folder that `simulate` wrote, or a hospital's state/runs/RUN",
        )
    return path.read_bytes().decode("utf-8", "replace")
