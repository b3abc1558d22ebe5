"""A short study at one hospital, with stand-ins for the others and without a network.

The hospital runs the program of a real run, with one iteration, behind its own gate.
What comes out are the very bytes: beside each blind contribution stands its content. Keys are made
for the rehearsal alone, so the masks of a real run are other ones. Stand-ins have nobody's data.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tripheno.errors import TriphenoWarning
from tripheno.exchange.communicator import (
    STATE,
    VOTES,
    Arrays,
    Communicator,
    InProcess,
    LocalHospital,
    OpenGatekeeper,
)
from tripheno.exchange.keys import Identity, from_system
from tripheno.exchange.messages import pack
from tripheno.exchange.registry import Declaration
from tripheno.exchange.roster import FEWEST
from tripheno.privacy.gate import Gate
from tripheno.protocol.agreed import AgreedMember, EvidenceSettings, StudyProtocol
from tripheno.study.program import Hospital, RunContext, Study, conduct
from tripheno.study.store import RunStore
from tripheno.tensor.count_tensor import CountTensor
from tripheno.vocabulary.axis import Axis


@dataclass(frozen=True)
class Sent:
    """One message of the rehearsal: the bytes, and for a sum what is under the mask."""

    step: str
    message: str  # its kind
    data: bytes
    content: bytes | None


class Witness:
    """The hospital's gate, with somebody beside it who writes down what passes."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.sent: list[Sent] = []
        self.content: bytes | None = None  # of the sum under way

    def pass_out(
        self, step: str, declaration: Declaration, data: bytes, shapes: Mapping[str, Any] | None
    ) -> bytes:
        """Through the gate, then written down."""
        passed = self.gate.pass_out(step, declaration, data, shapes)
        content = self.content if declaration.how == "sum" else None
        self.sent.append(Sent(step, declaration.name, passed, content))
        return passed

    def arrived(self, step: str, data: bytes) -> None:
        """As the gate does."""
        self.gate.arrived(step, data)

    def resize(self, codes: Mapping[str, int]) -> None:
        """As the gate does."""
        self.gate.resize(codes)


class _Watched(Communicator):
    """A federation in which one hospital's contributions are looked at before they are sealed."""

    def _total(self, step: str, declaration: Declaration, parts: Mapping[str, Arrays]) -> Arrays:
        for name, arrays in parts.items():
            gatekeeper = self.local_hospitals[name].gatekeeper
            if isinstance(gatekeeper, Witness):
                own = {key: array for key, array in arrays.items() if key not in (VOTES, STATE)}
                gatekeeper.content = pack(own)
        return super()._total(step, declaration, parts)


def rehearse(
    name: str,
    tensor: CountTensor,
    protocol: StudyProtocol,
    gate: Gate,
    *,
    labels: bool = False,
    traits: np.ndarray | None = None,
) -> tuple[Sent, ...]:
    """The study from the greeting to the release, with one iteration and stand-ins."""
    others = [one for one in protocol.names if one != name]
    others += [f"stand-in {n}" for n in range(len(others) + 1, FEWEST)]
    few, rng = protocol.thresholds.min_cell_count, np.random.default_rng()
    tensors = {name: tensor, **{one: stand_in(tensor.axes, few, rng) for one in others}}
    hospitals = {
        one: Hospital(Identity.from_bytes(from_system("ed25519")), from_system("tokens"),
                      labels=labels, traits=traits if one == name else None)
        for one in sorted(tensors)
    }  # fmt: skip
    recorder = Witness(gate)
    local_hospitals = {
        one: LocalHospital(None, recorder if one == name else OpenGatekeeper()) for one in hospitals
    }
    federation = _Watched(tuple(hospitals), local_hospitals, InProcess())
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", TriphenoWarning)  # one iteration is no result
        occasion, store = RunContext("rehearsal", 1), RunStore(Path(folder))
        short = _shortened(protocol, hospitals)
        conduct(Study(short, tensors, hospitals, federation, occasion, store))
    return tuple(recorder.sent)


def _shortened(protocol: StudyProtocol, hospitals: Mapping[str, Hospital]) -> StudyProtocol:
    """The same study under keys of its own, with one iteration of one start and no evidence."""
    whose = {one.name: one.institution for one in protocol.members}
    members = tuple(
        AgreedMember(name, one.identity.fingerprint, whose.get(name, ""))
        for name, one in hospitals.items()
    )
    solver = replace(protocol.solver, max_iter=1, starts=1)
    return replace(
        protocol, members=members, solver=solver, test=False,
        evidence=EvidenceSettings(0, subgroups=protocol.evidence.subgroups),
        alignment="tokens" if protocol.alignment == "polynomial" else protocol.alignment,
    )  # fmt: skip


def stand_in(axes: Sequence[Axis], patients: int, rng: np.random.Generator) -> CountTensor:
    """A tensor of random cells on the same axes: everybody has every code, beside any other."""
    longest = max(axis.size for axis in axes)
    shuffled = [
        np.concatenate([rng.permutation(longest) % axis.size for _ in range(patients)])
        for axis in axes
    ]
    cells = np.column_stack([np.repeat(np.arange(patients), longest), *shuffled])
    return CountTensor.from_cells(cells, rng.integers(1, 4, len(cells)), axes=axes)
