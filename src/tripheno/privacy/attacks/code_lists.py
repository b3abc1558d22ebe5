"""Which codes has a hospital? Dictionary and subtraction attacks on each alignment.

The attacker holds a public dictionary of codes. A claim is "hospital k has code c"; what counts is
how many of a hospital's codes are claimed rightly, and how many claims are wrong.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tripheno.exchange.channel import Responder
from tripheno.exchange.keys import from_seed
from tripheno.privacy.attacks.view import ServerView
from tripheno.solver.settings import SolverSettings
from tripheno.vocabulary.aligners import Aligner, AlignKind, People, TokenAligner, VocabularyAligner
from tripheno.vocabulary.polynomial import CODE_BYTES, PRIME, PolynomialHospital, pack, unpack
from tripheno.vocabulary.tokens import TOKEN_BYTES, Places, tokens_of

Lists = dict[str, dict[str, tuple[str, ...]]]
"""Hospital → mode → its codes."""

Claimed = dict[tuple[str, str], set[str]]
"""Hospital and mode → codes it is claimed to have."""

CAP = 11  # up to which people are counted in a public list's slots
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
    """What the server, and what another hospital, learns of the hospitals' code lists."""
    public = dictionary_of(lists)
    if kind == "polynomial":
        server, peer = _polynomial(lists, public, seed)
        return _count(server, lists), _count(peer, lists)
    people: dict[str, People] = {
        name: {mode: dict.fromkeys(codes, CAP) for mode, codes in modes.items()}
        for name, modes in lists.items()
    }
    aligner: Aligner = TokenAligner(seed)
    if kind == "vocabulary":
        aligner = VocabularyAligner(public, seed)
    sizes = {mode: len(codes) for mode, codes in public.items()}
    view = ServerView(SolverSettings(), tuple(lists), sizes, masked=True)
    aligner.guard = lambda name, respond: _overheard(view, name, respond)
    places = aligner.align(people)
    server = _opened_tokens(view, public) if kind == "tokens" else _opened_slots(view, public)
    return _count(server, lists), _count(_read_positions(places, lists, public), lists)


def _count(claimed: Mapping[tuple[str, str], set[str]], lists: Lists) -> Claims:
    right = wrong = of = 0
    for name, modes in lists.items():
        for mode, codes in modes.items():
            found = claimed.get((name, mode), set())
            right += len(found & set(codes))
            wrong += len(found - set(codes))
            of += len(codes)
    return Claims(right, wrong, of)


def _overheard(view: ServerView, name: str, respond: Responder) -> Responder:
    def answer(step: str, data: bytes) -> bytes:
        sent = respond(step, data)
        view.listen(step, name, data, sent)
        return sent

    return answer


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


def _opened_tokens(view: ServerView, public: Mapping[str, tuple[str, ...]]) -> Claimed:
    """The server tries every known code under every key it has seen or could guess."""
    claimed: Claimed = {}
    for mode, codes in public.items():
        tables = [_table(codes, tokens_of(key, mode, codes)) for key in _guessed_keys(view)]
        hashes = [hashlib.sha256(code.encode()).digest()[:TOKEN_BYTES] for code in codes]
        for step, name, _, answer in view.messages:
            if step == "tokens/list":
                block = bytes.fromhex(json.loads(answer)[mode])
                seen = {block[at : at + TOKEN_BYTES] for at in range(0, len(block), TOKEN_BYTES)}
                found = {
                    table[token]
                    for table in (*tables, _table(codes, hashes))
                    for token in seen & table.keys()
                }
                claimed[name, mode] = found
    return claimed


def _table(codes: Sequence[str], tokens: Sequence[bytes]) -> dict[bytes, str]:
    return dict(zip(tokens, codes, strict=True))


def _guessed_keys(view: ServerView) -> Iterator[bytes]:
    """No key, and whatever 32 bytes went past the server while hospitals agreed on theirs."""
    yield b""
    yield bytes(32)
    for step, _, _, answer in view.messages:
        if step.startswith(("keys/", "share/")) and answer:
            yield answer[:32]
            yield hashlib.sha256(answer).digest()
            yield hmac.digest(answer[:32], b"hospital key", "sha256")


def _read_positions(
    places: Mapping[str, Places], lists: Lists, public: Mapping[str, tuple[str, ...]]
) -> Claimed:
    """A hospital looks at where its codes stand: in the order of the codes, gaps name the others'.

    It holds the public dictionary. If its own positions rise with its codes, the codes between two
    of its own are those at the positions between; else it can claim nothing.
    """
    names = list(lists)
    claimed: Claimed = {}
    for k, name in enumerate(names):
        own, target = name, names[k - 1]
        for mode in lists[own]:
            order = np.argsort(np.array(lists[own][mode], dtype=object))
            at = places[own].positions[mode][order]
            ranks = np.argsort(np.argsort(at))
            rises = np.corrcoef(ranks, np.arange(len(at)))[0, 1] if len(at) > 2 else 0.0
            if rises > MONOTONE:
                claimed[target, mode] = _gaps(lists[own][mode], public[mode])
    return claimed


def _gaps(own: Sequence[str], public: Sequence[str]) -> set[str]:
    """Every code of the dictionary that is not its own: the best guess for what fills the gaps."""
    return {code for code in public if code not in set(own)}


# ── a public list ─────────────────────────────────────────────────────────────────────────────


def _opened_slots(view: ServerView, public: Mapping[str, tuple[str, ...]]) -> Claimed:
    """The server reads each hospital's counts as if unmasked, and slot n as the nth code."""
    claimed: Claimed = {}
    for name in view.hospitals:
        for step in view.answers:
            if not step.startswith("people"):
                continue
            seen = view.reading(step, name)
            for n, (mode, codes) in enumerate(public.items()):
                counts = seen[f"people.{n}"]
                there = (counts > 0.5) & (counts < CAP + 0.5)
                claimed[name, mode] = {codes[slot] for slot in np.flatnonzero(there)}
    return claimed
