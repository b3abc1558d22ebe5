"""The deployment guide, followed to the letter: its blocks as printed, at every machine."""

from __future__ import annotations

import configparser
import json
import re
import subprocess

import psutil
import pytest
from typer.testing import CliRunner

from kit.guide_reader import FIRST, GUIDE, OPERATE, PROJECT, Machine, Reader, omop_tables, section
from kit.requirements import tool
from tripheno.cli.main import app
from tripheno.federation.machine_limits import LEAST_TASKS
from tripheno.protocol.agreed import read_protocol


def listening(process: subprocess.Popen[str]) -> set[tuple[str, int]]:
    """Addresses and ports at which a process or one that it started waits for connections."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    return {
        (one.laddr.ip, one.laddr.port)
        for each in family
        for one in each.net_connections("inet")
        if one.status == psutil.CONN_LISTEN
    }


@pytest.mark.verify
def test_four_machines_that_follow_the_guide_have_their_reports(tmp_path):
    omop_tables({name: tmp_path / name for name in FIRST})
    (tmp_path / "coordinator").mkdir()
    reader = Reader({name: Machine(tmp_path / name) for name in ("coordinator", *FIRST)})
    with reader.stack:
        reader.follow(GUIDE[: GUIDE.index("## 7. What")])
        for name in FIRST:
            assert not [ip for ip, _ in listening(reader.waiting[name]) if ip != "127.0.0.1"]
        outside = {port for _, port in listening(reader.waiting["coordinator"])}
        assert reader.port in outside
        reader.follow(section(GUIDE, "## 7. What"))
        assert (tmp_path / "coordinator" / "run" / "report.html").is_file()
        for name in FIRST:
            assert (tmp_path / name / "runs" / reader.heard["run"] / "report.html").is_file()


def test_every_command_and_option_of_the_guide_exists():
    import typer.main

    group = typer.main.get_command(app)
    pages = GUIDE + OPERATE
    lines = re.findall(r"^(?:# .*\n)?(tripheno .*)$", pages.replace("\\\n", " "), re.MULTILINE)
    lines += re.findall(r"`(tripheno [^`]*)`", pages)
    assert len(lines) > 15
    for line in lines:
        words = line.split()[1:]
        command = group.commands[words[0]]
        if hasattr(command, "commands"):
            command = command.commands[words[1]]
        known = {option for one in command.params for option in one.opts}
        assert {word for word in words if word.startswith("--")} <= known, line


@pytest.mark.parametrize("name", ["serve", "join", "run"])
def test_a_unit_names_the_account_and_the_folders_of_the_guide(name):
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read(PROJECT / "deploy" / f"tripheno-{name}@.service")
    service = unit["Service"]
    program, word = service["ExecStart"].split()[:2]
    assert word == name
    assert f"python3 -m venv {program.removesuffix('/bin/tripheno')}\n" in GUIDE
    home = service["WorkingDirectory"].removesuffix("/%i")
    assert f"--home-dir {home} --shell /bin/bash {service['User']}\n" in GUIDE
    assert service["ReadWritePaths"] == service["WorkingDirectory"] == f"{home}/%i"
    assert f"systemctl enable --now tripheno-{name}@sepsis" in GUIDE
    assert "mkdir sepsis && cd sepsis" in GUIDE
    assert "MemoryDenyWriteExecute" not in service
    assert int(service["TasksMax"]) >= LEAST_TASKS


@pytest.mark.parametrize("name", ["serve", "join", "run"])
def test_systemd_understands_a_unit(name, tmp_path):
    verify = tool("systemd-analyze")
    for path in (PROJECT / "deploy").glob("*.service"):
        text = path.read_text().replace("/opt/tripheno/bin/tripheno", "/bin/true")
        (tmp_path / path.name.replace("@", "@sepsis")).write_text(text.replace("User=tripheno", ""))
    unit = tmp_path / f"tripheno-{name}@sepsis.service"
    done = subprocess.run([verify, "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_study_is_written_with_its_members_and_the_key_of_the_coordinator(tmp_path):
    members = [f"--member={name}={number:064x}" for number, name in enumerate(FIRST)]
    words = ["init", "coordinator", "--folder", str(tmp_path), *members]
    made = json.loads(CliRunner().invoke(app, [*words, "--format", "json"]).stdout)
    protocol = read_protocol(tmp_path / "federation.toml")
    assert protocol.names == FIRST
    assert protocol.coordinator == made["fingerprint"]


def test_brackets_in_a_message_are_shown_as_they_are(tmp_path):
    runner = CliRunner()
    assert runner.invoke(app, ["init", "coordinator", "--folder", str(tmp_path)]).exit_code == 0
    done = runner.invoke(app, ["check", "--federation", str(tmp_path / "federation.toml")])
    assert done.exit_code == 2
    assert "add [[members]]" in done.stdout


def test_a_member_without_a_whole_fingerprint_is_refused(tmp_path):
    words = ["init", "coordinator", "--folder", str(tmp_path), "--member", "northfield=12ab"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "the fingerprint of 'northfield'" in done.stderr
    assert not (tmp_path / "federation.toml").exists()


def test_a_finished_run_is_not_replaced_unasked(tmp_path):
    members = [f"--member={name}={number:064x}" for number, name in enumerate(FIRST)]
    CliRunner().invoke(app, ["init", "coordinator", "--folder", str(tmp_path), *members])
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    words = ["run", "--folder", str(tmp_path), "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "holds a finished run" in done.stderr
