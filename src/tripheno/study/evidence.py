"""What speaks for a study's phenotypes: other starts, halves of the patients, other ranks.

Every fit is a federated one, halves are split at home, held-out error and core consistency are
sums over hospitals: no patient moves.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tripheno.errors import SettingsError, TriphenoWarning
from tripheno.evaluation.rank import RankChoice, RankEvidence, recommend
from tripheno.evaluation.stability import matched
from tripheno.exchange.communicator import Communicator, in_clear
from tripheno.solver.checkpoints import Store
from tripheno.solver.diagnosis import core_consistency, held_out_error
from tripheno.solver.fit import fit
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Solution
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import factor_match_score

FEWEST_TO_SPLIT = 4  # patients of a hospital
HALVES_TOLERANCE = 1e-4  # models that are only compared need not settle to the last digit

Lots = Callable[[str, str], np.random.Generator]
"""``rng = lots(hospital, purpose)``: what a hospital draws at home."""


def seeded_lots(seed: int) -> Lots:
    """Lots that follow a seed: for simulations and rehearsals."""

    def draw(hospital: str, purpose: str) -> np.random.Generator:
        text = f"{seed}|{hospital}|{purpose}".encode()
        return np.random.default_rng(
            np.frombuffer(hashlib.blake2b(text, digest_size=32).digest(), dtype="<u4")
        )

    return draw


def secret_lots(_hospital: str, _purpose: str) -> np.random.Generator:
    """Lots that nobody else can draw again."""
    return np.random.default_rng()


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


def halves(
    tensors: Mapping[str, CountTensor], lots: Lots, purpose: str
) -> tuple[dict[str, CountTensor], dict[str, CountTensor]]:
    """Every hospital splits its own patients in two at random; no patient moves."""
    first, second = {}, {}
    for name, tensor in tensors.items():
        order = lots(name, purpose).permutation(tensor.patients)
        middle = tensor.patients // 2
        first[name] = tensor.select_patients(np.sort(order[:middle]))
        second[name] = tensor.select_patients(np.sort(order[middle:]))
    return first, second


def half_models(
    tensors: Mapping[str, CountTensor],
    settings: SolverSettings,
    federation: Communicator,
    *,
    lots: Lots,
    repeats: int = 1,
    store: Store | None = None,
) -> list[Solution]:
    """Models of halves of every hospital's patients, split at home: two for every repeat.

    They are made by `exact`, the cheapest way to the model of all hospitals together.
    """
    again = replace(
        settings, method="exact", track_rmse=False, tol=max(settings.tol, HALVES_TOLERANCE)
    )
    found = []
    for repeat in range(repeats):
        for n, part in enumerate(halves(tensors, lots, f"halves/{repeat}")):
            label = f"half-{2 * repeat + n}/"
            found.append(quiet_fit(part, again, federation, label, store))
    return found


def over_restarts(
    tensors: Mapping[str, CountTensor], reference: Solution, starts: int = 5
) -> np.ndarray:
    """Stability over random starts on the same patients."""
    settings = replace(reference.settings, restarts=1, track_rmse=False)
    seeds = range(settings.seed + 1000, settings.seed + 1000 + starts)
    models = [
        quiet_fit(tensors, replace(settings, seed=s), in_clear(tensors), f"other-{s}/")
        for s in seeds
    ]
    return matched(reference, models)


def choose_rank(
    tensors: Mapping[str, CountTensor],
    ranks: Sequence[int],
    settings: SolverSettings,
    federation: Communicator | None = None,
    *,
    lots: Lots | None = None,
    repeats: int = 1,
    announce: Callable[[RankEvidence], None] | None = None,
    store: Store | None = None,
) -> RankChoice:
    """Fit every rank over the hospitals, whole and in halves, and weigh the evidence."""
    if not ranks:
        raise SettingsError("There is no rank to try", fix="--ranks 2:20")
    few = [name for name, tensor in tensors.items() if tensor.patients < FEWEST_TO_SPLIT]
    if few:
        raise SettingsError(f"{few[0]} has fewer than 4 patients", why="halves would be empty")
    if settings.method not in ("exact", "trip"):
        raise SettingsError(f"'{settings.method}' keeps no patients by hospital", fix="use exact")
    federation = federation or in_clear(tensors)
    lots = lots or seeded_lots(settings.seed)
    found = []
    for rank in ranks:
        chosen = replace(settings, n_components=rank, track_rmse=False, bias=False)
        found.append(_weigh(tensors, chosen, federation, lots=lots, repeats=repeats, store=store))
        if announce is not None:
            announce(found[-1])
    return RankChoice(tuple(found), recommend(found))


def _weigh(
    tensors: Mapping[str, CountTensor],
    settings: SolverSettings,
    federation: Communicator,
    *,
    lots: Lots,
    repeats: int,
    store: Store | None,
) -> RankEvidence:
    """The evidence for one rank."""
    rank, nonnegative = settings.n_components, settings.constraint != "none"
    label = f"rank-{rank}/"
    whole = quiet_fit(tensors, settings, federation, label, store)
    folds, alike, models = [], [], []
    for repeat in range(repeats):
        parts = halves(tensors, lots, f"rank/{repeat}")
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
                    federation, asked, unseen, model.factors, rng, nonnegative=nonnegative
                )
            )
    return RankEvidence(
        rank,
        1.0 - whole.objective / whole.squared_norm,
        core_consistency(federation, label, tensors, whole.patient_factors, whole.factors),
        float(np.mean(alike)),
        float(np.mean(folds)),
        tuple(folds),
        float(matched(whole, models).min()),
    )
