"""Thirty and fifty phenotypes on one page: search, sort, filter, print, phone and wall screen."""

from __future__ import annotations

import json
import shutil
from urllib.parse import urlsplit

import pytest

from kit.planted import planted
from tripheno.report.exports.write import export_run
from tripheno.report.page import render_page, write_page
from tripheno.report.run_folder import read_report
from tripheno.report.simulated import run_simulation
from tripheno.solver.settings import SolverSettings
from tripheno.study.simulation import Simulation, assemble

MANY = 50
LABELS = ("心不全", "فشل القلب", "Herzinsuffizienz mit erhaltener Pumpfunktion " * 4, "I50.9")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose few phenotypes are repeated to fifty, with long and non-Latin labels."""
    folder = tmp_path_factory.mktemp("many") / "run"
    settings = SolverSettings(4, tol=1e-3, starts=2)
    federation = assemble(planted(0).hospitals)
    run_simulation(Simulation(federation, settings, {"a": "f" * 64}, resamples=3), folder, 0.0)
    few = json.loads((folder / "phenotypes.json").read_text())
    many = []
    for n in range(MANY):
        one = json.loads(json.dumps(few[n % len(few)]))
        grade = ("stable", "partly", "unstable")[n % 3]
        one |= {"phenotype": n + 1, "grade": grade, "overlap": None, "led_by": f"finding {n:02d}"}
        for codes in one["codes"].values():
            codes[0]["name"] = codes[0]["label"] = f"{LABELS[n % len(LABELS)]} {n}"
        many.append(one)
    (folder / "phenotypes.json").write_text(json.dumps(many))
    (folder / "comparison.json").write_text("{}")
    write_page(folder)
    return folder


def host_of(address):
    return urlsplit(address).netloc


@pytest.mark.parametrize("width", [390, 1280, 3840])
def test_fifty_cards_fit_a_phone_a_desk_and_a_wall(run, look, width):
    watched = look()
    watched.page.set_viewport_size({"width": width, "height": 900})
    page = watched.open(f"file://{run / 'report.html'}")
    assert page.locator("article").count() == MANY
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width == 1280:
        assert watched.axe() == []


def test_fifty_cards_are_searched_filtered_and_sorted(run, look, serve):
    with serve(run) as address:
        page = look(host_of(address)).open(address)
        place = f"http://{host_of(address)}/phenotypes"
        page.goto(f"{place}?q=心不全")
        assert page.locator("article").count() == len(range(0, MANY, len(LABELS)))
        page.goto(f"{place}?grade=partly&sort=title")
        titles = page.locator("article h3 bdi").all_inner_texts()
        assert len(titles) == len(range(1, MANY, 3))
        assert titles == sorted(titles)
        page.goto(f"{place}?sort=grade")
        grades = page.locator("article .sure .badge").all_inner_texts()
        order = ("stable", "partly stable", "unstable")
        assert [order.index(one) for one in grades] == sorted(order.index(one) for one in grades)


def test_no_card_is_cut_by_the_edge_of_a_sheet(run, look, tmp_path):
    """A mark at the top and one at the bottom of every card come out on the same sheet."""
    marked = render_page(read_report(run))
    for n in range(1, MANY + 1):
        head = f'<article id="phenotype-{n}"'
        start = marked.index(head)
        inside = marked.index(">", start) + 1
        end = marked.index("</article>", start)
        marked = (
            f"{marked[:inside]}<b>TOP{n}TOP</b>{marked[inside:end]}<b>END{n}END</b>{marked[end:]}"
        )
    (tmp_path / "marked.html").write_text(marked)
    page = look().open(f"file://{tmp_path / 'marked.html'}")
    pypdf = pytest.importorskip("pypdf")
    (tmp_path / "page.pdf").write_bytes(page.pdf())
    sheets = [
        sheet.extract_text().replace("\n", "")
        for sheet in pypdf.PdfReader(tmp_path / "page.pdf").pages
    ]
    for n in range(1, MANY + 1):
        (top,) = [k for k, text in enumerate(sheets) if f"TOP{n}TOP" in text]
        (end,) = [k for k, text in enumerate(sheets) if f"END{n}END" in text]
        assert top == end, n


def test_a_name_given_in_the_browser_is_in_report_export_and_comparison(run, look, serve, tmp_path):
    own = tmp_path / "run"
    shutil.copytree(run, own)
    with serve(own) as address:
        page = look(host_of(address)).open(address)
        page.goto(f"http://{host_of(address)}/phenotypes")
        form = page.locator("form.said").nth(0)
        form.locator("[name=reviewer]").fill("Ada")
        form.locator("[name=name]").fill("Heart failure, as Ada reads it")
        with page.expect_navigation():
            form.get_by_role("button").click()
        page.goto(f"http://{host_of(address)}/")
    assert "Heart failure, as Ada reads it" in (own / "report.html").read_text()
    assert "Heart failure, as Ada reads it" in (own / "phenotypes.csv").read_text()
    written = export_run(own, "csv", tmp_path / "sheets")
    assert any("Heart failure, as Ada reads it" in path.read_text() for path in written)
