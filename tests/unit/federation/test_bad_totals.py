"""Real hospitals with gates and logs are handed what is not the total they wait for."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from tripheno.errors import BadMessage, BrokenSum, SessionLost, TriphenoError, WrongStep
from tripheno.exchange.session import HEAD
from tripheno.federation.coordinator import CarriedStudy, coordinate
from tripheno.federation.transport import InProcessChannel
from tripheno.lab.attacks import hospitals as seats
from tripheno.study.store import RunStore

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")

STEP = "fit/2/0/0"  # a sum in the middle of the study
STUDY, RUN, EPOCH, T, WORDS = range(2, 7)  # places in the head of a sum


@pytest.fixture(scope="module")
def approved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("approved") / "all"
    seats.approved_hospitals(folder, 0)
    return folder


@pytest.fixture
def hospitals(approved, tmp_path):
    shutil.copytree(approved, tmp_path / "all")
    return seats.seated(tmp_path / "all", 0)


def carried(hospitals, channel):
    store = RunStore(hospitals.folder / "coordinator")
    return coordinate(
        CarriedStudy(hospitals.protocol, seats.RUN, store, seats.COORDINATOR), channel
    )


def contributed(hospitals, name):
    """The steps whose messages left, as the log has them, in order."""
    path = hospitals.site(name).run_folder(seats.RUN) / "audit.jsonl"
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [line["step"] for line in lines if line.get("direction") == "out"]


def under(data, place, change):
    """The same words under another head."""
    head = list(HEAD.unpack_from(data))
    head[place] = change(head[place])
    return HEAD.pack(*head) + data[HEAD.size :]


HANDED = {
    "for another study": (WrongStep, lambda t, _: under(t, STUDY, lambda _study: bytes(32))),
    "for another run": (WrongStep, lambda t, _: under(t, RUN, lambda _run: bytes(32))),
    "for another attempt": (WrongStep, lambda t, _: under(t, EPOCH, lambda epoch: epoch + 1)),
    "for a later step": (WrongStep, lambda t, _: under(t, T, lambda step: step + 1)),
    "of the step before, once more": (WrongStep, lambda _, earlier: earlier),
    "of another shape": (WrongStep, lambda t, _: under(t, WORDS, lambda words: words - 1)[:-8]),
    "cut short": (BrokenSum, lambda t, _: t[:-8]),
    "with a word more": (BrokenSum, lambda t, _: t + bytes(8)),
    "of nothing": (WrongStep, lambda *_: b""),
}


@pytest.mark.parametrize("total", HANDED)
def test_a_total_that_is_not_the_awaited_one_is_refused_with_its_code_and_a_line(hospitals, total):
    fault, made = HANDED[total]
    channel = seats.LyingChannel(hospitals, STEP, lambda heard, _: made(heard.right, heard.earlier))
    with pytest.raises(TriphenoError, match="the lie was told"):
        carried(hospitals, channel)
    assert channel.codes == dict.fromkeys(seats.NAMES, fault.code)
    for name in seats.NAMES:
        assert hospitals.refusals(name) == [fault.code]
        assert contributed(hospitals, name)[-2:] == [STEP, "fault"]


def test_a_step_out_of_turn_or_twice_is_refused_with_a_line_and_changes_nothing(
    approved, hospitals, tmp_path
):
    shutil.copytree(approved, tmp_path / "again")
    other = seats.seated(tmp_path / "again", 0)
    respond = other.local_hospitals[seats.NAMES[0]].respond
    tried = []

    def out_of_turn(step, data):
        asked = respond(step, data)
        if f"sum {STEP}".encode() in asked[:100] and not tried:
            attempt, _, number = step.partition(":")
            for wrong in (int(number), int(number) + 2):  # once more; one left out
                with pytest.raises(WrongStep):
                    respond(f"{attempt}:{wrong}", data)
            with pytest.raises(SessionLost):
                respond(f"9:{number}", data)
            with pytest.raises(BadMessage):
                respond("nonsense", data)
            tried.append(step)
        return asked

    responders = {name: local.respond for name, local in other.local_hospitals.items()}
    channel = InProcessChannel({**responders, seats.NAMES[0]: out_of_turn})
    found = carried(other, channel).findings.solution
    assert tried
    assert other.refusals(seats.NAMES[0]) == [
        WrongStep.code, WrongStep.code, SessionLost.code, BadMessage.code,
    ]  # fmt: skip
    steps = contributed(other, seats.NAMES[0])
    assert len(set(steps)) == len(steps)  # nothing is contributed twice
    plain = InProcessChannel(
        {name: local.respond for name, local in hospitals.local_hospitals.items()}
    )
    wanted = carried(hospitals, plain).findings.solution
    for ours, theirs in zip(found.factors, wanted.factors, strict=True):
        assert np.allclose(ours, theirs, rtol=1e-9, atol=1e-9)
