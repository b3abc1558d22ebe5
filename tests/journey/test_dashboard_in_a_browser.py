"""The dashboard as it is started and seen: a real process, a real browser."""

from __future__ import annotations

import re
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from tripheno.dashboard.annotations import annotate
from tripheno.evaluation.simulation import assemble
from tripheno.report.study import Study, run_study
from tripheno.solver.settings import SolverSettings
from tripheno.testing.planted import planted

HOSTILE = "<script>alert(1)</script>\"'\u202e" + "x" * 1500


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ui") / "run"
    study = Study(assemble(planted(0).hospitals), SolverSettings(3, "trip", tol=1e-4), {})
    run_study(study, folder, 0.0)
    annotate(folder / "annotations.jsonl", 1, "Ada", "name", HOSTILE)
    words = [sys.executable, "-m", "tripheno", "ui", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        yield server.stdout.readline().strip()
        server.terminate()


@pytest.mark.parametrize("path", ["/", "/phenotypes", "/compare", "/experiments", "/privacy"])
def test_every_page_is_shown_without_a_complaint(address, path, chromium):
    parts = urlsplit(address)
    assert parts.hostname == "127.0.0.1"
    page = f"http://{parts.netloc}{path}?{parts.query}"
    dom = chromium("--dump-dom", "--timeout=8000", page).stdout
    assert re.search(r"<h1>\w+</h1>", dom)
    assert "<script>alert" not in dom
    if path == "/phenotypes":
        assert dom.count("<article") == 3
        assert "x" * 1500 in dom


def test_a_wrong_token_shows_nothing(address):
    from urllib.error import HTTPError
    from urllib.request import urlopen

    with pytest.raises(HTTPError) as refused:
        urlopen(address[:-3] + "bad")
    assert refused.value.code == 403
    refused.value.close()
