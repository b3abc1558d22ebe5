"""``tripheno explain``: an error code, offline."""

from __future__ import annotations

import inspect
from typing import Annotated

import typer

from tripheno.cli.console import Format, FormatOption, out, print_json
from tripheno.errors import UnknownErrorCode, catalogue


def explain(
    code: Annotated[
        str | None, typer.Argument(help="A code such as TRIP-E302; without one, list all.")
    ] = None,
    form: FormatOption = Format.text,
) -> None:
    """Say what an error code means and what to do about it."""
    known = catalogue()
    if code is not None:
        wanted = code.upper() if code.upper().startswith("TRIP-") else f"TRIP-{code.upper()}"
        if wanted not in known:
            raise UnknownErrorCode(f"No error '{code}'", fix="`tripheno explain` lists them all")
        known = {wanted: known[wanted]}
    entries = [
        {"code": name, "exit": kind.exit_code, "meaning": inspect.cleandoc(kind.__doc__ or "")}
        for name, kind in known.items()
    ]
    if form is Format.json:
        print_json(entries)
        return
    for entry in entries:
        text = entry["meaning"] if code else str(entry["meaning"]).split("\n", 1)[0]
        out().print(f"{entry['code']} (exit {entry['exit']}) {text}")
