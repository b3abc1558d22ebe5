"""One feature mode's positions and what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tripheno.errors import BadShape

UNKNOWN = "not known here"


@dataclass(frozen=True)
class Axis:
    """A mode's name, its size and, where known, the code and label at each position.

    A code that this hospital does not know is ``None``; ``tokens`` are what codes are known by
    where hospitals do not show them to each other.
    """

    mode: str
    size: int
    codes: tuple[str | None, ...] | None = None
    labels: dict[str, str] = field(default_factory=dict, compare=False)
    tokens: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for what in (self.codes, self.tokens):
            if what is not None and len(what) != self.size:
                raise BadShape(f"{len(what)} codes for {self.size} positions", where=self.mode)
        known = [code for code in self.codes or () if code is not None]
        if len(set(known)) != len(known):
            raise BadShape("a code stands at two positions", where=self.mode)

    @property
    def keys(self) -> Sequence[object]:
        """What every hospital calls a position alike: its token, its code, its number."""
        return self.tokens or self.codes or range(self.size)

    @property
    def known(self) -> dict[int, str]:
        """Position → code, of the codes that are known here."""
        return {n: code for n, code in enumerate(self.codes or ()) if code is not None}

    def kept(self, keep: np.ndarray) -> Axis:
        """The axis of the positions that stay."""
        places = np.flatnonzero(keep).tolist()

        def chosen(items: Sequence[Any] | None) -> tuple[Any, ...] | None:
            return None if items is None else tuple(items[n] for n in places)

        codes = tuple(map(str, range(self.size))) if self.codes is None else self.codes
        return Axis(self.mode, len(places), chosen(codes), self.labels, chosen(self.tokens))

    def name(self, position: int) -> str:
        """What a reader calls the code at a position: its label, else the code, else a number."""
        if self.codes is None:
            return f"{self.mode} {position}"
        code = self.codes[position]
        return UNKNOWN if code is None else self.labels.get(code, code)

    def names(self) -> list[str]:
        """The name of every position, in order."""
        return [self.name(position) for position in range(self.size)]

    def positions(self, codes: Sequence[str | None]) -> np.ndarray:
        """Where each code stands on this axis, −1 for a code it does not have."""
        if self.codes is None:
            raise BadShape("this axis has no codes to look up", where=self.mode)
        place: dict[str | None, int] = {code: position for position, code in self.known.items()}
        return np.array([place.get(code, -1) for code in codes], dtype=np.int64)


def encoded(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """A column of text as numbers (−1 for a gap) and the words they stand for."""
    words = column.combine_chunks()
    words = words if isinstance(words, pa.DictionaryArray) else words.dictionary_encode()
    numbers = words.indices.fill_null(-1) if words.null_count else words.indices
    return np.asarray(numbers), words.dictionary.to_pylist()


def axis_of_events(events: pa.Table, mode: str) -> Axis:
    """The axis of the codes that one event table has in a mode, sorted by code.

    A code with several labels gets the last of them in the alphabet.
    """
    modes, mode_names = encoded(events["mode"])
    chosen = modes == (mode_names.index(mode) if mode in mode_names else -2)
    numbers, codes = encoded(events["code"])
    named, labels = encoded(events["label"])
    order = sorted(range(len(labels)), key=lambda n: labels[n])
    place = np.empty(len(labels) + 1, dtype=np.int64)
    place[order], place[-1] = np.arange(len(labels)), -1  # a gap, −1, finds the last place
    best = np.full(len(codes), -2)
    np.maximum.at(best, numbers[chosen], place[named[chosen]])
    found = sorted(np.flatnonzero(best > -2), key=lambda n: codes[n])
    return Axis(
        mode,
        len(found),
        tuple(codes[n] for n in found),
        {codes[n]: labels[order[best[n]]] for n in found if best[n] >= 0},
    )


def union(axes: Iterable[Axis]) -> Axis:
    """The plain union of several hospitals' axes, sorted by code.

    Axes without codes can only be united with axes of the same size: positions are the codes.
    """
    axes = list(axes)
    modes = {axis.mode for axis in axes}
    if len(modes) != 1:
        raise BadShape(f"different modes: {sorted(modes)}", why="only one mode is united at a time")
    if any(axis.codes is None for axis in axes):
        if len({(axis.size, axis.codes) for axis in axes}) != 1:
            raise BadShape(
                "hospitals without code lists have axes of different sizes",
                where=axes[0].mode,
                fix="give every tensor the same shape, or name the codes",
            )
        return axes[0]
    labels: dict[str, str] = {}
    for axis in axes:
        labels.update(axis.labels)
    codes = tuple(sorted({code for axis in axes for code in axis.known.values()}))
    return Axis(axes[0].mode, len(codes), codes, labels)
