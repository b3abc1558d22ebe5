"""What speaks for a study's phenotypes: resampled patients, other starts, other ranks, carriers.

Every fit is a federated one, patients are resampled and split at home, all else is a sum over
hospitals: no patient moves.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tripheno.errors import NothingLeft, SettingsError, TriphenoWarning
from tripheno.evaluation.grades import Graded, Likeness, graded, likeness
from tripheno.evaluation.intervals import (
    Interval,
    bootstrap_weights,
    code_intervals,
    prevalence_interval,
)
from tripheno.evaluation.membership import counted, members
from tripheno.evaluation.rank import RankChoice, RankEvidence, recommend
from tripheno.evaluation.stability import matched
from tripheno.exchange.communicator import Communicator, in_clear
from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import COMPONENTS, declared, shaped
from tripheno.privacy.subgroups import Group
from tripheno.solver.checkpoints import Store
from tripheno.solver.diagnostics import core_consistency, held_out_error
from tripheno.solver.fit import fit
from tripheno.solver.influence import effective_parts, effective_patients, with_bound
from tripheno.solver.loop import mean_of
from tripheno.solver.losses import loss_of
from tripheno.solver.messages import Totals
from tripheno.solver.method import Exact
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Solution
from tripheno.solver.stacked import side_by_side, unit_of, widths_of
from tripheno.solver.starts import Factors
from tripheno.solver.tournament_run import NEAR_BEST
from tripheno.study.axes import MOST_COUNTS, kept_positions, restricted
from tripheno.study.subgroups import Traits, subgroups
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import factor_match_score, unit_columns
from tripheno.tensor.threads import one_blas_thread

FEWEST_TO_SPLIT = 4  # patients of a hospital
RESAMPLED = 12  # iterations of a resample

Generators = Callable[[str, str], np.random.Generator]
"""``rng = generators(hospital, purpose)``: what a hospital draws at home."""


def seeded_generators(seed: int) -> Generators:
    """Generators that follow a seed: for simulations and rehearsals."""

    def draw(hospital: str, purpose: str) -> np.random.Generator:
        text = f"{seed}|{hospital}|{purpose}".encode()
        return np.random.default_rng(
            np.frombuffer(hashlib.blake2b(text, digest_size=32).digest(), dtype="<u4")
        )

    return draw


def home_generators(secrets: Mapping[str, bytes]) -> Generators:
    """Generators from each hospital's secret: nobody else can draw them, it can draw them again."""

    def draw(hospital: str, purpose: str) -> np.random.Generator:
        digest = hashlib.blake2b(purpose.encode(), key=secrets[hospital][:64], digest_size=32)
        return np.random.default_rng(np.frombuffer(digest.digest(), dtype="<u4"))

    return draw


# ── how sure the phenotypes are, and who has them ─────────────────────────────────────────────


@declared(
    "effective", "phenotypes: how evenly all patients together stand behind each", lambda _plan: 1
)
@dataclass(frozen=True)
class Effective(Contribution):
    """Σ_i x_ir and Σ_i x_ir² of patients' shares, from which follows how many they are worth."""

    parts: np.ndarray = shaped(2, COMPONENTS)


@dataclass(frozen=True)
class Weighed:
    """What speaks for the phenotypes of a solution."""

    carriers: tuple[int | None, ...]  # patients of all hospitals who have each; None: too few
    without: int | None  # patients who have none
    effective: tuple[float, ...]  # patients behind each, if all counted alike
    grades: tuple[Graded, ...] = ()  # none where nothing was resampled
    intervals: tuple[Interval, ...] = ()  # of shares, per mode, codes × components
    prevalence: Interval | None = None  # of the share of patients
    having: dict[str, np.ndarray] = field(default_factory=dict)  # at home: who has which
    groups: tuple[Group, ...] = ()  # by age, sex, year and outcome, where asked


@one_blas_thread()
def weigh(
    federation: Communicator,
    tensors: Mapping[str, CountTensor],
    solution: Solution,
    *,
    generators: Generators,
    resamples: int,
    fewest: int,
    traits: Traits | None = None,
) -> Weighed:
    """Grades, intervals, effective patients and carriers, on the study's axes."""
    if solution.bound is not None:
        tensors = {name: with_bound(tensor, solution.bound) for name, tensor in tensors.items()}
    if solution.settings.method == "local":
        resamples = 0  # there is no joint model to fit to them
    shown, features = solution.settings.n_components, solution.factors
    rows = {name: rows[:, :shown] for name, rows in solution.patient_factors.items()}
    parts = federation.sum(
        "effective",
        lambda name: Effective(effective_parts(rows[name], tensors[name].cells.weights)),
    ).value
    effective = effective_patients(parts.parts)
    # two draws: where one person of the others has a phenotype, the resampled counts are that
    # person's weights, and with the weights of the fits a peer could look for the person there
    drawn, apart = (
        {
            name: bootstrap_weights(generators(name, purpose), tensor.patients, resamples)
            for name, tensor in tensors.items()
        }
        for purpose in ("resamples", "resampled carriers")
    )
    loss = loss_of(solution.settings)
    having = {name: members(tensor, features, loss) for name, tensor in tensors.items()}
    total = federation.sum("carriers", lambda name: counted(having[name], apart[name])).value
    carriers = tuple(int(count) for count in np.rint(total.carriers))
    without = round(total.without)
    groups = subgroups(federation, traits, having, fewest) if traits is not None else ()
    if resamples == 0:
        return Weighed(
            carriers, without, tuple(map(float, effective)), having=having, groups=groups
        )
    models, others = resampled(federation, tensors, solution, drawn)
    own = Likeness.of(likeness(features, models), likeness(features, others))
    grades = graded(mean_of(federation, "likeness", own), effective, fewest)
    return Weighed(
        carriers, without, tuple(map(float, effective)), grades,
        tuple(code_intervals(features, models, effective)),
        prevalence_interval(
            total.resampled, total.weights, np.array(carriers) / max(solution.patients, 1)
        ),
        having, groups,
    )  # fmt: skip


def resampled(
    federation: Communicator,
    tensors: Mapping[str, CountTensor],
    solution: Solution,
    drawn: Mapping[str, np.ndarray],
) -> tuple[list[Factors], Sequence[Factors]]:
    """The model fitted on to every column of ``drawn``, hospital → patients × resamples.

    And the finalists: where more is asked than the tournament's own problem, they are fitted on to
    all patients beside them, and those that end near the best count. The bias is left out.
    """
    plain, count = solution.settings.nothing_more, next(iter(drawn.values())).shape[1]
    others = () if plain else solution.finalists
    weights = {
        name: tensors[name].with_its_patients(np.hstack([rows, np.ones((len(rows), len(others)))]))
        for name, rows in drawn.items()
    }
    begun = [as_fitted(solution)] * count + list(others)
    models, reached = _fitted_on(federation, tensors, solution, begun, weights)
    shown = solution.settings.n_components
    found = [tuple(factor[:, :shown] for factor in model) for model in models]
    if plain:
        return found, solution.finalists
    near = (1.0 + NEAR_BEST) * min([solution.objective, *reached[count:]])
    pairs = zip(found[count:], reached[count:], strict=True)
    return found[:count], [model for model, height in pairs if height <= near]


def _fitted_on(
    federation: Communicator,
    tensors: Mapping[str, CountTensor],
    solution: Solution,
    models: list[Factors],
    weights: Mapping[str, np.ndarray],
) -> tuple[list[Factors], list[float]]:
    """Every model after some iterations under its own weights of patients, and its Ψ.

    All side by side in the same rounds; what is added is what any fit adds.
    """
    totals = Totals(solution.null_loss, float(solution.nonzeros), float(solution.patients))
    method = Exact(replace(solution.settings, method="exact"), solution.axes)
    penalties, loss = method.start(models[0], totals).penalties, loss_of(solution.settings)
    widths, unit = widths_of(models), unit_of(solution.null_loss)
    models, reached = list(models), [0.0] * len(models)
    patients: dict[str, list[np.ndarray]] = {}
    for iteration in range(RESAMPLED):
        patients = {
            name: loss.fit_patients(tensor, models, patients.get(name))
            for name, tensor in tensors.items()
        }
        for n in range(len(models[0])):
            total = federation.sum(
                f"resamples/{iteration}/{n}/0",
                lambda name, n=n, own=patients: loss.contribution(  # type: ignore[misc]
                    tensors[name], models, own[name], n, resampling=weights[name], unit=unit
                ),
                shared=side_by_side(models),
            ).value
            for s, sums in enumerate(loss.sums(total, widths, solution.null_loss)):
                model = models[s]
                factor = loss.step(model, n, sums, penalties[n])
                reached[s] = loss.reached(model, n, sums, factor)
                column, lengths = unit_columns(factor)
                models[s] = (*model[:n], column, *model[n + 1 :])
                for rows in patients.values():
                    rows[s] = rows[s] * lengths
    for s, model in enumerate(models):
        reached[s] += sum(p.value(f) for p, f in zip(penalties, model, strict=True))
    return models, reached


def as_fitted(solution: Solution) -> Factors:
    """The columns in the order that penalties know: guided ones first, the bias last."""
    guided = list(solution.guided)
    order = guided + [r for r in range(len(solution.weights)) if r not in guided]
    whole = tuple(factor[:, order] for factor in solution.factors)
    if solution.bias is None:
        return whole
    return tuple(np.column_stack(pair) for pair in zip(whole, solution.bias, strict=True))


def quiet_fit(
    tensors: Mapping[str, CountTensor],
    settings: SolverSettings,
    federation: Communicator,
    label: str,
    store: Store | None = None,
) -> Solution:
    """A fit whose warnings are not news: many are made to be compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TriphenoWarning)
        return fit(tensors, settings, federation, label=label, store=store)


Halves = tuple[dict[str, CountTensor], dict[str, CountTensor]]


def halves(tensors: Mapping[str, CountTensor], generators: Generators, purpose: str) -> Halves:
    """Every hospital splits its own patients in two at random; no patient moves."""
    first, second = {}, {}
    for name, tensor in tensors.items():
        order = generators(name, purpose).permutation(tensor.patients)
        middle = tensor.patients // 2
        first[name] = tensor.select_patients(np.sort(order[:middle]))
        second[name] = tensor.select_patients(np.sort(order[middle:]))
    return first, second


def shown_in_both(federation: Communicator, parts: Halves, fewest: int, step: str) -> Halves:
    """The halves without codes that a few people of either have: by chance it may be one.

    Of a code of eleven people, each half of which has one in two hundred splits a single person,
    the totals of that half would show that person's row.
    """
    if fewest <= 1:
        return parts
    axes = next(iter(parts[0].values())).axes
    keep = [np.ones(axis.size, dtype=bool) for axis in axes]
    for number in range(MOST_COUNTS):  # without some codes, fewer people have others
        before, keep = keep, [
            a & b for a, b in zip(*(
                kept_positions(federation, part, fewest, f"{step}/{number}/{n}")
                for n, part in enumerate(parts)
            ), strict=True)
        ]  # fmt: skip
        if not all(some.any() for some in keep):
            break
        if all(np.array_equal(old, new) for old, new in zip(before, keep, strict=True)):
            return parts
        fewer = tuple(axis.kept(some) for axis, some in zip(axes, keep, strict=True))
        one, other = (
            {name: restricted(restricted(tensor, fewer), axes) for name, tensor in part.items()}
            for part in parts
        )
        parts = one, other
    raise NothingLeft(f"no code has {fewest} people in both halves", where="evidence.ranks")


def choose_rank(
    tensors: Mapping[str, CountTensor],
    ranks: Sequence[int],
    settings: SolverSettings,
    federation: Communicator | None = None,
    *,
    generators: Generators | None = None,
    repeats: int = 1,
    announce: Callable[[RankEvidence], None] | None = None,
    store: Store | None = None,
    fewest: int = 1,
) -> RankChoice:
    """Fit every rank over the hospitals, whole and in halves, and weigh the evidence.

    Halves leave out codes that fewer than ``fewest`` people of one of them have.
    """
    if not ranks:
        raise SettingsError("There is no rank to try", fix="--ranks 2:20")
    few = [name for name, tensor in tensors.items() if tensor.patients < FEWEST_TO_SPLIT]
    if few:
        raise SettingsError(f"{few[0]} has fewer than 4 patients", why="halves would be empty")
    if settings.method not in ("exact", "trip"):
        raise SettingsError(f"'{settings.method}' keeps no patients by hospital", fix="use exact")
    federation = federation or in_clear(tensors)
    generators = generators or seeded_generators(settings.seed)
    splits = [
        shown_in_both(
            federation, halves(tensors, generators, f"rank/{n}"), fewest, f"people/halves-{n}"
        )
        for n in range(repeats)
    ]
    found = []
    for rank in ranks:
        chosen = replace(settings, n_components=rank, track_rmse=False, bias=False)
        found.append(_weigh(tensors, chosen, federation, splits, store))
        if announce is not None:
            announce(found[-1])
    return RankChoice(tuple(found), recommend(found))


@declared(
    "rank-numbers", "none: how stable and consistent phenotypes of one number are, for the mean",
    lambda plan: plan.evidence,
)  # fmt: skip
@dataclass(frozen=True)
class RankNumbers(Contribution):
    """What a recommendation goes by and is no sum of patients."""

    core_consistency: float
    stability: float
    least_stable: float


def _weigh(
    tensors: Mapping[str, CountTensor],
    settings: SolverSettings,
    federation: Communicator,
    splits: Sequence[Halves],
    store: Store | None,
) -> RankEvidence:
    """The evidence for one rank."""
    rank = settings.n_components
    label = f"rank-{rank}/"
    whole = quiet_fit(tensors, settings, federation, label, store)
    folds, alike, models = [], [], []
    for repeat, parts in enumerate(splits):
        pair = [
            quiet_fit(part, settings, federation, f"{label}half-{2 * repeat + n}/", store)
            for n, part in enumerate(parts)
        ]
        alike.append(factor_match_score(pair[0].factors, pair[1].factors))
        models += pair
        for n, (model, unseen) in enumerate(zip(pair, parts[::-1], strict=True)):
            rng = np.random.default_rng([settings.seed, repeat, 1])
            asked = f"{label}fold-{2 * repeat + n}/"
            folds.append(
                held_out_error(
                    federation, asked, unseen, model.factors, rng, loss=loss_of(settings)
                )
            )
    own = RankNumbers(
        core_consistency(federation, label, tensors, whole.patient_factors, whole.factors),
        float(np.mean(alike)),
        float(matched(whole, models).min()),
    )
    found = mean_of(federation, f"{label}numbers", own)
    return RankEvidence(
        rank,
        1.0 - whole.objective / whole.null_loss,
        float(found.core_consistency),
        float(found.stability),
        float(np.mean(folds)),
        tuple(folds),
        float(found.least_stable),
    )
