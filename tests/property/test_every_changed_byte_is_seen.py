"""A small study of blind sums with one byte changed on its way, in either direction."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import small_study
from kit.sessions import NAMES, SNAPSHOT, THRESHOLDS, blind_session, roster_of
from tripheno.errors import BadMessage, TriphenoError
from tripheno.exchange.communicator import (
    Communicator,
    InProcess,
    LocalHospital,
    OpenGatekeeper,
)
from tripheno.exchange.keys import from_seed
from tripheno.exchange.session import add
from tripheno.study.program import Hospital, RunContext, Study, conduct
from tripheno.study.store import RunStore

ROSTER = roster_of()
FEW, MANY = 500, 6_000
STEPS = ("count", "fit/0/1")
NEVER_BINDING = ("labels",)  # names in clear, after the release


class Wire:
    """Carries every message; changes one byte of one of them."""

    def __init__(self, message=-1, place=0, flip=1):
        self.message, self.place, self.flip, self.sizes = message, place, flip, []

    def __call__(self, data):
        self.sizes.append(len(data))
        if len(self.sizes) - 1 != self.message:
            return data
        changed = bytearray(data)
        changed[int(self.place * len(data))] ^= self.flip
        return bytes(changed)


def study(wire):
    """Totals of every hospital, if all of them come to the end."""
    sessions = {name: blind_session(name, ROSTER) for name in NAMES}

    def to_all(said):
        return {name: {n: wire(data) for n, data in said.items()} for name in NAMES}

    said = {n: wire(s.announce(SNAPSHOT, THRESHOLDS, ())) for n, s in sessions.items()}
    told = to_all(said)
    shares = {n: wire(s.meet(told[n])) for n, s in sessions.items()}
    told = to_all(shares)
    for name, session in sessions.items():
        session.take_shares(told[name])
    total = add([wire(session.confirm()) for session in sessions.values()])
    for session in sessions.values():
        session.check_confirm(wire(total))
    found = []
    for step in STEPS:
        parts = [wire(s.seal(step, np.arange(4), b"", b"")) for s in sessions.values()]
        total = add(parts)
        found += [session.open(wire(total)).tolist() for session in sessions.values()]
    told = to_all({name: wire(session.end()) for name, session in sessions.items()})
    for name, session in sessions.items():
        session.check_end(told[name])
    return found


QUIET = Wire()
EXPECTED = study(QUIET)
changes = st.tuples(
    st.integers(0, len(QUIET.sizes) - 1),
    st.floats(0, 1, exclude_max=True),
    st.integers(1, 255),
)


def test_without_a_change_every_hospital_has_every_total():
    assert [[0, 3, 6, 9]] * (len(NAMES) * len(STEPS)) == EXPECTED


@settings(max_examples=FEW, deadline=None)
@given(changes)
def test_a_changed_byte_is_seen(change):
    with pytest.raises(TriphenoError):
        study(Wire(*change))


@pytest.mark.verify
@settings(max_examples=MANY, deadline=None)
@given(changes)
def test_a_changed_byte_is_seen_in_thousands_of_studies(change):
    with pytest.raises(TriphenoError):
        study(Wire(*change))


# ── a whole study: alignment, fit, evidence, end, release ─────────────────────────────────────


def changed(data, rng):
    found = bytearray(data)
    found[rng.randrange(len(data))] ^= rng.randint(1, 255)
    return bytes(found)


def twin(session):
    """A session of the same state, to be spoilt."""
    other = copy.copy(session)
    other._outbox, other._boxes = dict(session._outbox), dict(session._boxes)
    return other


class Tampering(Communicator):
    """At every sum, copies of the hospitals get it with one byte changed, up or down.

    Other messages are changed for good, one of them in a run: what comes of it is seen later.
    """

    def __init__(self, names, samples, spoilt=-1, seed=0):
        super().__init__(
            names, {name: LocalHospital(None, OpenGatekeeper()) for name in names}, InProcess()
        )
        self.samples, self.spoilt, self.random = samples, spoilt, random.Random(seed)
        self.tried, self.unseen, self.others = 0, [], []

    def _exchange(self, how, step, sent):
        if how == "sum":
            self._try(step, dict(sent))
            return super()._exchange(how, step, sent)
        if how == "release":
            return super()._exchange(how, step, sent)
        down = self.random.random() < 0.5
        self.others.append(step)
        if len(self.others) - 1 != self.spoilt:
            return super()._exchange(how, step, sent)
        if not down:
            name = self.random.choice([name for name in sent if sent[name]])
            return super()._exchange(how, step, {**sent, name: changed(sent[name], self.random)})
        return changed(super()._exchange(how, step, sent), self.random)

    def _try(self, step, sent):
        total = add(list(sent.values()))
        for name, local in self.local_hospitals.items():
            for _ in range(self.samples):
                self._seen(f"{step} to {name}", [local], changed(total, self.random))
                part = changed(sent[name], self.random)
                self.tried += 1
                try:
                    other = add(list({**sent, name: part}.values()))
                except TriphenoError:
                    continue
                self.tried -= 1
                self._seen(f"{step} from {name}", self.local_hospitals.values(), other)

    def _seen(self, what, local_hospitals, total):
        self.tried += 1
        for local in local_hospitals:
            try:
                twin(local.session).open(total)
            except TriphenoError:
                continue
            self.unseen.append(what)


def conducted(folder, federation):
    protocol = small_study.protocol(alignment="tokens")
    hospitals = {
        name: Hospital(identity, from_seed(9, name)("tokens"))
        for name, identity in small_study.identities().items()
    }
    occasion = RunContext("run-1", 1)
    tensors = small_study.tensors()
    return conduct(Study(protocol, tensors, hospitals, federation, occasion, RunStore(folder)))


NAMES_OF_THE_STUDY = tuple(sorted(small_study.NAMES))


@pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")
@pytest.mark.parametrize(
    ("samples", "least"), [(2, 600), pytest.param(25, 5_000, marks=pytest.mark.verify)]
)
def test_a_changed_byte_of_any_sum_of_a_whole_study_is_seen(tmp_path, samples, least):
    federation = Tampering(NAMES_OF_THE_STUDY, samples)
    conducted(tmp_path, federation)
    assert federation.unseen == []
    assert federation.tried >= least


@pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.verify) for n in range(1, 20))]
)
def test_a_changed_byte_of_any_other_message_of_a_whole_study_is_seen(tmp_path, seed):
    quiet = Tampering(NAMES_OF_THE_STUDY, 0)
    conducted(tmp_path / "quiet", quiet)
    kinds = [n for n, step in enumerate(quiet.others) if step not in NEVER_BINDING]
    assert len(kinds) >= 8
    for n in kinds:
        with pytest.raises(TriphenoError):
            conducted(tmp_path / str(n), Tampering(NAMES_OF_THE_STUDY, 0, n, seed))


class SharedTokenChanged(Tampering):
    """Changes a token that another hospital sends too: every hospital's own are in the union."""

    def _exchange(self, how, step, sent):
        if how == "unite":
            lists = {n: [d[i : i + 32] for i in range(0, len(d), 32)] for n, d in sent.items()}
            first, *others = lists
            both = next(t for t in lists[first] if any(t in lists[n] for n in others))
            sent = {**sent, first: sent[first].replace(both, changed(both, self.random))}
        return super()._exchange(how, step, sent)


@pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")
def test_a_changed_token_is_seen_where_another_hospital_sent_it_too(tmp_path):
    with pytest.raises(BadMessage, match="no hospital sent"):
        conducted(tmp_path, SharedTokenChanged(NAMES_OF_THE_STUDY, 0))
