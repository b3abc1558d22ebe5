"""The index of decisions, made from the pages: ``python -m tools.decisions`` writes it."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "decisions"
INDEX = FOLDER / "README.md"
STATUS = re.compile(r"\*\*Status\.\*\* ((?:Accepted|Changed by|Replaced by)\b.*)")
HEAD = """# Decisions

One page per contested choice: question, what was measured, decision, consequences.
A page keeps its number; what it says is mended or given a new status when a later choice
changes it. This table is made from the pages by `python -m tools.decisions`.

| decision | status |
|---|---|
"""


def index() -> str:
    """The table of all pages with their status."""
    rows = []
    for path in sorted(FOLDER.glob("0*.md")):
        title, _, status = path.read_text(encoding="utf-8").splitlines()[:3]
        found = STATUS.fullmatch(status)
        if found is None:
            raise SystemExit(f"{path.name}: the third line has to be its status")
        rows.append(f"| [{title.removeprefix('# ')}]({path.name}) | {found[1]} |")
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    INDEX.write_text(index(), encoding="utf-8")
