from __future__ import annotations

import asyncio
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.testclient import TestClient

from kit.planted import planted
from tripheno.dashboard.app import PAGES, make_app
from tripheno.dashboard.live import Follower, follow
from tripheno.errors import Diverged, RunNotFound, SettingsError
from tripheno.files import csv_text
from tripheno.progress import ProgressLog, Status
from tripheno.report.annotations import Annotations, agreement, annotation_rows, latest
from tripheno.report.page import write_page
from tripheno.report.phenotypes import GRADES
from tripheno.report.run_folder import read_report
from tripheno.report.simulated import run_simulation
from tripheno.solver.settings import SolverSettings
from tripheno.study.simulation import Simulation, assemble

TOKEN = "a-token-for-tests"
HOST = "127.0.0.1:8123"
ORIGIN = {"origin": f"http://{HOST}"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dashboard") / "run"
    settings = SolverSettings(4, "trip", tol=1e-4, starts=1)
    study = Simulation(assemble(planted(0).hospitals), settings, {})
    run_simulation(study, folder, 0.0)
    return folder


@pytest.fixture
def run(made):
    (made / "annotations.jsonl").unlink(missing_ok=True)
    write_page(made)
    return made


def client_of(folder):
    client = TestClient(make_app(folder, TOKEN, [HOST]), base_url=f"http://{HOST}")
    assert client.get(f"/?token={TOKEN}").status_code == 200
    return client


def say(client, **fields):
    return client.post(
        "/annotate", data={"phenotype": "1", "reviewer": "Ada", **fields}, headers=ORIGIN
    )


class TestWhoMayCome:
    def test_without_the_token_nothing_is_shown(self, run):
        client = TestClient(make_app(run, TOKEN, [HOST]), base_url=f"http://{HOST}")
        for path in (*PAGES, "/live", "/annotations.csv", "/static/dashboard.js"):
            assert client.get(path).status_code == 403
            assert client.get(f"{path}?token=wrong").status_code == 403

    def test_another_host_name_gets_nothing(self, run):
        client = client_of(run)
        assert client.get("/", headers={"host": "evil.example"}).status_code == 421

    @pytest.mark.parametrize("origin", [None, "null", "http://evil.example", f"https://{HOST}"])
    def test_a_change_from_another_page_is_refused(self, run, origin):
        headers = {} if origin is None else {"origin": origin}
        data = {"phenotype": "1", "reviewer": "Eve", "name": "x"}
        assert client_of(run).post("/annotate", data=data, headers=headers).status_code == 403
        assert not (run / "annotations.jsonl").exists()

    def test_every_answer_carries_the_policy_and_the_cookie_is_closed(self, run):
        client = TestClient(make_app(run, TOKEN, [HOST]), base_url=f"http://{HOST}")
        first = client.get(f"/?token={TOKEN}", follow_redirects=False)
        assert "HttpOnly" in first.headers["set-cookie"]
        assert "SameSite=strict" in first.headers["set-cookie"]
        assert TOKEN not in first.headers["location"]
        for path in (*PAGES, "/static/dashboard.js", "/nowhere"):
            answer = client.get(path)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe-eval" not in policy
            assert "script-src 'self';" in policy


class TestPages:
    def test_every_page_is_whole_and_speaks_to_no_other_host(self, run):
        client = client_of(run)
        for path, title in PAGES.items():
            answer = client.get(path)
            assert answer.status_code == 200
            assert f"<h1>{title}</h1>" in answer.text
            assert not re.search(r"https?://", answer.text)
            assert re.findall(r"<script[^>]*>", answer.text) == [
                '<script src="/static/dashboard.js" defer>'
            ]

    def test_search_and_origin_narrow_the_cards(self, run):
        client = client_of(run)
        every = client.get("/phenotypes").text.count("<article")
        assert every == 4
        assert client.get("/phenotypes?q=no-such-code-at-all").text.count("<article") == 0
        kinds = [
            client.get(f"/phenotypes?kind={kind}").text.count("<article")
            for kind in ("together", "one", "several", "everywhere")
        ]
        shown = read_report(run).phenotypes
        assert sum(kinds) == sum(p.grade != "unstable" for p in shown)
        grades = [client.get(f"/phenotypes?grade={g}").text.count("<article") for g in GRADES]
        assert sum(grades) == every

    def test_cards_can_be_sorted(self, run):
        page = client_of(run).get("/phenotypes?sort=title").text
        found = [int(n) for n in re.findall(r'<article id="phenotype-(\d+)"', page)]
        titles = {p.number: p.title.casefold() for p in read_report(run).phenotypes}
        assert [titles[n] for n in found] == sorted(titles.values())

    def test_a_folder_that_is_no_run_is_refused(self, tmp_path):
        with pytest.raises(RunNotFound):
            make_app(tmp_path, TOKEN, [HOST])


class TestAnnotations:
    def test_a_name_survives_a_restart_and_is_shown_as_text(self, run):
        hostile = "<script>alert('x')</script>\u202e"
        assert say(client_of(run), name=hostile).status_code == 200
        page = client_of(run).get("/phenotypes").text  # another process would read the same file
        assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;" in page
        assert "<script>alert" not in page
        assert (run / "annotations.jsonl").stat().st_mode & 0o777 == 0o600

    def test_two_tabs_do_not_lose_each_others_edits(self, run):
        one, two = client_of(run), client_of(run)  # both loaded before anything was said
        say(one, name="Asthma", was_name="", comment="", was_comment="")
        say(two, name="", was_name="", comment="typical", was_comment="")
        state = latest(read_report(run).annotations.said())
        assert state[1, "Ada"] == {"name": "Asthma", "comment": "typical"}

    def test_a_second_reviewer_who_agrees_is_kept_and_the_first_ones_words_are_not_his(self, run):
        client = client_of(run)
        say(client, name="Asthma", comment="typical", verdict="meaningful")
        shown = {"shown_to": "Ada", "was_verdict": "meaningful", "was_name": "Asthma",
                 "was_comment": "typical"}  # fmt: skip
        same = {"verdict": "meaningful", "name": "Asthma", "comment": "typical"}
        say(client, reviewer="Bo", **same, **shown)
        said = read_report(run).annotations.said()
        assert latest(said)[1, "Bo"] == {"verdict": "meaningful"}
        found = agreement(said, "Ada", "Bo")
        assert (found.judged, found.agreed) == (1, 1.0)
        say(client, reviewer="Bo", **same, **{**shown, "shown_to": "Bo"})
        assert len(read_report(run).annotations.said()) == len(said)

    def test_what_was_said_about_another_run_is_counted_and_not_shown(self, run):
        Annotations(run / "annotations.jsonl", "of-before").add(1, "Ada", "name", "Old name")
        client = client_of(run)
        say(client, phenotype="2", name="New name")
        page = client.get("/phenotypes").text
        assert "Old name" not in page
        assert "1 line of annotations in this folder speaks of another run" in page
        assert [p.name for p in read_report(run).phenotypes[:2]] == [None, "New name"]

    def test_a_name_reaches_the_page_and_the_table_in_the_folder(self, run):
        say(client_of(run), name="=Asthma")
        assert "=Asthma" in (run / "report.html").read_text()
        assert "\n1,'=Asthma,medication,1," in (run / "phenotypes.csv").read_text()

    def test_of_several_methods_in_a_folder_the_page_on_top_has_the_name_too(self, run, tmp_path):
        shutil.copytree(run, tmp_path / "exact")
        summary = json.loads((run / "run.json").read_text())
        (tmp_path / "run.json").write_text(json.dumps({**summary, "method": "all"}))
        say(client_of(tmp_path), name="Asthma of the young")
        for page in (tmp_path, tmp_path / "exact"):
            assert "Asthma of the young" in (page / "report.html").read_text()

    def test_rejecting_and_merging_can_be_taken_back_and_leave_a_history(self, run):
        client = client_of(run)
        say(client, decision="rejected", was_decision="")
        say(client, phenotype="2", decision="merged into 3", was_decision="")
        one, two = read_report(run).phenotypes[:2]
        assert (one.review.rejected_by, two.review.merged_into) == ("Ada", 3)
        assert 'id="aside"' in (run / "report.html").read_text()
        say(client, reviewer="Bo", decision="", was_decision="rejected", shown_to="Ada")
        assert not read_report(run).phenotypes[0].set_aside
        page = client.get("/phenotypes").text
        assert "History, 2 lines" in page
        assert "decision taken back" in re.sub(r"</?bdi>", "", page)
        for wrong in ("merged into 1", "merged into 9", "merged", "gone"):
            assert say(client, decision=wrong, was_decision="").status_code == 400

    def test_many_writers_lose_no_line(self, tmp_path):
        kept = Annotations(tmp_path / "a.jsonl", "run")
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda i: kept.add(i, "r", "comment", str(i)), range(200)))
        assert sorted(one.phenotype for one in kept.said()) == list(range(200))

    def test_a_line_torn_by_a_crash_costs_only_itself(self, tmp_path):
        kept = Annotations(tmp_path / "a.jsonl", "run")
        kept.add(1, "r", "name", "kept")
        with kept.path.open("a") as stream:
            stream.write('{"time": "2026')
        kept.add(2, "r", "name", "kept too")
        assert [one.value for one in kept.said()] == ["kept", "kept too"]

    @pytest.mark.parametrize(
        "fields",
        [{"verdict": "splendid"}, {"name": "x" * 2001}, {"name": "x", "reviewer": " "},
         {"name": "x", "phenotype": "99"}, {"name": "x", "phenotype": "../1"}],
    )  # fmt: skip
    def test_what_cannot_be_kept_is_refused(self, run, fields):
        assert say(client_of(run), **fields).status_code == 400

    def test_the_csv_holds_the_present_state_and_no_formula(self, tmp_path):
        kept = Annotations(tmp_path / "a.jsonl", "run")
        for field, value in (("name", "old"), ("name", "=1+1"), ("verdict", "meaningful")):
            kept.add(3, "Ada", field, value)
        lines = csv_text(annotation_rows(kept.said())).splitlines()
        heading = "phenotype,reviewer,name,verdict,comment,decision"
        assert lines == [heading, "3,Ada,'=1+1,meaningful,,"]

    def test_blind_mode_hides_what_others_said_and_where_it_comes_from(self, run):
        say(client_of(run), name="Asthma", verdict="meaningful")
        other = client_of(run)
        assert "Asthma" in other.get("/phenotypes").text
        page = other.get("/phenotypes?blind=1").text
        assert "Asthma" not in page
        assert "own model" not in page
        assert "patients in all" not in page

    def test_kappa_is_cohens(self, tmp_path):
        kept = Annotations(tmp_path / "a.jsonl", "run")
        yes, no = "meaningful", "not meaningful"
        pairs = [(yes, yes)] * 20 + [(yes, no)] * 5 + [(no, yes)] * 10 + [(no, no)] * 15
        for number, pair in enumerate(pairs):
            for who, verdict in zip(("a", "b"), pair, strict=True):
                kept.add(number, who, "verdict", verdict)
        found = agreement(kept.said(), "a", "b")
        assert found is not None
        assert found.judged == 50
        assert found.kappa == pytest.approx(0.4)  # the textbook's example
        assert agreement(kept.said(), "a", "nobody") is None

    def test_a_reviewer_needs_a_known_field(self, tmp_path):
        with pytest.raises(SettingsError):
            Annotations(tmp_path / "a.jsonl", "run").add(1, "a", "patient", "7")


class TestLive:
    def test_it_follows_lines_as_they_come_and_says_when_they_begin_anew(self, tmp_path):
        path = tmp_path / "history.jsonl"
        path.write_text('{"iteration": 1}\n{"iteration": 2}\n{"iter')
        follower = Follower(tmp_path, tmp_path)
        assert heard(follower) == ["begin", 1, 2]
        assert heard(follower) == []
        with path.open("a") as stream:
            stream.write('ation": 3}\n')
        assert heard(follower) == [3]
        with a_log(tmp_path) as log:
            log.iteration(LINE)
            assert heard(follower) == ["begin", 1, "running"]
        assert heard(follower) == ["finished"]

    def test_a_status_cut_short_is_passed_over(self, tmp_path):
        (tmp_path / "status.json").write_text('{"state": "run')
        assert heard(Follower(tmp_path, tmp_path)) == []

    def test_the_stream_goes_on_while_nothing_happens(self, tmp_path):
        first = asyncio.run(anext(follow(tmp_path, tmp_path)))
        assert first == ": still here\n\n"

    def test_every_page_of_a_run_in_progress_says_so(self, tmp_path):
        with a_log(tmp_path / "run"):
            client = client_of(tmp_path / "run")
            for path, title in PAGES.items():
                page = client.get(path).text
                assert f"<h1>{title}</h1>" in page
                assert "This run is going on" in page
            assert "<bdi>north</bdi>" in client.get("/").text

    def test_of_separate_machines_the_slowest_is_shown(self, tmp_path):
        with a_log(tmp_path / "run") as log:
            client = client_of(tmp_path / "run")
            log.at(3, {"north": 0.25})
            log.listen("fit/3/0/0", "north", b"", b"")
            log.stage("fit")
            page = client.get("/").text
        assert '<bdi id="live-slowest">north</bdi>' in page
        assert '<td class="n">0.25</td>' in page

    def test_a_failed_run_is_shown_with_its_error_as_text(self, tmp_path):
        with pytest.raises(Diverged), a_log(tmp_path / "run"):
            raise Diverged("<script>the factors grew")
        page = client_of(tmp_path / "run").get("/").text
        assert "TRIP-E101 &lt;script&gt;the factors grew" in page

    def test_a_folder_of_runs_shows_the_newest_even_if_it_is_going_on(self, tmp_path, made):
        shutil.copytree(made, tmp_path / "older")
        with a_log(tmp_path / "newer"):
            assert "This run is going on" in client_of(tmp_path).get("/").text
        (tmp_path / "newer" / "status.json").unlink()
        assert "RMSE over nonzeros" in client_of(tmp_path).get("/").text


LINE = {"iteration": 1, "objective": 2.0, "rmse": None, "primal": None, "dual": None,
        "bytes": 1, "seconds": 0.1}  # fmt: skip


def a_log(folder):
    return ProgressLog(folder, Status("trip", 3, 100), [{"name": "north", "patients": 7}])


def heard(follower):
    """Events in short: iteration numbers, states, and where the history begins anew."""
    found = []
    for event in follower.news():
        name, data = event.strip().split("\n")
        value = json.loads(data.removeprefix("data: "))
        found.append(value.get("iteration" if "iteration" in name else "state", "begin"))
    return found
