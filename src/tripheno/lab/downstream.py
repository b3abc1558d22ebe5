"""Are phenotype memberships of use? An outcome predicted from them, cross-validated.

Three kinds of features are tried in the same folds, each with a classifier of the hospital's own:
memberships of the phenotypes found together, memberships of the hospital's own phenotypes, and the
raw codes. Phenotypes are found from training patients only; a held-out patient is scored on them
frozen, as a new patient would be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse
from scipy.stats import rankdata

from tripheno.exchange.communicator import in_clear
from tripheno.lab.logistic import auc, fit_chosen, stratified_folds
from tripheno.solver.frozen import FrozenPhenotypes
from tripheno.solver.losses import loss_of
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Solution
from tripheno.study.evidence import quiet_fit
from tripheno.tensor.count_tensor import CountTensor

TOGETHER, OWN, RAW = "phenotypes found together", "own phenotypes", "raw codes"
FEATURES = (TOGETHER, OWN, RAW)
RESAMPLES = 2_000


@dataclass(frozen=True)
class Cohort:
    """Hospitals on common axes, and for every patient whether the outcome came."""

    tensors: dict[str, CountTensor]
    outcomes: dict[str, np.ndarray]  # bool, one a patient
    people: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Who each row is: one person may have been a patient of several hospitals."""


@dataclass(frozen=True)
class Usefulness:
    """How well one kind of features predicts the outcome."""

    features: str
    columns: int
    auc: float
    low: float  # 95 % interval over patients
    high: float
    gain: float  # what phenotypes found together are better by
    gain_low: float  # 95 % interval of that, the same patients drawn for both
    gain_high: float


@dataclass(frozen=True)
class CrossValidation:
    """How the check is made."""

    folds: int = 5
    repeats: int = 5
    seed: int = 0


def usefulness(
    cohort: Cohort,
    settings: SolverSettings,
    plan: CrossValidation,
    say: Callable[[str], None],
) -> list[Usefulness]:
    """Every kind of features, the area under its ROC curve and an interval.

    The area is within hospitals, where scores can be compared, weighted by pairs of patients. A
    hospital with fewer than two outcomes for every fold helps to find phenotypes and is not judged.
    """
    judged = [
        name
        for name, outcome in cohort.outcomes.items()
        if min(outcome.sum(), (~outcome).sum()) >= 2 * plan.folds
    ]
    scores = {kind: {n: np.zeros(len(cohort.outcomes[n])) for n in judged} for kind in FEATURES}
    columns = dict.fromkeys(FEATURES, 0)
    for repeat in range(plan.repeats):
        rng = np.random.default_rng([plan.seed, repeat])
        folds = folds_of(cohort, plan.folds, rng)
        for fold in range(plan.folds):
            say(f"repeat {repeat + 1} of {plan.repeats}, fold {fold + 1} of {plan.folds}")
            for name, kind, held, found in _fold(
                cohort, judged, folds, fold, settings=settings, rng=rng
            ):
                scores[kind][name][held] += _standard(found[0])
                columns[kind] = max(columns[kind], found[1])
    return _judged(columns, scores, cohort, plan.seed)


def folds_of(cohort: Cohort, count: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A fold for every row, outcomes spread evenly; all rows of one person are in one fold."""
    folds = {name: stratified_folds(o, count, rng) for name, o in cohort.outcomes.items()}
    met: dict[str, int] = {}
    for name, people in cohort.people.items():
        for row, person in enumerate(people):
            folds[name][row] = met.setdefault(person, int(folds[name][row]))
    return folds


def _standard(scores: np.ndarray) -> np.ndarray:
    """Scores of one fold on a common footing, so that folds and repeats can be added.

    Equal scores get equal ranks: broken by the order of the file, a tie could tell the outcome.
    """
    return np.asarray((rankdata(scores) - 0.5) / len(scores))


def _fold(
    cohort: Cohort,
    judged: list[str],
    folds: Mapping[str, np.ndarray],
    fold: int,
    *,
    settings: SolverSettings,
    rng: np.random.Generator,
) -> list[tuple[str, str, np.ndarray, tuple[np.ndarray, int]]]:
    """Scores of the held-out patients by hospital and kind of features, and how many columns."""
    train = {
        name: tensor.select_patients(np.flatnonzero(folds[name] != fold))
        for name, tensor in cohort.tensors.items()
    }
    together = _frozen(_fitted(train, replace(settings, method="exact")))
    found = []
    for name in judged:
        held = np.flatnonzero(folds[name] == fold)
        outcome = cohort.outcomes[name][folds[name] != fold]
        unseen = cohort.tensors[name].select_patients(held)
        own = _frozen(_fitted({name: train[name]}, replace(settings, method="central")))
        pairs = {
            TOGETHER: _memberships(together, train[name], unseen),
            OWN: _memberships(own, train[name], unseen),
            RAW: (code_indicators(train[name]), code_indicators(unseen)),
        }
        for kind, (seen, new) in pairs.items():
            model = fit_chosen(seen, outcome, rng)
            found.append((name, kind, held, (model.scores(new), int(seen.shape[1]))))
    return found


def _fitted(tensors: Mapping[str, CountTensor], settings: SolverSettings) -> Solution:
    return quiet_fit(tensors, settings, in_clear(tensors), "")


def _frozen(solution: Solution) -> FrozenPhenotypes:
    return FrozenPhenotypes(
        solution.axes, solution.factors, loss_of(solution.settings), solution.bias
    )


def _memberships(
    phenotypes: FrozenPhenotypes, train: CountTensor, unseen: CountTensor
) -> tuple[np.ndarray, np.ndarray]:
    """Log memberships, centred and scaled by the training patients alone."""
    seen, new = (np.log1p(phenotypes.memberships(tensor)) for tensor in (train, unseen))
    centre, width = seen.mean(axis=0), seen.std(axis=0)
    width = np.where(width > 0, width, 1.0)
    return (seen - centre) / width, (new - centre) / width


def code_indicators(tensor: CountTensor) -> sparse.csr_matrix:
    """Patients × codes of all modes: whether the patient has the code in a cell."""
    indices, _ = tensor.coordinates()
    blocks = []
    for n, axis in enumerate(tensor.axes):
        pairs = np.unique(indices[:, [0, n + 1]], axis=0)
        ones = np.ones(len(pairs))
        blocks.append(
            sparse.csr_matrix((ones, (pairs[:, 0], pairs[:, 1])), (tensor.patients, axis.size))
        )
    return sparse.hstack(blocks, format="csr")


def _judged(
    columns: Mapping[str, int],
    scores: Mapping[str, Mapping[str, np.ndarray]],
    cohort: Cohort,
    seed: int,
) -> list[Usefulness]:
    """Areas within hospitals, and intervals by drawing patients again, the same for every kind."""
    rng = np.random.default_rng([seed, 1])
    judged = {name: len(score) for name, score in scores[TOGETHER].items()}
    whole = {name: np.arange(size) for name, size in judged.items()}
    samples = [
        {name: rng.integers(size, size=size) for name, size in judged.items()}
        for _ in range(RESAMPLES if judged else 0)
    ]
    area = {kind: _within(scores[kind], cohort, whole) for kind in FEATURES}
    drawn = {
        kind: np.array([_within(scores[kind], cohort, rows) for rows in samples])
        for kind in FEATURES
    }
    return [
        Usefulness(
            kind, columns[kind], area[kind], *_interval(drawn[kind]),
            area[TOGETHER] - area[kind], *_interval(drawn[TOGETHER] - drawn[kind]),
        )
        for kind in FEATURES
    ]  # fmt: skip


def _interval(values: np.ndarray) -> tuple[float, float]:
    if not np.isfinite(values).any():
        return float("nan"), float("nan")
    low, high = np.nanquantile(values, [0.025, 0.975])
    return float(low), float(high)


def _within(
    scores: Mapping[str, np.ndarray], cohort: Cohort, chosen: Mapping[str, np.ndarray]
) -> float:
    """Mean area over hospitals, weighted by pairs of patients with and without the outcome."""
    areas, weights = [], []
    for name, rows in chosen.items():
        score, outcome = scores[name][rows], cohort.outcomes[name][rows]
        positives = int(outcome.sum())
        if 0 < positives < len(rows):
            areas.append(auc(score, outcome))
            weights.append(positives * (len(rows) - positives))
    return float(np.average(areas, weights=weights)) if areas else float("nan")
