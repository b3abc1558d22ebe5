"""What hospitals get out of totals that they may read, with a null control beside each attack.

A hospital takes its own part off every total; together with K − 2 others it holds the sum of the
last two. Every finding says what is to be expected; what `docs/privacy.md` says is marked as said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tripheno.evaluation.comparison import share_out
from tripheno.exchange.communicator import in_clear
from tripheno.lab.attacks import lattice, people
from tripheno.lab.attacks.dynamics import Steps, identify
from tripheno.lab.attacks.equations import relative_error, truth
from tripheno.lab.attacks.finding import PEER, RECOVERED, SHIPPED, Finding
from tripheno.lab.attacks.tracing import SIZES, Network, tracing
from tripheno.lab.attacks.view import Snapshot, View, watched_run
from tripheno.privacy.own_data import PATIENTS_PER_RESAMPLE
from tripheno.privacy.vetoes import counted, kept, vetoes
from tripheno.solver.influence import common_bound, with_bound
from tripheno.solver.settings import SolverSettings
from tripheno.solver.starts import sketch, sketch_matrix, uniform_start
from tripheno.study.axes import restricted
from tripheno.study.evidence import halves, seeded_generators
from tripheno.tensor.count_tensor import CountTensor, pooled

MANY_STEPS = 8
LAST = 8  # iterations whose single steps are taken for steps on the same products
UNTIL = 40  # iterations of a run that is taken to be almost at rest
REPLICATES = 10  # of a study, by default
TRIALS = 8
FEWEST = 11
PEOPLE_SOUGHT = 40  # by factors that a hospital chose: of a few steps of a study
IN_SKETCH = 9  # codes of each mode: with many more it takes a better lattice reduction than ours

Say = Callable[[str], None]
Tensors = Mapping[str, CountTensor]


def attack_as_peer(
    inside: Tensors, network: Network, seed: int, say: Say, sizes: Sequence[int] = SIZES
) -> list[Finding]:
    """All that hospitals try on each other."""
    found: list[Finding] = []
    say("hospitals' steps, identified by their dynamics")
    found += identification(inside, seed)
    say("rows of codes that one other hospital has")
    found += rows_of_one_holder(inside)
    say("parts of one person's records, on factors that a lying hospital chose")
    found.append(on_chosen_factors(inside, seed))
    say("resampled patients, by lattices and guessed zeros")
    found += resampling(next(iter(inside.values())), seed)
    found += halved(inside, seed)
    say("pairs of codes, out of the sketch")
    found += sketched(inside, seed)
    for size in sizes:
        say(f"who took part, among {size:,} patients")
        found.append(tracing(network, size, seed))
    return found


# ── the dynamics of `trip` ────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class PeerCase:
    """A run whose hospitals are to be told apart."""

    rank: int
    steps: int
    hospitals: int = 3
    start: int = 0


CASES = (
    PeerCase(4, MANY_STEPS), PeerCase(4, MANY_STEPS, start=1), PeerCase(4, MANY_STEPS, start=2),
    PeerCase(10, MANY_STEPS), PeerCase(4, MANY_STEPS, hospitals=5), PeerCase(4, 1), PeerCase(10, 1),
)  # fmt: skip


def identification(
    inside: Tensors, seed: int, cases: Sequence[PeerCase] = CASES
) -> Iterator[Finding]:
    """Each case of `trip`; `exact` beside it, whose totals have no dynamics to identify."""
    for case in cases:
        yield _identified(_shared_by(inside, case.hospitals, seed), case, seed)
    for rank in sorted({case.rank for case in cases}):
        yield _without_dynamics(inside, rank, seed)


def _shared_by(inside: Tensors, hospitals: int, seed: int) -> Tensors:
    if hospitals == len(inside):
        return inside
    together = pooled(list(inside.values()))
    return share_out(together, hospitals, 0.9, np.random.default_rng(seed))


def _identified(tensors: Tensors, case: PeerCase, seed: int) -> Finding:
    settings = SolverSettings(
        case.rank, "trip", seed=seed + case.start, starts=1, influence="none", tol=1e-12,
        inner_steps=case.steps, most_inner_steps=case.steps,
        max_iter=2 if case.steps > 1 else UNTIL,
    )  # fmt: skip
    view = watched_run(tensors, settings, "blind")
    snapshots = [one for one in view.snapshots if one.mode == 0]
    seen = [one for one in snapshots if one.iteration == 1] if case.steps > 1 else snapshots[-LAST:]
    honest, colluders = view.hospitals[:2], view.hospitals[2:]
    found = identify(_sum_of_the_honest(view, seen, colluders))
    true = [truth(tensors[name], seen[0].factors, nonnegative=True)[1] for name in honest]
    half = 0.5 * (true[0] + true[1])
    null = min(relative_error(half, one) for one in true)
    error, residual = float("inf"), float("inf")
    if found is not None:
        residual = found.residual
        error = min(
            max(relative_error(a, b) for a, b in zip(found.grams, order, strict=True))
            for order in (true, true[::-1])
        )
    steps = "one step" if case.steps == 1 else f"{case.steps} steps"
    return Finding(
        f"a hospital's Gram matrix by identification, rank {case.rank}, {steps}"
        f", {len(colluders)} of {len(view.hospitals)} collude" + (f", start {case.start + 1}" if
                                                                  case.start else ""),
        PEER, "trip" if case.steps == 1 else f"trip, {case.steps} steps", "error", error,
        error < RECOVERED, null_control=null, said=case.steps > 1,
        note=f"residual {residual:.0e}",
        expect="recovered, and the residual shows it" if case.steps > 1 else
        "nothing better than half of the sum; the residual is large",
    )  # fmt: skip


def _sum_of_the_honest(
    view: View, snapshots: Sequence[Snapshot], colluders: Sequence[str]
) -> Steps:
    def less(snapshot: Snapshot, field: str) -> np.ndarray:
        total = view.tap.totals[snapshot.step][field]
        own = [view.tap.contributed[snapshot.step][name][field] for name in colluders]
        return np.asarray(total - np.sum(own, axis=0))

    return Steps(
        [one.factors[0] for one in snapshots],
        [less(one, "proposal") for one in snapshots],
        less(snapshots[0], "penalty")[0],
        view.settings.relaxation,
    )


def _without_dynamics(inside: Tensors, rank: int, seed: int) -> Finding:
    """`exact`: the sum of two hospitals' products, of which half is the best guess."""
    axes = next(iter(inside.values())).axes
    features = uniform_start(axes, rank, seed)
    one, other = (truth(inside[n], features, nonnegative=True)[1] for n in list(inside)[:2])
    error = min(relative_error(0.5 * (one + other), true) for true in (one, other))
    return Finding(
        f"a hospital's Gram matrix by identification, rank {rank}", PEER, SHIPPED, "error", error,
        error < RECOVERED, null_control=error, note="half of the sum of two",
        expect="the guess: totals are the same for any division of the patients",
    )  # fmt: skip


# ── rows of rare codes ────────────────────────────────────────────────────────────────────────


def rows_of_one_holder(inside: Tensors, fewest: int = FEWEST) -> Iterator[Finding]:
    """A code that one other hospital has: its row of the total less one's own is that hospital's.

    The value is the share of such rows with fewer than ``fewest`` people behind them.
    """
    names = list(inside)
    counts = {name: inside[name].people_at_positions() for name in names}
    for threshold, setup in ((1, "no threshold"), (fewest, SHIPPED)):
        few = rows = 0
        for mode in range(len(counts[names[0]])):
            people_of = np.array([counts[name][mode] for name in names])
            stays = _stays(people_of, threshold)
            for k in range(len(names)):
                others = np.delete(people_of, k, axis=0)
                single = stays & ((others > 0).sum(axis=0) == 1)
                rows += int(single.sum())
                few += int((others.sum(axis=0)[single] < fewest).sum())
        yield Finding(
            f"rows of one other hospital with fewer than {fewest} people behind them",
            PEER, setup, "share", few / max(rows, 1), few > 0, said=threshold == 1,
            note=f"{few:,} of {rows:,} rows of codes with one other holder",
            expect="none: such a row is read exactly, but enough people stand behind it"
            if threshold > 1 else "many",
        )  # fmt: skip


def _stays(people_of: np.ndarray, fewest: int) -> np.ndarray:
    own = [counted(one, fewest) for one in people_of]
    total = np.sum(own, axis=0)
    objections = np.sum([vetoes(total, one, fewest, np.ones) for one in own], axis=0)
    return kept(total, objections, fewest)


def on_chosen_factors(inside: Tensors, seed: int, fewest: int = FEWEST) -> Finding:
    """A hospital that lies knows the others' sum first, and makes the total that it wants.

    It says that a number did not fit, reads the others' sum, and in the repeat adds what gives the
    next factors: one code of each mode for each phenotype. Where one person of the others has these
    codes together, a column of the sum is that person's: the codes that go with the other ones.
    """
    axes, names = next(iter(inside.values())).axes, list(inside)
    counts = [[inside[name].people_at_positions()[n] for name in names] for n in range(len(axes))]
    stay = [axis.kept(_stays(np.array(c), fewest)) for axis, c in zip(axes, counts, strict=True)]
    others = pooled([restricted(inside[name], stay) for name in names[:-1]])
    others = with_bound(others, common_bound(in_clear(inside), "", inside))
    cells, people_of = np.unique(others.coordinates()[0][:, 1:], axis=0, return_counts=True)
    alone = cells[people_of == 1]
    chosen = np.random.default_rng(seed).permutation(alone)[:PEOPLE_SOUGHT]
    share, null = _read_alone(others, chosen) if len(chosen) else (0.0, 0.0)
    return Finding(
        "parts of one person's records, on factors that a lying hospital chose", PEER, SHIPPED,
        "share", share, share > 0.0, null_control=null, said=True, expect="all of them",
        note=f"{len(alone):,} of {len(cells):,} cells are one person's",
    )  # fmt: skip


def _read_alone(others: CountTensor, chosen: np.ndarray) -> tuple[float, float]:
    """Which share of these cells' columns is the one person's; and the same of another's."""
    features = tuple(np.zeros((axis.size, len(chosen))) for axis in others.axes)
    for factor, codes in zip(features, chosen.T, strict=True):
        factor[codes, np.arange(len(chosen))] = 1.0
    seen = truth(others, features, nonnegative=True)[0].T
    (indices, values), parts = others.coordinates(), np.zeros_like(seen)
    for row, cell in zip(parts, chosen, strict=True):
        beside = (indices[:, 2:] == cell[1:]).all(axis=1)
        person = indices[beside & (indices[:, 1] == cell[0]), 0]
        own = beside & (indices[:, 0] == person)
        row[indices[own, 1]] = values[own]
    return _alike(seen, parts), _alike(seen, np.roll(parts, 1, axis=0))


def _alike(rows: np.ndarray, others: np.ndarray) -> float:
    """The share of rows that are those of the others but for their lengths."""
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(others, axis=1)
    return float(np.mean((rows * others).sum(axis=1) > (1.0 - RECOVERED**2) * lengths))


# ── resampled patients ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Resampling:
    """Weights of a kind, how many replicates, and how many patients are behind the totals."""

    weights: str
    replicates: int
    patients: int
    setup: str = "not used"


RESAMPLINGS = (
    Resampling("whole", 16, 6),
    Resampling("Exp(1)", 16, 6),
    Resampling("Exp(1), half of them 0", 16, 6),
    Resampling("Exp(1)", REPLICATES, REPLICATES),
    Resampling("Exp(1)", REPLICATES, 2 * PATIENTS_PER_RESAMPLE * REPLICATES, SHIPPED),
)


def resampling(tensor: CountTensor, seed: int) -> Iterator[Finding]:
    """Rows of patients out of totals of the same model over resampled patients."""
    for kind in RESAMPLINGS:
        lattices, zeros, blind = np.mean(
            [_rows(tensor, kind, seed + n) for n in range(TRIALS)], axis=0
        )
        safe = kind.replicates < kind.patients
        for how, value in (("lattice reduction", lattices), ("guessed zeros", zeros)):
            yield Finding(
                f"patients' rows by {how}: {kind.weights} weights, {kind.replicates} replicates, "
                f"{kind.patients} patients", PEER, kind.setup, "share", float(value), value > 0.0,
                null_control=float(blind), said=kind.setup != SHIPPED,
                expect="none: fewer replicates than people" if safe else
                "most" if how == "guessed zeros" or kind.weights == "whole" else "none",
            )  # fmt: skip


def _rows(tensor: CountTensor, kind: Resampling, seed: int) -> tuple[float, float, float]:
    """Shares by lattice, by zeros, and by zeros where rows are somebody else's: the null."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(tensor.patients, 2 * kind.patients, replace=False)
    features = uniform_start(tensor.axes, 4, seed)
    rows = people.additions(tensor.select_patients(np.sort(chosen)), features, nonnegative=True)
    codes = np.repeat(np.arange(rows.shape[1]), rows.shape[2])
    flat = rng.permutation(rows.reshape(len(rows), -1))
    true, others = flat[: kind.patients], flat[kind.patients :]
    shape = (kind.replicates, kind.patients)
    weights = rng.poisson(1.0, shape).astype(float)
    if kind.weights != "whole":
        weights = rng.exponential(size=shape)
    if kind.weights.endswith("0"):
        weights *= rng.random(shape) < 0.5
    seen = np.abs(true).sum(axis=0) > 0.0
    totals = weights @ true[:, seen]
    by_zeros = lattice.by_guessed_zeros(totals, codes[seen], kind.patients, rng)
    return (
        lattice.recovered(lattice.by_whole_weights(totals, kind.patients), true[:, seen]),
        lattice.recovered(by_zeros, true[:, seen]),
        lattice.recovered(by_zeros, others[:, seen]),
    )


def halved(inside: Tensors, seed: int, fewest: int = FEWEST) -> Iterator[Finding]:
    """Codes with enough people, of which a half of the patients has a few by chance."""
    parts = halves(inside, seeded_generators(seed), "rank/0")
    names, shares = list(inside), {}
    for threshold in (1, fewest):
        few = codes = 0
        for mode in range(len(next(iter(inside.values())).axes)):
            whole, *both = (
                np.array([part[name].people_at_positions()[mode] for name in names])
                for part in (inside, *parts)
            )
            stays = _stays(whole, fewest) & _stays(both[0], threshold) & _stays(both[1], threshold)
            for half in both:
                others = half.sum(axis=0) - half
                few += int(((others > 0) & (others < fewest) & stays).any(axis=0).sum())
                codes += int(_stays(whole, fewest).sum())
        shares[threshold] = few / max(codes, 1)
    yield Finding(
        f"codes with fewer than {fewest} people in a half of the patients", PEER, SHIPPED, "share",
        shares[fewest], shares[fewest] > 0.0, null_control=shares[1],
        expect="none: such codes are left out of the halves; the null control keeps them",
    )  # fmt: skip


# ── the sketch of who occurs with whom ────────────────────────────────────────────────────────


def sketched(inside: Tensors, seed: int) -> Iterator[Finding]:
    """The row of a code in CΩ: counts of pairs of codes, where people count as whole numbers."""
    axes = next(iter(inside.values())).axes
    few = tuple(axis.kept(np.arange(axis.size) < IN_SKETCH) for axis in axes)
    bound = common_bound(in_clear(inside), "", inside)
    for setup, weighed in (
        ("influence none", inside),
        (SHIPPED, {name: with_bound(tensor, bound) for name, tensor in inside.items()}),
    ):
        others = [restricted(weighed[name], few) for name in list(inside)[:-1]]
        share, null = _pairs_found(others, seed)
        yield Finding(
            "counts of pairs of codes, out of the sketch by lattice reduction", PEER, setup,
            "share", share, share > 0.0, null_control=null, said=setup != SHIPPED,
            note=f"{IN_SKETCH} codes of each mode",
            expect="none: patients' weights are no whole numbers" if setup == SHIPPED else "most",
        )  # fmt: skip


def _pairs_found(others: Sequence[CountTensor], seed: int) -> tuple[float, float]:
    """Which share of the co-occurrence's rows is found; and the same of rows that are shuffled."""
    omega = sketch_matrix(others[0].axes, 4, seed)
    true = np.sum([sketch(tensor, np.eye(len(omega))) for tensor in others], axis=0)
    seen = np.sum([sketch(tensor, omega) for tensor in others], axis=0)
    rng = np.random.default_rng(seed)
    rows = [n for n in rng.permutation(len(true)) if true[n].any()][:TRIALS]
    found = [lattice.whole_row(omega, seen[n]) for n in rows]
    hits = [bool(np.abs(one - true[n]).max() < 0.5) for one, n in zip(found, rows, strict=True)]
    blind = [bool(np.abs(one - rng.permutation(true[n])).max() < 0.5)
             for one, n in zip(found, rows, strict=True)]  # fmt: skip
    return float(np.mean(hits)), float(np.mean(blind))
