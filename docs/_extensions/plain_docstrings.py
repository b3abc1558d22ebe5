"""Docstrings are written to be read in the code: bars and stars in them are no markup."""

from __future__ import annotations

from typing import Any


def _escape(_app: Any, _what: str, _name: str, _it: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = [line.replace("|", "\\|") for line in lines]


def setup(app: Any) -> dict[str, bool]:
    """Take part in reading docstrings."""
    app.connect("autodoc-process-docstring", _escape)
    return {"parallel_read_safe": True}
