"""Phenotypes with scikit-learn manners."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from tripheno.errors import BadShape, SettingsError, TriphenoWarning
from tripheno.protocol.agreed import SetAside
from tripheno.solver.fit import fit
from tripheno.solver.frozen import FrozenPhenotypes
from tripheno.solver.guides import as_guides
from tripheno.solver.settings import Constraint, Method, SolverSettings, Variant
from tripheno.solver.solution import Iteration, Solution
from tripheno.study.alignment import align
from tripheno.study.makers import Maker, SumsKind
from tripheno.study.set_aside import Aside
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import unit_columns


class Phenotyper:
    """Find phenotypes shared by several hospitals, then score patients on them.

    ``fit`` takes a list with one :class:`CountTensor` or event table per hospital and simulates the
    federation in this process; the hospitals agree on axes over the list of all their codes.
    ``sums`` says how contributions are added, ``"blind"`` or ``"plain"``; from three hospitals on
    they are blind unless said otherwise. ``set_aside`` says which codes take no part: carriers of
    drugs, and codes that nearly every patient has. Further keyword arguments are those of
    :class:`~tripheno.solver.settings.SolverSettings`; ``guides`` may be given as
    ``{name: {mode: [codes]}}``.

    Attributes after ``fit``: ``components_`` (mode → codes × components), ``weights_``,
    ``history_``, ``n_iter_``, ``axes_``, ``guided_`` (name → component),
    ``set_aside_`` (mode, code, why), ``solution_``.
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        method: Method = "exact",
        variant: Variant = "corrected",
        constraint: Constraint = "nonnegative",
        max_iter: int = 100,
        tol: float = 1e-6,
        starts: int = 16,
        random_state: int = 0,
        sums: SumsKind | None = None,
        set_aside: SetAside = SetAside(),  # noqa: B008
        **options: Any,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.variant = variant
        self.constraint = constraint
        self.max_iter = max_iter
        self.tol = tol
        self.starts = starts
        self.random_state = random_state
        self.sums = sums
        self.set_aside = set_aside
        self.options = options

    def fit(self, hospitals: Sequence[Any], y: None = None) -> Self:
        """Find the phenotypes of all hospitals together."""
        del y  # scikit-learn's pipelines pass it
        tensors = [_as_tensor(hospital) for hospital in _as_list(hospitals)]
        if not tensors:
            raise SettingsError("There is no hospital", fix="give a list with one tensor or more")
        own = {f"hospital-{k + 1}": tensor for k, tensor in enumerate(tensors)}
        federation = Maker(self.sums, self.random_state)(tuple(own))
        aligned = align(federation, own, "vocabulary", rule=self.set_aside)
        solution = fit(aligned.tensors, self._settings(), federation)
        self.set_aside_: tuple[Aside, ...] = aligned.aside
        self.solution_: Solution = solution
        self.axes_ = solution.axes
        self.components_: dict[str, np.ndarray] = solution.by_mode
        self.weights_: np.ndarray = solution.weights
        self.history_: tuple[Iteration, ...] = solution.history
        self.n_iter_: int = solution.iterations
        names = [guide.name for guide in solution.settings.guides]
        self.guided_: dict[str, int] = dict(zip(names, solution.guided, strict=False))
        return self

    def transform(self, patients: Any) -> Any:
        """Memberships of patients (rows) in the phenotypes, phenotypes frozen.

        Takes one tensor or event table, or a list of them and then gives a list. Codes the
        phenotypes do not know are left out, with a warning that counts them.
        """
        if isinstance(patients, list | tuple):
            return [self.transform(one) for one in patients]
        solution = self._fitted()
        nonnegative = self.constraint != "none"
        frozen = FrozenPhenotypes(solution.axes, solution.factors, nonnegative, solution.bias)
        tensor = _as_tensor(patients)
        _warn_of_unknown_codes(tensor, frozen)
        return frozen.memberships(tensor)

    def fit_transform(self, hospitals: Sequence[Any], y: None = None) -> list[np.ndarray]:
        """Fit, and give every hospital's memberships."""
        self.fit(hospitals, y)
        return list(self.transform(_as_list(hospitals)))

    def get_feature_names_out(self, mode: str) -> np.ndarray:
        """What the rows of ``components_[mode]`` stand for."""
        for axis in self._fitted().axes:
            if axis.mode == mode:
                return np.array(axis.names(), dtype=object)
        raise BadShape(f"no mode '{mode}'", fix=f"one of {', '.join(self.components_)}")

    def to_tensorly(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """The model as TensorLy's CP tensors are: weights, and factors of unit columns.

        The patients of all hospitals stand one below the other in the first factor.
        """
        solution = self._fitted()
        stacked = np.vstack(list(solution.patient_factors.values()))[:, : self.n_components]
        patients, weights = unit_columns(stacked)
        return weights, [patients, *solution.factors]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every setting, by name."""
        del deep
        names = [name for name in inspect.signature(type(self)).parameters if name != "options"]
        return {**{name: getattr(self, name) for name in names}, **self.options}

    def set_params(self, **params: Any) -> Self:
        """Change settings by name."""
        known = self.get_params()
        for name, value in params.items():
            if name in known and name not in self.options:
                setattr(self, name, value)
            else:
                self.options = {**self.options, name: value}
        self._settings()
        return self

    def _settings(self) -> SolverSettings:
        options = dict(self.options)
        if "guides" in options:
            options["guides"] = as_guides(options["guides"])
        try:
            return SolverSettings(
                n_components=self.n_components,
                method=self.method,
                variant=self.variant,
                constraint=self.constraint,
                max_iter=self.max_iter,
                tol=self.tol,
                starts=self.starts,
                seed=self.random_state,
                **options,
            )
        except TypeError as fault:
            raise SettingsError(str(fault).split(") ", 1)[-1], where="Phenotyper") from None

    def _fitted(self) -> Solution:
        if not hasattr(self, "solution_"):
            raise SettingsError("This Phenotyper is not fitted yet", fix="call fit first")
        return self.solution_


def _as_list(hospitals: Any) -> list[Any]:
    return list(hospitals) if isinstance(hospitals, list | tuple) else [hospitals]


def _as_tensor(patients: Any) -> CountTensor:
    return patients if isinstance(patients, CountTensor) else CountTensor.from_events(patients)


def _warn_of_unknown_codes(tensor: CountTensor, frozen: FrozenPhenotypes) -> None:
    """Count the codes that the phenotypes cannot place; name none."""
    for mode, (unknown, size) in frozen.unknown_codes(tensor).items():
        if unknown:
            warnings.warn(
                f"{unknown:,} of {size:,} {mode} codes are unknown to these phenotypes and are "
                "left out",
                TriphenoWarning,
                stacklevel=3,
            )
