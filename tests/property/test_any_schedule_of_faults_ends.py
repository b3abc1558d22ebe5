"""Crashes, lost, doubled and late messages: every run ends, and no mask hides two contents."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest

from kit.sessions import NAMES, SNAPSHOT, THRESHOLDS, identity_of, roster_of
from tripheno.errors import TriphenoError
from tripheno.exchange import blind, field
from tripheno.exchange.blind import BlindSession
from tripheno.exchange.keys import from_seed
from tripheno.exchange.session import add

ROSTER = roster_of()
SUMS = 5
QUIET_AFTER, LONGEST = 160, 4_000


class HospitalProcess:
    """A hospital: its disk outlives it, its session does not."""

    def __init__(self, name, seed):
        self.name, self.random = name, random.Random(f"{seed}/{name}")
        self.epoch, self.kept, self.boots, self.done = 0, {}, 0, False  # the disk
        self.crash()

    def crash(self):
        self.session, self.place, self.boots = None, 0, self.boots + 1

    def handle(self, kind, epoch, body):
        """Answers to one message; a fault is an answer too."""
        if kind == "epoch" and epoch > self.epoch:
            self.epoch = epoch
            secret = from_seed(self.boots, f"{self.name}/{epoch}/{self.random.random()}")
            self.session = BlindSession(
                self.name, identity_of(self.name), ROSTER, "run", epoch, secret
            )
            self.place, self.confirmed = 0, False
        if self.session is None or epoch != self.session.epoch:
            return [("lost", self.epoch, b"")] if epoch >= self.epoch else []
        try:
            return [(answer, epoch, data) for answer, data in self.step(kind, body)]
        except TriphenoError:
            dead = self.session._over
            return [("lost", self.epoch, b"")] if dead else []

    def step(self, kind, body):
        session = self.session
        if kind == "epoch":
            yield "announce", session.announce(SNAPSHOT, THRESHOLDS, tuple(self.kept))
        elif kind == "announcements":
            yield "share", session.meet(body)
        elif kind == "shares" and not session._group:
            session.take_shares(body)
            if session.resume:
                session.resume_at(*session.resume)
                self.place = self.kept[session.resume]
            yield "part", session.confirm()
        elif kind == "total":
            before = session.t
            self.take(session.open(body))
            assert session.t == before + 1
            yield self.next()
        elif kind == "again" and session._group:
            yield self.next() if self.confirmed else ("part", session.confirm())
        elif kind == "ends":
            session.check_end(body)
            self.done = True

    def take(self, numbers):
        """Go on with a total: the first of an epoch confirms keys, the others are the program's."""
        self.confirmed = True
        if len(numbers) > 1:
            self.place += 1
            assert numbers[-1] == len(NAMES)
            if self.place % 2 == 0:
                self.kept[self.session.t, self.session.h] = self.place

    def next(self):
        if self.place == SUMS:
            return "end", self.session.end()
        # computed anew, a number need not be the same: the stored bytes have to go out
        numbers = np.array([self.random.getrandbits(40), 1])
        return "part", self.session.seal(f"fit/{self.place}", numbers, b"", b"")


class Coordinator:
    """Relays and adds. What it collected is in memory, so it can be lost too."""

    def __init__(self):
        self.epoch = 0
        self.begin(1)

    def begin(self, epoch):
        self.epoch, self.heard = epoch, defaultdict(dict)
        self.latest = ("epoch", b"")

    def forget(self):
        self.heard = defaultdict(dict)

    def handle(self, name, kind, epoch, data):
        """What all hospitals are told now, if this message made something complete."""
        if kind == "lost":
            if epoch >= self.epoch:
                self.begin(epoch + 1)
                return self.latest
            return None
        if epoch != self.epoch:
            return None
        group = (kind, data[:96]) if kind == "part" else kind  # parts of one step
        self.heard[group][name] = data
        if len(self.heard[group]) < len(NAMES):
            return None
        everyone = {name: self.heard[group][name] for name in NAMES}
        names = {"announce": "announcements", "share": "shares", "end": "ends"}
        said = (
            ("total", add(list(everyone.values()))) if kind == "part" else (names[kind], everyone)
        )
        self.latest = said
        return said


def run(seed):
    """One run under a schedule of faults; how many faults there were."""
    chance, hospitals = random.Random(seed), {n: HospitalProcess(n, seed) for n in NAMES}
    coordinator, faults, pool = Coordinator(), 0, []

    def tell(said):
        pool.extend(("to", name, said[0], coordinator.epoch, said[1]) for name in NAMES)

    tell(coordinator.latest)
    for tick in range(LONGEST):
        if all(one.done for one in hospitals.values()):
            return faults
        noisy = tick < QUIET_AFTER and chance.random() < 0.15
        if noisy:
            faults += 1
            fault = chance.choice(["crash", "drop", "double", "forget"])
            if fault == "crash":
                hospitals[chance.choice(NAMES)].crash()
            elif fault == "forget":
                coordinator.forget()
            elif pool and fault == "drop":
                pool.pop(chance.randrange(len(pool)))
            elif pool:
                pool.append(chance.choice(pool))
        elif not pool:
            ask_again(coordinator, hospitals, tell, pool)
        else:
            deliver(pool.pop(chance.randrange(len(pool))), coordinator, hospitals, tell, pool)
    raise AssertionError(f"schedule {seed} did not end")


def ask_again(coordinator, hospitals, tell, pool):
    """Silence: say the last thing again, and ask for what may have been lost."""
    tell(coordinator.latest)
    tell(("again", b""))
    for name, one in hospitals.items():
        if one.session is None:
            pool.append(("from", name, "lost", max(one.epoch, coordinator.epoch), b""))
        elif one.session.epoch == coordinator.epoch and not one.session._over:
            if one.place == SUMS:
                pool.append(("from", name, "end", one.epoch, one.session.end()))
            for t in one.session._outbox:
                pool.append(("from", name, "part", one.epoch, one.session.again(t)))
            if not one.session._group and one.session.announced:
                pool.append(("from", name, "share", one.epoch, one.session._shares))


def deliver(message, coordinator, hospitals, tell, pool):
    way, name, kind, epoch, body = message
    if way == "to":
        answers = hospitals[name].handle(kind, epoch, body)
        pool.extend(("from", name, *answer) for answer in answers)
    else:
        said = coordinator.handle(name, kind, epoch, body)
        if said:
            tell(said)


@pytest.fixture
def masks(monkeypatch):
    """Every mask a hospital ever used, with what it hid."""
    used = defaultdict(set)
    real = field.sealed

    def sealed(numbers, tag_key, plus, minus):
        for way, keys in (("+", plus), ("-", minus)):
            for key in keys:
                used[way, key].add(numbers.tobytes())
        return real(numbers, tag_key, plus, minus)

    monkeypatch.setattr(blind.field, "sealed", sealed)
    return used


def check(seeds, masks):
    faults = [run(seed) for seed in seeds]
    assert sum(faults) > 10 * len(faults)
    assert len(masks) > 10 * len(faults)
    assert all(len(contents) == 1 for contents in masks.values())


def test_a_hundred_schedules_end_and_no_mask_hides_two_contents(masks):
    check(range(100), masks)


@pytest.mark.verify
def test_a_thousand_schedules_end_and_no_mask_hides_two_contents(masks):
    check(range(100, 1_100), masks)
