"""Report and dashboard as they are seen: real processes, a real browser."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from kit.planted import planted
from tripheno.errors import NotConverged
from tripheno.lab.synthetic.network import SyntheticSettings, synthetic_network
from tripheno.records.events import CountingRule, write_events
from tripheno.report.exports.chosen import Wanted
from tripheno.report.exports.write import export_run
from tripheno.report.page import ORDERS, render_page, write_page
from tripheno.report.phenotypes import GRADES
from tripheno.report.run_folder import read_report
from tripheno.report.runs_compared import compare_runs
from tripheno.report.simulated import run_simulation
from tripheno.solver.settings import SolverSettings
from tripheno.study.simulation import Simulation, assemble

RULE = CountingRule()
PAGES = ("/", "/phenotypes", "/compare", "/experiments", "/privacy")
HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "a\u202eb\u200fc \u2066{{ 7 * 7 }} & < > %",
    "x" * 10_000,
)


LETTERS = ("心不全", "فشل القلب", "Herzinsuffizienz mit erhaltener Pumpfunktion " * 4, "I50.9")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages") / "run"
    settings = SolverSettings(len(HOSTILE), "trip", tol=1e-3, starts=2)
    run_simulation(
        Simulation(assemble(planted(0).hospitals), settings, {"a": "f" * 64}), folder, 0.0
    )
    return folder


@pytest.fixture(scope="module")
def address(run, serve_once):
    with serve_once(run) as address:
        yield address


def page_of(address, path):
    parts = urlsplit(address)
    return f"http://{parts.netloc}{path}?{parts.query}"


def host_of(address):
    return urlsplit(address).netloc


def contrast(one, other):
    """Of two colours as the browser writes them, by WCAG's relative luminance."""

    def light(colour):
        parts = [int(part) / 255 for part in colour[4:-1].split(",")]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


class TestEveryPage:
    def test_the_report_is_whole_accessible_and_fits_the_window(self, run, look):
        watched = look()
        page = watched.open(f"file://{run / 'report.html'}")
        assert page.locator("article").count() == len(HOSTILE)
        assert page.locator("figure svg[role=img]").count() == 4
        assert watched.overflows() == {}
        assert watched.axe() == []

    @pytest.mark.parametrize("path", PAGES)
    def test_the_dashboard_is_whole_accessible_and_fits_the_window(self, address, look, path):
        watched = look(host_of(address))
        page = watched.open(page_of(address, path))
        assert page.locator("h1").count() == 1
        assert page.locator("nav a[aria-current=page]").count() == 1
        assert "token" not in page.url
        assert watched.overflows() == {}
        assert watched.axe() == []

    def test_the_report_can_be_printed_with_everything_on_paper(self, run, look):
        watched = look()
        page = watched.open(f"file://{run / 'report.html'}")
        page.emulate_media(media="print")
        assert not page.locator("nav").is_visible()
        assert page.locator("article").first.is_visible()
        assert len(page.pdf()) > 20_000

    def test_in_the_dark_everything_can_be_read(self, run, address, look):
        report, live = look(), look(host_of(address))
        for watched, place in ((report, f"file://{run / 'report.html'}"),
                               (live, page_of(address, "/phenotypes"))):  # fmt: skip
            watched.page.emulate_media(color_scheme="dark")
            page = watched.open(place)
            paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert paper == "rgb(20, 25, 31)"
            assert watched.axe() == []

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_charts_stand_out_from_the_page_by_day_and_by_night(self, run, look, scheme):
        """Words by 4.5 to 1, marks by 3 to 1 (WCAG); axe-core does not look into drawings."""
        watched = look()
        watched.page.emulate_media(color_scheme=scheme)
        page = watched.open(f"file://{run / 'report.html'}")
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        drawn = page.eval_on_selector_all(
            "figure svg *", "all => all.map((one) => [one.tagName, getComputedStyle(one)]).flatMap("
            "([tag, style]) => [[tag, style.fill], [tag === 'text' ? tag : 'line', style.stroke]])"
        )  # fmt: skip
        assert (
            page.eval_on_selector_all(
                "figure", "all => all.map((one) => getComputedStyle(one).backgroundColor)"
            )
            == ["rgba(0, 0, 0, 0)"] * 4
        )
        least = {"text": 4.5, "path": 3.0, "line": 1.2}  # lines of the grid recede
        for tag, colour in {(tag, c) for tag, c in drawn if c.startswith("rgb(") and tag in least}:
            assert contrast(colour, paper) >= least[tag], (tag, colour)

    def test_cards_are_sorted_and_chosen_without_a_script(self, run, look):
        page = look().open(f"file://{run / 'report.html'}")
        grades = [p.grade for p in read_report(run).phenotypes]
        page.locator("#show-stable").check()
        assert page.locator("article:visible").count() == grades.count("stable")
        page.locator("[name=show]").first.check()
        page.locator("#sort-title").check()
        tops = page.eval_on_selector_all(
            "article", "all => all.map((one) => [one.getBoundingClientRect().top,"
            " one.getBoundingClientRect().left, one.querySelector('h3 bdi').textContent])"
        )  # fmt: skip
        titles = [title.casefold() for _, _, title in sorted(tops)]
        assert titles == sorted(titles)

    def test_rows_figures_and_cards_are_kept_whole_on_paper(self, run, look):
        page = look().open(f"file://{run / 'report.html'}")
        page.emulate_media(media="print")
        kept = "all => all.map((one) => getComputedStyle(one).breakInside)"
        assert set(page.eval_on_selector_all("article, tr, figure", kept)) == {"avoid"}

    def test_a_wrong_token_shows_nothing(self, address):
        with pytest.raises(HTTPError) as refused:
            urlopen(address[:-3] + "bad")
        assert refused.value.code == 403
        refused.value.close()


@pytest.fixture(scope="module")
def fifty(tmp_path_factory):
    """Fifty phenotypes, more than the data hold: stable, partly and not; labels in any letters."""
    folder = tmp_path_factory.mktemp("fifty") / "run"
    settings = SolverSettings(50, "exact", tol=1e-2, starts=1, max_iter=3)
    study = Simulation(assemble(planted(0).hospitals), settings, {}, beside=(), resamples=2)
    with pytest.warns(NotConverged):
        run_simulation(study, folder, 0.0)
    plain = json.loads((folder / "phenotypes.json").read_text())
    for n, one in enumerate(plain):
        one["grade"] = GRADES[n % len(GRADES)]
        for codes in one["codes"].values():
            codes[0]["name"] = f"{LETTERS[n % len(LETTERS)]} {n}"
    (folder / "phenotypes.json").write_text(json.dumps(plain))
    write_page(folder)
    return folder


class TestFifty:
    def test_search_and_sort_find_their_cards_among_fifty(self, fifty, look, serve):
        phenotypes = read_report(fifty).phenotypes
        shown = [p for p in phenotypes if p.shown]
        word = shown[-1].shown["diagnosis"][0].name
        names = {
            p.number: [c.name for codes in p.shown.values() for c in codes] for p in phenotypes
        }
        with serve(fifty) as address:
            watched = look(host_of(address))
            page = watched.open(page_of(address, "/phenotypes"))
            assert page.locator("article").count() == 50
            assert watched.overflows() == {}
            page.locator("#search").fill(word.upper())
            page.locator(".filter [name=sort]").select_option("patients")
            with page.expect_navigation():
                page.get_by_role("button", name="Show").click()
            found = page.eval_on_selector_all("article", "all => all.map((one) => one.id)")
        having = [p for p in phenotypes if word in names[p.number] or word in p.title]
        wanted = sorted(having, key=ORDERS["patients"])
        assert 0 < len(wanted) < 50
        assert found == [f"phenotype-{p.number}" for p in wanted]

    def test_fifty_are_chosen_by_grade_and_found_in_any_letters(self, fifty, look, serve):
        phenotypes = read_report(fifty).phenotypes
        with serve(fifty) as address:
            page = look(host_of(address)).open(address)
            place = f"http://{host_of(address)}/phenotypes"
            page.goto(f"{place}?q={LETTERS[0]}")
            shown = [p for p in phenotypes[:: len(LETTERS)] if p.named]
            assert page.locator("article").count() == len(shown) > 0
            page.goto(f"{place}?grade=partly&sort=title")
            titles = page.locator("article h3 bdi").all_inner_texts()
            assert len(titles) == len(phenotypes[1 :: len(GRADES)])
            assert titles == sorted(titles, key=str.casefold)

    def test_the_report_of_fifty_is_accessible_and_sorts_without_a_script(self, fifty, look):
        watched = look()
        page = watched.open(f"file://{fifty / 'report.html'}")
        assert watched.overflows() == {}
        assert watched.axe() == []
        page.locator("#sort-grade").check()
        tops = page.eval_on_selector_all(
            "article", "all => all.map((one) => [one.getBoundingClientRect().top,"
            " one.getBoundingClientRect().left, one.id])"
        )  # fmt: skip
        sure = {f"phenotype-{p.number}": ORDERS["grade"](p) for p in read_report(fifty).phenotypes}
        placed = [sure[name] for _, _, name in sorted(tops)]
        assert placed == sorted(placed)

    def test_no_card_is_split_between_two_sheets_of_paper(self, fifty, look):
        """Every card bears a link at its top and one at its foot: a PDF says where links are."""
        page = look().open(f"file://{fifty / 'report.html'}")
        page.evaluate("""() => document.querySelectorAll("article").forEach((one) => {
            for (const end of ["afterbegin", "beforeend"])
                one.insertAdjacentHTML(end, `<a href="https://${end}.test/${one.id}">.</a>`);
        })""")
        places = sheets_of(page.pdf(format="A4"))
        for p in read_report(fifty).phenotypes:
            top, foot = (places[f"https://{end}.test/phenotype-{p.number}"]
                         for end in ("afterbegin", "beforeend"))  # fmt: skip
            assert top == foot, p.number
        assert len(set(places.values())) > 10


def sheets_of(pdf):
    """The page of each link; objects of a PDF stand in clear, only what is drawn is packed."""
    found = re.findall(rb"(?:^|\n)(\d+) 0 obj\s(.*?)endobj", pdf, re.DOTALL)
    objects = {int(number): body for number, body in found}
    places = {}
    for sheet, body in objects.items():
        links = re.search(rb"/Type /Page\b.*/Annots \[(.*?)\]", body, re.DOTALL)
        for number in re.findall(rb"(\d+) 0 R", links[1]) if links else ():
            address = re.search(rb"/URI \((.*?)\)", objects[int(number)])
            if address:
                places[address[1].decode()] = sheet
    return places


@pytest.fixture(scope="module")
def hostile(run, tmp_path_factory):
    """The run with hostile names for phenotypes, codes and hospitals."""
    folder = tmp_path_factory.mktemp("hostile") / "run"
    shutil.copytree(run, folder)
    phenotypes = json.loads((folder / "phenotypes.json").read_text())
    for phenotype, label in zip(phenotypes, HOSTILE, strict=True):
        phenotype["name"] = label
        for codes in phenotype["codes"].values():
            codes[0]["name"] = codes[0]["label"] = label
    (folder / "phenotypes.json").write_text(json.dumps(phenotypes))
    summary = json.loads((folder / "run.json").read_text())
    summary["hospitals"][0]["name"] = HOSTILE[0]
    summary["hospitals"][1]["name"] = HOSTILE[1]
    (folder / "run.json").write_text(json.dumps(summary))
    (folder / "report.html").write_text(render_page(read_report(folder)))
    read_report(folder).annotations.add(1, HOSTILE[1], "comment", HOSTILE[0])
    return folder


class TestHostileLabels:
    def test_in_the_report_they_are_text(self, hostile, look):
        watched = look()
        self.is_text(watched.open(f"file://{hostile / 'report.html'}"))
        assert watched.overflows() == {}

    def test_in_the_dashboard_they_are_text(self, hostile, look, serve):
        with serve(hostile) as address:
            watched = look(host_of(address))
            page = watched.open(page_of(address, "/phenotypes"))
            self.is_text(page)
            assert page.locator("p.soft bdi", has_text="<script>alert(1)").count() > 0
            for path in ("/phenotypes", "/", "/compare"):
                watched.open(f"http://{host_of(address)}{path}")
                assert watched.overflows() == {}

    def is_text(self, page):
        shown = page.eval_on_selector_all("h3 bdi", "all => all.map((one) => one.textContent)")
        assert tuple(shown) == HOSTILE
        first = page.eval_on_selector_all(
            "article .codes tbody tr:first-child bdi", "all => all.map((one) => one.textContent)"
        )
        assert set(first) == set(HOSTILE)
        assert page.locator("img").count() == 0


class TestNamingAndJudging:
    @pytest.fixture
    def own(self, run, tmp_path):
        shutil.copytree(run, tmp_path / "run")
        return tmp_path / "run"

    def say(self, page, number, **fields):
        page.bring_to_front()  # a tab behind another is slowed down by the browser
        form = page.locator("form.said").nth(number - 1)
        form.locator("[name=reviewer]").fill(fields.pop("reviewer", "Ada"))
        for field, value in fields.items():
            place = form.locator(f"[name={field}]")
            if field == "verdict":
                place.select_option(value)
            else:
                place.fill(value)
        with page.expect_navigation():
            form.get_by_role("button").click()

    def test_what_two_tabs_said_at_once_survives_a_restart_of_the_server(self, own, look, serve):
        name = "Heart <b>failure</b>"
        with serve(own) as address:
            one = look(host_of(address)).open(page_of(address, "/phenotypes"))
            two = one.context.new_page()
            two.goto(f"http://{host_of(address)}/phenotypes")  # both stand before anything is said
            self.say(one, 2, name=name, verdict="meaningful")
            self.say(two, 2, comment="typical")
            two.close()
            assert one.locator("h3 bdi").nth(1).inner_text() == name
        with serve(own) as address:
            page = look(host_of(address)).open(page_of(address, "/phenotypes"))
            assert page.locator("h3 bdi").nth(1).inner_text() == name
            self.say(page, 1, name="Asthma")  # signed as before
            form = page.locator("form.said").nth(1)
            kept = [form.locator(f"[name={n}]").input_value() for n in ("name", "comment")]
            assert kept == [name, "typical"]

    def test_two_reviewers_who_agree_and_who_do_not(self, own, look, serve):
        with serve(own) as address:
            page = look(host_of(address)).open(page_of(address, "/phenotypes"))
            self.say(page, 1, verdict="meaningful")
            self.say(page, 2, verdict="not meaningful", name="Asthma")
            self.say(page, 1, reviewer="Bo")  # the verdict shown is Ada's; he agrees
            self.say(page, 2, reviewer="Bo", verdict="meaningful")
            assert page.get_by_text("judged 2 phenotypes both: 50 % alike").count() == 1
            page.goto(f"http://{host_of(address)}/phenotypes?q=asthma")
            assert page.locator("article").count() == 1
        report = look().open(f"file://{own / 'report.html'}")
        assert report.locator("h3 bdi", has_text="Asthma").count() == 1

    def test_a_name_goes_from_the_page_to_report_table_export_and_comparison(
        self, own, look, serve, tmp_path
    ):
        with serve(own) as address:
            page = look(host_of(address)).open(page_of(address, "/phenotypes"))
            self.say(page, 2, name="Asthma <of Ada>", verdict="meaningful")
            page.get_by_text("History, 2 lines").click()
            assert page.get_by_text("name Asthma <of Ada>").is_visible()
        report = look().open(f"file://{own / 'report.html'}")
        assert report.locator("#title-2 bdi").inner_text() == "Asthma <of Ada>"
        assert "Asthma <of Ada>" in (own / "phenotypes.csv").read_text()
        export_run(own, "valueset", tmp_path / "out", Wanted(unstable=True, only=(2,)))
        assert "Asthma <of Ada>" in (tmp_path / "out" / "phenotype-002.json").read_text()
        export_run(own, "csv", tmp_path / "csv")
        assert "Ada,Asthma <of Ada>,meaningful" in (tmp_path / "csv" / "review.csv").read_text()
        assert compare_runs(own, own).matched[1].first.title == "Asthma <of Ada>"

    def test_two_runs_of_a_folder_stand_side_by_side(self, own, fifty, look, serve):
        shutil.copytree(fifty, own.parent / "fifty")
        newest = own / "run.json"
        newest.write_text(newest.read_text())
        with serve(own.parent) as address:
            watched = look(host_of(address))
            page = watched.open(page_of(address, "/compare"))
            page.locator("[name=with]").select_option("fifty")
            with page.expect_navigation():
                page.get_by_role("button", name="Compare").click()
            found = compare_runs(own, fifty)
            words = f"{len(found.matched)} phenotypes are in both"
            assert page.get_by_text(words).is_visible()
            assert page.get_by_text("n_components 4 → 50").is_visible()
            rows = page.get_by_role("region", name="Phenotypes of both runs").locator("tbody tr")
            assert rows.count() == len(found.matched) + len(found.vanished) + len(found.appeared)
            assert watched.overflows() == {}
            assert watched.axe() == []

    def test_keys_lead_through_the_cards_and_to_the_search(self, address, look):
        page = look(host_of(address)).open(page_of(address, "/phenotypes"))
        focused = "document.activeElement.id"
        page.keyboard.press("j")
        assert page.evaluate(focused) == "phenotype-1"
        page.keyboard.press("j")
        page.keyboard.press("k")
        assert page.evaluate(focused) == "phenotype-1"
        page.keyboard.press("/")
        assert page.evaluate(focused) == "search"
        page.keyboard.type("j/no such code")
        page.keyboard.press("Enter")
        page.wait_for_url("**/phenotypes?q=*")
        assert page.locator("article").count() == 0

    def test_the_tab_key_visits_pages_filter_and_form_in_the_order_they_are_read(
        self, address, look
    ):
        page = look(host_of(address)).open(page_of(address, "/phenotypes"))
        visited = []
        for _ in range(16):
            page.keyboard.press("Tab")
            visited.append(
                page.evaluate(
                    "(({name, textContent}) => name || textContent)(document.activeElement)"
                )
            )
        assert visited[:6] == [
            "To the content", "Federation", "Phenotypes", "Compare", "Experiments", "Privacy",
        ]  # fmt: skip
        assert visited[6:11] == ["q", "kind", "grade", "sort", "blind"]
        assert visited.index("reviewer") > visited.index("Show")


class TestLive:
    @pytest.fixture
    def sites(self, tmp_path):
        made = SyntheticSettings(patients_per_hospital=(90, 80, 70))
        hospitals = synthetic_network(made).hospitals
        for hospital in hospitals:
            (tmp_path / hospital.name).mkdir()
            write_events(hospital.events, tmp_path / hospital.name / "events.parquet", RULE)
        return [tmp_path / hospital.name for hospital in hospitals]

    def test_the_page_follows_a_run_in_progress_to_its_end(self, sites, tmp_path, look, serve):
        folder = tmp_path / "out" / "run"
        words = ["simulate", *map(str, sites), "--out", str(folder), "--rank", "3", "--starts",
                 "1", "--track-rmse", "--max-iter", "60", "--tol", "1e-5",
                 "--no-compare"]  # fmt: skip
        history = folder / "history.jsonl"
        with subprocess.Popen([sys.executable, "-m", "tripheno", *words]) as running:
            try:
                deadline = time.monotonic() + 300
                while not (history.exists() and history.stat().st_size):
                    assert running.poll() is None
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
                running.send_signal(signal.SIGSTOP)  # so that it is in progress whatever happens
                with serve(folder) as address:
                    self.follow(running, look(host_of(address)), address)
            finally:
                running.send_signal(signal.SIGCONT)
                assert running.wait(300) == 0

    def follow(self, running, watched, address):
        page = watched.open(page_of(address, "/"))
        assert page.get_by_text("This run is going on").is_visible()
        assert page.locator("#live-hospitals tr").count() == 3
        page.wait_for_selector("#live-error circle")
        before = page.locator("#live-rounds").inner_text()
        assert watched.axe() == []
        running.send_signal(signal.SIGCONT)
        page.wait_for_function(
            "(before) => document.getElementById('live-rounds')?.textContent !== before", arg=before
        )
        page.wait_for_selector("text=phenotypes, groups of codes", timeout=300_000)
        assert page.locator("figure svg").count() == 2
        assert page.locator("#live").count() == 0
