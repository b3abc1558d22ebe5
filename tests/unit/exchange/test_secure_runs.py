"""Whole runs under secure sums: the same factors, and nothing of a hospital in what was sent."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tripheno.evaluation.simulation import share_out
from tripheno.exchange import InProcessChannel, secure
from tripheno.exchange.messages import Contribution
from tripheno.exchange.secure import HEAD, PROOF_BYTES
from tripheno.exchange.simulated import SecureSums
from tripheno.exchange.sums import Hospital
from tripheno.solver.fit import fit
from tripheno.solver.settings import SolverSettings
from tripheno.testing.planted import RANK, planted

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")

VERIFY = pytest.mark.verify


def federation(hospitals, skew=0.9, seed=1):
    return share_out(planted(seed).together, hospitals, skew, np.random.default_rng(seed))


@pytest.mark.parametrize("method", ["exact", "trip"])
@pytest.mark.parametrize(
    "hospitals", [3, 5, 10, pytest.param(20, marks=VERIFY), pytest.param(50, marks=VERIFY)]
)
def test_factors_under_secure_sums_are_those_of_plain_sums(hospitals, method):
    tensors = federation(hospitals)
    settings = SolverSettings(RANK, method, seed=1)
    plain, sealed = fit(tensors, settings), fit(tensors, settings, sums=SecureSums(0))
    assert sealed.iterations == plain.iterations
    for ours, theirs in zip(sealed.factors, plain.factors, strict=True):
        assert np.abs(ours - theirs).max() <= 1e-9 * np.abs(theirs).max()
    assert np.abs(sealed.weights / plain.weights - 1).max() <= 1e-9
    assert abs(sealed.objective / plain.objective - 1) <= 1e-9


def test_exact_under_secure_sums_equals_central():
    tensors = federation(3)
    settings = SolverSettings(RANK, "central", seed=1)
    central = fit(tensors, settings)
    exact = fit(tensors, replace(settings, method="exact"), sums=SecureSums(0))
    for ours, theirs in zip(exact.factors, central.factors, strict=True):
        assert np.abs(ours - theirs).max() < 1e-9


@pytest.mark.parametrize("variant", ["printed", "released"])
def test_the_papers_variants_run_under_secure_sums(variant):
    tensors = federation(3, skew=None)
    settings = SolverSettings(
        RANK, variant=variant, max_iter=5, consensus_penalty=1e3, split_penalty=1e3
    )
    plain, sealed = fit(tensors, settings), fit(tensors, settings, sums=SecureSums(0))
    for ours, theirs in zip(sealed.factors, plain.factors, strict=True):
        assert np.abs(ours - theirs).max() <= 1e-9 * np.abs(theirs).max()


@pytest.fixture(scope="module")
def run():
    """Every byte that went up in a whole `trip` run, and what hospitals had contributed."""
    sent, contributed, streams = [], [], []
    patch = pytest.MonkeyPatch()
    round_trip, respond, stream = InProcessChannel.round, Hospital.respond, secure.Streams.under

    def listening(channel, step, broadcast):
        answers = round_trip(channel, step, broadcast)
        sent.extend((step, name, answer) for name, answer in answers.items())
        return answers

    def remembering(hospital, step, data):
        handlers = {
            phase: lambda s, d, handle=handle: noted(hospital.name, handle(s, d))
            for phase, handle in hospital.handlers.items()
        }
        return respond(replace(hospital, handlers=handlers), step, data)

    def noted(name, answer):
        if isinstance(answer, Contribution):
            contributed.append((name, answer.arrays()))
        return answer

    def streaming(self, secret, info):
        words = stream(self, secret, info)
        streams.append((secret, info, len(words)))
        return words

    patch.setattr(InProcessChannel, "round", listening)
    patch.setattr(Hospital, "respond", remembering)
    patch.setattr(secure.Streams, "under", streaming)
    tensors = planted(1).hospitals
    solution = fit(tensors, SolverSettings(RANK, seed=1, max_iter=12), sums=SecureSums(3))
    patch.undo()
    return sent, contributed, streams, tensors, solution


def eights(data):
    """Every run of eight bytes, wherever it starts, as numbers in order."""
    runs = [
        np.frombuffer(data, "<u8", (len(data) - start) // 8, offset=start) for start in range(8)
    ]
    return np.unique(np.concatenate(runs))


def found(numbers, kind, haystack):
    """Which of these numbers, as eight bytes of a kind, occur in a haystack of eights."""
    words = np.asarray(numbers, dtype=kind).view("<u8")
    place = np.minimum(np.searchsorted(haystack, words), len(haystack) - 1)
    return np.asarray(numbers)[haystack[place] == words]


def test_no_contribution_can_be_found_in_what_the_server_received(run):
    sent, contributed, _, _, _ = run
    haystack = eights(b"".join(data for _, _, data in sent))
    assert len(contributed) > 100
    for _, arrays in contributed:
        flat = np.concatenate([array.ravel() for array in arrays.values()])
        assert not found(flat[(flat != 0.0) & (flat != 1.0)], "<f8", haystack).size


def test_no_fixed_point_word_of_a_contribution_can_be_found(run):
    sent, contributed, _, _, _ = run
    words = np.concatenate(
        [np.frombuffer(d[HEAD.size : -PROOF_BYTES], "<u8") for s, _, d in sent if masked(s, d)]
    )
    known = set(words.tolist())
    for _, arrays in contributed[:60]:
        flat = np.concatenate([array.ravel() for array in arrays.values()])
        for power in range(0, 62, 2):
            scaled = np.rint(flat * 2.0**power)
            scaled = scaled[(np.abs(scaled) < 2.0**62) & (np.abs(scaled) > 2.0**32)]
            assert known.isdisjoint(scaled.astype(np.int64).view(np.uint64).tolist())


def masked(step, data):
    return not step.startswith("keys/") and bool(data)


def test_no_code_patient_count_or_factor_can_be_found(run):
    sent, _, _, tensors, solution = run
    everything = b"".join(data for _, _, data in sent)
    codes = [code for axis in solution.axes for code in axis.codes if len(code) > 4]
    assert len(codes) > 20
    assert not [code for code in codes if code.encode() in everything]
    haystack = eights(everything)
    for tensor in tensors.values():
        counts = [float(tensor.patients), float(tensor.nonzeros), tensor.squared_norm]
        assert not found(counts, "<f8", haystack).size
        assert not found([int(count) for count in counts], "<i8", haystack).size
    for factor in (*solution.factors, *solution.patient_factors.values()):
        assert not found(factor[factor != 0.0], "<f8", haystack).size


def test_what_was_sent_looks_like_noise(run):
    """χ² of bytes and of bits over everything masked; chance fails less than once in 10⁶."""
    sent, _, _, tensors, _ = run
    for name in tensors:
        body = b"".join(
            data[HEAD.size : -PROOF_BYTES]
            for step, who, data in sent
            if who == name and masked(step, data)
        )
        seen = np.bincount(np.frombuffer(body, np.uint8), minlength=256)
        expected = len(body) / 256
        chi = ((seen - expected) ** 2 / expected).sum()
        assert abs(chi - 255) < 5 * np.sqrt(2 * 255)
        words = np.frombuffer(body, "<u8")
        bits = np.unpackbits(np.frombuffer(body, np.uint8).reshape(len(words), 8), axis=1)
        assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(len(words))
        assert len(np.unique(words)) == len(words)


def test_two_hospitals_messages_are_not_alike(run):
    sent, _, _, _, _ = run
    steps = itertools.groupby(sent, key=lambda item: item[0])
    for step, items in steps:
        bodies = [np.frombuffer(d[HEAD.size : -PROOF_BYTES], "<u8") for _, _, d in items if d]
        if step.startswith("keys/"):
            continue
        for a, b in itertools.combinations(bodies, 2):
            assert not (a == b).any()
            assert not (a == -b).any()


def test_no_mask_is_used_twice(run):
    """Each stream is made at both of its hospitals, once each; noise of an overflow only once."""
    _, _, streams, _, _ = run
    made = {}
    for secret, info, words in streams:
        made.setdefault((secret, info), []).append(words)
    assert len(made) > 300
    assert max(len(uses) for uses in made.values()) == 2
    assert len({info for _, info in made}) > 100


def test_every_restart_has_keys_of_its_own():
    tensors = planted(1).hospitals
    rosters, sums = [], SecureSums(3)

    def make(hospitals):
        halves, server = sums(hospitals)
        rosters.append(server.roster)
        return halves, server

    fit(tensors, SolverSettings(RANK, "exact", max_iter=2, restarts=3), sums=make)
    assert len({roster.digest for roster in rosters}) == 3
    assert len({key for roster in rosters for _, key in roster.members}) == 9
