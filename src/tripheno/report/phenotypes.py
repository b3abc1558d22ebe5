"""A phenotype as a reader sees it: ranked codes with names, how much they explain, how sure."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tripheno.errors import TriphenoWarning
from tripheno.evaluation.origin import Origin
from tripheno.privacy.prevalence import Prevalence
from tripheno.solver.guides import followed, guide_columns
from tripheno.solver.solution import Solution
from tripheno.tensor.factors import leading_positions, similarity_matrix
from tripheno.vocabulary.axis import Axis

FOLLOWED_FROM = 0.2  # of a guided phenotype's weight, on the codes it was seeded with


@dataclass(frozen=True)
class RankedCode:
    """One code of a phenotype.

    ``share`` is its part of the phenotype's weight in this mode; ``specificity`` is the part of the
    code, over all phenotypes, that this phenotype holds.
    """

    position: int
    code: str | None
    name: str
    weight: float
    share: float
    specificity: float = 1.0


@dataclass(frozen=True)
class Overlap:
    """The other phenotype that is most alike: product over modes of |cosine|."""

    number: int
    similarity: float


@dataclass(frozen=True)
class Unknown:
    """Shown codes that this reader cannot name: how many, and their part of the weight."""

    codes: int
    share: float


@dataclass(frozen=True)
class Guided:
    """The codes a phenotype was seeded with, and the part of its weight that is on them."""

    name: str
    codes: int
    held: float

    @property
    def followed(self) -> bool:
        """Whether the data stayed with the seed; else the phenotype does not bear its name."""
        return self.held >= FOLLOWED_FROM


@dataclass(frozen=True)
class Phenotype:
    """One component in words."""

    number: int
    weight: float
    share: float
    codes: dict[str, tuple[RankedCode, ...]]
    name: str | None = None
    overlap: Overlap | None = None
    unknown: dict[str, Unknown] = field(default_factory=dict)
    origin: Origin | None = None
    prevalence: Prevalence | None = None
    guided: Guided | None = None
    stability: float | None = None  # mean factor match with the other starts
    stability_halves: float | None = None  # and with models of halves of the patients

    @property
    def title(self) -> str:
        """A given name, else that of its guide, else the leading code of a mode of diseases."""
        if self.name:
            return self.name
        if self.guided and self.guided.followed:
            return self.guided.name
        speaking = ("diagnosis", "condition")
        modes = sorted(self.codes, key=lambda mode: mode not in speaking)
        leading = [self.codes[mode][0].name for mode in modes if self.codes[mode]]
        return leading[0] if leading else "empty"

    @property
    def words(self) -> str:
        """The leading names of every mode on one line."""
        parts = [", ".join(code.name for code in ranked[:2]) for ranked in self.codes.values()]
        return " + ".join(part for part in parts if part)


@dataclass(frozen=True)
class Evidence:
    """What is known about phenotypes beyond their factors, one entry per component."""

    origins: list[Origin] | None = None
    prevalence: list[Prevalence] | None = None
    stability: list[float] | None = None
    stability_halves: list[float] | None = None


def phenotypes_of(
    solution: Solution,
    names: Mapping[int, str] | None = None,
    evidence: Evidence | None = None,
) -> list[Phenotype]:
    """Every component of a solution as a phenotype, numbered from 1 by weight."""
    evidence = evidence or Evidence()
    guided = _guided(solution)
    total = float((solution.weights**2).sum()) or 1.0
    specific = [specificity(factor, solution.weights) for factor in solution.factors]
    alike = similarity_matrix(solution.factors, solution.factors)
    np.fill_diagonal(alike, -1.0)
    found = []
    for r, weight in enumerate(solution.weights):
        codes, unknown = {}, {}
        for axis, factor, part in zip(solution.axes, solution.factors, specific, strict=True):
            codes[axis.mode] = tuple(_ranked(axis, factor[:, r], part[:, r]))
            unknown[axis.mode] = _unknown(codes[axis.mode], axis)
        nearest = int(alike[r].argmax())
        found.append(
            Phenotype(
                number=r + 1,
                weight=float(weight),
                share=float(weight) ** 2 / total,
                codes=codes,
                name=(names or {}).get(r),
                overlap=Overlap(nearest + 1, float(alike[r, nearest])) if len(alike) > 1 else None,
                unknown={mode: u for mode, u in unknown.items() if u.codes},
                guided=guided.get(r),
                origin=evidence.origins[r] if evidence.origins else None,
                prevalence=evidence.prevalence[r] if evidence.prevalence else None,
                stability=evidence.stability[r] if evidence.stability else None,
                stability_halves=evidence.stability_halves[r]
                if evidence.stability_halves
                else None,
            )
        )
    return found


def _guided(solution: Solution) -> dict[int, Guided]:
    """Component → what became of its guide."""
    guides = solution.settings.guides if solution.guided else ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TriphenoWarning)  # said when the run began
        columns = guide_columns(solution.axes, guides, len(solution.weights))
    found = {}
    for own, (guide, component) in enumerate(zip(guides, solution.guided, strict=True)):
        known = sum(int(np.count_nonzero(column[:, own])) for column in columns)
        held = followed(solution.factors, columns, component, own)
        found[component] = Guided(guide.name, known, held)
    return found


def specificity(factor: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """w_r|a_ir| / Σ_s w_s|a_is|: the part of code i that phenotype r holds.

    Made from the shared factors and the phenotypes' weights alone; a code that no phenotype holds
    has specificity 0.
    """
    held = np.abs(factor) * weights
    total = held.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(held, total, out=np.zeros_like(held), where=total > 0.0))


def _ranked(axis: Axis, column: np.ndarray, specific: np.ndarray) -> Iterable[RankedCode]:
    """The codes with the largest weights, cut where they hold most of the column."""
    total = float(np.abs(column).sum())
    for position in leading_positions(column):
        code = None if axis.codes is None else axis.codes[position]
        share = abs(float(column[position])) / total
        weight = float(column[position])
        name = axis.name(int(position))
        yield RankedCode(int(position), code, name, weight, share, float(specific[position]))


def _unknown(ranked: tuple[RankedCode, ...], axis: Axis) -> Unknown:
    """Codes of the phenotype for which this reader has neither a code nor a label.

    An axis without any code list (a bare tensor) is not counted: there is nothing to know.
    """
    missing = [c for c in ranked if axis.codes is not None and c.code is None]
    return Unknown(len(missing), sum(c.share for c in missing))


def to_plain(phenotype: Phenotype) -> dict[str, Any]:
    """A phenotype as it stands in ``phenotypes.json``."""
    origin = phenotype.origin
    return {
        "phenotype": phenotype.number,
        "title": phenotype.title,
        "name": phenotype.name,
        "weight": phenotype.weight,
        "share": phenotype.share,
        "overlap": asdict(phenotype.overlap) if phenotype.overlap else None,
        "unknown": {mode: asdict(unknown) for mode, unknown in phenotype.unknown.items()},
        "guided": asdict(phenotype.guided) if phenotype.guided else None,
        "origin": {"kind": origin.kind, "text": origin.text, "similarity": origin.similarity}
        if origin
        else None,
        "prevalence": asdict(phenotype.prevalence) if phenotype.prevalence else None,
        "stability": phenotype.stability,
        "stability_halves": phenotype.stability_halves,
        "codes": {
            mode: [{**asdict(code), "label": code.name} for code in ranked]
            for mode, ranked in phenotype.codes.items()
        },
    }


def from_plain(plain: Mapping[str, Any]) -> Phenotype:
    """A phenotype as ``phenotypes.json`` gives it back."""
    codes = {
        mode: tuple(
            RankedCode(**{key: value for key, value in code.items() if key != "label"})
            for code in ranked
        )
        for mode, ranked in plain["codes"].items()
    }
    overlap, origin, prevalence = (plain[key] for key in ("overlap", "origin", "prevalence"))
    guided = plain.get("guided")
    return Phenotype(
        number=plain["phenotype"],
        weight=plain["weight"],
        share=plain["share"],
        codes=codes,
        name=plain["name"],
        overlap=Overlap(**overlap) if overlap else None,
        unknown={mode: Unknown(**unknown) for mode, unknown in plain["unknown"].items()},
        guided=Guided(**guided) if guided else None,
        origin=Origin(dict(origin["similarity"])) if origin else None,
        prevalence=Prevalence(**prevalence) if prevalence else None,
        stability=plain["stability"],
        stability_halves=plain.get("stability_halves"),
    )
