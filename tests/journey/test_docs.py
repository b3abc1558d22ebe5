"""The documentation site, built as `make docs` does: a warning is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from tripheno.cli.main import app
from tripheno.errors import catalogue

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    words = ["--fail-on-warning", "--keep-going", "--quiet", "--builder", "html"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, "-d", str(folder / "kept"), str(DOCS),
         str(folder / "html")],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_every_page_is_in_the_site(site):
    sources = {p.relative_to(DOCS).with_suffix(".html") for p in DOCS.rglob("*.md")}
    sources = {p for p in sources if p.parts[0] != "_build"}
    assert {p for p in sources if not (site / p).is_file()} == set()


def test_every_command_and_option_is_in_the_reference(site):
    page = (site / "commands.html").read_text()
    commands = typer.main.get_command(app).commands
    for name, command in commands.items():
        if not hasattr(command, "commands"):
            assert f"<h2>tripheno {name}" in page
    assert "--consensus-penalty" in page
    assert "trip · exact · central · local · all" in page
    assert "tripheno audit verify" in page


def test_every_error_code_a_user_can_meet_is_documented(site):
    page = (site / "errors.html").read_text()
    for kind in catalogue().values():
        assert kind.__name__ in page


def test_the_public_names_are_documented(site):
    page = (site / "api.html").read_text()
    import tripheno

    for name in tripheno.__all__:
        assert f"tripheno.{name}" in page
