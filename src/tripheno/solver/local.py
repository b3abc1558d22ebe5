"""The baseline: each hospital alone, then match, average, and fit the patients once more.

This is one of the two exchanges that are no sums: each hospital's own factors are shown to the
others as they are.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tripheno.errors import BadMessage, EmptyTensor, TriphenoWarning
from tripheno.exchange.communicator import Communicator, in_clear
from tripheno.exchange.registry import declaration_of
from tripheno.solver import hospital
from tripheno.solver.checkpoints import Store
from tripheno.solver.federated import common_axes, solution_of, solve_federated
from tripheno.solver.loop import LoopResult, Members, Watch, brought_into_order
from tripheno.solver.messages import OwnFactors
from tripheno.solver.method import Exact
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Iteration, Solution
from tripheno.solver.starts import first_factors
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import match_components


def solve_local(
    tensors: Mapping[str, CountTensor],
    settings: SolverSettings,
    federation: Communicator | None = None,
    *,
    label: str = "",
    watch: Watch | None = None,
    store: Store | None = None,
) -> Solution:
    """Every hospital's own model, matched to the most typical one's, averaged."""
    del store  # one round: there is nothing to go on from
    settings = replace(settings, method="local")
    axes = common_axes(tensors)
    members = Members.of(federation or in_clear(tensors), dict(tensors), settings, label)
    start = first_factors(axes, settings)
    totals, _ = members.sum("totals", hospital.begin, start)
    alone: dict[str, Solution] = {}
    own = _own_models(members, settings, start, alone)
    if not own:
        raise EmptyTensor("The federation's tensor has no cell")
    averaged = average_matched({name: message.factors for name, message in own.items()})
    factors, measures, _, _ = brought_into_order(members, averaged, settings)
    penalties = Exact(settings, axes).start(factors, totals).penalties
    penalty = sum(p.value(factor) for p, factor in zip(penalties, factors, strict=True))
    objective = measures.loss + penalty
    rmse = float(np.sqrt(measures.raw_error_nonzeros / totals.nonzeros))
    seconds = time.perf_counter() - members.started
    line = Iteration(1, objective, rmse, None, None, members.sent, seconds)
    if watch is not None:
        watch(line)
    most = max(message.iterations for message in own.values())
    outcome = LoopResult(
        factors, measures, totals, objective, (line,),
        all(message.converged for message in own.values()),
        f"each hospital ran alone, at most {most} iterations; their factors were averaged once",
        singular=False,
        seconds_shared=seconds - members.seconds,
    )  # fmt: skip
    return replace(solution_of(outcome, members, axes, settings), own=alone)


def _own_models(
    members: Members,
    settings: SolverSettings,
    start: tuple[np.ndarray, ...],
    alone: dict[str, Solution],
) -> dict[str, OwnFactors]:
    """Every hospital's own factors, those without any patient left out; ``alone`` is filled."""

    def own(name: str) -> bytes:
        tensor = members.states[name].tensor
        if tensor.nonzeros == 0:  # no patient of theirs has a cell: no model to average
            return OwnFactors(0, 1, start).pack()
        alone[name] = _own_model(tensor, settings)
        return _released(alone[name]).pack()

    answers = members.federation.gather(
        f"{members.label}own-factors", declaration_of(OwnFactors), own
    )
    found = {name: OwnFactors.unpack(data) for name, data in answers.items()}
    shapes = [factor.shape for factor in start]
    for name, message in found.items():
        if [factor.shape for factor in message.factors] != shapes:
            raise BadMessage("factors of another shape", where=name)
    return {name: message for name, message in found.items() if message.iterations > 0}


def _own_model(tensor: CountTensor, settings: SolverSettings) -> Solution:
    """The central model of one hospital's patients alone."""
    alone = replace(settings, method="central", track_rmse=False)
    with warnings.catch_warnings():
        # a hospital too small for the rank is the very thing this baseline shows
        warnings.simplefilter("ignore", TriphenoWarning)
        return solve_federated({"alone": tensor}, alone)


def _released(own: Solution) -> OwnFactors:
    """What a hospital shows of its own model."""
    factors = own.factors
    if own.bias is not None:
        pairs = zip(factors, own.bias, strict=True)
        factors = tuple(np.column_stack([factor, bias]) for factor, bias in pairs)
    return OwnFactors(own.iterations, int(own.converged), factors)


def average_matched(own: Mapping[str, tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
    """Match every hospital's components to a pivot's, one permutation for all modes, and average.

    The pivot is the hospital most like the others, so that their order does not matter.
    """
    names = list(own)
    likeness = {
        name: sum(
            float(match_components(own[name], own[other]).similarity.sum()) for other in names
        )
        for name in names
    }
    pivot = max(sorted(names), key=lambda name: round(likeness[name], 9))
    total = [np.zeros_like(factor) for factor in own[pivot]]
    for name in names:
        order = match_components(own[pivot], own[name]).other
        for n, (reference, factor) in enumerate(zip(own[pivot], own[name], strict=True)):
            matched = factor[:, order]
            signs = np.sign((reference * matched).sum(axis=0))
            total[n] += matched * np.where(signs == 0.0, 1.0, signs)
    return tuple(factor / len(names) for factor in total)
