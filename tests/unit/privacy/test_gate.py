"""The One gate out: what the plan lists passes, everything else is stopped with its reason."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np
import pytest

from kit.planted import RANK, planted
from tripheno.errors import GateRefused
from tripheno.exchange.messages import Message, pack
from tripheno.exchange.registry import REGISTRY, SKETCH_MORE, Declaration, Sizes, messages_of
from tripheno.privacy.audit import AuditBuffer
from tripheno.privacy.faults import FAULT
from tripheno.privacy.gate import Gate
from tripheno.records.traits import GROUPS
from tripheno.solver.fit import fit
from tripheno.solver.messages import NormalEquations
from tripheno.solver.settings import SolverSettings
from tripheno.study.makers import Maker
from tripheno.study.message_plan import declare_all, plan_of, simulated_gatekeepers

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")

QUICK = SolverSettings(RANK, "exact", max_iter=2, seed=1, starts=1, influence="none")
FIRST = "fit/1/0/0"


class Passed(NamedTuple):
    declaration: Declaration
    data: bytes
    shapes: dict | None


class Keeping:
    """A gate that keeps what it is given."""

    def __init__(self):
        self.kept = {}

    def pass_out(self, step, declaration, data, shapes):
        self.kept[step] = Passed(declaration, data, shapes)
        return data

    def arrived(self, step, data):
        pass

    def resize(self, codes):
        pass


@pytest.fixture(scope="module")
def passed():
    """Every message of the first hospital in a short blind run, by step."""
    tensors = planted(1).hospitals
    gatekeepers = {name: Keeping() for name in tensors}
    fit(tensors, QUICK, Maker("blind")(tuple(tensors), gatekeepers.__getitem__))
    return next(iter(gatekeepers.values())).kept


def codes_of(tensor):
    return {axis.mode: axis.size for axis in tensor.axes}


def gate(settings=QUICK, *, rounds=1000, most=10**9, most_codes=None, **more):
    codes = codes_of(planted(1).together)
    plan = plan_of(settings, codes, 3, **more)
    return Gate(
        "a", plan, codes, AuditBuffer(), most_rounds=rounds, most_bytes=most, most_codes=most_codes
    )


def refused(gatekeeper, step, message, words):
    before = len(gatekeeper.record.entries)
    with pytest.raises(GateRefused) as caught:
        gatekeeper.pass_out(step, *message)
    assert words in caught.value.what
    assert caught.value.exit_code == 4
    (line,) = gatekeeper.record.entries[before:]
    assert (line["kind"], line["reason"]) == ("refused", caught.value.what)


def test_every_message_of_a_run_passes_and_has_its_line(passed):
    gatekeeper = gate()
    for step, message in passed.items():
        assert gatekeeper.pass_out(step, *message) == message.data
        gatekeeper.arrived(step, b"the total")
    assert [line["direction"] for line in gatekeeper.record.entries] == ["out", "in"] * len(passed)
    assert {"announce", "shares", "confirm", "totals", FIRST, "measures"} <= set(passed)


@pytest.mark.parametrize(
    ("method", "kind", "more"),
    [
        ("trip", "blind", {"bias": True}),
        ("local", "plain", {"bias": True}),
        ("exact", "plain", {"bias": True}),
        ("exact", "plain", {"track_rmse": True}),
    ],
    ids=["trip blind", "local in clear", "exact in clear", "error tracked"],
)
def test_what_the_settings_list_is_what_a_run_sends(method, kind, more):
    """A tournament, bounded influence, review at the limit, bias: nothing that is not listed."""
    tensors = planted(1).hospitals
    settings = SolverSettings(RANK, method, max_iter=1, starts=2, seed=1, **more)
    codes = codes_of(planted(1).together)
    gatekeepers = {name: Keeping() for name in tensors}
    fit(tensors, settings, Maker(kind)(tuple(tensors), gatekeepers.__getitem__))
    sent = {m.declaration.name for m in next(iter(gatekeepers.values())).kept.values()}
    plan = plan_of(settings, codes, 3, blind=kind == "blind")
    later = {"normal-equations", "review"} if settings.plain else set()  # of penalised fits
    assert sent == {one.name for one in messages_of(plan)} - {"carriers", "effective"} - later
    buffer = AuditBuffer()
    guarded = simulated_gatekeepers(tensors, codes, settings, buffer, blind=kind == "blind")
    fit(tensors, settings, Maker(kind)(tuple(tensors), guarded))
    assert {line["kind"] for line in buffer.entries} == {"message"}


def test_what_is_not_listed_or_not_what_it_says_is_stopped(passed):
    first, second = passed[FIRST], passed["fit/1/1/0"]
    refused(gate(replace(QUICK, method="trip")), FIRST, first, "no such message")
    forged = replace(first.declaration, rows="harmless")
    refused(gate(), FIRST, first._replace(declaration=forged), "no such message")
    refused(gate(), FIRST, first._replace(data=second.data), "bytes, not")
    refused(gate(), FIRST, first._replace(data=first.data[:-1]), "bytes, not")
    refused(gate(), FIRST, first._replace(data=first.data + b"x"), "bytes, not")
    rows = {**first.shapes, "mttkrp": (7, RANK)}
    refused(gate(), FIRST, first._replace(shapes=rows), "the fields are not")
    more = {**first.shapes, "patients": (9,)}
    refused(gate(), FIRST, first._replace(shapes=more), "the fields are not")
    votes = {**first.shapes, "votes": (65,)}
    refused(gate(), FIRST, first._replace(shapes=votes), "more votes")
    state = {**first.shapes, "state": (700,)}
    refused(gate(), FIRST, first._replace(shapes=state), "a projection of another size")
    long = passed["announce"]._replace(data=b"x" * (1 << 15))
    refused(gate(), "announce", long, "more than this message may have")


def test_a_mask_forgotten_is_stopped(passed):
    first = passed[FIRST]
    clear = pack({name: np.zeros(shape) for name, shape in first.shapes.items()})
    refused(gate(), FIRST, first._replace(data=clear), "not blind")
    refused(gate(), FIRST, first._replace(data=bytes(len(first.data))), "not blind")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: {**a, "patients": np.zeros(9)}, "the fields are not"),
        (lambda a: {"mttkrp": a["mttkrp"]}, "the fields are not"),
        (lambda a: {**a, "mttkrp": a["mttkrp"][1:]}, "the fields are not"),
        (lambda a: {**a, "review": np.full(6, np.nan)}, "not finite"),
    ],
    ids=["one more", "one less", "shape", "NaN"],
)
def test_in_clear_the_bytes_themselves_are_looked_at(passed, change, words):
    like = {name: np.zeros(shape) for name, shape in passed[FIRST].shapes.items()}
    message = passed[FIRST]._replace(data=pack(like))
    assert gate(blind=False).pass_out(FIRST, *message)
    refused(gate(blind=False), FIRST, message._replace(data=pack(change(like))), words)


def test_budgets_of_rounds_and_bytes_and_of_each_message_run_out(passed):
    gatekeeper = gate(rounds=2)
    for step in ("announce", "shares"):
        gatekeeper.pass_out(step, *passed[step])
    refused(gatekeeper, "confirm", passed["confirm"], "the budget of rounds is spent")
    refused(gate(most=50), "announce", passed["announce"], "the budget of bytes")
    gatekeeper = gate()
    gatekeeper.pass_out("totals", *passed["totals"])
    refused(gatekeeper, "totals", passed["totals"], "no message 'totals' is left")
    spent = gate(rounds=0, machines=True)
    assert spent.pass_out("fault", FAULT, b"TRIP-E413", None) == b"TRIP-E413"
    refused(spent, "fault", (FAULT, b"TRIP-E413 /home/of/somebody", None), "more than this")


def test_axes_longer_than_approved_are_stopped():
    approved = codes_of(planted(1).together)
    gatekeeper = gate(most_codes=approved)
    with pytest.raises(GateRefused, match="are approved"):
        gatekeeper.resize({mode: size + 1 for mode, size in approved.items()})
    assert gatekeeper.record.entries[-1]["kind"] == "refused"
    assert gatekeeper.codes == approved


def every_message_type():
    def below(kind):
        for child in kind.__subclasses__():
            yield child
            yield from below(child)

    return [kind for kind in below(Message) if kind.__module__.startswith("tripheno.")]


def test_no_message_type_has_a_field_with_a_row_for_each_patient():
    declare_all()
    assert NormalEquations in every_message_type()
    for kind in every_message_type():
        for field in fields(kind):
            named = "patient" in field.name
            harmless = (field.name, field.type) in {
                ("patients", "float"), ("patient_gram", "np.ndarray"),
                ("patient_sums", "np.ndarray"),
            }  # fmt: skip
            assert not named or harmless, (kind.__name__, field.name)


def test_shapes_follow_from_codes_and_rank_whatever_the_patients():
    declare_all()
    sizes = Sizes((7, 5), 4, 3, stack=(9, 27, 81))
    known = {7, 5, 4, 3, 2, 6, 4**2, 3 + SKETCH_MORE, 9, 27, 81, 54, 12, GROUPS}
    for one in REGISTRY.values():
        for shapes in one.allowed(sizes):
            assert {size for shape in shapes.values() for size in shape} <= known, one.name
