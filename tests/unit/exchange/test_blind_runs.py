"""Whole runs under blind sums: the same factors, and nothing in what the coordinator received."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from kit.planted import RANK, planted
from tripheno.evaluation.comparison import share_out
from tripheno.exchange import blind, communicator
from tripheno.exchange.session import HEAD
from tripheno.lab.attacks.view import watched_run
from tripheno.solver.fit import fit
from tripheno.solver.messages import Totals
from tripheno.solver.settings import SolverSettings
from tripheno.study.makers import Maker

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")

VERIFY = pytest.mark.verify


def shared(hospitals, skew=0.9, seed=1):
    return share_out(planted(seed).together, hospitals, skew, np.random.default_rng(seed))


def blindly(tensors, settings):
    return fit(tensors, settings, Maker("blind")(tuple(tensors)))


@pytest.mark.parametrize("method", ["exact", "trip"])
@pytest.mark.parametrize("hospitals", [3, 5, pytest.param(20, marks=VERIFY)])
def test_factors_under_blind_sums_are_those_of_sums_in_clear(hospitals, method):
    tensors = shared(hospitals)
    settings = SolverSettings(RANK, method, seed=1)
    plain, sealed = fit(tensors, settings), blindly(tensors, settings)
    assert sealed.iterations == plain.iterations
    for ours, theirs in zip(sealed.factors, plain.factors, strict=True):
        assert np.abs(ours - theirs).max() <= 1e-9 * np.abs(theirs).max()
    assert np.abs(sealed.weights / plain.weights - 1).max() <= 1e-9
    assert abs(sealed.objective / plain.objective - 1) <= 1e-9


def test_exact_under_blind_sums_equals_central():
    tensors = shared(3)
    settings = SolverSettings(RANK, "central", seed=1)
    central = fit(tensors, settings)
    exact = blindly(tensors, replace(settings, method="exact"))
    for ours, theirs in zip(exact.factors, central.factors, strict=True):
        assert np.abs(ours - theirs).max() < 1e-9


@pytest.mark.parametrize("variant", ["printed", "released"])
def test_the_papers_variants_run_under_blind_sums(variant):
    tensors = shared(3, skew=None)
    settings = SolverSettings(
        RANK, "trip", variant, max_iter=5, consensus_penalty=1e3, split_penalty=1e3
    )
    plain, sealed = fit(tensors, settings), blindly(tensors, settings)
    for ours, theirs in zip(sealed.factors, plain.factors, strict=True):
        assert np.abs(ours - theirs).max() <= 1e-9 * np.abs(theirs).max()


@pytest.fixture(scope="module")
def run():
    """Every byte the coordinator received and made in a run of `trip`, and who masked with what."""
    masks, mask = [], blind.field.sealed

    def noting(numbers, tag, plus, minus):
        masks.append((len(numbers), *plus, *minus))
        return mask(numbers, tag, plus, minus)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blind.field, "sealed", noting)
        settings = SolverSettings(RANK, "trip", seed=1, max_iter=12)
        view = watched_run(planted(1).hospitals, settings, "blind")
    return view, masks


def everything(view):
    return b"".join(answer + part for _, _, answer, part in view.messages)


def bodies(view, of):
    """Masked words by step, of every sum."""
    found = {}
    for step, name, answer, part in view.messages:
        data = {"part": part, "answer": answer}[of]
        if data[:4] == blind.BlindSession.magic:
            count = HEAD.unpack_from(data)[-1]
            found.setdefault(step, {})[name] = np.frombuffer(data[-8 * count :], "<u8")
    return found


def eights(data):
    """Every run of eight bytes, wherever it starts, as numbers in order."""
    runs = [
        np.frombuffer(data, "<u8", (len(data) - start) // 8, offset=start) for start in range(8)
    ]
    return np.unique(np.concatenate(runs))


def found(values, kind, haystack):
    """Which of these numbers, as eight bytes of a kind, occur in a haystack of eights."""
    words = np.asarray(values, dtype=kind).view("<u8")
    place = np.minimum(np.searchsorted(haystack, words), len(haystack) - 1)
    return np.asarray(values)[haystack[place] == words]


def test_no_contribution_and_no_total_can_be_found_at_the_coordinator(run):
    view, _ = run
    haystack = eights(everything(view))
    # a small whole number is six zero bytes and two more, as heads have them: sought in the words
    words = [w for of in ("part", "answer") for s in bodies(view, of).values() for w in s.values()]
    masked = np.unique(np.concatenate(words))
    known = [*view.tap.totals.values()]
    known += [arrays for parts in view.tap.contributed.values() for arrays in parts.values()]
    assert len(known) > 80
    for arrays in known:
        flat = np.concatenate([np.ravel(array) for array in arrays.values()])
        small = (flat == np.rint(flat)) & (np.abs(flat) < 4096)
        assert not found(flat[~small], "<f8", haystack).size
        assert not found(flat[small], "<f8", masked).size


def test_no_whole_number_of_a_contribution_or_a_total_can_be_found(run):
    view, _ = run
    words = [w for of in ("part", "answer") for s in bodies(view, of).values() for w in s.values()]
    seen = set(np.concatenate(words).tolist())
    for step, (layout, exponents) in list(view.tap.scaled.items())[:40]:
        for arrays in (*view.tap.contributed[step].values(), view.tap.totals[step]):
            flat = np.concatenate([np.ravel(array) for array in arrays.values()])
            for power in range(0, 60, 2):
                scaled = np.rint(flat * 2.0**power)
                scaled = scaled[(np.abs(scaled) < 2.0**60) & (np.abs(scaled) > 2.0**32)]
                assert seen.isdisjoint(blind.field.into_field(scaled.astype("<i8")).tolist())
        assert layout.lanes == len(exponents)


def test_no_code_count_factor_or_scale_can_be_found(run):
    view, _ = run
    sent = everything(view)
    codes = [code for axis in view.axes for code in axis.known.values() if len(code) > 4]
    assert len(codes) > 20
    assert not [code for code in codes if code.encode() in sent]
    haystack = eights(sent)
    for tensor in planted(1).hospitals.values():
        counts = [float(tensor.patients), float(tensor.nonzeros), tensor.squared_norm]
        assert not found(counts, "<f8", haystack).size
        assert not found([int(count) for count in counts], "<i8", haystack).size
    for factor in view.snapshots[-1].factors:
        assert not found(factor[factor != 0.0], "<f8", haystack).size
    for _, exponents in view.tap.scaled.values():
        assert exponents.size < 8 or exponents.tobytes() not in sent


@pytest.mark.parametrize("of", ["part", "answer"])
def test_what_was_sent_and_what_was_added_up_look_like_noise(run, of):
    """χ² of the words' 60 low bits as bytes, and of bits; chance fails less than once in 10⁶."""
    view, _ = run
    for name in view.hospitals:
        words = np.concatenate([one[name] for one in bodies(view, of).values()])
        assert len(np.unique(words)) == len(words)
        bits = np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")[:, :61]
        assert np.abs(bits.mean(axis=0) - 0.5).max() < 5.5 * 0.5 / np.sqrt(len(words))
        seen = np.bincount(words.view(np.uint8).reshape(-1, 8)[:, :7].ravel(), minlength=256)
        expected = seen.sum() / 256
        assert abs(((seen - expected) ** 2 / expected).sum() - 255) < 5 * np.sqrt(2 * 255)


def test_two_hospitals_messages_are_not_alike(run):
    for parts in bodies(run[0], "part").values():
        for a, b in itertools.combinations(parts.values(), 2):
            assert not (a == b).any()
            assert not (a == blind.field.P - b).any()


def test_no_mask_is_used_twice(run):
    """Each pair's mask is made at both of its hospitals, once each; the blind at the first only."""
    uses = {}
    for _, *keys in run[1]:
        for key in keys:
            uses[key] = uses.get(key, 0) + 1
    assert len(uses) > 100
    assert set(uses.values()) == {1, 2}
    assert sum(n == 1 for n in uses.values()) == len(run[1]) // 3


def test_every_federation_of_one_maker_has_keys_of_its_own():
    maker = Maker("blind", 3)
    names = tuple(planted(1).hospitals)
    made = [maker(names) for _ in range(3)]
    assert len({local.session.h for one in made for local in one.local_hospitals.values()}) == 3
    keys = {
        m.public
        for one in made
        for m in next(iter(one.local_hospitals.values())).session.roster.members
    }
    assert len(keys) == 9


def test_a_hospital_that_lies_makes_the_total_it_wants_alone(monkeypatch):
    """No coordinator helps: it says that a number did not fit, and answers in the repeat.

    What it can read then is an attack in `lab/attacks/peers.py`, and stands on the privacy page.
    """
    federation = Maker("blind")(("a", "b", "liar"))
    liar, real = federation.local_hospitals["liar"], communicator.encode
    wanted, heard, said = np.array([3.0, 1.0, 4.0]), [], []

    def lying(layout, flat, exponents, hospitals, noise):
        words = real(layout, flat, exponents, hospitals, noise)
        if noise is not liar.noise:
            return words
        if not heard:
            words[layout.size :] = 1
            said.append((words, exponents))
            return words
        before, scale = said[0]
        theirs = communicator.decode(layout, heard[0] - before, scale, hospitals)
        return real(layout, wanted - layout.flat(theirs), exponents, hospitals, noise)

    opening = liar.session.open
    monkeypatch.setattr(
        liar.session, "open", lambda total: heard.append(opening(total)) or heard[-1]
    )
    monkeypatch.setattr(communicator, "encode", lying)
    total = federation.sum("totals", lambda name: Totals(float(len(name)), 70.0, 90.0)).value
    assert np.allclose([total.nonzeros, total.null_loss, total.patients], wanted, rtol=1e-9)
    assert len(heard) == 2
