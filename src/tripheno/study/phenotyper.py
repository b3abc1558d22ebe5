"""Phenotypes with scikit-learn manners."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from html import escape
from pathlib import Path
from typing import Any, Self

import numpy as np

from tripheno.errors import BadShape, NotFittedError, SettingsError, TriphenoWarning
from tripheno.evaluation.grades import Graded
from tripheno.exchange.communicator import Communicator, in_clear
from tripheno.privacy.prevalence import MIN_CELL
from tripheno.protocol.agreed import MOST_RESAMPLES, SetAside
from tripheno.solver.fit import fit
from tripheno.solver.frozen import FrozenPhenotypes
from tripheno.solver.guides import as_guides
from tripheno.solver.losses import loss_of
from tripheno.solver.settings import (
    Constraint,
    Influence,
    LossName,
    Method,
    Precision,
    SolverSettings,
    Variant,
)
from tripheno.solver.solution import Iteration, Solution
from tripheno.study.alignment import align
from tripheno.study.axes import Tensors
from tripheno.study.beforehand import check_before
from tripheno.study.evidence import seeded_generators, weigh
from tripheno.study.makers import Maker, SumsKind
from tripheno.study.set_aside import Aside
from tripheno.tensor.count_tensor import CountTensor, pooled
from tripheno.tensor.factors import leading_positions, unit_columns
from tripheno.tensor.reading import read_tensor


@dataclass(eq=False, repr=False)
class Phenotyper:
    """Find phenotypes shared by several hospitals, then score patients on them.

    ``fit`` takes a list with one :class:`CountTensor` or event table per hospital and simulates the
    federation in this process; the hospitals agree on axes over the list of all their codes.
    Parameters have scikit-learn's manners: ``clone``, ``get_params`` and pipelines work, values are
    checked by ``fit``. Greek letters are those of the mathematics page.

    Parameters
    ----------
    n_components : int, default 10
        Number of phenotypes, R.
    method : "exact", "trip", "central" or "local", default "exact"
        Federated as pooled data would be solved, the paper's consensus, pooled data, or every
        hospital alone and then averaged.
    variant : "corrected", "printed" or "released", default "corrected"
        Which reading of the paper "trip" follows.
    constraint : "nonnegative", "sparse" or "none", default "nonnegative"
        What factors may look like.
    loss : "squared" or "poisson", default "squared"
        What is minimised: squares, or the Kullback-Leibler divergence of counts.
    max_iter : int, default 100
        Most iterations.
    tol : float, default 1e-6
        Relative change of the objective, twice in a row, to stop at; 0 goes on to ``max_iter``.
    starts : int, default 16
        Starts of the tournament that finds where to begin; 1 is one random start.
    influence : "bounded" or "none", default "bounded"
        Whether a patient's records count for no more than the median patient's.
    bias : bool, default False
        One more component, the same for all, that is no phenotype.
    distinctness : float, default 0.0
        λ as the paper prints it: pushes phenotypes apart.
    relative_distinctness : float, default 0.0
        λ as a multiple of ‖O‖²/R, so that it acts on any data.
    sparsity : float, default 0.002
        Weight of the L1 term of "sparse", relative to the data in the same way.
    consensus_penalty : float or None, default None
        ω of "trip"; None follows the data.
    split_penalty : float or None, default None
        μ of "trip"; None follows λ.
    penalty_scale : float, default 1.0
        What ω is multiplied with where it follows the data.
    inner_steps : int, default 1
        Least consensus rounds per mode and iteration of "trip".
    most_inner_steps : int, default 1
        Most of them.
    inner_tolerance : float, default 1e-4
        Movement of the consensus below which inner steps end in the opening iterations.
    later_tolerance : float, default 1e-3
        The same later.
    opening : int, default 15
        Iterations that count as opening.
    relaxation : float, default 1.6
        Boyd's α of "trip", between 0 and 2; above 1 a hospital's step is lengthened.
    split_dual_start : float, default 0.0
        Y₀ of "trip".
    residual_tolerance : float, default 1e-3
        Relative size of primal and dual residuals at which "trip" may stop.
    guides : mapping name → {mode: [codes]}, or tuple of Guide, default ()
        Phenotypes in mind: components start from these codes and are pulled to them.
    guide_pull : float, default 0.03
        How strongly, as a multiple of ‖O‖²/R; 0 only starts there.
    precision : "double" or "single", default "double"
        Of the products with the data; "single" is faster.
    track_rmse : bool, default False
        Measure the error over nonzeros at every iteration: one more pass over the data.
    random_state : int, default 0
        Seed of starts, masks and resamples.
    sums : "blind", "plain" or None, default None
        How contributions are added; None is blind from three hospitals on.
    keep_carriers : bool, default False
        Whether fluids and bags that only carry a drug take part.
    common_share : float, default 0.9
        Codes that a larger share of all patients has take no part; 1 keeps them all.
    resamples : int, default 0
        Resamples of the patients, at most 50, from which ``grades_`` are made; 0 makes none.

    Attributes
    ----------
    ``components_`` : dict of arrays
        Mode → codes × phenotypes.
    ``weights_`` : array
        Of the phenotypes, largest first.
    ``grades_`` : tuple
        What speaks for each phenotype: ``grade``, ``resamples``, ``effective_patients``; empty
        without resamples.
    ``set_aside_`` : tuple
        Codes that took no part: mode, code and why.
    ``history_``, ``n_iter_``, ``axes_``, ``guided_``, ``solution_``
        A line per iteration, their number, the axes of the modes, guide → phenotype, and all of it.
    """

    n_components: int = 10
    _: KW_ONLY
    method: Method = "exact"
    variant: Variant = "corrected"
    constraint: Constraint = "nonnegative"
    loss: LossName = "squared"
    max_iter: int = 100
    tol: float = 1e-6
    starts: int = 16
    influence: Influence = "bounded"
    bias: bool = False
    distinctness: float = 0.0
    relative_distinctness: float = 0.0
    sparsity: float = 0.002
    consensus_penalty: float | None = None
    split_penalty: float | None = None
    penalty_scale: float = 1.0
    inner_steps: int = 1
    most_inner_steps: int = 1
    inner_tolerance: float = 1e-4
    later_tolerance: float = 1e-3
    opening: int = 15
    relaxation: float = 1.6
    split_dual_start: float = 0.0
    residual_tolerance: float = 1e-3
    guides: Any = ()
    guide_pull: float = 0.03
    precision: Precision = "double"
    track_rmse: bool = False
    random_state: int = 0
    sums: SumsKind | None = None
    keep_carriers: bool = False
    common_share: float = 0.9
    resamples: int = 0

    def fit(self, hospitals: Sequence[Any], y: None = None) -> Self:
        """Find the phenotypes of all hospitals together."""
        del y  # scikit-learn's pipelines pass it
        settings = self._settings()
        tensors = [_as_tensor(hospital) for hospital in _as_list(hospitals)]
        if not tensors:
            raise SettingsError("There is no hospital", fix="give a list with one tensor or more")
        own = {f"hospital-{k + 1}": tensor for k, tensor in enumerate(tensors)}
        check_before(own, self.n_components, dealt_out=True)
        federation = Maker(self.sums, settings.seed)(tuple(own))
        found = align(federation, own, "vocabulary", rule=self._rule())
        aligned = found.tensors
        solution = fit(aligned, settings, federation)
        self.set_aside_: tuple[Aside, ...] = found.aside
        self.solution_: Solution = solution
        self.grades_: tuple[Graded, ...] = self._grades(federation, aligned)
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
        solution = self._fitted()
        if isinstance(patients, list | tuple):
            return [self.transform(one) for one in patients]
        loss = loss_of(solution.settings)
        frozen = FrozenPhenotypes(solution.axes, solution.factors, loss, solution.bias)
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
        """Every parameter, by name."""
        del deep  # no parameter has parameters of its own
        return {name: getattr(self, name) for name in _parameters(type(self))}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name; ``fit`` checks their values."""
        unknown = sorted(set(params) - set(_parameters(type(self))))
        if unknown:
            raise SettingsError(f"no parameter {', '.join(unknown)}", where="Phenotyper")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def _settings(self) -> SolverSettings:
        given = {
            n: v.item() if isinstance(v, np.generic) else v for n, v in self.get_params().items()
        }
        given["seed"] = given.pop("random_state")
        given["guides"] = as_guides(given["guides"])
        if not 0 <= given.pop("resamples") <= MOST_RESAMPLES:
            raise SettingsError(f"resamples must be 0 to {MOST_RESAMPLES}", where="Phenotyper")
        for name in ("sums", "keep_carriers", "common_share"):
            del given[name]
        return SolverSettings(**given)

    def _rule(self) -> SetAside:
        if not 0 < self.common_share <= 1:
            raise SettingsError("common_share must lie in (0, 1]", where="Phenotyper")
        return SetAside(not self.keep_carriers, self.common_share)

    def _grades(self, federation: Communicator, aligned: Tensors) -> tuple[Graded, ...]:
        """What resampled patients say of the phenotypes just found."""
        if not self.resamples:
            return ()
        if self.method == "central":
            aligned = {"central": pooled(list(aligned.values()))}
            federation = in_clear(aligned)
        return weigh(
            federation, aligned, self.solution_, generators=seeded_generators(self.random_state),
            resamples=self.resamples, fewest=MIN_CELL,
        ).grades  # fmt: skip

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's pipelines ask of their steps; only they call it."""
        from sklearn.utils import Tags, TargetTags, TransformerTags  # noqa: PLC0415  no dependency

        return Tags(None, TargetTags(required=False), TransformerTags())

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        said = [f"{n}={v!r}" for n, v in self.get_params().items() if v != defaults[n].default]
        return f"Phenotyper({', '.join(said)})"

    def _repr_html_(self) -> str:
        if not hasattr(self, "solution_"):
            return f"<p>{escape(repr(self))}, not fitted</p>"
        heads = "".join(f"<th>{escape(axis.mode)}</th>" for axis in self.axes_)
        rows = "".join(f"<tr>{cells}</tr>" for cells in self._rows_in_words())
        return (
            f"<p>{escape(repr(self))}, {self.n_iter_} iterations</p><table><thead><tr><th></th>"
            f"<th>how sure</th>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        )

    def _rows_in_words(self) -> Iterator[str]:
        """Cells of a table with the three leading codes of every phenotype."""
        for r in range(len(self.weights_)):
            grade = self.grades_[r].grade if self.grades_ else "not examined"
            leading = [
                ", ".join(axis.name(int(i)) for i in leading_positions(factor[:, r])[:3])
                for axis, factor in zip(self.axes_, self.solution_.factors, strict=True)
            ]
            yield "".join(f"<td>{escape(word)}</td>" for word in (str(r + 1), grade, *leading))

    def _fitted(self) -> Solution:
        if not hasattr(self, "solution_"):
            raise _not_fitted()("This Phenotyper is not fitted yet", fix="call fit first")
        return self.solution_


def _parameters(kind: type[Phenotyper]) -> list[str]:
    return list(inspect.signature(kind).parameters)


def _not_fitted() -> type[NotFittedError]:
    """Our error, and where scikit-learn is in use its own as well: handlers of either catch it."""
    theirs = sys.modules.get("sklearn.exceptions")
    if theirs is None:
        return NotFittedError
    return type("NotFittedError", (NotFittedError, theirs.NotFittedError), {})


def _as_list(hospitals: Any) -> list[Any]:
    return list(hospitals) if isinstance(hospitals, list | tuple) else [hospitals]


def _as_tensor(patients: Any) -> CountTensor:
    if isinstance(patients, str | Path):
        return read_tensor(patients)
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
