"""Hostile bytes of a hospital at the real coordinator: refused with a code, nothing is believed.

The other hospitals said what they said in a whole study, which is played again; a coordinator needs
nobody for that. One answer, its frame included, is another one.
"""

from __future__ import annotations

import random

import pytest

from kit.hostile import mangled
from tripheno.errors import BadMessage, TriphenoError
from tripheno.federation.coordinator import CarriedStudy, coordinate
from tripheno.federation.relay import opened_answer, sealed_answer
from tripheno.federation.transport import Channel, InProcessChannel
from tripheno.federation.wire import Asked
from tripheno.lab.attacks.hospitals import COORDINATOR, NAMES, RUN, approved_hospitals
from tripheno.study.store import RunStore

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")
FEW, MANY = 400, 20_000
UNREAD = ("sum", "gather", "unite")  # handed on or added as they are; the other hospitals check


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """Everything that hospitals answered in a whole study, round by round."""
    folder = tmp_path_factory.mktemp("spoken")
    hospitals, rounds = approved_hospitals(folder / "all", 0), []

    def listen(step, name, _broadcast, answer):
        if name == NAMES[0]:
            rounds.append({})
        rounds[-1][name] = sealed_answer(lambda _step, _data: answer, step, b"")

    services = hospitals.local_hospitals
    channel = InProcessChannel({name: services[name].respond for name in NAMES}, listen)
    study = CarriedStudy(hospitals.protocol, RUN, RunStore(folder / "first"), COORDINATOR)
    return hospitals.protocol, coordinate(study, channel), rounds


class Played(Channel):
    """A study once more; at one round one hospital's bytes are others."""

    hospitals = NAMES

    def __init__(self, rounds, at, who, data):
        super().__init__()
        self.rounds, self.at, self.who, self.data, self.played = rounds, at, who, data, 0

    def round(self, _step, _broadcast):
        if self.played == len(self.rounds):
            raise TriphenoError("nobody is there for another attempt")
        answers = dict(self.rounds[self.played])
        if self.played == self.at:
            answers[self.who] = self.data
        self.played += 1
        return {name: opened_answer(name, answers[name]) for name in NAMES}


class Attempts(RunStore):
    """Counts in memory: thousands of files would be written."""

    def __init__(self):
        self.number = 0

    def attempt(self):
        return self.number

    def take_attempt(self, number):
        self.number = number


def carried(spoken, at, who, data):
    """The result, or the error that the coordinator ended with."""
    protocol, _, rounds = spoken
    channel = Played(rounds, at, who, data)
    try:
        return coordinate(CarriedStudy(protocol, RUN, Attempts(), COORDINATOR), channel), None
    except TriphenoError as fault:
        return None, fault


def test_what_was_spoken_leads_to_the_same_result_again(spoken):
    again, fault = carried(spoken, -1, "", b"")
    assert fault is None
    assert again.findings.solution.objective == spoken[1].findings.solution.objective


def test_a_hospital_that_shows_no_head_of_its_log_is_refused(spoken):
    _, _, rounds = spoken
    steps = [Asked.unpack(opened_answer(NAMES[1], said[NAMES[1]]), NAMES[1]) for said in rounds]
    heads = [at for at, asked in enumerate(steps) if asked.how == "countersign"]
    assert len(heads) == 2
    for at in heads:
        none = Asked("countersign", steps[at].step, b"").pack()
        found, fault = carried(spoken, at, NAMES[1], b"\0" + none)
        assert found is None
        assert isinstance(fault, BadMessage)


@pytest.mark.parametrize("cases", [FEW, pytest.param(MANY, marks=pytest.mark.verify)])
def test_thousands_of_hostile_answers_are_refused_and_none_is_believed(spoken, cases):
    chance, (_, right, rounds) = random.Random(cases), spoken
    believed = 0
    for n in range(cases):
        at, who = n % len(rounds), chance.choice(NAMES)
        true = rounds[at][who]
        data = mangled(true, chance)
        how = Asked.unpack(opened_answer(who, true), who).how
        found, fault = carried(spoken, at, who, data)
        if fault is not None:
            text = str(fault)
            assert fault.code.startswith("TRIP-E")
            assert len(text) < 500
            continue
        believed += data != true
        assert data == true or how in UNREAD or (how == "done" and data[1:].startswith(true[1:]))
        assert found.findings.solution.objective == right.findings.solution.objective
        assert found.findings.named == right.findings.named
    assert believed < 0.4 * cases
