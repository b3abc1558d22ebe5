"""The deployment guide, followed to the letter: its blocks as printed, at every machine."""

from __future__ import annotations

import configparser
import csv
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from tripheno.cli.main import app
from tripheno.federation.machine_limits import LEAST_TASKS
from tripheno.protocol.agreed import read_protocol
from tripheno.records.synthetic import SyntheticSettings, synthetic_network
from tripheno.testing.engine_federation import free_port
from tripheno.testing.federation_processes import ended, wait_until
from tripheno.testing.requirements import tool

PROJECT = Path(__file__).resolve().parents[2]
GUIDE = (PROJECT / "docs" / "howto" / "deploy.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```sh\n# (?P<whose>[^\n]*)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
HOSPITALS = ("northfield", "harbour", "lakeside")
OMOP = {
    "medication": ("drug_exposure", "drug_concept_id", "drug_exposure_start_date"),
    "diagnosis": ("condition_occurrence", "condition_concept_id", "condition_start_date"),
}


@dataclass
class Reader:
    """Someone with four machines and the guide in hand."""

    folder: Path
    port: int = field(default_factory=free_port)
    heard: dict[str, str] = field(default_factory=dict)  # what was read out on the telephone
    stack: ExitStack = field(default_factory=ExitStack)
    waiting: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def follow(self, first: str, last: str) -> None:
        """Every block from one heading on until another."""
        part = GUIDE[GUIDE.index(f"## {first}") : GUIDE.index(f"## {last}")]
        for block in BLOCK.finditer(part):
            whose = block["whose"]
            for name in HOSPITALS if "each hospital" in whose else ("coordinator",):
                place = "coordinator" if "at the coordinator" in whose else name
                text = block["text"].replace("northfield", name) if name in HOSPITALS else ""
                self.do(place, text or block["text"], wait="leave it running" not in whose)

    def do(self, machine: str, text: str, *, wait: bool) -> None:
        """A block's commands at a machine; what they print is heard."""
        for command in text.replace("\\\n", " ").splitlines():
            words = command.replace("coordinator.example.org:8002", f"localhost:{self.port}")
            words = words.replace("state/runs/RUN", f"state/runs/{self.heard.get('run', '')}")
            self.say(machine, words, wait=wait)

    def say(self, machine: str, command: str, *, wait: bool) -> None:
        place = self.folder / machine
        place.mkdir(exist_ok=True)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "HOME": str(place), **self.heard}
        pipe = subprocess.PIPE if wait else subprocess.DEVNULL
        process = subprocess.Popen(
            ["bash", "-euc", f"exec {command}"], cwd=place, env=env, text=True,
            stdout=pipe, stderr=pipe,
            start_new_session=True,
        )  # fmt: skip
        self.stack.enter_context(ended(process))
        if not wait:
            self.waiting[machine] = process
            if machine == "coordinator":
                wait_until("the server answers", self.answered)
            return
        said, complaint = process.communicate(timeout=300)
        assert process.returncode == 0, f"{machine}$ {command}\n{said}{complaint}"
        self.hear(machine, command, said)

    def answered(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("localhost", self.port)) == 0

    def hear(self, machine: str, command: str, said: str) -> None:
        """What people do between two blocks: read out, send, put into a file."""
        place, coordinator = self.folder / machine, self.folder / "coordinator"
        if "init site" in command:
            self.heard[machine.upper()] = said.rsplit(maxsplit=1)[-1]
        elif "init coordinator" in command:
            for name in HOSPITALS:
                shutil.copy(place / "federation.toml", self.folder / name)
        elif "cert request" in command:
            shutil.copy(place / f"{machine}.request.zip", coordinator)
        elif "cert approve" in command:
            name = command.rsplit(maxsplit=1)[-1].split(".", maxsplit=1)[0]
            shutil.copy(coordinator / f"{name}.signed.zip", self.folder / name)
            self.heard["AUTHORITY"] = said.rsplit(maxsplit=1)[-1]
        elif "--make-key" in command:
            site = place / "site.toml"
            officer = f'officer = "{said.rsplit(maxsplit=1)[-1]}"'
            site.write_text(site.read_text().replace('# officer = ""', officer))
        elif "tripheno preview" in command:
            self.heard["WORDS"] = " ".join(said.split()[-8:])
        elif "tripheno run" in command:
            self.heard["run"] = json.loads((place / "run" / "run.json").read_text())["run"]


def omop_tables(folder: Path) -> None:
    """What a hospital has before it begins: a folder with OMOP tables."""
    settings = SyntheticSettings(
        patients_per_hospital=(110, 105, 100), codes_per_mode={"medication": 24, "diagnosis": 20},
        hospital_names=HOSPITALS,
    )  # fmt: skip
    numbers: dict[str, int] = {}
    for hospital in synthetic_network(settings).hospitals:
        events = hospital.events.to_pylist()
        tables = {"visit_occurrence": [("visit_occurrence_id", "person_id")]}
        tables["visit_occurrence"] += sorted({(e["window"], e["patient"]) for e in events})
        for mode, (name, concept, start) in OMOP.items():
            tables[name] = [("person_id", concept, start, "visit_occurrence_id")]
            tables[name] += [
                (e["patient"], numbers.setdefault(e["code"], 1000 + len(numbers)), "2020-01-01",
                 e["window"])
                for e in events if e["mode"] == mode
            ]  # fmt: skip
        cdm = folder / hospital.name / "cdm"
        cdm.mkdir(parents=True)
        for name, rows in tables.items():
            with (cdm / f"{name}.csv").open("w", newline="") as stream:
                csv.writer(stream).writerows(rows)


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
    omop_tables(tmp_path)
    reader = Reader(tmp_path)
    with reader.stack:
        reader.follow("2. Agree", "7. What")
        for name in HOSPITALS:
            assert not [ip for ip, _ in listening(reader.waiting[name]) if ip != "127.0.0.1"]
        outside = {port for _, port in listening(reader.waiting["coordinator"])}
        assert reader.port in outside
        reader.follow("7. What", "What goes wrong")
        assert (tmp_path / "coordinator" / "run" / "report.html").is_file()
        for name in HOSPITALS:
            assert (tmp_path / name / "runs" / reader.heard["run"] / "report.html").is_file()


def test_every_command_and_option_of_the_guide_exists():
    import typer.main

    group = typer.main.get_command(app)
    lines = re.findall(r"^(?:# .*\n)?(tripheno .*)$", GUIDE.replace("\\\n", " "), re.MULTILINE)
    lines += re.findall(r"`(tripheno [^`]*)`", GUIDE)
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
    members = [f"--member={name}={number:064x}" for number, name in enumerate(HOSPITALS)]
    words = ["init", "coordinator", "--folder", str(tmp_path), *members]
    made = json.loads(CliRunner().invoke(app, [*words, "--format", "json"]).stdout)
    protocol = read_protocol(tmp_path / "federation.toml")
    assert protocol.names == HOSPITALS
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
    members = [f"--member={name}={number:064x}" for number, name in enumerate(HOSPITALS)]
    CliRunner().invoke(app, ["init", "coordinator", "--folder", str(tmp_path), *members])
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    words = ["run", "--folder", str(tmp_path), "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "holds a finished run" in done.stderr
