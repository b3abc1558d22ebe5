"""How large the package is, by folder: ``python -m tools.lines``.

All lines of its Python files; and of those the code: no blank line, comment, docstring or import.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "tripheno"
NO_HOSPITAL = ("lab", "testing")


def code_lines(text: str) -> int:
    """Lines that a reader has to follow."""
    beside: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
                beside |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = enumerate(map(str.strip, text.splitlines()), start=1)
    return sum(1 for n, line in lines if line and line[0] != "#" and n not in beside)


def main() -> None:
    """A row for each folder, then the product and the whole."""
    lines, code = Counter[str](), Counter[str]()
    for path in PACKAGE.rglob("*.py"):
        folder = path.relative_to(PACKAGE).parts[0]
        text = path.read_text(encoding="utf-8")
        for name in (folder, *(() if folder in NO_HOSPITAL else ("product",)), "whole"):
            lines[name] += len(text.splitlines())
            code[name] += code_lines(text)
    for name in sorted(lines, key=lambda one: lines[one]):
        print(f"| `{name}` | {lines[name]:,} | {code[name]:,} |")


if __name__ == "__main__":
    main()
