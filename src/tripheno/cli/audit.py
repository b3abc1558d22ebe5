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
    form: FormatOption = Format.text,
) -> None:
    """Check the chain, the signatures and that the tail is there; name the first broken line."""
    from tripheno.privacy import audit

    text = _read(run / "audit.jsonl")
    kept = audit.read_head(_read(head or run / "audit.head.json"))
    lines = audit.verify(text, kept)
    if form is Format.json:
        print_json({"ok": True, "lines": lines, "head": kept.hash})
        return
    out().print(f"OK  {lines:,} lines hold, up to the head {kept.hash[:16]}…")


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
