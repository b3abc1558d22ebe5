"""A whole study of real hospitals with one byte changed on its way: hello, sums, heads, release."""

from __future__ import annotations

import random
import shutil
from itertools import pairwise

import pytest

from tripheno.errors import TriphenoError
from tripheno.federation.coordinator import CarriedStudy, coordinate
from tripheno.federation.transport import InProcessChannel
from tripheno.federation.wire import Asked
from tripheno.lab.attacks.hospitals import COORDINATOR, NAMES, RUN, approved_hospitals, seated
from tripheno.study.store import RunStore

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")
PARTS = 12  # of the messages; one of them in every test run
SPACES = (b" ", b"\t", b"\n", b"\r")


def changed(data, chance):
    """One byte is another one; of text often one that reads the same: a space, a letter's case."""
    found, alike = bytearray(data), []
    if chance.random() < 0.5:
        alike = [n for n, byte in enumerate(data) if bytes([byte]) in SPACES or chr(byte).isalpha()]
    at = chance.choice(alike) if alike else chance.randrange(len(found))
    if alike:
        space = bytes([found[at]]) in SPACES
        found[at] = ord(" " if found[at] == ord("\t") else "\t") if space else found[at] ^ 0x20
    else:
        found[at] ^= chance.randint(1, 255)
    assert bytes(found) != data
    return bytes(found)


class OneByte(InProcessChannel):
    """Changes one byte of one message: of what a hospital gets in a round, or of its answer."""

    def __init__(self, hospitals, at=-1, way="down", seed=0):
        super().__init__({name: hospitals.local_hospitals[name].respond for name in NAMES})
        self.at, self.way, self.chance = at, way, random.Random(f"{seed}/{at}/{way}")
        self.rounds, self.changed = [], False

    def round(self, step, broadcast):
        at, chosen = len(self.rounds), self.chance.choice(NAMES)
        self.rounds.append((len(broadcast), ""))
        self.changed |= at == self.at
        if at != self.at:
            answers = super().round(step, broadcast)
        elif self.way == "up":
            answers = super().round(step, broadcast)
            answers[chosen] = changed(answers[chosen], self.chance)
        else:
            down = dict.fromkeys(NAMES, broadcast)
            down[chosen] = changed(broadcast, self.chance)
            answers = {name: self._outboxes[name].answer(step, down[name]) for name in NAMES}
        self.rounds[-1] = (len(broadcast), Asked.unpack(answers[NAMES[0]], NAMES[0]).how)
        return answers


@pytest.fixture(scope="module")
def approved(tmp_path_factory):
    return approved_hospitals(tmp_path_factory.mktemp("approved") / "all", 0).folder


def conducted(approved, folder, **change):
    """One study, and what was on the line."""
    shutil.copytree(approved, folder)
    hospitals = seated(folder, 0)
    channel = OneByte(hospitals, **change)
    study = CarriedStudy(hospitals.protocol, RUN, RunStore(folder / "coordinator"), COORDINATOR)
    try:
        carried = coordinate(study, channel)
    except TriphenoError as fault:
        shutil.rmtree(folder)
        return channel, fault, 1
    shutil.rmtree(folder)
    return channel, None, carried.attempts


@pytest.mark.parametrize(
    "part", [pytest.param(n, marks=[pytest.mark.verify] * bool(n)) for n in range(PARTS)]
)
def test_a_changed_byte_of_any_message_between_real_hospitals_is_seen(approved, tmp_path, part):
    quiet, fault, attempts = conducted(approved, tmp_path / "quiet")
    assert (fault, attempts) == (None, 1)
    assert {"sum", "gather", "unite", "release", "countersign", "done"} == {
        how for _, how in quiet.rounds
    }
    assert any(a[1] == "release" and b[1] == "gather" for a, b in pairwise(quiet.rounds))  # labels
    messages = [
        (n, way)
        for n, (down, _) in enumerate(quiet.rounds)
        for way in ("down", "up")
        if way == "up" or down
    ]
    unseen, tried = [], 0
    for at, way in messages[part::PARTS]:
        channel, fault, attempts = conducted(
            approved, tmp_path / f"{at}{way}", at=at, way=way, seed=part
        )
        assert channel.changed
        tried += 1
        if fault is None and attempts == 1:
            unseen.append((way, at, quiet.rounds[at]))
    assert unseen == []
    assert tried >= len(messages) // PARTS
