"""The one loop, run by every hospital alike: *contribute, sum, take the step*."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeVar

import numpy as np

from tripheno.errors import Diverged, DriftedApart, EmptyTensor
from tripheno.exchange.communicator import DRIFT, Communicator
from tripheno.exchange.messages import Contribution
from tripheno.solver import hospital
from tripheno.solver.hospital import HospitalState
from tripheno.solver.messages import Measures, Review, SharedFactors, Totals
from tripheno.solver.method import Choose, Method, SharedState, StepLengths
from tripheno.solver.settings import SolverSettings
from tripheno.solver.slopes import patience, slopes, steepest
from tripheno.solver.solution import Iteration
from tripheno.solver.starts import Factors
from tripheno.solver.stopping import EXACT, Tolerances
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import readable_signs, unit_columns

RUNAWAY = 1e6  # Ψ this many times ‖O‖² is no fit any more

C = TypeVar("C", bound=Contribution)
Watch = Callable[[Iteration], None]


@dataclass(frozen=True)
class Checkpoint:
    """Where a fit stands between two iterations: enough to go on from there."""

    state: SharedState
    history: tuple[Iteration, ...] = ()
    relative_residuals: tuple[float, float] = (0.0, 0.0)
    quiet: int = 0
    singular: bool = False
    finalists: tuple[tuple[np.ndarray, ...], ...] = ()  # of the tournament before it


Keep = Callable[[Checkpoint], None]


@dataclass(frozen=True)
class LoopResult:
    """What the loop found, before it is told in a report's words."""

    factors: tuple[np.ndarray, ...]
    measures: Measures
    totals: Totals
    objective: float
    history: tuple[Iteration, ...]
    converged: bool
    stopped_because: str
    singular: bool
    seconds_shared: float
    guided: tuple[int, ...] = ()  # the component of each guide, in the order shown
    finalists: tuple[tuple[np.ndarray, ...], ...] = ()  # of the tournament, as good as the best
    start: tuple[np.ndarray, ...] = ()  # the one that won the tournament


@dataclass
class Members:
    """The hospitals of this process at one fit: their states, and how they contribute."""

    federation: Communicator
    states: dict[str, HospitalState]
    label: str = ""  # which fit of a study it is, in front of its steps
    started: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self._before = self._computed()  # keys and earlier fits are not this one's

    @classmethod
    def of(
        cls,
        federation: Communicator,
        tensors: dict[str, CountTensor],
        settings: SolverSettings,
        label: str = "",
    ) -> Members:
        """The states before the first step."""
        size = federation.size
        states = {name: HospitalState(t, settings, size) for name, t in tensors.items()}
        return cls(federation, states, label)

    def sum(
        self,
        step: str,
        contribute: Callable[..., tuple[HospitalState, Any]],
        *news: Any,
        votes: dict[str, bool] | None = None,
        shared: Sequence[np.ndarray] = (),
    ) -> tuple[Any, dict[str, bool]]:
        """One sum: every member takes the step and contributes."""

        def made(name: str) -> Contribution:
            self.states[name], message = contribute(self.states[name], *news)
            found: Contribution = message
            return found

        known = shared if self.federation.size > 1 else ()  # one alone cannot drift apart
        return self.federation.sum(self.label + step, made, votes=votes, shared=known)

    @property
    def sent(self) -> int:
        """Bytes of all hospitals so far, up and down: everybody's messages have the same sizes."""
        traffic = self.federation.traffic.values()
        here = sum(one.bytes_up + one.bytes_down for one in traffic)
        return here * self.federation.size // max(len(traffic), 1)

    @property
    def seconds(self) -> float:
        """What the members of this process computed in this fit so far."""
        return self._computed() - self._before

    def _computed(self) -> float:
        return sum(one.seconds for one in self.federation.traffic.values())


def run_rounds(
    method: Method,
    members: Members,
    factors: tuple[np.ndarray, ...],
    watch: Watch | None = None,
    *,
    keep: Keep | None = None,
    resume: Checkpoint | None = None,
    finalists: tuple[tuple[np.ndarray, ...], ...] = (),
) -> LoopResult:
    """Begin, iterate until the stopping rule or the limit, bring into order, measure.

    ``keep`` is given every checkpoint between two iterations; a fit that is given one of them as
    ``resume`` goes on as if it had never stopped, its members' states being those kept with it.
    """
    settings = method.settings
    if resume is None:
        totals, _ = members.sum("totals", hospital.begin, factors)
        if totals.nonzeros == 0:
            raise EmptyTensor("The federation's tensor has no cell")
        resume = Checkpoint(method.start(factors, totals), finalists=finalists)
    state = resume.state
    judge = _Judge(method, members, watch, resume)
    while True:
        if keep is not None:
            keep(judge.checkpoint(state))
        try:
            state, stop = _iteration(state, method, members, judge)
        except np.linalg.LinAlgError:
            raise judge.diverged() from None
        if stop or state.iteration > settings.max_iter:
            break
    if not stop:
        reviewed, _ = members.sum("review", _reviewed, state.news(0, first=True))
        stop = judge.entry(state, reviewed.review)
        stop = judge.at_an_end(state, "limit") and stop
    final, measures, order, decided = brought_into_order(
        members, state.shared_factors, settings,
        {"stop": stop, "singular": state.singular},
    )  # fmt: skip
    penalty = sum(p.value(f) for p, f in zip(state.penalties, final, strict=True))
    limit = f"the limit of {settings.max_iter} iterations was reached"
    return LoopResult(
        final,
        measures,
        state.totals,
        measures.loss + penalty,
        tuple(judge.history),
        decided["stop"],
        method.at_rest if decided["stop"] else limit,
        decided["singular"] or judge.singular,
        time.perf_counter() - members.started - members.seconds,
        tuple(int(np.flatnonzero(order == r)[0]) for r in range(len(settings.guides))),
        resume.finalists,
    )


def _reviewed(state: HospitalState, news: Any) -> tuple[HospitalState, Review]:
    return hospital.review(state, news)


def _iteration(
    state: SharedState, method: Method, members: Members, judge: _Judge
) -> tuple[SharedState, bool]:
    """Every feature mode once. The first sum brings the verdict on the last iterate.

    The verdict is a vote, which rides in the second sum, made as if undecided; where more than half
    would stop, the iteration has not been.
    """
    before, iteration, stop, pending = state, state.iteration, False, False
    for n in range(len(state.shared_factors)):
        for inner in count():
            step = f"fit/{iteration}/{n}/{inner}"
            news = state.news(n, first=inner == 0)
            total, decided = members.sum(
                step, method.contribute, news,
                votes={"stop": stop} if pending else None, shared=state.shared_factors,
            )  # fmt: skip
            if pending and decided["stop"] and judge.at_an_end(before, str(iteration)):
                return before, True
            pending = n == 0 and inner == 0 and iteration > 1 and not method.fixed_length
            if n == 0 and inner == 0 and iteration > 1:
                stop = judge.entry(before, total.review)
            state = method.absorb(state, n, inner, total, _chooser(members, step))
            if state.settled:
                break
    return method.end_iteration(state), False


def _chooser(members: Members, step: str) -> Choose:
    """Votes on one question, or on the step of every column, in one sum."""
    federation, name = members.federation, f"{members.label}choice/{step}"

    def choose(own: np.ndarray) -> np.ndarray:
        if len(own) == 1:
            return np.array([federation.choose(name, int(own[0]))])
        total = federation.sum(name, lambda _name: StepLengths.of(own)).value
        return np.asarray(total.chosen.argmax(axis=1))

    return choose


class _Judge:
    """Keeps the history and decides when to stop."""

    def __init__(
        self,
        method: Method,
        members: Members,
        watch: Watch | None,
        resume: Checkpoint,
    ) -> None:
        self.method, self.members, self.totals = method, members, resume.state.totals
        self.watch = watch
        self.history = list(resume.history)
        self.relative_residuals = resume.relative_residuals
        self.quiet, self.singular = resume.quiet, resume.singular
        self.finalists = resume.finalists
        before = self.history[-1] if self.history else None
        self.started = members.started - (before.seconds if before else 0.0)
        self.sent_before = before.bytes if before else 0

    def checkpoint(self, state: SharedState) -> Checkpoint:
        """Where the run stands, before the next iteration."""
        return Checkpoint(
            state, tuple(self.history), self.relative_residuals, self.quiet, self.singular,
            self.finalists,
        )  # fmt: skip

    def entry(self, state: SharedState, review: np.ndarray) -> bool:
        """Write the line of the iterate that was just reviewed; say whether to stop."""
        settings = self.method.settings
        squared, at_cells, primal, local_norm, dual_norm, singular = (float(x) for x in review)
        self.singular = self.singular or singular > 0.0
        penalty = sum(
            p.value(f) for p, f in zip(state.penalties, state.shared_factors, strict=True)
        )
        objective = squared + penalty
        if not math.isfinite(objective) or objective > RUNAWAY * self.totals.null_loss:
            raise self.diverged()
        residuals: tuple[float | None, float | None] = (None, None)
        if self.method.needs_residuals:
            residuals = (math.sqrt(primal), math.sqrt(sum(state.dual_residual)))
            shared_norm = self.members.federation.size * sum(
                float((f**2).sum()) for f in state.shared_factors
            )
            self.relative_residuals = (
                math.sqrt(primal / max(local_norm, shared_norm, 1e-300)),
                math.sqrt(sum(state.dual_residual) / max(dual_norm, 1e-300)),
            )
        rmse = math.sqrt(at_cells / self.totals.nonzeros) if settings.track_rmse else None
        sent = self.sent_before + self.members.sent
        line = Iteration(
            len(self.history) + 1,
            objective,
            rmse,
            *residuals,
            sent,
            time.perf_counter() - self.started,
        )
        stop = self._verdict(line, state)
        self.history.append(line)
        if self.watch is not None:
            self.watch(line)
        return stop

    def at_an_end(self, state: SharedState, when: str) -> bool:
        """Whether Ψ has no slope left where the residuals of `trip` say to stop; else go on."""
        if not self.method.needs_residuals or self.method.fixed_length:
            return True
        factors = tuple(unit_columns(factor)[0] for factor in state.shared_factors)
        total, _ = self.members.sum(f"slopes/{when}", slopes, factors, shared=factors)
        level = int(steepest(factors, total, state.penalties) <= Tolerances.kkt)
        level = int(_chooser(self.members, f"slopes/{when}")(np.array([level]))[0])
        self.quiet = self.quiet if level else -patience(state.iteration)
        return bool(level)

    def diverged(self) -> Diverged:
        """The run left the range in which its equations mean something."""
        fix = "check the data for counts without bound, or cap them"
        settings = self.method.settings
        if self.method.needs_residuals:
            corrected = settings.variant == "corrected"
            fix = "use the method exact" if corrected else "use the corrected variant"
            if settings.consensus_penalty is not None:
                fix += ", or a larger consensus_penalty"
            elif corrected:
                fix += ", or a larger penalty_scale"
        return Diverged(
            f"The factors grew without bound after {len(self.history) + 1} iterations", fix=fix
        )

    def _verdict(self, line: Iteration, state: SharedState) -> bool:
        """Ψ, the slopes and the factors stand still twice in a row, and residuals are small."""
        settings = self.method.settings
        if self.history and not self.method.fixed_length:
            before = self.history[-1].objective
            change = abs(before - line.objective) / max(abs(before), 1e-300)
            exact_fit = line.objective <= EXACT * self.totals.null_loss
            still = state.slope <= Tolerances.kkt and state.moved <= Tolerances.movement
            still = (still and change < settings.tol) or exact_fit or self.quiet < 0
            self.quiet = self.quiet + 1 if still else 0
        small = max(self.relative_residuals) <= settings.residual_tolerance
        return self.quiet >= 2 and (small or not self.method.needs_residuals)


# ── what programs know alike to round-off becomes one and the same, to the last bit ───────────
# Machines round differently. Where a number is compared with a bound or put into words, all have to
# hold the same one: so it is a sum of everybody's, or the first hospital's.


def mean_of(federation: Communicator, step: str, own: C) -> C:
    """The mean of what every hospital's program found: all go on with the same numbers."""
    total = federation.sum(step, lambda _name: own).value.arrays()
    return type(own).from_arrays({name: part / federation.size for name, part in total.items()})


def first_of(federation: Communicator, step: str, own: C) -> C:
    """What the first hospital's program found: where a mean of two answers would be neither."""
    nothing = type(own).from_arrays({n: np.zeros_like(part) for n, part in own.arrays().items()})
    return federation.sum(
        step, lambda name: own if name == federation.hospitals[0] else nothing
    ).value


def settled(federation: Communicator, step: str, factors: Factors) -> Factors:
    """The factors that all go on with; refused where any entry is apart."""
    mean = mean_of(federation, step, SharedFactors(factors)).factors
    apart = max(float(np.abs(a - b).max(initial=0.0)) for a, b in zip(factors, mean, strict=True))
    if apart > DRIFT:
        raise DriftedApart("the hospitals' programs no longer agree", where=f"step {step[:80]}")
    return mean


def brought_into_order(
    members: Members,
    factors: Sequence[np.ndarray],
    settings: SolverSettings,
    votes: dict[str, bool] | None = None,
) -> tuple[tuple[np.ndarray, ...], Measures, np.ndarray, dict[str, bool]]:
    """Unit columns, largest entry positive, alike to the last bit; patients fitted once more.

    Components stand by weight, in the order that is given too. A bias stays last: it is no
    phenotype to be ranked.
    """
    units = [unit_columns(factor)[0] for factor in factors]
    signed = settled(
        members.federation, f"{members.label}factors",
        tuple(factor * readable_signs(factor) for factor in units),
    )  # fmt: skip
    measures, decided = members.sum("measures", hospital.measure, signed, votes=votes)
    order = np.argsort(-np.diag(measures.patient_gram)[: settings.n_components], kind="stable")
    if settings.bias:
        order = np.append(order, settings.n_components)
    for name, state in members.states.items():
        members.states[name] = hospital.finish(state, order)
    ordered = replace(measures, patient_gram=measures.patient_gram[np.ix_(order, order)])
    return tuple(factor[:, order] for factor in signed), ordered, order, decided
