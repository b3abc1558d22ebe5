"""One round at one hospital, with stand-ins for the others and without a network.

The hospital runs the code of a real run up to its first contributions, behind its own gate. What
comes out are the very bytes: beside each masked message stands its content before the mask. Keys
are made for the rehearsal alone, so the masks of a real run are other ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tripheno.errors import BadShape
from tripheno.exchange import InProcessChannel, Responder
from tripheno.exchange.keys import from_system
from tripheno.exchange.messages import Broadcast, pack
from tripheno.exchange.secure import HospitalSums, ServerSums
from tripheno.exchange.simulated import SecureSums
from tripheno.exchange.sums import Arrays, Hospital, Sums
from tripheno.privacy.gate import Gate
from tripheno.privacy.small_cells import people_at_positions, people_per_code
from tripheno.protocol.agreed import Protocol
from tripheno.solver.federated import Member, server_method
from tripheno.solver.loop import first_factors
from tripheno.solver.messages import Begin, Totals
from tripheno.tensor.count_tensor import CountTensor
from tripheno.vocabulary.hospital_key import HospitalKeyDesk, agree_on_hospital_key
from tripheno.vocabulary.public_list import CountPeople, counting, people_in_slots, slots
from tripheno.vocabulary.tokens import TokenDesk


@dataclass(frozen=True)
class Sent:
    """One message of the rehearsal: the bytes, and for a masked one what is under the mask."""

    step: str
    data: bytes
    content: bytes | None


@dataclass
class Witness:
    """Writes down what passes the gate."""

    sent: list[Sent] = field(default_factory=list)
    under_mask: dict[str, bytes] = field(default_factory=dict)

    def listen(self, step: str, hospital: str, broadcast: bytes, answer: bytes) -> None:
        """A message that passed."""
        del hospital, broadcast
        if answer:
            self.sent.append(Sent(step, answer, self.under_mask.get(step)))

    def refuse(self, step: str, hospital: str, reason: str) -> None:
        """A message that was stopped: the gate raises, nothing is to be written down."""


class WatchedSums(Sums):
    """A hospital's half of secure sums that shows what it seals."""

    def __init__(self, half: HospitalSums, witness: Witness) -> None:
        self.half, self.witness = half, witness

    def seal(self, hospital: str, step: str, arrays: Arrays, plan: bytes = b"") -> bytes:
        """The arrays, written down and sealed."""
        self.witness.under_mask[step] = pack(arrays)
        return self.half.seal(hospital, step, arrays, plan)

    def unwrap(self, data: bytes) -> tuple[bytes, bytes]:
        """As the half does."""
        return self.half.unwrap(data)

    def total(self, step: str, sealed: Mapping[str, bytes], like: Arrays) -> Arrays:
        """As the half does: it refuses."""
        return self.half.total(step, sealed, like)


def rehearse(
    name: str, tensor: CountTensor, protocol: Protocol, gate: Gate, witness: Witness
) -> tuple[Sent, ...]:
    """Key agreement, alignment, count and first contributions of one hospital."""
    others = protocol.names or (name, "another hospital", "a third hospital")
    halves, server = SecureSums(None, allow_two=protocol.allow_two).halves(others)
    desks = {one: HospitalKeyDesk(half.desk, from_system) for one, half in halves.items()}
    own, watched = desks[name], WatchedSums(halves[name], witness)
    answers: dict[str, Responder] = {one: desk.answer for one, desk in desks.items()}
    channel = InProcessChannel({**answers, name: gate.guard(own.answer)})
    server.agree(channel)
    agree_on_hospital_key(channel)
    if protocol.alignment == "tokens":
        codes = {axis.mode: axis.codes or () for axis in tensor.axes}
        gate.pass_out("tokens/list", b"", TokenDesk(codes, own).answer("tokens/list", b""))
    people, sizes = _people(own, tensor, protocol)
    desk = Hospital(name, watched, {"people": counting(people)})
    asked = CountPeople(protocol.thresholds.min_cell_count)
    agreed, gate.sizes = gate.sizes, sizes
    _ask(gate, server, desk, "people/1", asked)
    gate.sizes = agreed
    _contribute(tensor, protocol, gate, server, watched)
    return tuple(witness.sent)


def _people(
    desk: HospitalKeyDesk, tensor: CountTensor, protocol: Protocol
) -> tuple[Sequence[np.ndarray], dict[str, int]]:
    """How many people have each code: at positions of the axes, or in slots of a public list."""
    if protocol.alignment != "vocabulary":
        return people_at_positions(tensor), {axis.mode: axis.size for axis in tensor.axes}
    if desk.key is None:
        raise BadShape("there is no key to order the slots by", where=desk.name)
    counted, found = people_per_code(tensor), []
    for one in protocol.lists:
        place = slots(desk.key, one.mode, one.codes)
        found.append(people_in_slots(counted[one.mode], one.codes, place))
    return found, {one.mode: len(one.codes) for one in protocol.lists}


def _contribute(
    tensor: CountTensor,
    protocol: Protocol,
    gate: Gate,
    server: ServerSums,
    sums: Sums,
) -> None:
    """The first contribution to every mode, on this hospital's own axes."""
    settings = protocol.solver.with_variant_rules()
    hospital = Member(gate.hospital, tensor, settings, sums).hospital
    factors = first_factors(tensor.axes, settings)
    _ask(gate, server, hospital, "begin", Begin(factors))
    if settings.method == "local":
        return  # its own model is a whole fit, and leaves in clear
    own = Totals(tensor.squared_norm, float(tensor.nonzeros), float(tensor.patients))
    state = server_method(settings).start(factors, own)
    for n in range(len(tensor.axes)):
        _ask(gate, server, hospital, f"iterate/1/{n}/0", state.news(n, first=True))


def _ask(gate: Gate, server: ServerSums, desk: Hospital, step: str, broadcast: Broadcast) -> None:
    data = server.wrap(b"", broadcast.pack())
    gate.pass_out(step, data, desk.respond(step, data))
