"""Every module of the product is imported by a test of its own."""

from __future__ import annotations

from pathlib import Path

from tools.mutants import imported

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


def test_every_module_is_imported_by_a_test():
    tests = set().union(*(imported(path) for path in (ROOT / "tests").rglob("*.py")))
    modules = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for path in (SOURCE / "tripheno").rglob("*.py")
        if path.stem not in ("__init__", "__main__")
        and not {"lab", "testing"} & set(path.relative_to(SOURCE).parts)
    }
    assert sorted(modules - tests) == []
