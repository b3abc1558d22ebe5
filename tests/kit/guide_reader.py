"""Somebody with a page of the documentation in hand, who does at every machine what it says."""

from __future__ import annotations

import csv
import grp
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from kit.engine_federation import free_port
from kit.federation_processes import ended, wait_until
from tripheno.lab.synthetic.network import SyntheticSettings, synthetic_network

PROJECT = Path(__file__).resolve().parents[2]
HOWTO = PROJECT / "docs" / "howto"
GUIDE = (HOWTO / "deploy.md").read_text(encoding="utf-8")
OPERATE = (HOWTO / "operate.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```sh\n# (?P<whose>[^\n]*)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
FIRST, NEW = ("northfield", "harbour", "lakeside"), "eastgate"
OMOP = {
    "medication": ("drug_exposure", "drug_concept_id", "drug_exposure_start_date"),
    "diagnosis": ("condition_occurrence", "condition_concept_id", "condition_start_date"),
}


def section(page: str, heading: str) -> str:
    """What stands under a heading, as far as the next one of its level or above."""
    level = heading.partition(" ")[0]
    rest = page[page.index(f"\n{heading}") + len(heading) + 1 :]
    ends = re.search(rf"^#{{2,{len(level)}}} ", rest, re.MULTILINE)
    return rest[: ends.start()] if ends else rest


@dataclass
class Machine:
    """A folder of a study, whose commands run under an account, with a program of its own."""

    folder: Path
    account: str = ""  # of this process
    program: Path = Path(sys.executable).parent

    def give(self, path: Path) -> None:
        """A file that arrived belongs to who works here."""
        if self.account:
            found = pwd.getpwnam(self.account)
            os.chown(path, found.pw_uid, found.pw_gid)

    def start(self, command: str, heard: dict[str, str], pipe: int) -> subprocess.Popen[str]:
        """A line of the page, as a person types it here."""
        env = dict(os.environ)
        who = {}
        if self.account:
            env = {"USER": self.account, "LANG": "C.UTF-8"}
            group = grp.getgrgid(pwd.getpwnam(self.account).pw_gid).gr_name
            who = {"user": self.account, "group": group, "extra_groups": [], "umask": 0o022}
        env |= {"PATH": f"{self.program}{os.pathsep}{os.environ['PATH']}", **heard}
        env["HOME"] = str(self.folder.parent if self.account else self.folder)
        return subprocess.Popen(
            ["bash", "-euc", f"exec {command}"], cwd=self.folder, env=env, text=True,
            stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True, **who,
        )  # fmt: skip


@dataclass
class Reader:
    """Someone with some machines and the page; ``machines`` has a ``coordinator``."""

    machines: dict[str, Machine]
    hospitals: list[str] = field(default_factory=lambda: list(FIRST))
    port: int = field(default_factory=free_port)
    heard: dict[str, str] = field(default_factory=dict)  # what was read out on the telephone
    stack: ExitStack = field(default_factory=ExitStack)
    waiting: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def place(self, machine: str) -> Path:
        """The study's folder there."""
        return self.machines[machine].folder

    def follow(self, page: str) -> None:
        """Every block."""
        for block in BLOCK.finditer(page):
            whose = block["whose"]
            everybody = "each hospital" in whose
            at = "coordinator" if "coordinator" in whose else NEW
            for name in self.hospitals if everybody else (at,):
                text = block["text"].replace("northfield", name) if everybody else block["text"]
                place = at if "coordinator" in whose else name
                self.do(place, text, wait="leave it running" not in whose)

    def do(self, machine: str, text: str, *, wait: bool) -> None:
        """A block's commands at a machine; what they print is heard."""
        for command in text.replace("\\\n", " ").splitlines():
            words = command.replace("coordinator.example.org:8002", f"localhost:{self.port}")
            words = words.replace("state/runs/RUN", f"state/runs/{self.heard.get('run', '')}")
            self.say(machine, words, wait=wait)

    def say(self, machine: str, command: str, *, wait: bool) -> None:
        """One command; one that stays up is left running."""
        pipe = subprocess.PIPE if wait else subprocess.DEVNULL
        process = self.machines[machine].start(command, self.heard, pipe)
        self.stack.enter_context(ended(process))
        if not wait:
            self.waiting[machine] = process
            if machine == "coordinator":
                wait_until("the server answers", self.answered)
            return
        said, complaint = process.communicate(timeout=500)
        assert process.returncode == 0, f"{machine}$ {command}\n{said}{complaint}"
        self.hear(machine, command, said)

    def stop(self, *machines: str) -> None:
        """`systemctl stop`, where there is no systemd."""
        for machine in machines:
            process = self.waiting.pop(machine)
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)

    def answered(self) -> bool:
        """Whether something listens at the coordinator's port."""
        with socket.socket() as probe:
            return probe.connect_ex(("localhost", self.port)) == 0

    def send(self, name: str, sender: str, receiver: str) -> None:
        """A file from one machine to another."""
        self.machines[receiver].give(
            Path(shutil.copyfile(self.place(sender) / name, self.place(receiver) / name))
        )

    def hear(self, machine: str, command: str, said: str) -> None:
        """What people do between two blocks: read out, send, put into a file."""
        place, last = self.place(machine), said.rsplit(maxsplit=1)[-1] if said.split() else ""
        if "init site" in command:
            self.heard[machine.upper()] = last
            if machine == NEW:
                self.admit(last)
        elif "init coordinator" in command:
            self.share()
        elif "cert request" in command or ("cert renew" in command and machine != "coordinator"):
            self.send(f"{machine}.request.zip", machine, "coordinator")
        elif "cert approve" in command:
            name = command.rsplit(maxsplit=1)[-1].split(".", maxsplit=1)[0]
            self.send(f"{name}.signed.zip", "coordinator", name)
            self.heard["AUTHORITY"] = last
        elif "--make-key" in command:
            site = place / "site.toml"
            site.write_text(site.read_text().replace('# officer = ""', f'officer = "{last}"'))
        elif "tripheno preview" in command:
            self.heard["WORDS"] = " ".join(said.split()[-8:])
        elif "tripheno run" in command:
            out = command.rpartition("--out ")[2].split()[0]
            self.heard["run"] = json.loads((place / out / "run.json").read_text())["run"]

    def share(self) -> None:
        """Everybody gets the coordinator's federation.toml."""
        for name in self.hospitals:
            self.send("federation.toml", "coordinator", name)

    def admit(self, fingerprint: str) -> None:
        """The coordinator adds the new hospital to its federation.toml and sends it."""
        file = self.place("coordinator") / "federation.toml"
        member = f'\n[[members]]\nname = "{NEW}"\nfingerprint = "{fingerprint}"\n'
        file.write_text(file.read_text() + member)
        self.hospitals.append(NEW)
        self.share()


def omop_tables(folders: dict[str, Path], seed: int = 0) -> None:
    """What hospitals have before they begin: a folder with OMOP tables."""
    settings = SyntheticSettings(
        patients_per_hospital=(130, 125, 120, 115)[: len(folders)],
        codes_per_mode={"medication": 24, "diagnosis": 20}, hospital_names=tuple(folders),
        seed=seed,
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
        cdm = folders[hospital.name] / "cdm"
        cdm.mkdir(parents=True, exist_ok=True)
        for name, rows in tables.items():
            with (cdm / f"{name}.csv").open("w", newline="") as stream:
                csv.writer(stream).writerows(rows)
