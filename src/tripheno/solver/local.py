"""The baseline: each hospital alone, then match, average, and fit the patients once more.

This is one of the two exchanges that are no sums: each hospital's own factors are released to the
server as they are.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tripheno.errors import EmptyTensor, TriphenoWarning
from tripheno.exchange import Guard, Listener, MakeSums, plain_sums
from tripheno.exchange.channel import open_door
from tripheno.exchange.sums import Handler
from tripheno.solver.diagnosis import count_carriers
from tripheno.solver.federated import common_axes, gathered, solution_of, solve_federated
from tripheno.solver.loop import Outcome, Watch, first_factors, release
from tripheno.solver.messages import Begin, OwnFactors, Totals
from tripheno.solver.server import ExactServer
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Iteration, Solution
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import match_components


def solve_local(
    tensors: Mapping[str, CountTensor],
    settings: SolverSettings,
    *,
    sums: MakeSums | None = None,
    watch: Watch | None = None,
    listen: Listener | None = None,
    guard: Guard = open_door,
) -> Solution:
    """Every hospital's own model from one start, matched to the most typical one's, averaged."""
    settings = replace(settings, method="local")
    axes = common_axes(tensors)
    members, exchange = gathered(tensors, settings, sums or plain_sums, listen, guard)
    for name, member in members.items():
        member.hospital.handlers["own"] = _own_model(name, tensors[name], settings)
    started = time.perf_counter()
    begin = Begin(first_factors(axes, settings))
    totals = exchange.sum("begin", begin, Totals.zeros())
    answers = exchange.gather("own", begin, OwnFactors)
    own = {name: answer for name, answer in answers.items() if answer.iterations > 0}
    if not own:
        raise EmptyTensor("The federation's tensor has no cell")
    averaged = average_matched({name: message.factors for name, message in own.items()})
    factors, measures, _ = release(exchange, averaged, settings)
    penalties = ExactServer(settings, axes).start(factors, totals).penalties
    penalty = sum(p.value(factor) for p, factor in zip(penalties, factors, strict=True))
    objective = measures.squared_error + penalty
    seconds = time.perf_counter() - started
    traffic = exchange.channel.traffic.values()
    line = Iteration(
        1,
        objective,
        float(np.sqrt(measures.squared_error_nonzeros / totals.nonzeros)),
        None,
        None,
        sum(t.bytes_up + t.bytes_down for t in traffic),
        seconds,
    )
    if watch is not None:
        watch(line)
    most = max(message.iterations for message in own.values())
    outcome = Outcome(
        factors, measures, totals, objective, (line,),
        all(message.converged for message in own.values()),
        f"each hospital ran alone, at most {most} iterations; their factors were averaged once",
        singular=False,
        server_seconds=seconds - sum(t.seconds for t in traffic),
    )  # fmt: skip
    patients = {name: member.state.patients for name, member in members.items()}
    carriers = count_carriers(exchange, settings.n_components)
    return solution_of(outcome, exchange, axes, settings, patients, carriers=carriers)


def _own_model(name: str, tensor: CountTensor, settings: SolverSettings) -> Handler:
    """A handler that runs the central model on one hospital's patients alone."""

    def answer(_step: str, data: bytes) -> OwnFactors:
        start = Begin.unpack(data).factors
        if tensor.nonzeros == 0:  # no patient of theirs has a cell: no model to average
            return OwnFactors(start, 0, 1)
        alone = replace(settings, method="central", track_rmse=False)
        with warnings.catch_warnings():
            # a hospital too small for the rank is the very thing this baseline shows
            warnings.simplefilter("ignore", TriphenoWarning)
            own = solve_federated({name: tensor}, alone, start=start)
        factors = own.factors
        if own.bias is not None:
            pairs = zip(factors, own.bias, strict=True)
            factors = tuple(np.column_stack([factor, bias]) for factor, bias in pairs)
        return OwnFactors(factors, own.iterations, int(own.converged))

    return answer


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
