"""The one loop: every federated method is rounds of *broadcast, contribute, sum, server step*."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from tripheno.errors import Diverged, EmptyTensor, TriphenoWarning
from tripheno.exchange import Exchange
from tripheno.solver.guides import guide_columns
from tripheno.solver.messages import Begin, Finish, Measures, Release, Review, Totals
from tripheno.solver.server import ServerMethod, ServerState
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Costs, Iteration, Rmse
from tripheno.tensor.factors import readable_signs, unit_columns
from tripheno.vocabulary.axis import Axis

RUNAWAY = 1e6  # Ψ this many times ‖O‖² is no fit any more

Watch = Callable[[Iteration], None]


@dataclass(frozen=True)
class Moment:
    """Where the server stands between two iterations: enough to go on from there."""

    state: ServerState
    history: tuple[Iteration, ...] = ()
    relative_residuals: tuple[float, float] = (0.0, 0.0)
    quiet: int = 0
    singular: bool = False


Keep = Callable[[Moment], None]


@dataclass(frozen=True)
class Outcome:
    """What the loop found, before it is told in a report's words."""

    factors: tuple[np.ndarray, ...]
    measures: Measures
    totals: Totals
    objective: float
    history: tuple[Iteration, ...]
    converged: bool
    stopped_because: str
    singular: bool
    server_seconds: float
    guided: tuple[int, ...] = ()  # the component of each guide, in the order shown


def first_factors(axes: Sequence[Axis], settings: SolverSettings) -> tuple[np.ndarray, ...]:
    """The common start: uniform random columns of unit length; a bias column is flat.

    Guided components start from their codes where they have some. The patients are fitted before
    anything else, and that gives the model its scale.
    """
    rng = np.random.default_rng(settings.seed)
    factors = []
    for axis in axes:
        factor = rng.random((axis.size, settings.n_components))
        if settings.bias:
            factor = np.column_stack([factor, np.ones(axis.size)])
        factors.append(unit_columns(factor)[0])
    if not settings.guides:
        return tuple(factors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TriphenoWarning)  # the server says what is missing
        guides = guide_columns(axes, settings.guides, settings.rank)
    return tuple(np.where(g.any(axis=0), g, f) for g, f in zip(guides, factors, strict=True))


def run_rounds(
    method: ServerMethod,
    exchange: Exchange,
    factors: tuple[np.ndarray, ...],
    watch: Watch | None = None,
    *,
    keep: Keep | None = None,
    resume: Moment | None = None,
) -> Outcome:
    """Begin, iterate until the stopping rule or the limit, release the final factors, measure.

    ``keep`` is given every moment between two iterations; a run that is given one of them as
    ``resume`` goes on as if it had never stopped, once the hospitals stand there too.
    """
    settings = method.settings
    started = time.perf_counter()
    if resume is None:
        totals = exchange.sum("begin", Begin(factors), Totals.zeros())
        if totals.nonzeros == 0:
            raise EmptyTensor("The federation's tensor has no cell")
        resume = Moment(method.start(factors, totals))
    state, totals = resume.state, resume.state.totals
    judge = _Judge(method, exchange, started, watch, resume)
    while True:
        if keep is not None:
            keep(judge.moment(state))
        try:
            state, stop = _iteration(state, method, exchange, judge)
        except np.linalg.LinAlgError:
            raise judge.diverged() from None
        if stop or state.iteration > settings.max_iter:
            break
    if not stop:
        review = exchange.sum("review", state.news(0, first=True), Review.zeros()).review
        stop = judge.entry(state, review)
    final, measures, order = release(exchange, state.shared_factors, settings)
    penalty = sum(p.value(f) for p, f in zip(state.penalties, final, strict=True))
    return Outcome(
        final,
        measures,
        totals,
        measures.squared_error + penalty,
        tuple(judge.history),
        judge.converged,
        stop or f"the limit of {settings.max_iter} iterations was reached",
        state.singular or judge.singular,
        time.perf_counter() - started - sum(t.seconds for t in exchange.channel.traffic.values()),
        tuple(int(np.flatnonzero(order == r)[0]) for r in range(len(settings.guides))),
    )


def _iteration(
    state: ServerState, method: ServerMethod, exchange: Exchange, judge: _Judge
) -> tuple[ServerState, str]:
    """Every feature mode once. The first contribution carries the verdict on the last iterate."""
    iteration = state.iteration
    for n, factor in enumerate(state.shared_factors):
        for inner in count():
            news = state.news(n, first=inner == 0)
            like = method.empty_sum(len(factor))
            total = exchange.sum(f"iterate/{iteration}/{n}/{inner}", news, like)
            if n == 0 and inner == 0 and iteration > 1:
                stop = judge.entry(state, total.arrays()["review"])
                if stop:
                    return state, stop
            state = method.absorb(state, n, inner, total)
            if state.settled:
                break
    primal, dual = judge.relative_residuals
    return method.end_iteration(state, primal, dual), ""


class _Judge:
    """Keeps the history and decides when to stop."""

    def __init__(
        self,
        method: ServerMethod,
        exchange: Exchange,
        started: float,
        watch: Watch | None,
        resume: Moment,
    ) -> None:
        self.method, self.exchange, self.totals = method, exchange, resume.state.totals
        self.watch = watch
        self.history = list(resume.history)
        self.relative_residuals = resume.relative_residuals
        self.quiet, self.singular = resume.quiet, resume.singular
        self.converged = False
        before = self.history[-1] if self.history else None
        self.started = started - (before.seconds if before else 0.0)
        self.sent_before = before.bytes if before else 0

    def moment(self, state: ServerState) -> Moment:
        """Where the run stands, before the next iteration."""
        return Moment(
            state, tuple(self.history), self.relative_residuals, self.quiet, self.singular
        )

    def entry(self, state: ServerState, review: np.ndarray) -> str:
        """Write the line of the iterate that was just reviewed; say why to stop, or ''."""
        settings = self.method.settings
        squared, at_cells, primal, local_norm, dual_norm, singular = (float(x) for x in review)
        self.singular = self.singular or singular > 0.0
        penalty = sum(
            p.value(f) for p, f in zip(state.penalties, state.shared_factors, strict=True)
        )
        objective = squared + penalty
        if not math.isfinite(objective) or objective > RUNAWAY * self.totals.squared_norm:
            raise self.diverged()
        residuals: tuple[float | None, float | None] = (None, None)
        if self.method.needs_residuals:
            residuals = (math.sqrt(primal), math.sqrt(sum(state.dual_residual)))
            shared_norm = self.exchange.size * sum(
                float((f**2).sum()) for f in state.shared_factors
            )
            self.relative_residuals = (
                math.sqrt(primal / max(local_norm, shared_norm, 1e-300)),
                math.sqrt(sum(state.dual_residual) / max(dual_norm, 1e-300)),
            )
        rmse = math.sqrt(at_cells / self.totals.nonzeros) if settings.track_rmse else None
        traffic = self.exchange.channel.traffic.values()
        sent = self.sent_before + sum(t.bytes_up + t.bytes_down for t in traffic)
        line = Iteration(
            len(self.history) + 1,
            objective,
            rmse,
            *residuals,
            sent,
            time.perf_counter() - self.started,
        )
        stop = self._verdict(line)
        self.history.append(line)
        if self.watch is not None:
            self.watch(line)
        return stop

    def diverged(self) -> Diverged:
        """The run left the range in which its equations mean something."""
        return Diverged(
            f"The factors grew without bound after {len(self.history) + 1} iterations",
            fix="use the corrected variant, or a larger consensus penalty",
        )

    def _verdict(self, line: Iteration) -> str:
        """Ψ changed by less than ``tol`` twice in a row, and the residuals are small."""
        settings = self.method.settings
        if self.history and not self.method.fixed_length:
            before = self.history[-1].objective
            change = abs(before - line.objective) / max(abs(before), 1e-300)
            exact_fit = line.objective <= 1e-12 * self.totals.squared_norm
            self.quiet = self.quiet + 1 if change < settings.tol or exact_fit else 0
        if self.quiet < 2:
            return ""
        if (
            self.method.needs_residuals
            and max(self.relative_residuals) > settings.residual_tolerance
        ):
            return ""
        self.converged = True
        residuals = " and the residuals are small" if self.method.needs_residuals else ""
        return f"the objective changed by less than {settings.tol:g} twice in a row{residuals}"


def release(
    exchange: Exchange, factors: Sequence[np.ndarray], settings: SolverSettings
) -> tuple[tuple[np.ndarray, ...], Measures, np.ndarray]:
    """Unit columns, largest entry positive, components by weight; patients fitted once more.

    Also gives the order in which the components now stand. A bias stays last: it is no phenotype to
    be ranked.
    """
    units = [unit_columns(factor)[0] for factor in factors]
    signed = tuple(factor * readable_signs(factor) for factor in units)
    measures = exchange.sum("release", Release(signed), Measures.zeros(settings.rank))
    order = np.argsort(-np.diag(measures.patient_gram)[: settings.n_components], kind="stable")
    if settings.bias:
        order = np.append(order, settings.n_components)
    exchange.tell("finish", Finish(order.astype(np.int64)))
    ordered = replace(measures, patient_gram=measures.patient_gram[np.ix_(order, order)])
    return tuple(factor[:, order] for factor in signed), ordered, order


def rmse_of(measures: Measures, totals: Totals, sizes: Sequence[int]) -> Rmse:
    """The three errors of a whole federation from its sums."""
    every = totals.patients * math.prod(sizes)
    return Rmse(
        math.sqrt(measures.squared_error_nonzeros / totals.nonzeros),
        math.sqrt(measures.squared_error / totals.nonzeros),
        math.sqrt(measures.squared_error / every),
    )


def costs_of(exchange: Exchange, server_seconds: float) -> Costs:
    """Bytes and seconds as the channel counted them; per hospital means the busiest one."""
    traffic = list(exchange.channel.traffic.values())
    return Costs(
        max(t.bytes_up for t in traffic),
        max(t.bytes_down for t in traffic),
        sum(t.bytes_up + t.bytes_down for t in traffic),
        max(t.seconds for t in traffic),
        sum(t.seconds for t in traffic),
        server_seconds,
    )
