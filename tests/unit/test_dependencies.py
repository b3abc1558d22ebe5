"""What an install brings: the core stays light, and every library has its reason written down."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HEAVY = {"scikit-learn", "joblib", "pandas", "lxml", "xlsxwriter", "python-pptx", "openpyxl",
         "anndata", "pypdf", "nvflare"}  # fmt: skip


def named(line):
    return re.match(r"[\w.-]+", line)[0].lower().replace("_", "-")


def brought_by(names):
    """These libraries and all that they ask for when nobody asks for an extra."""
    found, left = set(), list(names)
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        try:
            lines = requires(name) or []
        except PackageNotFoundError:  # of another system or version of Python
            continue
        left += [named(line) for line in lines if "extra ==" not in line]
    return found


def test_the_core_install_brings_no_heavy_library():
    core = brought_by(map(named, PROJECT["dependencies"]))
    assert {"numpy", "numba", "llvmlite"} <= core
    assert not core & HEAVY


def test_every_dependency_has_its_reason():
    text = (ROOT / "docs/decisions/0006-dependencies.md").read_text(encoding="utf-8").lower()
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    asked = {named(line) for line in [*PROJECT["dependencies"], *extras]} - {"tripheno"}
    known = {"axe-playwright-python": "axe-core"}
    assert not [name for name in sorted(asked) if known.get(name, name) not in text]
