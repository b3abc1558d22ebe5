"""Which files a study passes, by a trace: ``python -m tools.walks``.

A small study of three hospitals, as a user has it: records from CSV, a tournament, evidence, gates
with approvals, the engine with its TLS. A file counts where a function of it is entered. Functions
of the engine's own processes are not seen: of `federation/job.py` that is all.
"""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from kit.engine_federation import EngineFederation
from kit.federation_processes import FederationOnDisk
from tripheno.cli.live import LiveHospital
from tripheno.cli.study_files import _hospital_file, _member_settings
from tripheno.federation.channel import EngineChannel
from tripheno.federation.coordinator import CarriedStudy, coordinate
from tripheno.federation.hospital import HospitalService
from tripheno.federation.journal import Journal
from tripheno.protocol.key_files import read_identity
from tripheno.study.store import RunStore

SOURCE = f"{os.sep}src{os.sep}tripheno{os.sep}"
STEP = "starts/3/1/0"  # the sum whose contribution is followed
PROGRAM = "tripheno-study"  # the name of a hospital's thread
EVIDENCE = "[evidence]\nresamples = 3\n"
MODEL = {"rank": "3", "max_iter": "3", "seed": "3", "starts": "2"}


@dataclass
class Trace:
    """Files in the order in which they were first entered: of the whole study, and of one sum."""

    whole: dict[str, None] = field(default_factory=dict)
    contribution: dict[str, None] = field(default_factory=dict)
    inside: set[int] = field(default_factory=set)  # threads that are in this sum

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Every call and return comes here."""
        code = frame.f_code
        path = code.co_filename
        function = code.co_flags & inspect.CO_OPTIMIZED or path.endswith("_kernels.py")
        if SOURCE not in path or not path.endswith(".py") or not function:
            return  # not ours, a template, or the body of a module or class
        followed = code.co_qualname == "Communicator.sum" and frame.f_locals.get("step") == STEP
        here = threading.get_ident()
        if event == "call":
            if followed:
                self.inside.add(here)
            name = path.split(SOURCE)[1].replace(os.sep, "/")
            self.whole.setdefault(name)
            program = threading.current_thread().name == PROGRAM
            if here in self.inside or (self.inside and not program):
                self.contribution.setdefault(name)
        elif event == "return" and followed:
            self.inside.discard(here)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """In this thread and all that begin now."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def traced(folder: Path) -> Trace:
    """The study, run below a folder."""
    trace = Trace()
    made = FederationOnDisk(folder / "study", MODEL, more=EVIDENCE)
    made.folder.mkdir()
    made.write_settings()
    with trace.listening():
        made.ingest()
    made.write_lists()
    made.approve()
    engine = EngineFederation(folder / "engine", made.names)
    with ExitStack() as stack:
        stack.enter_context(engine.running())
        with trace.listening():
            line, relays = stack.enter_context(engine.line(120.0))
            for name, relay in relays.items():
                file = made.site(name) / "site.toml"
                protocol, site = _member_settings(file, made.site(name) / "federation.toml")
                journal = Journal(site.state)
                live = journal, LiveHospital(journal, site.state)
                local = HospitalService(_hospital_file(protocol, site, file, live, None))
                relay.respond_with(local.respond)
            key = read_identity(made.coordinator / "keys" / "coordinator.key")
            study = CarriedStudy(protocol, "run-1", RunStore(folder / "attempts"), key)
            coordinate(study, EngineChannel(line))
    return trace


def main() -> None:
    """Print both lists."""
    with tempfile.TemporaryDirectory() as folder:
        trace = traced(Path(folder))
    for title, files in (("study", trace.whole), (STEP, trace.contribution)):
        print(f"{title}: {len(files)} files")
        print("\n".join(f"  {name}" for name in files))


if __name__ == "__main__":
    main()
