"""The page on the engine lists every part we use, and tests that exist."""

import ast
import re
import tomllib
from pathlib import Path

import nvflare

PROJECT = Path(__file__).resolve().parents[3]
PAGE = (PROJECT / "docs" / "engine.md").read_text(encoding="utf-8")
DOTTED = re.compile(r"nvflare(\.\w+)+")


def used_parts():
    """Every module of the engine that is imported or named in a string."""
    for path in (PROJECT / "src" / "tripheno").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nvflare"):
                yield node.module
            elif isinstance(node, ast.Constant) and DOTTED.fullmatch(str(node.value)):
                yield node.value


def test_every_part_of_the_engine_that_we_use_is_on_the_page():
    listed = {name.strip("`") for name in re.findall(r"^\| (`nvflare[\w.]+`)", PAGE, re.MULTILINE)}
    used = set(used_parts())
    assert used
    assert {one for one in used if not any(name.startswith(one) for name in listed)} == set()
    assert {name for name in listed if not any(name.startswith(one) for one in used)} == set()


def test_every_test_that_the_page_names_exists():
    named = set(re.findall(r"`(test_\w+|Test\w+)`", PAGE))
    text = "".join(path.read_text(encoding="utf-8") for path in (PROJECT / "tests").rglob("*.py"))
    assert {one for one in named if not re.search(rf"(def|class) {one}\b", text)} == set()


def test_the_pin_is_exact_and_is_what_is_installed():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = project["project"]["optional-dependencies"]["federation"]
    assert f"nvflare=={nvflare.__version__}" in wanted
    assert f"`nvflare=={nvflare.__version__}`" in PAGE
