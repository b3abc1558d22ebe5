"""Every command says no to what it cannot use, before any work, and leaves no file behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tripheno.cli.approve import approve
from tripheno.cli.attack import attack
from tripheno.cli.audit import show, verify
from tripheno.cli.bench import bench
from tripheno.cli.cert import install, request
from tripheno.cli.check import check
from tripheno.cli.checks import need_engine, proxy_of_this_machine
from tripheno.cli.compare import compare
from tripheno.cli.demo import demo
from tripheno.cli.explain import explain
from tripheno.cli.export import export
from tripheno.cli.init import init
from tripheno.cli.join import join
from tripheno.cli.main import app
from tripheno.cli.paper import paper
from tripheno.cli.preview import preview
from tripheno.cli.rank import parse_ranks
from tripheno.cli.report import report
from tripheno.cli.review import review
from tripheno.cli.run import run
from tripheno.cli.serve import serve
from tripheno.cli.status import status
from tripheno.cli.study_files import study_of
from tripheno.cli.transform import transform
from tripheno.cli.ui import ui
from tripheno.cli.withdraw import withdraw
from tripheno.errors import (
    NoSuchFile,
    OutputExists,
    RunNotFound,
    SettingsError,
    TriphenoError,
    UnknownErrorCode,
)
from tripheno.lab.benchmark import QUICK

NOWHERE = Path("nowhere")


@pytest.fixture(autouse=True)
def an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        lambda: compare(NOWHERE, NOWHERE),
        lambda: export(NOWHERE, "csv"),
        lambda: report(NOWHERE),
        lambda: show(NOWHERE),
        lambda: transform(NOWHERE, NOWHERE, Path("out")),
        lambda: ui(NOWHERE, browse=False),
        lambda: verify(NOWHERE),
    ],
)
def test_a_folder_that_is_no_run_is_refused(command):
    with pytest.raises(RunNotFound):
        command()


@pytest.mark.parametrize(
    "command", [preview, approve, withdraw, request, serve, join,
                lambda: study_of(Path()), lambda: install(NOWHERE, ""),
                lambda: attack(Path("federation.toml")),
                lambda: review(NOWHERE, NOWHERE), lambda: run(Path("out"))],
)  # fmt: skip
def test_a_folder_without_settings_is_refused(command):
    with pytest.raises(TriphenoError) as caught:
        command()
    assert caught.value.exit_code in {NoSuchFile.exit_code, SettingsError.exit_code}


def test_a_port_that_is_none_is_refused(tmp_path):
    asked = CliRunner().invoke(app, ["ui", str(tmp_path), "--port", "65536"])
    assert asked.exit_code == SettingsError.exit_code
    assert "--port" in asked.output


def test_status_and_check_say_what_is_not_there(capsys):
    with pytest.raises(SettingsError, match="go to the study's folder"):
        status()
    with pytest.raises(SystemExit) as ended:
        check()
    assert ended.value.code == NoSuchFile.exit_code
    assert "TRIP-E301" in capsys.readouterr().out


def test_a_code_that_is_no_error_is_not_explained():
    with pytest.raises(UnknownErrorCode, match="E999"):
        explain("E999")


@pytest.mark.parametrize("words", ["0:3", "a", "", "5:2", "3:"])
def test_ranks_that_are_none_are_refused(words):
    with pytest.raises(SettingsError):
        parse_ranks(words)


def test_ranks_are_read_as_ranges_steps_and_lists():
    assert parse_ranks("2:6:2") == [2, 4, 6]
    assert parse_ranks("6,2,2") == [2, 6]


@pytest.mark.parametrize("command", [demo, lambda out_dir: init("site", out_dir)])
def test_what_is_there_is_not_replaced(command, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "site.toml").write_text("mine")
    with pytest.raises(OutputExists):
        command(tmp_path / "mine")
    assert (tmp_path / "mine" / "site.toml").read_text() == "mine"
    (tmp_path / "mine" / "site.toml").unlink()
    (tmp_path / "mine").rmdir()


def test_the_paper_s_experiments_need_the_tables_they_ask_for():
    with pytest.raises(SettingsError):
        paper("nonzeros", Path("out"), None, "mimic")


def test_a_benchmark_for_a_minute_has_fewer_patients_than_a_whole_one(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "tripheno.lab.benchmark.measured", lambda plan, _say: asked.append(plan) or iter([{}])
    )
    monkeypatch.setattr("tripheno.lab.benchmark_table.write", lambda _found, _folder: "page")
    bench(quick=True)
    assert asked == [QUICK]


def test_the_engine_is_looked_for_and_the_proxy_read_from_the_environment(monkeypatch):
    need_engine()
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    assert proxy_of_this_machine() == "http://proxy:3128"
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(TriphenoError, match="federation"):
        need_engine()


def test_every_command_has_a_line_of_help():
    assert all(one.callback and one.callback.__doc__ for one in app.registered_commands)
