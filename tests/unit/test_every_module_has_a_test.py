"""Every module of the product is imported by a test of its own."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


def imported(path):
    """Names of modules that a test file imports, whether as modules or for names in them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return found


def test_every_module_is_imported_by_a_test():
    tests = set().union(*(imported(path) for path in (ROOT / "tests").rglob("*.py")))
    modules = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for path in (SOURCE / "tripheno").rglob("*.py")
        if path.stem not in ("__init__", "__main__")
        and not {"lab", "testing"} & set(path.relative_to(SOURCE).parts)
    }
    assert sorted(modules - tests) == []
