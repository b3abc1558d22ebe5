"""Many starts, a few iterations each, the best go on: successive halving, all in the same rounds.

Narrow starts have the rank asked for: from the sketch, and uniform. Wide ones begin with twice the
columns and shed the cheapest, half of the surplus at a time: what is left over found its place
among more neighbours. Three kinds are kept apart until late, for a sketched start leads early and a
uniform one may still win: where optima are many, most often one that was far behind after three
iterations.

Whatever is decided here comes from floating point, so it is a vote: ``votes`` are one hospital's,
``decided`` is what their sum means, and ``after`` acts on it. One process alone sums one vote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import CODES, COLUMNS, MODELS, Stack, declared, shaped
from tripheno.solver.acceleration import Momentum, extrapolated, no_worse
from tripheno.solver.stacked import LONGEST, side_by_side, widths_of
from tripheno.solver.starts import Factors, sketched_start, uniform_start
from tripheno.vocabulary.axis import Axis

Kind = Literal["sketch", "uniform", "wide"]
KINDS: tuple[Kind, ...] = get_args(Kind)

SIFT = 6  # the iteration after which the better of the narrow starts go on,
SHED = (8, 10, 12, 14)  # those after which half of a wide start's surplus goes, at last all of it,
HALVE = 16  # the one after which the finalists are left,
FINAL = LONGEST  # and the one after which the best alone goes on
DECISIONS = (SIFT, *SHED, HALVE, FINAL)
ALIKE = 1e-9  # of Ψ: starts that differ by less ended in one and the same optimum
VOTE_BITS = 10  # votes may be zeros now and ones later
SIFTED: dict[Kind, int] = {"sketch": 4, "uniform": 2, "wide": 1}  # one in so many
FINALISTS: dict[Kind, int] = {"sketch": 1, "uniform": 3, "wide": 1}


@dataclass(frozen=True)
class Candidate:
    """One start on its way."""

    number: int
    kind: Kind
    momentum: Momentum
    point: Factors  # where the patients are fitted next

    @property
    def width(self) -> int:
        """Columns it has at the moment."""
        return int(self.point[0].shape[1])


@dataclass(frozen=True)
class Tournament:
    """The candidates still in, after so many iterations."""

    rank: int
    candidates: tuple[Candidate, ...]
    iteration: int = 0

    @property
    def models(self) -> list[Factors]:
        """The points to be fitted in the next round, side by side in one message."""
        return [one.point for one in self.candidates]

    @property
    def best(self) -> Candidate:
        """The candidate with the lowest Ψ."""
        return min(self.candidates, key=lambda one: one.momentum.objective)

    @property
    def over(self) -> bool:
        """Whether one candidate is left, to be fitted to the end."""
        return self.iteration >= FINAL


def opened(
    axes: Sequence[Axis], root: np.ndarray, rank: int, seed: int, starts: int = 16
) -> Tournament:
    """All candidates. ``root`` is the Nyström factor of the summed sketch (``starts.nystrom``)."""
    kinds = kinds_of(starts)
    sketched = kinds.count("sketch")
    narrow = [sketched_start(root, axes, rank, seed, k) for k in range(sketched)]
    narrow += [uniform_start(axes, rank, seed, k) for k in range(starts - sketched)]
    wide = []
    for k in range(kinds.count("wide")):
        fresh = uniform_start(axes, rank, seed, starts + k)
        other = narrow[k] if k % 2 else uniform_start(axes, rank, seed, 2 * starts + k)
        wide.append(side_by_side([other, fresh]))
    return entered(rank, kinds, [*narrow, *wide])


@declared(
    "opening", "codes × columns: the starts, which follow from sums; of one hospital for all",
    lambda plan: plan.tournaments,
)  # fmt: skip
@dataclass(frozen=True)
class Opening(Contribution):
    """All starts side by side, of the first hospital; the others add zeros.

    Machines make the same ones to round-off; so all begin with the same bits.
    """

    starts: tuple[np.ndarray, ...] = shaped(CODES, COLUMNS)


def kinds_of(starts: int) -> list[Kind]:
    """A quarter of the narrow starts are sketched, the others uniform; a wide one for every 8."""
    sketched = -(-starts // 4)
    sizes: dict[Kind, int] = {
        "sketch": sketched, "uniform": starts - sketched, "wide": starts // 8
    }  # fmt: skip
    return [kind for kind, size in sizes.items() for _ in range(size)]


def entered(rank: int, kinds: Sequence[Kind], starts: Sequence[Factors]) -> Tournament:
    """The field before its first iteration."""
    pairs = enumerate(zip(kinds, starts, strict=True))
    return Tournament(
        rank, tuple(Candidate(n, kind, Momentum(first), first) for n, (kind, first) in pairs)
    )


def stacks(rank: int, starts: int) -> tuple[Stack, ...]:
    """The sets of models that go side by side, from the first round to the last one left."""
    if starts == 1:
        return ()
    kinds = kinds_of(starts)
    empty = [(np.zeros((0, rank * (1 + (kind == "wide")))),) for kind in kinds]
    field, found = entered(rank, kinds, empty), []
    while True:
        widths = widths_of(field.models)
        found.append((len(widths), sum(widths), sum(width**2 for width in widths)))
        if field.over:
            return tuple(dict.fromkeys(found))
        level = np.zeros(len(widths))
        decision = decided(field, votes(field, level, [np.zeros(w) for w in widths]), 1)
        field = after(field, field.models, level, decision)


def alone(rank: int, start: Factors, iteration: int = FINAL) -> Tournament:
    """One candidate: at the stage in which the best is fitted to its end, or at an earlier one."""
    return replace(entered(rank, ["uniform"], [start]), iteration=iteration)


# ── decisions ─────────────────────────────────────────────────────────────────────────────────


@declared(
    "ballot", "none: which starts and columns this hospital's program would go on with",
    lambda plan: plan.tournaments * len(DECISIONS),
)  # fmt: skip
@dataclass(frozen=True)
class Votes(Contribution):
    """1 for yes; of one hospital, or summed over all.

    Per candidate: its iterate is no worse than the best before it; it goes on. Per column of all
    candidates: it is kept.
    """

    accept: np.ndarray = shaped(MODELS, least=VOTE_BITS)
    stay: np.ndarray = shaped(MODELS, least=VOTE_BITS)
    columns: np.ndarray = shaped(COLUMNS, least=VOTE_BITS)


def votes(field: Tournament, objectives: np.ndarray, costs: Sequence[np.ndarray]) -> Votes:
    """One hospital's opinion of the iteration just made: Ψ and the cost of every column."""
    known = [one.momentum.objective for one in field.candidates]
    accept = [float(no_worse(new, old)) for new, old in zip(objectives, known, strict=True)]
    standing = np.minimum(objectives, known)
    stay, columns = np.zeros(len(known)), np.zeros(sum(one.width for one in field.candidates))
    for members, keep in _kept(field):
        stay[[members[i] for i in _lowest(standing[members], keep)]] = 1.0
    begin = 0
    for one, cost in zip(field.candidates, costs, strict=True):
        order = np.argsort(-np.asarray(cost), kind="stable")[: _width_after(field, one)]
        columns[begin + order] = 1.0
        begin += one.width
    return Votes(np.array(accept), stay, columns)


def decided(field: Tournament, total: Votes, voters: int) -> Votes:
    """What the summed votes mean: half or more accept; of the others those with most votes."""
    stay, columns = np.zeros_like(total.stay), np.zeros_like(total.columns)
    for members, keep in _kept(field):
        stay[[members[i] for i in _elected(total.stay[members], keep)]] = 1.0
    begin = 0
    for one in field.candidates:
        mine = total.columns[begin : begin + one.width]
        columns[begin + _elected(mine, _width_after(field, one))] = 1.0
        begin += one.width
    return Votes((2.0 * total.accept >= voters).astype(np.float64), stay, columns)


def after(
    field: Tournament, found: Sequence[Factors], objectives: np.ndarray, decision: Votes
) -> Tournament:
    """The next iteration's candidates: stepped beyond, shed, and those who leave left out."""
    remaining, begin = [], 0
    for n, one in enumerate(field.candidates):
        kept = decision.columns[begin : begin + one.width] > 0.0
        begin += one.width
        if not decision.stay[n]:
            continue
        if not kept.all():
            factors = tuple(factor[:, kept] for factor in found[n])
            remaining.append(replace(one, momentum=Momentum(factors), point=factors))
            continue
        accept = bool(decision.accept[n])
        momentum, point = extrapolated(one.momentum, found[n], objectives[n], accept=accept)
        remaining.append(replace(one, momentum=momentum, point=point))
    return Tournament(field.rank, tuple(remaining), field.iteration + 1)


def _lowest(objectives: np.ndarray, keep: int) -> np.ndarray:
    """Those with the lowest Ψ; of starts that ended in one optimum the first, whatever round-off.

    Their Ψ differ in the last digits, their factors by the root of that.
    """
    order = np.argsort(objectives, kind="stable")
    lower, higher = objectives[order[:-1]], objectives[order[1:]]
    place = np.zeros(len(order), dtype=np.int64)
    place[order[1:]] = np.cumsum(higher > lower + ALIKE * abs(lower))
    return np.argsort(place, kind="stable")[:keep]


def _elected(votes_for: np.ndarray, keep: int) -> np.ndarray:
    """Those with most votes, then those with the lowest index."""
    return np.argsort(-votes_for, kind="stable")[:keep]


def _kept(field: Tournament) -> list[tuple[list[int], int]]:
    """Groups of candidates that compete with each other, and how many of each go on."""
    done = field.iteration + 1
    everyone = list(range(len(field.candidates)))
    if done >= FINAL:
        return [(everyone, 1)]
    groups = []
    for kind, finalists in FINALISTS.items():
        members = [n for n in everyone if field.candidates[n].kind == kind]
        keep = len(members)
        if done == SIFT:
            keep = -(-keep // SIFTED[kind])
        elif done == HALVE:
            keep = min(keep, finalists)
        groups.append((members, keep))
    return groups


def _width_after(field: Tournament, one: Candidate) -> int:
    done = field.iteration + 1
    if done not in SHED:
        return one.width
    surplus = one.width - field.rank
    return field.rank + (0 if done == SHED[-1] else surplus // 2)


def columns_of(field: Tournament) -> int:
    """Columns of all candidates together: what a round's message is as wide as."""
    return sum(widths_of(field.models))
