"""Which codes has a hospital? Dictionary and subtraction attacks on each alignment.

The attacker holds a public dictionary of codes. A claim is "hospital k has code c"; what counts is
how many of a hospital's codes are claimed rightly, and how many claims are wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tripheno.exchange.keys import from_seed
from tripheno.exchange.roster import FEWEST
from tripheno.lab.attacks.view import View
from tripheno.study.alignment import align
from tripheno.tensor.count_tensor import CountTensor
from tripheno.vocabulary.alignment import AlignKind
from tripheno.vocabulary.axis import Axis
from tripheno.vocabulary.polynomial import CODE_BYTES, PRIME, PolynomialHospital, pack, unpack
from tripheno.vocabulary.secret_tokens import POINT_BYTES, exponent_of, hide, point_of

Lists = dict[str, dict[str, tuple[str, ...]]]
"""Hospital → mode → its codes."""

Claimed = dict[tuple[str, str], set[str]]
"""Hospital and mode → codes it is claimed to have."""

STUDY = b"attack"
COUNT = "people/0"  # the first step in which people are counted
MONOTONE = 0.9  # rank correlation from which positions follow the order of the codes


@dataclass(frozen=True)
class Claims:
    """Rightly claimed codes, wrong claims, and how many codes there were to find."""

    right: int
    wrong: int
    of: int

    @property
    def share(self) -> float:
        """Of the hospitals' codes, how many were found."""
        return self.right / max(self.of, 1)


def dictionary_of(lists: Lists, decoys: int = 2) -> dict[str, tuple[str, ...]]:
    """A public list: every code anybody has, among ``decoys`` times as many that nobody has."""
    found: dict[str, tuple[str, ...]] = {}
    for mode in next(iter(lists.values())):
        real = sorted({code for modes in lists.values() for code in modes[mode]})
        fake = [f"{code}~{n}" for code in real for n in range(decoys)]
        found[mode] = tuple(sorted((*real, *fake)))
    return found


def attack_alignment(kind: AlignKind, lists: Lists, seed: int) -> tuple[Claims, Claims]:
    """What the coordinator, and what another hospital, learns of the hospitals' code lists."""
    public = dictionary_of(lists)
    if kind == "polynomial":
        server, peer = _polynomial(lists, public, seed)
        return _count(server, lists), _count(peer, lists)
    names = tuple(sorted(lists))
    view = View(names, "blind" if len(names) >= FEWEST else "plain", seed)
    own = {name: _one_with_all(lists[name]) for name in names}
    secret = from_seed(seed, "attack/tokens")
    aligned = align(view.tap, own, kind, lists=public, study=STUDY, secrets=secret, entropy=secret)
    if kind == "vocabulary":
        return (
            _count(_opened_slots(view, public), lists),
            _count(_counts_less_own(view, public), lists),
        )
    places = {
        name: {axis.mode: axis.known for axis in tensor.axes}
        for name, tensor in aligned.tensors.items()
    }
    own_part = exponent_of(secret(names[0]), STUDY)
    coordinator = _opened_tokens(view, public, own_part)
    return _count(coordinator, lists), _count(_read_positions(places, lists, public), lists)


def _one_with_all(lists: Mapping[str, Sequence[str]]) -> CountTensor:
    """A hospital of one patient who has every code of its lists."""
    longest = max(map(len, lists.values()))
    columns = [np.minimum(np.arange(longest), len(codes) - 1) for codes in lists.values()]
    axes = [Axis(mode, len(codes), tuple(codes)) for mode, codes in lists.items()]
    cells = np.column_stack([np.zeros(longest, dtype=np.int64), *columns])
    return CountTensor.from_cells(cells, np.ones(longest), axes=axes)


def _count(claimed: Mapping[tuple[str, str], set[str]], lists: Lists) -> Claims:
    right = wrong = of = 0
    for name, modes in lists.items():
        for mode, codes in modes.items():
            found = claimed.get((name, mode), set())
            right += len(found & set(codes))
            wrong += len(found - set(codes))
            of += len(codes)
    return Claims(right, wrong, of)


# ── the paper's polynomials ───────────────────────────────────────────────────────────────────


def _polynomial(
    lists: Lists, public: Mapping[str, tuple[str, ...]], seed: int
) -> tuple[Claimed, Claimed]:
    """The server finds the zeros of f_k among all known codes; a peer those of (f_k + f_k') − f_k'.

    The factor (y − α) has its zero outside the codes and is in nobody's way.
    """
    server: Claimed = {}
    peer: Claimed = {}
    names = list(lists)
    for mode, codes in public.items():
        guess = PolynomialHospital(codes, alpha=0)
        sent = {
            name: PolynomialHospital(lists[name][mode], _alpha(seed, name)).polynomial()
            for name in names
        }
        for k, name in enumerate(names):
            server[name, mode] = _zeros(guess, codes, sent[name])
            own = guess.make(unpack(sent[names[k - 1]]))
            together = guess.make(unpack(sent[name])) + own
            peer[name, mode] = _zeros(guess, codes, pack(together - own))
    return server, peer


def _zeros(guess: PolynomialHospital, codes: Sequence[str], polynomial: bytes) -> set[str]:
    zeros = guess.zeros_of(polynomial)
    return {code for code, zero in zip(codes, zeros, strict=True) if zero}


def _alpha(seed: int, name: str) -> int:
    lowest = 1 << (8 * CODE_BYTES)
    drawn = int.from_bytes(from_seed(seed, f"attack/{name}")("alpha"), "big")
    return lowest + drawn % (PRIME - lowest)


# ── tokens ────────────────────────────────────────────────────────────────────────────────────


def _opened_tokens(view: View, public: Mapping[str, tuple[str, ...]], own: int) -> Claimed:
    """The coordinator tries every known code under every exponent it has or could guess.

    It is given one hospital's exponent, as if the two worked together.
    """
    claimed: Claimed = {}
    for mode, codes in public.items():
        points = [point_of(STUDY, mode, code) for code in codes]
        tables = [dict(zip(points, codes, strict=True))]
        for exponent in (own, *_guessed(view)):
            hidden = hide(exponent, points, where=mode)
            tables.append(dict(zip(hidden, codes, strict=True)))
        for step, name, _, sent in view.messages:
            if step == f"tokens/{mode}":
                seen = {sent[n : n + POINT_BYTES] for n in range(0, len(sent), POINT_BYTES)}
                found = {table[x] for table in tables for x in seen & table.keys()}
                claimed[name, mode] = found
    return claimed


def _guessed(view: View) -> Iterator[int]:
    """Exponents from no secret, and from what went past while hospitals agreed on keys."""
    yield exponent_of(bytes(32), STUDY)
    for step, _, _, sent in view.messages:
        if step in ("announce", "shares"):
            yield exponent_of(hashlib.sha256(sent).digest(), STUDY)


Places = Mapping[str, Mapping[str, Mapping[int, str]]]
"""Hospital → mode → position → its own code there."""


def _read_positions(places: Places, lists: Lists, public: Mapping[str, Sequence[str]]) -> Claimed:
    """A hospital looks at where its codes stand: in the order of the codes, gaps name the others'.

    It holds the public dictionary. If its own positions rise with its codes, the codes between two
    of its own are those at the positions between; else it can claim nothing.
    """
    names = list(lists)
    claimed: Claimed = {}
    for k, name in enumerate(names):
        for mode in lists[name]:
            known = places[name][mode]
            order = np.argsort(np.array([known[at] for at in sorted(known)], dtype=object))
            rises = np.corrcoef(order, np.arange(len(order)))[0, 1] if len(order) > 2 else 0.0
            if rises > MONOTONE:
                claimed[names[k - 1], mode] = set(public[mode]) - set(known.values())
    return claimed


# ── a public list ─────────────────────────────────────────────────────────────────────────────


def _opened_slots(view: View, public: Mapping[str, tuple[str, ...]]) -> Claimed:
    """The coordinator reads each hospital's counts as if unmasked, and slot n as the nth code."""
    return {
        (name, mode): _codes_at(codes, view.reading(COUNT, name)[f"people.{n}"], 1.0)
        for name in view.hospitals
        for n, (mode, codes) in enumerate(public.items())
    }


def _counts_less_own(view: View, public: Mapping[str, tuple[str, ...]]) -> Claimed:
    """A hospital takes its own counts off: where all others count, the one it looks at does too."""
    claimed: Claimed = {}
    total, others = view.tap.totals[COUNT], len(view.hospitals) - 1.0
    for k, name in enumerate(view.hospitals):
        own = view.tap.contributed[COUNT][name]
        for n, (mode, codes) in enumerate(public.items()):
            left = total[f"people.{n}"] - own[f"people.{n}"]
            claimed[view.hospitals[k - 1], mode] = _codes_at(codes, left, others)
    return claimed


def _codes_at(codes: Sequence[str], counts: np.ndarray, count: float) -> set[str]:
    return {codes[slot] for slot in np.flatnonzero(np.abs(counts - count) < 0.5).tolist()}
