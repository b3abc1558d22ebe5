"""The seed paper's alignment by polynomials: complete and correct, and **not secure**.

Hospital k writes its codes as integers y and sends f_k(y) = (y − α)·Π(y − y_i) modulo a prime P.
The server adds polynomials in pairs; hospital k evaluates f_k + f_k' at its own codes, and a zero
means that k' has the code too. From that every hospital knows in which *cell* (set of hospitals)
each of its codes lies, the server collects the cells' sizes, and codes are ordered by cell, then by
integer.

A server that tries every known code finds each hospital's list, and a hospital that subtracts its
own polynomial reads its peer's: the term (y − α) hides nothing. It is kept for study and
comparison. Where the paper is followed freely: P has 61 bits and α lies outside the range of codes
(with P just above the largest code, α can collide with one), and of the 2ᴷ − 1 cells only those
with a code in them are named.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tripheno.errors import BadMessage, BadShape, Insecure, InsecureRefused, SettingsError
from tripheno.exchange.keys import from_seed
from tripheno.vocabulary.alignment import People, Places

PRIME = 2**61 - 1
CODE_BYTES = 7  # codes are integers below 2⁵⁶, α above

Cells = dict[int, int]
"""Which hospitals (as bits) → how many codes exactly they have in common."""


def integer_of(code: str) -> int:
    """The integer of a code, the same at every hospital."""
    return int.from_bytes(hashlib.blake2b(code.encode(), digest_size=CODE_BYTES).digest(), "big")


def _polynomials() -> Callable[[list[int]], Any]:
    """A maker of polynomials modulo P from their coefficients."""
    try:
        from flint import nmod_poly  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise SettingsError(
            "polynomial alignment needs python-flint", fix="pip install 'tripheno[polynomial]'"
        ) from None
    return lambda coefficients: nmod_poly(coefficients, PRIME)


class PolynomialHospital:
    """A hospital's side, for one mode."""

    def __init__(self, codes: tuple[str, ...], alpha: int) -> None:
        self.make = _polynomials()
        self.integers = [integer_of(code) for code in codes]
        if len(set(self.integers)) != len(codes):
            raise BadShape("two codes have the same integer")
        self.tree = self._products()
        self.alpha = alpha
        self.cell_of: list[int] = []

    def _products(self) -> list[list[Any]]:
        """Π(y − y_i) by halves: leaves first, the whole product last."""
        levels = [[self.make([PRIME - y, 1]) for y in self.integers] or [self.make([1])]]
        while len(levels[-1]) > 1:
            below = levels[-1]
            pairs = [below[n] * below[n + 1] for n in range(0, len(below) - 1, 2)]
            levels.append(pairs + below[len(below) // 2 * 2 :])
        return levels

    def polynomial(self) -> bytes:
        """f_k, as coefficients: what the server receives."""
        return pack(self.tree[-1][0] * self.make([PRIME - self.alpha, 1]))

    def zeros_of(self, data: bytes) -> list[bool]:
        """At which of its own codes a polynomial is zero, by remainders down the tree."""
        remainders = [self.make(unpack(data)) % self.tree[-1][0]]
        for level in reversed(self.tree[:-1]):
            remainders = [remainders[n // 2] % node for n, node in enumerate(level)]
        return [not rest.coeffs() for rest in remainders[: len(self.integers)]]

    def cells(self, own: int, sums: Mapping[int, bytes]) -> Cells:
        """The sizes of the cells it has codes in, from the sums with every other hospital."""
        self.cell_of = [1 << own] * len(self.integers)
        for other, data in sums.items():
            for n, shared in enumerate(self.zeros_of(data)):
                self.cell_of[n] |= shared << other
        found: Cells = {}
        for cell in self.cell_of:
            found[cell] = found.get(cell, 0) + 1
        return found

    def positions(self, sizes: Cells) -> np.ndarray:
        """Where its codes stand: cells in a common order, integers within a cell."""
        starts, at = {}, 0
        for cell in sorted(sizes, reverse=True):
            starts[cell], at = at, at + sizes[cell]
        place = np.empty(len(self.integers), dtype=np.int64)
        for n in sorted(range(len(self.integers)), key=self.integers.__getitem__):
            place[n] = starts[self.cell_of[n]]
            starts[self.cell_of[n]] += 1
        return place


class PolynomialServer:
    """The server's side, for one mode: it holds every polynomial, and with it every list."""

    def __init__(self, received: list[bytes]) -> None:
        make = _polynomials()
        self.received = [make(unpack(data)) for data in received]

    def sums(self, hospital: int) -> dict[int, bytes]:
        """f_k + f_k' for every other k'."""
        own = self.received[hospital]
        others = ((n, f) for n, f in enumerate(self.received) if n != hospital)
        return {n: pack(own + f) for n, f in others}

    def sizes(self, reported: list[Cells]) -> Cells:
        """All cells with a code in them; every member of a cell must report the same size."""
        found: Cells = {}
        for k, cells in enumerate(reported):
            for cell, size in cells.items():
                if not cell >> k & 1 or found.setdefault(cell, size) != size:
                    raise BadMessage("hospitals report different sizes of a cell")
        for cell, size in found.items():
            members = (k for k in range(len(reported)) if cell >> k & 1)
            if any(reported[k].get(cell) != size for k in members):
                raise BadMessage("a hospital does not report a cell it shares")
        return found


def pack(polynomial: Any) -> bytes:
    """Coefficients as 64-bit words, lowest power first."""
    return np.array([int(c) for c in polynomial.coeffs()], dtype="<u8").tobytes()


def unpack(data: bytes) -> list[int]:
    """Coefficients below P, or a refusal."""
    if len(data) % 8:
        raise BadMessage("a polynomial of the wrong length")
    found = [int(c) for c in np.frombuffer(data, dtype="<u8")]
    if any(c >= PRIME for c in found):
        raise BadMessage("a coefficient beyond the prime")
    return found


class PolynomialAligner:
    """The seed's protocol over a whole federation. Refused unless its insecurity is accepted."""

    def __init__(self, seed: int = 0, *, insecure: bool = False) -> None:
        self.seed = seed
        if not insecure:
            raise InsecureRefused(
                "alignment by polynomials shows every hospital's code list to the server",
                fix="use tokens, or say --insecure for synthetic data",
            )

    def align(self, hospitals: Mapping[str, People]) -> dict[str, Places]:
        """Mode by mode; says that it is insecure."""
        warnings.warn(
            Insecure(
                "alignment by polynomials is insecure: the server can read every hospital's code "
                "list. It is the seed paper's protocol, for study and comparison."
            ),
            stacklevel=2,
        )
        names = list(hospitals)
        sizes: dict[str, int] = {}
        positions: dict[str, dict[str, np.ndarray]] = {name: {} for name in names}
        for mode in hospitals[names[0]]:
            local_hospitals = [
                PolynomialHospital(tuple(hospitals[name][mode]), self._alpha(name, mode))
                for name in names
            ]
            server = PolynomialServer([local.polynomial() for local in local_hospitals])
            reported = [local.cells(k, server.sums(k)) for k, local in enumerate(local_hospitals)]
            cells = server.sizes(reported)
            sizes[mode] = sum(cells.values())
            for name, local in zip(names, local_hospitals, strict=True):
                positions[name][mode] = local.positions(cells)
        return {name: Places(sizes, positions[name]) for name in names}

    def _alpha(self, name: str, mode: str) -> int:
        """A random number above every code and below P."""
        lowest = 1 << (8 * CODE_BYTES)
        drawn = int.from_bytes(from_seed(self.seed, f"alignment/{name}")(f"alpha/{mode}"), "big")
        return lowest + drawn % (PRIME - lowest)
