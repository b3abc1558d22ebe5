"""Codes that too few people have never enter; counts too small to show are not shown.

People are counted, not rows. The count is network-wide and goes through the one primitive, capped
at the threshold: the server learns which positions reach it, and below it how far they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tripheno.errors import NothingLeft, SettingsError
from tripheno.exchange import Exchange, Guard, InProcessChannel, MakeSums
from tripheno.exchange.channel import open_door
from tripheno.exchange.sums import Hospital
from tripheno.tensor.count_tensor import CountTensor
from tripheno.vocabulary.axis import Axis
from tripheno.vocabulary.public_list import counting, kept_slots


def people_at_positions(tensor: CountTensor) -> list[np.ndarray]:
    """For every feature mode, how many people have a cell at each position."""
    patient = tensor.patient_of_cell
    found = []
    for n, axis in enumerate(tensor.axes):
        pairs = np.unique(patient * axis.size + tensor.cells.indices[:, n].astype(np.int64))
        found.append(np.bincount(pairs % axis.size, minlength=axis.size).astype(np.float64))
    return found


def people_per_code(tensor: CountTensor) -> dict[str, dict[str, int]]:
    """Mode → code → people, for the modes that have codes."""
    return {
        axis.mode: {code: int(n) for code, n in zip(axis.codes, people, strict=True)}
        for axis, people in zip(tensor.axes, people_at_positions(tensor), strict=True)
        if axis.codes is not None
    }


Doors = Callable[[Mapping[str, int]], Guard]
"""The hospitals' doors for a count on axes of these sizes."""


def no_doors(sizes: Mapping[str, int]) -> Guard:
    """None: for tests."""
    del sizes
    return open_door


def without_small_cells(
    tensors: Mapping[str, CountTensor], fewest: int, make: MakeSums, doors: Doors = no_doors
) -> tuple[dict[str, CountTensor], dict[str, int]]:
    """Tensors on common axes without the codes that fewer than ``fewest`` people have.

    A code that goes takes cells of other codes with it, so people are counted again until every
    code that is left has enough. Also says how many codes of each mode went.
    """
    if fewest < 1:
        raise SettingsError(f"a smallest cell of {fewest}", fix="--min-cell must be 1 or more")
    left = dict(tensors)
    sizes = [axis.size for axis in next(iter(left.values())).axes]
    while True:
        kept = _kept(left, fewest, make, doors)
        axes = next(iter(left.values())).axes
        for axis, keep in zip(axes, kept, strict=True):
            if not keep.any():
                raise NothingLeft(f"no code has {fewest} people", where=axis.mode)
        if all(keep.all() for keep in kept):
            break
        left = {name: restricted(tensor, kept) for name, tensor in left.items()}
    removed = {
        axis.mode: size - axis.size
        for axis, size in zip(next(iter(left.values())).axes, sizes, strict=True)
    }
    return left, removed


def _kept(
    tensors: Mapping[str, CountTensor], fewest: int, make: MakeSums, doors: Doors
) -> list[np.ndarray]:
    """Which positions enough people have; each count is a run of its own, under keys of its own."""
    halves, server = make(tuple(tensors))
    axes = next(iter(tensors.values())).axes
    guard = doors({axis.mode: axis.size for axis in axes})
    desks = {
        name: Hospital(name, halves[name], {"people": counting(people_at_positions(t))})
        for name, t in tensors.items()
    }
    channel = InProcessChannel({name: guard(name, desk.respond) for name, desk in desks.items()})
    return kept_slots(Exchange(channel, server), [axis.size for axis in axes], fewest)


def restricted(tensor: CountTensor, kept: Sequence[np.ndarray]) -> CountTensor:
    """The tensor on the kept positions; patients stay, even without a cell."""
    codes = [
        tuple(str(p) for p in range(a.size)) if a.codes is None else a.codes for a in tensor.axes
    ]
    named = [
        Axis(axis.mode, axis.size, own, axis.labels)
        for axis, own in zip(tensor.axes, codes, strict=True)
    ]
    fewer = []
    for axis, keep in zip(named, kept, strict=True):
        own = tuple(code for code, stays in zip(axis.codes or (), keep, strict=True) if stays)
        fewer.append(Axis(axis.mode, len(own), own, axis.labels))
    return CountTensor(tuple(named), tensor.cells).on_axes(fewer)


class Shown(NamedTuple):
    """Counts as they may be shown: ``None`` stands for a hidden one."""

    parts: tuple[int | None, ...]
    total: int | None


def shown_counts(counts: Sequence[int], fewest: int) -> Shown:
    """Counts per hospital with their total, from which no hidden part can be worked out.

    Parts from 1 to ``fewest`` − 1 are hidden. So that the total does not give them away, the next
    smallest parts are hidden too, until at least two are and what is left over is ambiguous by
    ``fewest``; where there is nothing more to hide, the total goes as well.
    """
    hidden = {n for n, count in enumerate(counts) if 0 < count < fewest}
    if not hidden:
        return Shown(tuple(counts), sum(counts))
    others = sorted((n for n in range(len(counts)) if counts[n] >= fewest), key=lambda n: counts[n])

    def safe() -> bool:
        slack = sum(counts[n] for n in hidden) - len(hidden)
        return len(hidden) > 1 and slack >= fewest - 1

    while not safe() and others:
        hidden.add(others.pop(0))
    parts = tuple(None if n in hidden else count for n, count in enumerate(counts))
    return Shown(parts, sum(counts) if safe() else None)
