"""Hostile bytes at the real service of a hospital: refused with a code, and nothing more leaves."""

from __future__ import annotations

import json
import random
import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from kit.hostile import mangled
from tripheno.errors import TriphenoError
from tripheno.federation.coordinator import CarriedStudy, coordinate
from tripheno.federation.hospital import HospitalService
from tripheno.federation.transport import InProcessChannel
from tripheno.federation.wire import Asked, Hello
from tripheno.lab.attacks.hospitals import COORDINATOR, NAMES, RUN, approved_hospitals, seated
from tripheno.privacy.faults import FAULT
from tripheno.protocol.agreed import protocol_hash
from tripheno.study.store import RunStore

OUT_OF_TURN = 9
FEW = (800, 48, 1, 2_000)  # beginnings; attempts; rounds of messages out of turn in each; cases
MANY = (6_000, 200, 3, 20_000)
ATTEMPTS_OF_A_RUN = 6  # a run's budget is enough for so many
DEEP = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 20, 26, 34)  # steps at which hostile bytes come
STEPS = (
    "", ":", "1", "1:", ":1", "a:b", "-1:0", "1:-1", "1:1:1", "\u00b2:\u00b2", "\u0661:0", "1 :2",
    f"{'9' * 5_000}:0", "0:999999999", "1:0\n", "../../etc:1", "x" * 10_000,
)  # fmt: skip


def refused(local, step, data, folder):
    """The answer, or nothing where the hospital refused in the way it should."""
    try:
        return local.respond(step, data)
    except TriphenoError as refusal:
        code, text = refusal.code, str(refusal)
    assert code.startswith("TRIP-E")
    assert len(text) < 500
    assert str(folder) not in text
    return None


class Hostile(InProcessChannel):
    """An honest coordinator up to one step; then every hospital gets something else."""

    def __init__(self, hospitals, at, chance, times=1):
        self.local_hospitals, self.left = {}, {name: [] for name in NAMES}
        for name in NAMES:
            local = hospitals.local_hospitals[name]
            self.local_hospitals[name] = HospitalService(_watched(local.file, self.left[name]))
        super().__init__({name: local.respond for name, local in self.local_hospitals.items()})
        self.folder, self.at, self.chance, self.times = hospitals.folder, at, chance, times
        self.cases, self.rounds, self.how, self.believed = 0, 0, "hello", []

    def round(self, step, broadcast):
        self.rounds += 1
        if self.rounds <= self.at:
            answers = super().round(step, broadcast)
            self.how = Asked.unpack(answers[NAMES[0]], NAMES[0]).how
            return answers
        for name in NAMES:
            self._attack(name, step, broadcast)
        raise TriphenoError("the hospitals were attacked")

    def _attack(self, name, step, broadcast):
        local, left, chance = self.local_hospitals[name], self.left[name], self.chance
        attempt, _, number = step.partition(":")
        later = [f"{attempt}:{int(number) + n}" for n in (-1, 1, 2, 50)]
        wrongs = (*STEPS, *later, f"{int(attempt) + 1}:{number}")
        for wrong in (one for _ in range(self.times) for one in chance.sample(wrongs, OUT_OF_TURN)):
            if wrong.split(":")[-1] == "0":  # a beginning, which is attacked elsewhere
                continue
            before = len(left)
            assert refused(local, wrong, mangled(broadcast, chance), self.folder) is None
            assert len(left) == before
            self.cases += 1
        del left[:]
        data = mangled(broadcast, chance)
        answer = refused(local, step, data, self.folder) if data != broadcast else b""
        self.cases += 1
        if answer is None:
            assert set(left) <= {FAULT.name}
            following = f"{attempt}:{int(number) + 1}"
            assert refused(local, following, broadcast, self.folder) is None
            assert set(left) <= {FAULT.name}
        elif data != broadcast:
            assert len(left) <= 1  # the one message that comes next, whatever it was told
            self.believed.append(self.how)


def _watched(file, left):
    def gatekeeper(run, coordinator):
        made = file.gatekeeper(run, coordinator)
        honest = made.pass_out

        def pass_out(step, declaration, data, shapes):
            passed = honest(step, declaration, data, shapes)
            left.append(declaration.name)
            return passed

        made.pass_out = pass_out
        return made

    return replace(file, gatekeeper=gatekeeper)


@pytest.fixture(scope="module")
def folder():
    """In memory where there is such a place: every line of a log waits for the disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


@pytest.fixture(scope="module")
def approved(folder):
    return approved_hospitals(folder / "approved", 0).folder


@pytest.mark.parametrize(
    ("hellos", "attempts", "times", "least"), [FEW, pytest.param(*MANY, marks=pytest.mark.verify)]
)
def test_thousands_of_hostile_messages_are_refused_and_nothing_leaves(
    approved, folder, hellos, attempts, times, least
):
    chance, cases, believed = random.Random(least), 0, []
    for n in range(attempts):
        home = folder / f"{least}-{n // ATTEMPTS_OF_A_RUN}"
        if not home.is_dir():
            shutil.copytree(approved, home)
        hospitals = seated(home, 0)
        channel = Hostile(hospitals, DEEP[n % len(DEEP)], chance, times)
        store = RunStore(home / "coordinator")
        with pytest.raises(TriphenoError, match="attacked"):
            coordinate(CarriedStudy(hospitals.protocol, RUN, store, COORDINATOR), channel)
        cases, believed = cases + channel.cases, believed + channel.believed
    cases += hostile_beginnings(approved, folder / f"{least}-beginnings", chance, hellos)
    assert cases >= least
    assert "sum" not in believed
    assert len(believed) < 0.2 * 3 * attempts


def hostile_beginnings(approved, folder, chance, hellos):
    shutil.copytree(approved, folder)
    hospitals = seated(folder, 0)
    local, left = hospitals.local_hospitals[NAMES[0]], []
    local = HospitalService(_watched(local.file, left))
    own = protocol_hash(hospitals.protocol)
    for _ in range(hellos):
        hello = Hello(RUN, 1, own, COORDINATOR.public.hex()).pack()
        data = mangled(hello, chance)
        if same(data, hello):
            continue
        assert refused(local, "1:0", data, folder) is None
        assert left == []
    return hellos


def same(data, hello):
    """Whether it says the same all the same: spaces, a number written otherwise, another run.

    A coordinator names its runs; how many there may be is counted elsewhere.
    """
    try:
        found = json.loads(data)
        run = RUN if re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", found["run"]) else found["run"]
        return {**found, "attempt": int(found["attempt"]), "run": run} == json.loads(hello)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return False


def test_after_the_end_a_hospital_waits_for_nothing(approved, folder):
    shutil.copytree(approved, folder / "ended")
    hospitals = seated(folder / "ended", 0)
    channel = Hostile(hospitals, 10_000, random.Random(0))
    store = RunStore(folder / "ended" / "coordinator")
    coordinate(CarriedStudy(hospitals.protocol, RUN, store, COORDINATOR), channel)
    for name, local in channel.local_hospitals.items():
        before = list(channel.left[name])
        for number in range(channel.rounds - 2, channel.rounds + 3):
            assert refused(local, f"1:{number}", b"", hospitals.folder) is None
        assert channel.left[name] == before
