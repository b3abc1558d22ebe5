"""The one door out: what the manifest lists passes, everything else is stopped with its reason."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from tripheno.errors import GateRefused
from tripheno.evaluation.doors import solver_doors
from tripheno.exchange.channel import InProcessChannel
from tripheno.exchange.messages import Contribution, Message, pack
from tripheno.exchange.secure import HEAD
from tripheno.exchange.simulated import SecureSums
from tripheno.exchange.sums import plain_sums
from tripheno.privacy.audit import Minutes
from tripheno.privacy.gate import Gate
from tripheno.privacy.outgoing import Traffic, phase_of
from tripheno.solver import messages as solver_messages
from tripheno.solver.fit import fit
from tripheno.solver.settings import SolverSettings
from tripheno.testing.planted import RANK, planted
from tripheno.vocabulary.public_list import PeoplePerSlot

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")

SIZES = {"medication": 60, "diagnosis": 48}
QUICK = SolverSettings(RANK, "exact", max_iter=2, seed=1)


@pytest.fixture(scope="module")
def passed():
    """Every message of a short run under masks: step → broadcast and first hospital's answer."""
    heard = {}

    def listen(step, hospital, broadcast, answer):
        heard.setdefault((step, hospital), (broadcast, answer))

    tensors = planted(1).hospitals
    fit(tensors, QUICK, sums=SecureSums(0), listen=listen)
    name = next(iter(tensors))
    return {step: found for (step, who), found in heard.items() if who == name}


def gate(settings=QUICK, *, record=None, masked=True, rounds=1000, most=10**9, **more):
    sizes = {axis.mode: axis.size for axis in planted(1).together.axes}
    traffic = Traffic(tuple(sizes), sizes, settings, 3, masked, **more)
    return Gate(
        "a", traffic.messages(), sizes, record or Minutes(), most_rounds=rounds, most_bytes=most
    )


def test_every_message_of_a_run_passes_and_has_its_two_lines(passed):
    minutes = Minutes()
    door = gate(record=minutes)
    for step, (broadcast, answer) in passed.items():
        assert door.pass_out(step, broadcast, answer) == answer
    assert len(minutes.entries) == 2 * len(passed)
    assert {phase_of(step) for step in passed} >= {"begin", "iterate/0", "iterate/1", "release"}


@pytest.mark.parametrize(
    ("method", "sums", "kind"),
    [("trip", SecureSums(0), "secure"), ("local", plain_sums, "plain"),
     ("exact", plain_sums, "plain")],
    ids=["trip masked", "local in clear", "exact in clear"],
)  # fmt: skip
def test_the_list_that_the_settings_give_is_what_a_run_sends(method, sums, kind):
    """Restarts, review at the limit, and each field's name, type and shape."""
    tensors = planted(1).hospitals
    settings = SolverSettings(RANK, method, max_iter=1, restarts=2, bias=True, seed=1)
    minutes = Minutes()
    guard = solver_doors(tensors, settings, kind, minutes)
    fit(tensors, settings, sums=sums, guard=guard)
    steps = {phase_of(entry["step"]) for entry in minutes.entries}
    axes = next(iter(tensors.values())).axes
    sizes = {axis.mode: axis.size for axis in axes}
    listed = {
        one.phase for one in Traffic(tuple(sizes), sizes, settings, 3, kind == "secure").messages()
    }
    assert steps == listed


def refused(door, step, answer, words):
    minutes = door.record
    before = len(minutes.entries)
    with pytest.raises(GateRefused) as caught:
        door.pass_out(step, b"", answer)
    assert words in caught.value.what
    assert caught.value.exit_code == 4
    (line,) = minutes.entries[before:]
    assert line["kind"] == "refused"
    assert line["reason"] == caught.value.what


def test_what_the_manifest_does_not_list_is_stopped(passed):
    answer = passed["iterate/1/0/0"][1]
    refused(gate(), "patients", answer, "no such message")
    refused(gate(), "tokens/list", b"{}", "no such message")
    refused(gate(), "iterate/1/7/0", answer, "no such message")
    refused(gate(), "iterate/1/1/0", answer, "are allowed")
    refused(gate(), "iterate/1/0/0", passed["iterate/1/1/0"][1], "bytes, not")
    refused(gate(), "iterate/2/0/0", answer, "made for another step")
    refused(gate(), "iterate/1/0/0", answer[:-1], "bytes, not")
    refused(gate(), "iterate/1/0/0", answer + b"x", "are allowed")
    refused(gate(), "keys/confirm", b"x" * 63, "63 bytes, not 64")
    refused(gate(), "finish", b"x", "at most 0 are allowed")


def test_a_mask_forgotten_or_other_fields_under_the_mask_are_stopped(passed):
    answer = passed["iterate/1/0/0"][1]
    clear = np.zeros((len(answer) - 200) // 8)
    refused(gate(), "iterate/1/0/0", pack({"mttkrp": clear}), "bytes, not")
    refused(gate(), "iterate/1/0/0", b"\0" * len(answer), "no masked contribution")
    layout = bytearray(answer)
    layout[HEAD.size - 20] ^= 1
    refused(gate(), "iterate/1/0/0", bytes(layout), "the fields are not the protocol's")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: {**a, "patients": np.zeros(9)}, "the fields are not"),
        (lambda a: {"mttkrp": a["mttkrp"]}, "the fields are not"),
        (lambda a: {**a, "mttkrp": a["mttkrp"][1:]}, "the protocol says <f8"),
        (lambda a: {**a, "review": a["review"].astype(np.int64)}, "the protocol says <f8"),
        (lambda a: {**a, "review": np.full(6, np.nan)}, "not finite"),
    ],
    ids=["one more", "one less", "shape", "type", "NaN"],
)
def test_in_clear_names_types_and_shapes_must_be_exact(change, words):
    size = planted(1).together.axes[0].size
    like = solver_messages.NormalEquations.zeros(size, RANK).arrays()
    door = gate(masked=False)
    assert door.pass_out("iterate/1/0/0", b"", pack(like))
    refused(gate(masked=False), "iterate/1/0/0", pack(change(like)), words)


def test_budgets_of_rounds_and_bytes_run_out(passed):
    keys = {step: passed[step] for step in ("keys/announce", "keys/confirm", "begin")}
    door = gate(rounds=2)
    for step in ("keys/announce", "keys/confirm"):
        door.pass_out(step, *keys[step])
    refused(door, "begin", keys["begin"][1], "the budget of rounds is spent")
    refused(gate(most=50), "keys/announce", keys["keys/announce"][1], "the budget of bytes")
    door = gate()
    door.pass_out("begin", *keys["begin"])
    door.guard(lambda step, data: b"")
    refused(door, "begin", keys["begin"][1], "no round of 'begin' is left")


def test_the_same_step_gives_the_same_bytes_or_nothing(passed):
    door = gate()
    broadcast, answer = passed["begin"]
    assert door.pass_out("begin", broadcast, answer) == door.pass_out("begin", broadcast, answer)
    other = answer[:-1] + bytes([answer[-1] ^ 1])
    refused(door, "begin", other, "another answer under a step")


def test_tokens_must_be_one_for_each_code():
    sizes = {"m": 3}
    listed = Traffic(("m",), {"m": 5}, QUICK, 3, alignment="tokens").messages()
    for text, words in (
        (b'{"m":"' + b"00" * 48 + b'"}', None),
        (b'{"m":"' + b"00" * 32 + b'"}', "not one token"),
        (b'{"n":"' + b"00" * 48 + b'"}', "not one token"),
        (b"[]", "no list of tokens"),
        (b'{"m":"' + b"00" * 400 + b'"}', "are allowed"),
    ):
        door = Gate("a", listed, sizes, Minutes(), most_rounds=9, most_bytes=9999, own_codes=sizes)
        if words is None:
            assert door.pass_out("tokens/list", b"", text) == text
        else:
            refused(door, "tokens/list", text, words)


def test_the_gate_stands_before_the_channel():
    def leaking(step, data):
        return b"every patient's row"

    channel = InProcessChannel({"a": gate().guard(leaking)})
    with pytest.raises(GateRefused):
        channel.round("begin", b"")


def every_message_type():
    def below(kind):
        for child in kind.__subclasses__():
            yield child
            yield from below(child)

    return [kind for kind in below(Message) if kind.__module__.startswith("tripheno.")]


def test_no_message_type_has_a_field_with_a_row_for_each_patient():
    assert PeoplePerSlot in every_message_type()
    for kind in every_message_type():
        for field in fields(kind):
            named = "patient" in field.name
            harmless = (field.name, field.type) in {
                ("patients", "float"), ("patient_gram", "np.ndarray"),
            }  # fmt: skip
            assert not named or harmless, (kind.__name__, field.name)


@pytest.mark.parametrize("method", ["trip", "exact"])
def test_shapes_follow_from_codes_and_rank_whatever_the_patients(method):
    settings = replace(QUICK, method=method)
    for one in Traffic(("m", "d"), {"m": 7, "d": 5}, settings, 3).messages():
        for field in one.fields:
            assert set(field.sized({"m": 7, "d": 5})) <= {7, 5, RANK, 2, 6}
    kinds = {
        "Totals": solver_messages.Totals.zeros(),
        "NormalEquations": solver_messages.NormalEquations.zeros(7, RANK),
        "Proposal": solver_messages.Proposal.zeros(7, RANK),
        "Review": solver_messages.Review.zeros(),
        "Measures": solver_messages.Measures.zeros(RANK),
    }
    for one in Traffic(("m", "d"), {"m": 7, "d": 7}, settings, 3).messages():
        if one.message in kinds:
            like: Contribution = kinds[one.message]
            shapes = {name: array.shape for name, array in like.arrays().items()}
            assert {f.name: f.sized({"m": 7, "d": 7}) for f in one.fields} == shapes
