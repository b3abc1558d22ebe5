"""A small study of three hospitals in one process, each with its own folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from tripheno.exchange.communicator import OpenGatekeeper
from tripheno.exchange.keys import Identity, fingerprint_of, from_seed
from tripheno.federation.coordinator import Carried, CarriedStudy, coordinate
from tripheno.federation.hospital import HospitalFile, HospitalService
from tripheno.federation.transport import Channel, InProcessChannel
from tripheno.lab.synthetic.network import SyntheticSettings, synthetic_network
from tripheno.protocol.agreed import AgreedMember, CodeList, Operation, StudyProtocol
from tripheno.protocol.limits import Thresholds
from tripheno.records.events import CountingRule
from tripheno.solver.settings import SolverSettings
from tripheno.study.result import Findings
from tripheno.study.store import RunStore
from tripheno.tensor.count_tensor import CountTensor

NAMES = ("northfield", "harbour", "lakeside")
CODES = {"medication": 24, "diagnosis": 20}
COORDINATOR = Identity.from_bytes(bytes([8]) * 32)
NETWORK = SyntheticSettings(
    patients_per_hospital=(90, 80, 70), codes_per_mode=CODES, seed=4, hospital_names=NAMES
)


@cache
def tensors() -> dict[str, CountTensor]:
    """Every hospital's own, on its own axes."""
    network = synthetic_network(NETWORK)
    return {h.name: CountTensor.from_events(h.events) for h in network.hospitals}


def identities() -> dict[str, Identity]:
    """Every hospital's long-term key."""
    return {n: Identity.from_bytes(from_seed(9, n)("ed25519")) for n in tensors()}


def protocol(method: Any = "exact", alignment: Any = "tokens", **changes: Any) -> StudyProtocol:
    """What they agreed on."""
    lists: tuple[CodeList, ...] = ()
    modes = next(iter(tensors().values())).modes
    if alignment == "vocabulary":
        known: dict[str, set[str]] = {mode: set() for mode in modes}
        for tensor in tensors().values():
            for axis in tensor.axes:
                known[axis.mode] |= set(axis.known.values())
        lists = tuple(
            CodeList(mode, "list.txt", tuple(sorted({*codes, "never used"})))
            for mode, codes in known.items()
        )
    made = StudyProtocol(
        study="small",
        rule=CountingRule(modes=modes),
        solver=SolverSettings(
            n_components=4, method=method, max_iter=9, seed=3, tol=1e-12, starts=1
        ),
        alignment=alignment,
        lists=lists,
        thresholds=Thresholds(11, 50),
        members=tuple(AgreedMember(n, fingerprint_of(i.public)) for n, i in identities().items()),
        coordinator=COORDINATOR.fingerprint,
        test=True,
        operation=Operation("localhost:8002", 60, 3),
    )
    return replace(made, **changes)


@dataclass
class Table:
    """Everybody around one in-process channel."""

    folder: Path
    protocol: StudyProtocol
    local_hospitals: dict[str, HospitalService] = field(default_factory=dict)
    ends: dict[str, Findings] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    before: Callable[[str, str], None] = lambda _name, _step: None

    def sit(self, name: str, **changes: Any) -> None:
        """A hospital comes in: as new, with what is on its disk."""
        every = self.protocol.operation.checkpoint_every
        file = HospitalFile(
            name=name,
            tensor=tensors()[name],
            protocol=self.protocol,
            identity=identities()[name],
            store=lambda run: RunStore(self.folder / name / run, every),
            gatekeeper=lambda _run, _coordinator: OpenGatekeeper(),
            secret=from_seed(9, name)("tokens"),
            refused=lambda _step, _code: None,
            finished=lambda _run, end: self.ends.__setitem__(name, end),
        )
        self.local_hospitals[name] = HospitalService(replace(file, **changes))

    def responder(self, name: str) -> Callable[[str, bytes], bytes]:
        """A hospital's side; who sits there may change."""

        def respond(step: str, data: bytes) -> bytes:
            self.before(name, step)
            return self.local_hospitals[name].respond(step, data)

        return respond

    def another(self, name: str, run: str) -> RunStore:
        """A folder that no earlier run has used."""
        return RunStore(self.folder / "another" / name / run)

    def channel(self) -> InProcessChannel:
        """The line to everybody."""
        return InProcessChannel({name: self.responder(name) for name in self.protocol.names})

    def run(self, channel: Channel | None = None, **changes: Any) -> Carried:
        """The coordinator's side, as a process that has just been started."""
        store = RunStore(self.folder / "coordinator")
        given = {
            "store": store,
            "identity": COORDINATOR,
            "say": self.said.append,
            "step": self.steps.append,
            **changes,
        }
        return coordinate(CarriedStudy(self.protocol, "run-1", **given), channel or self.channel())


def seated(folder: Path, **settings: Any) -> Table:
    """Everybody in their seats."""
    made = Table(folder, protocol(**settings))
    for name in made.protocol.names:
        made.sit(name)
    return made
