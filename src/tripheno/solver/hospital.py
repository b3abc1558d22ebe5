"""One hospital's half of every round. Values in, value out; patients stay in the state."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tripheno.solver.losses import loss_of
from tripheno.solver.messages import (
    REVIEW,
    FactorNews,
    Measures,
    NormalEquations,
    Proposal,
    Review,
    Totals,
)
from tripheno.solver.settings import SolverSettings
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import gram_of_others
from tripheno.tensor.rows import regular


@dataclass(frozen=True)
class TripRules:
    """Where the variants of `trip` differ at a hospital."""

    data_weight: float = 2.0  # the 2 that the paper's print drops
    products_from_local: bool = False  # the print multiplies with each hospital's drifted copies
    penalty_follows_data: bool = True


@dataclass(frozen=True)
class HospitalState:
    """What a hospital remembers between rounds. None of it is a message."""

    tensor: CountTensor
    settings: SolverSettings
    hospitals: int = 1  # K
    shared_factors: tuple[np.ndarray, ...] = ()
    patient_factor: np.ndarray | None = None  # A⁽¹⁾, never leaves
    mttkrp: np.ndarray | None = None  # M_k of the mode in hand
    gram: np.ndarray | None = None  # G_k of the mode in hand
    inverse: np.ndarray | None = None  # (2G_k + ω_k)⁻¹ of the mode in hand
    local_factors: tuple[np.ndarray, ...] = ()  # A_k⁽ⁿ⁾
    consensus_dual: tuple[np.ndarray, ...] = ()  # H_k⁽ⁿ⁾
    penalties: tuple[np.ndarray, ...] = ()  # ω_k of each mode, per component
    singular: bool = False

    @property
    def nonnegative(self) -> bool:
        """Whether patients' memberships may not be negative."""
        return self.settings.constraint != "none"

    @property
    def patients(self) -> np.ndarray:
        """The patient factor, once there is one."""
        if self.patient_factor is None:
            raise RuntimeError("the patient factor is asked for before the first round")
        return self.patient_factor


def begin(state: HospitalState, factors: tuple[np.ndarray, ...]) -> tuple[HospitalState, Totals]:
    """Take the first factors; say what the tensor amounts to."""
    rank = state.settings.rank
    state = replace(
        state,
        shared_factors=factors,
        local_factors=factors,
        consensus_dual=tuple(np.zeros_like(factor) for factor in factors),
        penalties=tuple(np.ones(rank) for _ in factors),
        patient_factor=None,
    )
    tensor, null = state.tensor, loss_of(state.settings).null(state.tensor)
    return state, Totals(null, float(tensor.nonzeros), float(tensor.patients))


def normal_equations(
    state: HospitalState, news: FactorNews
) -> tuple[HospitalState, NormalEquations]:
    """`exact`: M_k and the patients' Gram matrix for the mode asked for."""
    state = _receive(state, news)
    review = _review(state) if news.asked == 0 else _no_review()
    state = _products(state, news.asked)
    assert state.mttkrp is not None  # set by _products
    gram = state.tensor.cells.patient_gram(state.patients)
    return state, NormalEquations(state.mttkrp, gram, review)


def propose(
    state: HospitalState, news: FactorNews, rules: TripRules
) -> tuple[HospitalState, Proposal]:
    """`trip`: A_k = (2M_k + Aω_k + H_k)(2G_k + ω_k)⁻¹, and of it U_k = A_k ω_k − H_k."""
    state = _receive(state, news)
    n = news.asked
    review = _review(state) if n == 0 and news.first else _no_review()
    if news.first:
        local = rules.products_from_local
        state = _products(state, n, local=local)
        others = gram_of_others(state.local_factors if local else state.shared_factors, n)
        state = replace(state, gram=state.tensor.cells.patient_gram(state.patients) * others)
        state = _set_penalty(state, news, rules)
    assert state.mttkrp is not None  # set when the mode was first asked for
    assert state.inverse is not None
    omega, dual, shared = state.penalties[n], state.consensus_dual[n], state.shared_factors[n]
    right = shared * omega
    right += dual
    right += rules.data_weight * state.mttkrp
    own = right @ state.inverse
    if state.settings.relaxation != 1.0:
        own = state.settings.relaxation * own + (1.0 - state.settings.relaxation) * shared
    state = replace(state, local_factors=_put(state.local_factors, n, own))
    assert state.gram is not None
    penalty = np.stack([omega, omega**2, np.diag(state.gram)])
    message = Proposal(own * omega - dual, penalty, review)
    if not all(np.isfinite(array).all() for array in message.arrays().values()):
        raise np.linalg.LinAlgError("the proposal is not finite")
    return state, message


def review(state: HospitalState, news: FactorNews) -> tuple[HospitalState, Review]:
    """How well the last iterate fits."""
    state = _receive(state, news)
    return state, Review(_review(state))


def measure(
    state: HospitalState, factors: tuple[np.ndarray, ...]
) -> tuple[HospitalState, Measures]:
    """Fit the patients to the final factors, in double precision, and measure what is left over."""
    tensor, loss = state.tensor, loss_of(state.settings)
    patients = loss.fit_patients(tensor, [factors])[0]
    state = replace(state, shared_factors=factors, patient_factor=np.asarray(patients))
    own = max(loss.of_patients(tensor, factors, patients), 0.0)
    raw, at_cells = _errors(tensor.with_weights(None), factors, patients)
    return state, Measures(own, raw, at_cells, tensor.cells.patient_gram(patients))


def _errors(
    tensor: CountTensor, factors: tuple[np.ndarray, ...], patients: np.ndarray
) -> tuple[float, float]:
    """Squared errors over all cells and over the nonzero ones: what RMSE is made of."""
    at_cells, inner = tensor.cells.at_cells(factors, patients)
    model = float((tensor.cells.patient_gram(patients) * gram_of_others(factors)).sum())
    return max(tensor.squared_norm - 2.0 * inner + model, 0.0), at_cells


def finish(state: HospitalState, order: np.ndarray) -> HospitalState:
    """Bring the components into the order in which they will be shown."""
    features = tuple(factor[:, order] for factor in state.shared_factors)
    return replace(state, shared_factors=features, patient_factor=state.patients[:, order])


# ── the small moves the steps are made of ─────────────────────────────────────────────────────


def _put(items: tuple[np.ndarray, ...], n: int, item: np.ndarray) -> tuple[np.ndarray, ...]:
    return (*items[:n], item, *items[n + 1 :])


def _as_precise_as_asked(
    state: HospitalState, factors: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, ...]:
    """Products with the data are as precise as the factors they are made with."""
    if state.settings.precision == "double":
        return factors
    return tuple(factor.astype(np.float32) for factor in factors)


def _receive(state: HospitalState, news: FactorNews) -> HospitalState:
    """Take a changed factor: H_k += ω_k(A − A_k); lengths taken off A go onto patients and H_k."""
    n = news.changed
    if n < 0:
        return state
    scale = news.scale
    moved = bool((scale != 1.0).any())  # only a mode that has settled is brought to unit length
    shared, dual = _put(state.shared_factors, n, news.factor), state.consensus_dual
    if state.settings.method == "trip":
        agreed = news.factor * scale if moved else news.factor
        step = agreed - state.local_factors[n]
        step *= state.penalties[n]
        step += dual[n]
        dual = _put(dual, n, step)
    state = replace(state, shared_factors=shared, consensus_dual=dual)
    return _lengthened(state, n, scale) if moved else state


def _lengthened(state: HospitalState, n: int, scale: np.ndarray) -> HospitalState:
    """Lengths that mode n gave up go to the patients and to what was made with them."""
    state = replace(
        state,
        patient_factor=state.patients * scale,
        # M was made with the patients before they took the lengths
        mttkrp=None if state.mttkrp is None else state.mttkrp * scale,
    )
    if state.settings.method != "trip":
        return state
    return replace(
        state,
        local_factors=_put(state.local_factors, n, state.local_factors[n] / scale),
        consensus_dual=_put(state.consensus_dual, n, state.consensus_dual[n] * scale),
    )


def _fit_patients(state: HospitalState) -> HospitalState:
    """A⁽¹⁾ = O₍₁₎Π(ΠᵀΠ)⁻¹, non-negative where asked; M of the first feature mode with it."""
    gram, singular = regular(gram_of_others(state.shared_factors))
    features = _as_precise_as_asked(state, state.shared_factors)
    patient_factor, mttkrp = state.tensor.cells.update_patients(
        features, gram, nonnegative=state.nonnegative, guess=state.patient_factor
    )
    return replace(
        state, patient_factor=patient_factor, mttkrp=mttkrp, singular=state.singular or singular
    )


def _products(state: HospitalState, n: int, *, local: bool = False) -> HospitalState:
    """M_k of feature mode n; an iteration begins with the patients at mode 0."""
    if n == 0:
        state = _fit_patients(state)
    if n == 0 and not local:
        return state
    features = state.local_factors if local else state.shared_factors
    precise = _as_precise_as_asked(state, features)
    mttkrp = state.tensor.cells.feature_product(precise, state.patients, n)
    return replace(state, mttkrp=mttkrp)


def _set_penalty(state: HospitalState, news: FactorNews, rules: TripRules) -> HospitalState:
    """ω_k = c·2·max(diag G_k, diag ΣG/K) per component, or as given; its inverse with it.

    A component that a hospital hardly has would get no weight in the consensus and run away: so it
    gets at least the mean hospital's, as the last iteration told it. In the first one nothing is
    known of the others, and a thousandth of the hospital's own largest stands for it.
    """
    assert state.gram is not None
    omega = np.full(len(state.gram), news.penalty)
    if rules.penalty_follows_data:
        own = np.diag(state.gram)
        typical = news.typical / state.hospitals
        if not typical.any():
            typical = np.full(len(own), 1e-3 * own.max(initial=0.0))
        size = max(float(np.trace(state.gram)) + state.tensor.squared_norm, 1.0)
        least = np.maximum(typical, 1e-9 * size / len(own))
        omega = news.penalty * rules.data_weight * np.maximum(own, least)
    inverse = np.linalg.inv(rules.data_weight * state.gram + np.diag(omega))
    return replace(state, penalties=_put(state.penalties, news.asked, omega), inverse=inverse)


def _no_review() -> np.ndarray:
    return np.zeros(len(REVIEW))


def _review(state: HospitalState) -> np.ndarray:
    """The numbers of ``REVIEW`` for the iterate in hand; zeros before there is one."""
    if state.patient_factor is None:
        return _no_review()
    shared, patients = state.shared_factors, state.patients
    at_cells = 0.0
    if state.settings.track_rmse:  # as at the end: of the counts as they are, all patients alike
        at_cells, _ = state.tensor.with_weights(None).cells.at_cells(shared, patients)
    if state.mttkrp is None:
        _, inner = state.tensor.cells.at_cells(shared, patients)
    else:
        inner = float((state.mttkrp * shared[-1]).sum())
    gram = state.tensor.cells.patient_gram(patients)
    model = float((gram * gram_of_others(shared)).sum())
    squared = state.tensor.squared_norm - 2.0 * inner + model
    if state.settings.method != "trip":
        return np.array([squared, at_cells, 0.0, 0.0, 0.0, float(state.singular)])
    pairs = zip(state.local_factors, shared, strict=True)
    primal = sum(float(((own - agreed) ** 2).sum()) for own, agreed in pairs)
    local_norm = sum(float((own**2).sum()) for own in state.local_factors)
    dual_norm = sum(float((dual**2).sum()) for dual in state.consensus_dual)
    return np.array([squared, at_cells, primal, local_norm, dual_norm, float(state.singular)])
