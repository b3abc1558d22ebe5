"""Hospitals with different code lists agree on common axes; codes that too few people have go.

`vocabulary`: the study names a public list, and hospitals sum how many people have each code.
`tokens`: opaque points that every hospital hid under its own secret, united by the coordinator.
`polynomial`: the paper's protocol, which shows code lists, for study in one process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tripheno.errors import BadShape, EmptyTensor, NothingLeft, SettingsError
from tripheno.exchange.communicator import Communicator
from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import CODES, declared, shaped
from tripheno.privacy.vetoes import counted, kept, vetoes
from tripheno.study.keys import share_institutions
from tripheno.study.siblings import of_institutions
from tripheno.tensor.count_tensor import CountTensor
from tripheno.vocabulary.alignment import check_modes
from tripheno.vocabulary.axis import Axis, union
from tripheno.vocabulary.polynomial import PolynomialAligner

Tensors = dict[str, CountTensor]
NOISE_BITS = 31  # of an objection
MOST_COUNTS = 20  # times people are counted until every code left has enough of them


@declared(
    "people", "codes of every mode: patients who have it, counted no further than the threshold",
    lambda plan: plan.counts,
)  # fmt: skip
@dataclass(frozen=True)
class PeoplePerCode(Contribution):
    """min(people, threshold) at every position of every mode."""

    people: tuple[np.ndarray, ...] = shaped(CODES)


@declared(
    "objections", "codes of every mode: 0, or noise where a hospital would see a few people",
    lambda plan: 2 * plan.counts // 3 if plan.alignment is not None else 0,
)  # fmt: skip
@dataclass(frozen=True)
class Objections(Contribution):
    """Noise where the others' people behind a code (total less own) are few, else 0."""

    objections: tuple[np.ndarray, ...] = shaped(CODES, least=NOISE_BITS + 1)


def on_listed_axes(
    tensors: Mapping[str, CountTensor], lists: Mapping[str, Sequence[str]]
) -> Tensors:
    """Tensors on the public lists, ordered by code; a code that is not on its list is an error."""
    found = {}
    for name, tensor in tensors.items():
        axes = []
        for axis in tensor.axes:
            codes = tuple(sorted(lists[axis.mode])) if axis.mode in lists else None
            if codes is None or axis.codes is None:
                axes.append(axis)
                continue
            unknown = len(set(axis.known.values()) - set(codes))
            if unknown:
                raise BadShape(
                    f"{unknown:,} of this hospital's {axis.mode} codes are not on the public list",
                    where=name, fix="roll them up to it, or align with tokens",
                )  # fmt: skip
            axes.append(Axis(axis.mode, len(codes), codes, axis.labels))
        found[name] = tensor.on_axes(axes)
    return found


def with_common_labels(tensors: Tensors) -> Tensors:
    """One axis object for all members of this process: what one of them knows, all know here."""
    check_modes([tensor.axes for tensor in tensors.values()])
    axes = tuple(
        _merged(list(same)) for same in zip(*(t.axes for t in tensors.values()), strict=True)
    )
    return {name: CountTensor(axes, tensor.cells) for name, tensor in tensors.items()}


def _merged(axes: list[Axis]) -> Axis:
    if len({(axis.mode, axis.size, axis.tokens) for axis in axes}) != 1:
        raise BadShape("the hospitals' axes differ", where=axes[0].mode, fix="align them first")
    if any(axis.codes is None for axis in axes):
        return axes[0]
    known: dict[int, str] = {}
    labels: dict[str, str] = {}
    for axis in axes:
        for position, code in axis.known.items():
            if known.setdefault(position, code) != code:
                raise BadShape("two codes stand at one position", where=axis.mode)
        labels.update(axis.labels)
    codes = tuple(known.get(position) for position in range(axes[0].size))
    return Axis(axes[0].mode, axes[0].size, codes, labels, axes[0].tokens)


def public_union(tensors: Mapping[str, CountTensor]) -> dict[str, tuple[str, ...]]:
    """A simulation's public list: every code that any hospital has."""
    check_modes([tensor.axes for tensor in tensors.values()])
    united = [union(axes) for axes in zip(*(t.axes for t in tensors.values()), strict=True)]
    return {axis.mode: tuple(axis.known.values()) for axis in united if axis.codes is not None}


def without_small_cells(
    federation: Communicator, tensors: Tensors, fewest: int, step: str = "people"
) -> tuple[Tensors, dict[str, int]]:
    """Tensors without the codes that fewer than ``fewest`` people in the network have.

    A code that goes takes cells of other codes with it, so people are counted again until every
    code that is left has enough. Also says how many codes of each mode went.
    """
    if fewest < 1:
        raise SettingsError(f"a smallest cell of {fewest}", fix="--min-cell must be 1 or more")
    first = next(iter(tensors.values())).axes
    for number in range(MOST_COUNTS):
        stays = kept_positions(federation, tensors, fewest, f"{step}/{number}")
        axes = next(iter(tensors.values())).axes
        for axis, keep in zip(axes, stays, strict=True):
            if not keep.any():
                raise NothingLeft(f"no code has {fewest} people", where=axis.mode)
        if all(keep.all() for keep in stays):
            break
        fewer = tuple(axis.kept(keep) for axis, keep in zip(axes, stays, strict=True))
        tensors = {name: restricted(tensor, fewer) for name, tensor in tensors.items()}
        federation.resize({axis.mode: axis.size for axis in fewer})
    last = next(iter(tensors.values())).axes
    removed = {a.mode: a.size - b.size for a, b in zip(first, last, strict=True)}
    return tensors, removed


def kept_positions(
    federation: Communicator, tensors: Mapping[str, CountTensor], fewest: int, step: str
) -> list[np.ndarray]:
    """For every mode, which positions stay: enough people, and nobody's objection.

    A hospital objects to what it sees of all others, and what its institution's hospitals see.
    """
    own = {
        name: [counted(people, fewest) for people in tensor.people_at_positions()]
        for name, tensor in tensors.items()
    }
    total = federation.sum(
        step, lambda name: PeoplePerCode(tuple(one.astype(float) for one in own[name]))
    ).value
    totals = [np.rint(people).astype(np.int64) for people in total.people]
    objections = [np.zeros(len(people)) for people in totals]
    if fewest > 1 and federation.size > 1:
        asked = f"objections/{step}"
        together: Mapping[str, list[np.ndarray]] = own
        if share_institutions(federation):
            together = of_institutions(federation, own, f"institution/{step}")

        def objecting(name: str) -> Objections:
            found = []
            for total, *seen in zip(totals, own[name], together[name], strict=True):
                alone, all_of_it = (vetoes(total, one, fewest, _noise) for one in seen)
                found.append(np.where(alone != 0, alone, all_of_it).astype(float))
            return Objections(tuple(found))

        objections = list(federation.sum(asked, objecting).value.objections)
    return [kept(t, o, fewest) for t, o in zip(totals, objections, strict=True)]


def _noise(words: int) -> np.ndarray:
    """Numbers of either sign, none of them zero: their sum says that somebody objected.

    From the operating system: a statistical generator's next numbers follow from those that peers
    read in the total.
    """
    drawn = np.frombuffer(os.urandom(4 * words), dtype="<u4").astype(np.int64)
    return np.asarray(((drawn >> 1) + 1) * (1 - 2 * (drawn & 1)))


def restricted(tensor: CountTensor, axes: Sequence[Axis]) -> CountTensor:
    """The tensor on fewer positions, told apart by what all hospitals call them; patients stay."""
    own, fewer = (
        tuple(Axis(axis.mode, axis.size, tuple(map(str, axis.keys))) for axis in some)
        for some in (tensor.axes, axes)
    )
    return CountTensor(tuple(axes), CountTensor(own, tensor.cells).on_axes(fewer).cells)


def check_cells(tensors: Mapping[str, CountTensor]) -> None:
    """Refuse a hospital that brings nothing."""
    for name, tensor in tensors.items():
        if tensor.nonzeros == 0:
            raise EmptyTensor("This hospital has no cell", where=name, fix="leave it out")


def by_polynomials(tensors: Tensors, seed: int, *, insecure: bool) -> Tensors:
    """The paper's protocol; axes without codes have their positions for codes."""
    people = {
        name: {
            axis.mode: dict.fromkeys(axis.known.values(), 0) for axis in tensor.axes if axis.codes
        }
        for name, tensor in tensors.items()
    }
    places = PolynomialAligner(seed, insecure=insecure).align(people)
    return with_common_labels(
        {
            name: placed(tensor, places[name].sizes, places[name].positions)
            for name, tensor in tensors.items()
        }
    )


def placed(
    tensor: CountTensor,
    sizes: Mapping[str, int],
    positions: Mapping[str, np.ndarray],
    tokens: Mapping[str, tuple[str, ...]] | None = None,
) -> CountTensor:
    """A hospital's tensor with its own codes at their places; the others have no name here."""
    axes = []
    for axis in tensor.axes:
        if axis.mode not in sizes or axis.codes is None:
            axes.append(axis)
            continue
        codes: list[str | None] = [None] * sizes[axis.mode]
        for code, position in zip(axis.codes, positions[axis.mode], strict=True):
            codes[position] = code
        own = (tokens or {}).get(axis.mode)
        axes.append(Axis(axis.mode, len(codes), tuple(codes), axis.labels, own))
    return tensor.on_axes(axes)
