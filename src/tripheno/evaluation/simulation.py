"""A whole federation in one process: the research and what-if tool."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from tripheno.errors import EmptyTensor, SettingsError, TooManyHospitals
from tripheno.evaluation.doors import alignment_doors, counting_doors
from tripheno.exchange import Guard, Listener, MakeSums
from tripheno.exchange.channel import open_door
from tripheno.privacy.audit import Minutes
from tripheno.privacy.small_cells import people_per_code, without_small_cells
from tripheno.solver.fit import fit
from tripheno.solver.settings import Method, SolverSettings
from tripheno.solver.solution import Iteration, Solution
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import factor_match_score
from tripheno.vocabulary.aligners import Aligner, AlignKind, TokenAligner, VocabularyAligner
from tripheno.vocabulary.alignment import align_plainly, align_privately, uncounted
from tripheno.vocabulary.axis import Axis
from tripheno.vocabulary.polynomial import PolynomialAligner


@dataclass(frozen=True)
class Federation:
    """Hospitals on common axes, and how long agreeing on them took."""

    tensors: dict[str, CountTensor]
    axes: tuple[Axis, ...]
    alignment_seconds: float = 0.0
    align: AlignKind = "tokens"
    codes_removed: dict[str, int] = field(default_factory=dict)  # by mode, for small cells
    minutes: Minutes = field(default_factory=Minutes)  # what left while axes were agreed on

    @property
    def nonzeros(self) -> int:
        """Cells of all hospitals together."""
        return sum(tensor.nonzeros for tensor in self.tensors.values())


def assemble(
    tensors: Mapping[str, CountTensor],
    align: AlignKind = "tokens",
    *,
    seed: int = 0,
    insecure: bool = False,
    by_code: bool = True,
) -> Federation:
    """Bring every hospital's tensor onto the axes they share, without showing code lists.

    A simulation's `vocabulary` has for its public list every code that any hospital has.
    `polynomial` is the seed's insecure protocol, and must be accepted as such. Axes are ordered
    by their codes, or with ``by_code`` false as the protocol of separate machines leaves them;
    then patients and codes without a cell stay out, as they do there.
    """
    if not by_code:
        tensors = {name: tensor.drop_unused() for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        if tensor.nonzeros == 0:
            raise EmptyTensor("This hospital has no cell", where=name, fix="leave it out")
    started = time.perf_counter()
    people = {
        name: people_per_code(tensor) if align == "vocabulary" else uncounted(tensor.axes)
        for name, tensor in tensors.items()
    }
    own = {name: tensor.axes for name, tensor in tensors.items()}
    minutes = Minutes()
    aligner = _aligner(align, own, seed, insecure)
    aligner.guard = alignment_doors(align, people, minutes)
    axes = align_privately(own, people, aligner, by_code=by_code)
    aligned = {name: tensor.on_axes(axes) for name, tensor in tensors.items()}
    return Federation(aligned, axes, time.perf_counter() - started, align, minutes=minutes)


def _aligner(
    align: AlignKind, own: Mapping[str, tuple[Axis, ...]], seed: int, insecure: bool
) -> Aligner:
    if align == "polynomial":
        return PolynomialAligner(seed, insecure=insecure)
    if align == "vocabulary":
        public = align_plainly(list(own.values()))
        return VocabularyAligner({axis.mode: axis.codes for axis in public if axis.codes}, seed)
    return TokenAligner(seed)


def drop_small_cells(federation: Federation, fewest: int, make: MakeSums) -> Federation:
    """The federation without the codes that fewer than so many people in it have."""
    doors = partial(counting_doors, tuple(federation.tensors), make, federation.minutes)
    tensors, removed = without_small_cells(federation.tensors, fewest, make, doors)
    axes = next(iter(tensors.values())).axes
    return replace(federation, tensors=tensors, axes=axes, codes_removed=removed)


def share_out(
    tensor: CountTensor, hospitals: int, skew: float | None, rng: np.random.Generator
) -> dict[str, CountTensor]:
    """Deal one tensor's patients at random to K hospitals.

    ``skew`` is the share of patients at the first hospital; the others share the rest evenly.
    """
    if hospitals < 1:
        raise SettingsError(f"{hospitals} hospitals", fix="--hospitals must be 1 or more")
    if skew is not None and not 0 < skew < 1 and hospitals > 1:
        raise SettingsError(f"skew {skew}", fix="--skew must lie between 0 and 1")
    if hospitals > tensor.patients:
        raise TooManyHospitals(f"{hospitals} hospitals for {tensor.patients} patients")
    order = rng.permutation(tensor.patients)
    if hospitals == 1:
        return {"hospital-1": tensor.select_patients(order)}
    share = 1 / hospitals if skew is None else skew
    first = min(max(round(share * tensor.patients), 1), tensor.patients - hospitals + 1)
    parts = [order[:first], *np.array_split(order[first:], hospitals - 1)]
    return {f"hospital-{k + 1}": tensor.select_patients(part) for k, part in enumerate(parts)}


class Comparison(NamedTuple):
    """A solution against the central one."""

    rmse_gap: float
    fms: float


def compare(solution: Solution, central: Solution) -> Comparison:
    """(rmse − rmse of central) / rmse of central over nonzeros, signed; and the factor match."""
    reference = central.rmse.nonzeros
    gap = (solution.rmse.nonzeros - reference) / reference if reference else 0.0
    return Comparison(gap, factor_match_score(solution.factors, central.factors))


Announce = Callable[[Method, Iteration], None]


def run_methods(
    federation: Federation,
    settings: SolverSettings,
    methods: Iterable[Method],
    *,
    sums: MakeSums | None = None,
    announce: Announce | None = None,
    listeners: Mapping[Method, Listener] | None = None,
    guards: Mapping[Method, Guard] | None = None,
) -> dict[Method, Solution]:
    """Every method from the same start on the same federation."""
    found: dict[Method, Solution] = {}
    for method in methods:

        def watch(line: Iteration, method: Method = method) -> None:
            if announce is not None:
                announce(method, line)

        chosen = replace(settings, method=method)
        found[method] = fit(
            federation.tensors, chosen, sums=sums, watch=watch,
            listen=(listeners or {}).get(method), guard=(guards or {}).get(method, open_door),
        )  # fmt: skip
    return found
