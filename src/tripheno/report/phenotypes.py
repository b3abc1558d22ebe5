"""A phenotype as a reader sees it: ranked codes with names, how much they explain, how sure."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

import numpy as np

from tripheno.errors import TriphenoWarning
from tripheno.evaluation.intervals import Interval
from tripheno.evaluation.origin import Origin
from tripheno.privacy.prevalence import MIN_CELL, Prevalence, left_over, prevalence_of_sums
from tripheno.report.titles import led_apart, plain, telling_codes
from tripheno.solver.guides import followed, guide_columns
from tripheno.solver.solution import Solution
from tripheno.study.evidence import Weighed
from tripheno.tensor.factors import leading_positions, similarity_matrix
from tripheno.vocabulary.axis import Axis

FOLLOWED_FROM = 0.2  # of a guided phenotype's weight, on the codes it was seeded with
GRADES = ("stable", "partly", "unstable")
T = TypeVar("T")


@dataclass(frozen=True)
class RankedCode:
    """One code of a phenotype.

    ``share`` is its part of the phenotype's weight in this mode, with an ``interval`` where
    patients were resampled; ``specificity`` is the part of the code, over all phenotypes, that
    this phenotype holds.
    """

    position: int
    code: str | None
    name: str
    weight: float
    share: float
    specificity: float = 1.0
    interval: tuple[float, float] | None = None


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
class PhenotypeReview:
    """What people decided about a phenotype. The last word holds; all of them are kept."""

    named_by: str = ""
    rejected_by: str = ""
    merged_into: int | None = None
    merged_by: str = ""
    verdicts: dict[str, str] = field(default_factory=dict)  # reviewer → verdict


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
    stability: float | None = None  # the least match with finalists as good as the best
    stability_resamples: float | None = None  # the match reached in 90 % of resamples
    grade: str | None = None  # stable, partly or unstable; None: not examined
    effective_patients: float | None = None  # behind the phenotype, long stays counted as one
    named: bool = True  # whether enough patients stand behind it to be called by its codes
    interval: tuple[float, float] | None = None  # of the share of patients who have it
    led_by: str = ""  # its most telling codes, such that no two phenotypes are led alike
    review: PhenotypeReview = PhenotypeReview()

    @property
    def title(self) -> str:
        """A name that people gave, else its leading codes; that it is unstable comes before either.

        A guide's name holds while the data follow the guide. Codes do not name a phenotype that too
        few patients stand behind: they would point at them.
        """
        if self.grade == "unstable":
            return f"unstable: {self.name or self._led}"
        if self.guided and self.guided.followed:
            return self.name or self.guided.name
        return self.name or self._led

    @property
    def _led(self) -> str:
        if not self.named:
            return f"phenotype {self.number} of too few patients"
        return self.led_by or next(iter(telling_codes(self)), "empty")

    @property
    def claimed(self) -> Origin | None:
        """Its origin, where it may be claimed.

        Nothing is said of an unstable phenotype, nor of one that too few patients stand behind: it
        would point at their hospital; nor that hospitals differ in one where random groups of their
        patients would differ as much.
        """
        origin = self.origin if self.grade != "unstable" and self.named else None
        if origin is None or origin.differs or origin.kind in ("together", "everywhere"):
            return origin
        return None

    @property
    def worth_a_name(self) -> bool:
        """Whether it came back, enough patients carry it and nobody set it aside."""
        return self.grade != "unstable" and self.named and not self.set_aside

    @property
    def set_aside(self) -> bool:
        """Whether a reviewer rejected it or merged it into another."""
        return bool(self.review.rejected_by) or self.review.merged_into is not None

    def covered(self, mode: str) -> float:
        """The part of the phenotype's weight in a mode that the shown codes hold."""
        return min(1.0, sum(code.share for code in self.codes[mode]))

    @property
    def shown(self) -> Mapping[str, tuple[RankedCode, ...]]:
        """Its codes by mode; none where they would point at the few patients behind it."""
        return self.codes if self.named else {}

    @property
    def words(self) -> str:
        """The leading names of every mode on one line."""
        parts = [
            ", ".join(plain(code.name) for code in ranked[:2]) for ranked in self.shown.values()
        ]
        return " + ".join(part for part in parts if part)


@dataclass(frozen=True)
class Evidence:
    """What is known about phenotypes beyond their factors, one entry per component."""

    origins: list[Origin] | None = None
    prevalence: list[Prevalence] | None = None
    stability: list[float] | None = None
    stability_resamples: list[float] | None = None
    grades: list[str] | None = None
    effective_patients: Sequence[float | None] | None = None
    named: list[bool] | None = None
    intervals: list[tuple[float, float]] | None = None  # of the share of patients
    code_intervals: Sequence[Interval] = ()  # of shares, per mode, codes × components


def evidence_of(
    weighed: Weighed, resamples: int, patients: int, fewest: int = MIN_CELL
) -> dict[str, Any]:
    """What ``run.json`` says of the evidence as a whole; nothing of fewer people."""
    grades = [one.grade for one in weighed.grades]
    shown = [one.total for one in prevalence_of_sums(weighed.carriers, patients, fewest)]
    untold = left_over(shown, weighed.without, patients)
    (without,) = prevalence_of_sums([None if untold else weighed.without], patients, fewest)
    return {
        "resamples": resamples if grades else 0,
        "stable": grades.count("stable"),
        "partly": grades.count("partly"),
        "unstable": grades.count("unstable"),
        "patients_without": without.total,
        "share_without": without.total_share,
    }


def weighed_in_words(weighed: Weighed, fewest: int = MIN_CELL) -> dict[str, Any]:
    """What speaks for phenotypes, as :class:`Evidence` has it.

    Their codes are shown where ``fewest`` patients stand behind them, resampled or not.
    """
    share = weighed.prevalence
    return {
        "stability_resamples": [one.resamples for one in weighed.grades] or None,
        "grades": [str(one.grade) for one in weighed.grades] or None,
        "effective_patients": [n if n >= fewest else None for n in weighed.effective],
        "named": [patients >= fewest for patients in weighed.effective],
        "intervals": None if share is None else [
            (float(low), float(high)) for low, high in zip(share.low, share.high, strict=True)
        ],
        "code_intervals": weighed.intervals,
    }  # fmt: skip


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
        for n, axis in enumerate(solution.axes):
            column, part = solution.factors[n][:, r], specific[n][:, r]
            ends = evidence.code_intervals[n] if evidence.code_intervals else None
            between = None if ends is None else (ends.low[:, r], ends.high[:, r])
            codes[axis.mode] = tuple(_ranked(axis, column, part, between))
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
                origin=_at(evidence.origins, r),
                prevalence=_at(evidence.prevalence, r),
                stability=_at(evidence.stability, r),
                stability_resamples=_at(evidence.stability_resamples, r),
                grade=_at(evidence.grades, r),
                effective_patients=_at(evidence.effective_patients, r),
                named=True if evidence.named is None else evidence.named[r],
                interval=_shown_interval(evidence, r),
            )
        )
    return led_apart(found)


def _at(values: Sequence[T] | None, r: int) -> T | None:
    return values[r] if values else None


def _shown_interval(evidence: Evidence, r: int) -> tuple[float, float] | None:
    """None where the count is withheld: an interval around it would tell it."""
    counted = _at(evidence.prevalence, r)
    return None if counted and counted.total is None else _at(evidence.intervals, r)


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


def _ranked(
    axis: Axis,
    column: np.ndarray,
    specific: np.ndarray,
    between: tuple[np.ndarray, np.ndarray] | None,
) -> Iterable[RankedCode]:
    """The codes with the largest weights, cut where they hold most of the column."""
    total = float(np.abs(column).sum())
    for position in leading_positions(column):
        code = None if axis.codes is None else axis.codes[position]
        share = abs(float(column[position])) / total
        weight = float(column[position])
        name = axis.name(int(position))
        ends = None
        if between is not None:
            ends = (float(between[0][position]), float(between[1][position]))
        yield RankedCode(int(position), code, name, weight, share, float(specific[position]), ends)


def _unknown(ranked: tuple[RankedCode, ...], axis: Axis) -> Unknown:
    """Codes of the phenotype for which this reader has neither a code nor a label.

    An axis without any code list (a bare tensor) is not counted: there is nothing to know.
    """
    missing = [c for c in ranked if axis.codes is not None and c.code is None]
    return Unknown(len(missing), sum(c.share for c in missing))


def to_plain(phenotype: Phenotype) -> dict[str, Any]:
    """A phenotype as it stands in ``phenotypes.json``: all but what people said of it."""
    origin, plain = phenotype.origin, asdict(phenotype)
    del plain["review"]
    if origin is not None:
        plain["origin"] |= {"kind": origin.kind, "text": origin.text}
    plain["codes"] = {
        mode: [{**code, "label": code["name"]} for code in ranked]
        for mode, ranked in plain["codes"].items()
    }
    return {"phenotype": plain.pop("number"), "title": phenotype.title, **plain}


PARTS = {"overlap": Overlap, "origin": Origin, "prevalence": Prevalence, "guided": Guided}


def from_plain(plain: Mapping[str, Any]) -> Phenotype:
    """A phenotype as ``phenotypes.json`` gives it back, fields of newer versions left out."""
    parts: dict[str, Any] = {
        name: _made(kind, plain[name]) for name, kind in PARTS.items() if plain.get(name)
    }
    parts["codes"] = {
        mode: tuple(_made(RankedCode, {**code, "interval": _pair(code)}) for code in ranked)
        for mode, ranked in plain["codes"].items()
    }
    parts["unknown"] = {mode: _made(Unknown, one) for mode, one in plain["unknown"].items()}
    parts |= {"number": plain["phenotype"], "interval": _pair(plain)}
    return _made(Phenotype, {**plain, **parts})


def _made(kind: type[T], plain: Mapping[str, Any]) -> T:
    """A dataclass from those of its fields that are there."""
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    return kind(**{key: value for key, value in plain.items() if key in known})


def _pair(plain: Mapping[str, Any]) -> tuple[float, float] | None:
    ends = plain.get("interval")
    return (float(ends[0]), float(ends[1])) if ends else None
