"""Four machines on one: a coordinator and three hospitals as folders and real processes.

Settings, certificates and approvals are made with the commands a person uses; `serve`, `join` and
`run` are processes of their own, over mutual TLS on the loopback address.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from typer.testing import CliRunner

from kit.engine_federation import free_port
from tripheno.cli.main import app
from tripheno.federation.child import words_of_child
from tripheno.federation.supervision import end_tree
from tripheno.lab.synthetic.network import SyntheticSettings, synthetic_network
from tripheno.protocol.agreed import read_protocol, words_of
from tripheno.records.events import counting_rule, read_events, write_events

CODES = {"medication": 24, "diagnosis": 20}
PATIENTS = (120, 110, 100)
MAPPING = """
[[source.tables]]
file = "records.csv"
mode = "medication"
patient = "patient"
visit = "window"
code = "code"
only = {{ column = "mode", values = ["medication"] }}

[[source.tables]]
file = "records.csv"
mode = "diagnosis"
patient = "patient"
visit = "window"
code = "code"
only = {{ column = "mode", values = ["diagnosis"] }}
"""


def command(*words: str | Path) -> dict[str, Any]:
    """One of our commands in this process; its JSON."""
    done = CliRunner().invoke(app, [*map(str, words), "--format", "json"])
    if done.exit_code != 0:
        raise AssertionError(f"{words}: exit {done.exit_code}: {done.output}")
    found = json.loads(done.stdout)
    return found if isinstance(found, dict) else {"found": found}


@dataclass
class FederationOnDisk:
    """The folders of a coordinator and its hospitals, ready to be started."""

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)  # lines of [model], by key
    operation: Mapping[str, int] = field(default_factory=lambda: {"round_seconds": 300})
    names: tuple[str, ...] = ("northfield", "harbour", "lakeside")
    patients: tuple[int, ...] = PATIENTS
    method: str = "exact"
    more: str = "[evidence]\nresamples = 0\n"  # further tables of federation.toml
    simulated: tuple[str, ...] = ("--resamples", "0")  # what they are called in `simulate`
    records: Mapping[str, pa.Table] = field(default_factory=dict)  # else synthetic ones
    ingested: Mapping[str, Path] = field(default_factory=dict)  # what `ingest` wrote elsewhere
    host: str = "localhost"
    before: Mapping[str, Sequence[str]] = field(default_factory=dict)  # words, by the log's name

    @property
    def coordinator(self) -> Path:
        """Its folder."""
        return self.folder / "coordinator"

    def site(self, name: str) -> Path:
        """A hospital's folder."""
        return self.folder / name

    def prepare(self) -> None:
        """Everything up to the approvals."""
        self.write_settings()
        self.ingest()
        self.write_lists()
        self.certify()
        self.approve()

    def write_settings(self) -> None:
        """`init` on every machine; the coordinator puts the fingerprints together."""
        address = f"{self.host}:{free_port()}"
        folder = self.coordinator
        own = command("init", "coordinator", "--folder", folder, "--address", address)
        members = ""
        for name in self.names:
            made = command("init", "site", "--folder", self.site(name), "--name", name)
            members += f'[[members]]\nname = "{name}"\nfingerprint = "{made["fingerprint"]}"\n'
        model = "".join(f"{key} = {value}\n" for key, value in self.settings.items())
        operation = "".join(f"{key} = {value}\n" for key, value in self.operation.items())
        text = (
            '[study]\nname = "rehearsal"\ntest = true\naccept_division_leak = true\n'
            '[data]\nmodes = ["medication", "diagnosis"]\nwindow = "visit"\n'
            '[alignment]\nmode = "vocabulary"\n[alignment.lists]\n'
            'medication = "medication.txt"\ndiagnosis = "diagnosis.txt"\n'
            f'[model]\nmethod = "{self.method}"\n{model}{self.more}'
            "[thresholds]\nmin_cell_count = 11\nmin_site_patients = 50\n"
            f'[coordinator]\naddress = "{address}"\nfingerprint = "{own["fingerprint"]}"\n'
            f"{operation}{members}"
        )
        self.share(text)
        for place in (self.coordinator, *map(self.site, self.names)):
            for mode in ("medication", "diagnosis"):  # `write_lists` knows the codes
                (place / f"{mode}.txt").write_text("none yet\n", encoding="utf-8")

    def share(self, text: str) -> None:
        """Give everyone the same federation.toml."""
        for place in (self.coordinator, *map(self.site, self.names)):
            (place / "federation.toml").write_text(text, encoding="utf-8")

    def synthetic_records(self) -> dict[str, pa.Table]:
        """Small hospitals with planted phenotypes."""
        settings = SyntheticSettings(
            patients_per_hospital=self.patients, codes_per_mode=CODES, seed=4,
            hospital_names=self.names,
        )  # fmt: skip
        hospitals = synthetic_network(settings).hospitals
        return {name: one.events for name, one in zip(self.names, hospitals, strict=True)}

    def ingest(self) -> None:
        """Records as CSV, read by `ingest flat`; or events that were ingested already."""
        for name, folder in self.ingested.items():
            shutil.copytree(folder, self.site(name) / "events")
            path = self.site(name) / "events" / "events.parquet"
            table = read_events(path)  # a rehearsal takes marked events only
            write_events(table, path, counting_rule(table), synthetic=True)
        if self.ingested:
            return
        records = self.records or self.synthetic_records()
        for name in self.names:
            raw = self.site(name) / "raw"
            raw.mkdir(exist_ok=True)
            table = records[name].select(["patient", "window", "mode", "code"])
            pyarrow.csv.write_csv(table, raw / "records.csv")
            site_file = self.site(name) / "site.toml"
            site_file.write_text(
                site_file.read_text(encoding="utf-8") + MAPPING.format(), encoding="utf-8"
            )
            command(
                "ingest", "flat", raw, "--settings", site_file, "--out",
                self.site(name) / "events", "--modes", "medication,diagnosis", "--window", "visit",
                "--synthetic",
            )  # fmt: skip

    def write_lists(self) -> None:
        """The study's public lists: every code that a hospital has."""
        known: dict[str, set[str]] = {"medication": set(), "diagnosis": set()}
        for name in self.names:
            events = pq.read_table(self.site(name) / "events" / "events.parquet")
            for mode, code in zip(
                events["mode"].to_pylist(), events["code"].to_pylist(), strict=True
            ):
                known[mode].add(code)
        for place in (self.coordinator, *map(self.site, self.names)):
            for mode, codes in known.items():
                text = "".join(f"{code}\n" for code in sorted(codes))
                (place / f"{mode}.txt").write_text(text, encoding="utf-8")

    def certify(self) -> None:
        """Request at each hospital, approve at the coordinator, install at the hospital."""
        for name in self.names:
            self.certify_one(name)

    def certify_one(self, name: str, *, again: bool = False) -> None:
        """One hospital's certificate, or the next one."""
        site = self.site(name)
        files = ("--site", site / "site.toml", "--federation", site / "federation.toml")
        words = ("cert", "renew" if again else "request")
        request = command(*words, *files, "--out", site)["request"]
        signed = command("cert", "approve", request, "--folder", self.coordinator)
        fingerprint = signed["fingerprint"]
        command("cert", "install", signed["signed"], "--fingerprint", fingerprint, *files)

    def approve(self) -> None:
        """Preview and approve at every hospital; the first one lets its codes be named."""
        for name in self.names:
            site = self.site(name)
            files = ("--site", site / "site.toml", "--federation", site / "federation.toml")
            key = site / "keys" / "officer.key"
            if not key.exists():
                officer = command("approve", "--make-key", "--key", key)["fingerprint"]
                text = (site / "site.toml").read_text(encoding="utf-8")
                text = text.replace('# officer = ""', f'officer = "{officer}" #')
                (site / "site.toml").write_text(text, encoding="utf-8")
            command("preview", *files, *(("--labels",) if name == self.names[0] else ()))
            words = words_of(read_protocol(site / "federation.toml"))
            command("approve", *files, "--key", key, "--words", words)

    # ── processes ─────────────────────────────────────────────────────────────────────────────

    def start(self, *words: str | Path, log: str) -> subprocess.Popen[bytes]:
        """One of our commands as a process; what it says goes into a file."""
        with (self.folder / f"{log}.log").open("ab") as stream:
            return subprocess.Popen(
                [
                    *self.before.get(log, ()),
                    *words_of_child(os.getpid(), "tripheno"),
                    *map(str, words),
                ],
                stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True,
                env={**os.environ, "NO_COLOR": "1"},
            )  # fmt: skip

    def serve(self) -> subprocess.Popen[bytes]:
        """The coordinator's server."""
        return self.start("serve", "--folder", self.coordinator, log="serve")

    def join(self, name: str, *more: str) -> subprocess.Popen[bytes]:
        """A hospital."""
        site = self.site(name)
        files = ("--site", site / "site.toml", "--federation", site / "federation.toml")
        return self.start("join", *files, *more, log=name)

    def run(self, out: Path, *more: str) -> subprocess.Popen[bytes]:
        """The coordinator's `run`."""
        folder = self.coordinator
        return self.start("run", "--folder", folder, "--out", out, *more, log="run")

    def said(self, log: str) -> str:
        """What a process said so far."""
        path = self.folder / f"{log}.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def simulate(self, out: Path, scratch: Path) -> None:
        """The same study by `simulate`, which names hospitals by their folders."""
        sites = [scratch / name for name in self.names]
        for site in sites:
            shutil.copytree(self.site(site.name) / "events", site)
        words = [("--" + key.replace("_", "-"), value) for key, value in self.settings.items()]
        command(
            "simulate", *sites, "--out", out, "--method", self.method,
            *(part for pair in words for part in pair),
            "--min-cell", "11", "--align", "vocabulary", "--sums", "blind", "--no-compare",
            *self.simulated,
        )  # fmt: skip


def factors(folder: Path) -> dict[str, list[list[float]]]:
    """The factors in a run folder, mode by mode and component by component."""
    found = {}
    for path in sorted((folder / "factors").glob("*.parquet")):
        table = pq.read_table(path)
        columns = [name for name in table.column_names if name.startswith("component_")]
        found[path.stem] = [table[name].to_pylist() for name in columns]
    return found


@contextmanager
def ended(*processes: subprocess.Popen[bytes]) -> Iterator[None]:
    """End these processes, and all they started, whatever happens."""
    try:
        yield
    finally:
        for process in processes:
            end_tree(process.pid)
            process.wait()


def wait_until(what: str, true: Any, seconds: float = 300.0) -> None:
    """Wait for something to become true, or fail with its name."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:g} s")
        time.sleep(0.05)


def descendants(process: subprocess.Popen[bytes], word: str) -> list[psutil.Process]:
    """The processes below one of ours whose command line has a word."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            if any(word in part for part in child.cmdline()):
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


def kill(process: psutil.Process | subprocess.Popen[bytes]) -> None:
    """As `kill -9` does: nothing is tidied up."""
    os.kill(process.pid, signal.SIGKILL)
