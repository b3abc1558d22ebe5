"""What a solver can be told, spelt out with the seed paper's letters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from tripheno.errors import SettingsError
from tripheno.solver.guides import Guide

Method = Literal["trip", "exact", "central", "local"]
Variant = Literal["corrected", "printed", "released"]
Constraint = Literal["nonnegative", "sparse", "none"]
LossName = Literal["squared", "poisson"]
Influence = Literal["bounded", "none"]
Precision = Literal["double", "single"]

METHODS: tuple[str, ...] = get_args(Method)
VARIANTS: tuple[str, ...] = get_args(Variant)
CONSTRAINTS: tuple[str, ...] = get_args(Constraint)
LOSSES: tuple[str, ...] = get_args(LossName)
INFLUENCES: tuple[str, ...] = get_args(Influence)
PRECISIONS: tuple[str, ...] = get_args(Precision)
MOST_STARTS = 40  # every one has a vote in a message
CHOICES: dict[str, tuple[str, ...]] = {
    "method": METHODS,
    "variant": VARIANTS,
    "constraint": CONSTRAINTS,
    "loss": LOSSES,
    "influence": INFLUENCES,
    "precision": PRECISIONS,
}


@dataclass(frozen=True)
class SolverSettings:
    """Every number a run depends on besides its data.

    :class:`tripheno.Phenotyper` describes each with its type, default and meaning; ``seed`` is its
    ``random_state``.
    """

    n_components: int = 10  # R
    method: Method = "exact"
    variant: Variant = "corrected"
    constraint: Constraint = "nonnegative"
    loss: LossName = "squared"  # what a good fit is; `poisson` takes counts as counts
    seed: int = 0
    max_iter: int = 100
    tol: float = 1e-6  # relative change of Ψ, twice in a row; 0 goes on to the limit
    starts: int = 16  # of the tournament that finds where to begin; 1: one random start
    influence: Influence = (
        "bounded"  # a patient's records count as the typical one's at most, or `none`
    )
    bias: bool = False  # one more component, the same for all, that is no phenotype

    distinctness: float = 0.0  # λ, as the paper prints it
    relative_distinctness: float = 0.0  # λ as a multiple of ‖O‖²/R, so that it acts on any data
    sparsity: float = (
        0.002  # weight of the L1 term of `sparse`, relative to the data in the same way
    )

    consensus_penalty: float | None = None  # ω; None follows the data
    split_penalty: float | None = None  # μ; None follows λ
    penalty_scale: float = 1.0  # c: ω_k = c · 2 max(diag G_k, diag ΣG/K)
    inner_steps: int = 1  # consensus rounds per mode on cached (M_k, G_k), at least
    most_inner_steps: int = 1  # and at most, until the consensus moves by less than
    inner_tolerance: float = 1e-4  # this share of itself in the opening iterations,
    later_tolerance: float = 1e-3  # and this one later
    opening: int = 15  # iterations that decide which optimum the run ends in
    relaxation: float = 1.6  # Boyd's α: above 1, a hospital's step is lengthened
    split_dual_start: float = 0.0  # Y₀
    residual_tolerance: float = 1e-3  # Boyd's relative tolerance

    guides: tuple[Guide, ...] = ()  # components that start from codes, and are pulled to them
    guide_pull: float = 0.03  # how strongly, as a multiple of ‖O‖²/R

    precision: Precision = "double"  # of the products with the data; `single` is faster
    track_rmse: bool = False  # RMSE over nonzeros at every iteration: one more pass over the data

    def __post_init__(self) -> None:
        faults = list(_no_numbers(self)) or list(_faults(self))
        if faults:
            raise SettingsError("; ".join(faults), where="solver settings")

    @property
    def nothing_more(self) -> bool:
        """Whether the tournament's own problem is the one asked for: A ≥ 0, no more."""
        return self.constraint == "nonnegative" and not (
            self.bias or self.guides or self.distinctness or self.relative_distinctness
        )

    @property
    def plain(self) -> bool:
        """Whether the tournament's best start is fitted to its end as it stands."""
        ours = self.method in ("exact", "central") and self.precision == "double"
        return ours and self.nothing_more

    @property
    def rank(self) -> int:
        """Columns of every factor: the components, and the bias where there is one."""
        return self.n_components + int(self.bias)

    def with_variant_rules(self) -> SolverSettings:
        """The settings a variant of the paper fixes."""
        if self.method != "trip" or self.variant == "corrected":
            return self
        if self.variant == "released":
            return replace(self, bias=True, inner_steps=1, relaxation=1.0)
        return replace(self, inner_steps=1, relaxation=1.0)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for artefacts and fingerprints."""
        return asdict(self)


def _no_numbers(settings: SolverSettings) -> Iterator[str]:
    """What is compared below, and is no number."""
    named = ["n_components", *(f.name for f in fields(settings) if type(f.default) in (int, float))]
    for name in named:
        if not isinstance(getattr(settings, name), int | float):
            yield f"{name} must be a number, not {getattr(settings, name)!r}"


def _faults(settings: SolverSettings) -> Iterator[str]:
    """Everything wrong with the settings, so that a user mends it in one go."""
    given = asdict(settings)
    for name, choices in CHOICES.items():
        if given[name] not in choices:
            yield f"{name} is {given[name]!r}, not one of {', '.join(choices)}"
    for name in ("n_components", "max_iter", "starts", "inner_steps", "most_inner_steps"):
        if not isinstance(given[name], int) or given[name] < 1:
            yield f"{name} must be a whole number of 1 or more, not {given[name]!r}"
    for name in ("penalty_scale", "residual_tolerance", "inner_tolerance", "later_tolerance"):
        if not given[name] > 0:
            yield f"{name} must be positive, not {given[name]!r}"
    for name in (
        "tol",
        "distinctness",
        "relative_distinctness",
        "sparsity",
        "guide_pull",
        "seed",
    ):
        if not given[name] >= 0:
            yield f"{name} must not be negative, not {given[name]!r}"
    printed = settings.method == "trip" and settings.variant == "printed"
    for name in ("consensus_penalty", "split_penalty"):
        if given[name] is None and printed:
            yield f"the printed variant needs {name}: the paper does not give it"
        if given[name] is not None and not given[name] > 0:
            yield f"{name} must be positive, not {given[name]!r}"
    yield from _starting_faults(settings)
    yield from _loss_faults(settings)
    if not 0 < settings.relaxation < 2:
        yield f"relaxation must lie between 0 and 2, not {settings.relaxation!r}"


def _starting_faults(settings: SolverSettings) -> Iterator[str]:
    if isinstance(settings.starts, int) and settings.starts > MOST_STARTS:
        yield f"starts must be at most {MOST_STARTS}, not {settings.starts}"
    names = [guide.name for guide in settings.guides]
    if len(names) > settings.n_components:
        yield f"{len(names)} guides for {settings.n_components} components"
    if len(set(names)) < len(names):
        yield "two guides have the same name"
    if names and settings.method == "trip" and settings.variant != "corrected":
        yield f"the {settings.variant} variant knows no guides"


def _loss_faults(settings: SolverSettings) -> Iterator[str]:
    """Any but the squared one knows the pooled problem over A ≥ 0, and nothing beside it."""
    if settings.loss == "squared":
        return
    if settings.method not in ("exact", "central"):
        yield f"loss {settings.loss} goes with exact or central, not with {settings.method}"
    asked = {
        f"the constraint {settings.constraint}": settings.constraint != "nonnegative",
        "a bias": settings.bias,
        "guides": bool(settings.guides),
        "distinctness": bool(settings.distinctness or settings.relative_distinctness),
        "single precision": settings.precision != "double",
    }
    for name, given in asked.items():
        if given:
            yield f"loss {settings.loss} does not go with {name}"
