"""Two runs side by side: which phenotypes are the same, what appeared, vanished, moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tripheno.errors import BadShape
from tripheno.evaluation.recovery import FOUND_FROM
from tripheno.report.cohorts import read_frozen
from tripheno.report.page import environment
from tripheno.report.phenotypes import Phenotype
from tripheno.report.run_folder import Report, read_report
from tripheno.report.titles import plain
from tripheno.solver.frozen import FrozenPhenotypes
from tripheno.tensor.factors import match_components
from tripheno.vocabulary.axis import union


@dataclass(frozen=True)
class Side:
    """A phenotype as one of the two runs has it."""

    number: int
    title: str
    grade: str | None
    share: float
    patients: int | None


@dataclass(frozen=True)
class Matched:
    """One phenotype in both runs, and the shown codes that came and went."""

    first: Side
    second: Side
    similarity: float
    gained: tuple[str, ...]
    lost: tuple[str, ...]


@dataclass(frozen=True)
class RunsCompared:
    """The second run seen from the first."""

    runs: tuple[dict[str, Any], dict[str, Any]]
    differs: dict[str, tuple[Any, Any]]  # setting → its value in each run
    fms: float  # mean similarity over the smaller run's phenotypes, matched one to one
    matched: tuple[Matched, ...]
    vanished: tuple[Side, ...]
    appeared: tuple[Side, ...]

    @property
    def differences(self) -> list[str]:
        """What differs in a few words each; of inputs and guides that they do."""
        return [
            name if name in ("inputs", "guides")
            else f"{name} {' → '.join('from the data' if v is None else str(v) for v in pair)}"
            for name, pair in self.differs.items()
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def compare_runs(first: Path, second: Path) -> RunsCompared:
    """Match the phenotypes of two run folders by their codes (similarity from 0.7 is the same)."""
    reports = read_report(first), read_report(second)
    ours, theirs = _on_common_codes(read_frozen(first), read_frozen(second))
    match = match_components(ours, theirs)
    here, there = reports[0].phenotypes, reports[1].phenotypes
    pairs = [
        (here[r], there[other], float(similarity))
        for r, (other, similarity) in enumerate(zip(match.other, match.similarity, strict=True))
        if other >= 0 and similarity >= FOUND_FROM
    ]
    seen = {a.number for a, _, _ in pairs}, {b.number for _, b, _ in pairs}
    return RunsCompared(
        runs=(_about(first, reports[0]), _about(second, reports[1])),
        differs=_differences(*reports),
        fms=float(match.similarity.sum()) / max(min(len(here), len(there)), 1),
        matched=tuple(
            Matched(_side(a), _side(b), round(similarity, 4), _new(a, b), _new(b, a))
            for a, b, similarity in pairs
        ),
        vanished=tuple(_side(p) for p in here if p.number not in seen[0]),
        appeared=tuple(_side(p) for p in there if p.number not in seen[1]),
    )


def render_comparison(found: RunsCompared) -> str:
    """The comparison as an offline page."""
    return environment().get_template("runs_compared_page.html").render(found=found)


def _on_common_codes(
    first: FrozenPhenotypes, second: FrozenPhenotypes
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Factors of both runs on the union of their codes, for the modes that both have."""
    theirs = {pair[0].mode: pair for pair in zip(second.axes, second.factors, strict=True)}
    made: tuple[dict[str, np.ndarray], dict[str, np.ndarray]] = ({}, {})
    for axis, factor in zip(first.axes, first.factors, strict=True):
        if axis.mode not in theirs:
            continue
        whole = union([axis, theirs[axis.mode][0]])
        for side, (own, values) in zip(made, ((axis, factor), theirs[axis.mode]), strict=True):
            places = range(own.size) if own.codes is None else whole.positions(own.codes)
            spread = np.zeros((whole.size, values.shape[1]))
            spread[np.asarray(places)] = values
            side[axis.mode] = spread
    if not made[0]:
        raise BadShape("the two runs have no mode in common", fix="compare runs of the same modes")
    return made


def _about(folder: Path, report: Report) -> dict[str, Any]:
    run = report.run
    return {"name": folder.resolve().name, "run": report.annotations.run, "method": run["method"],
            "rank": run["rank"], "patients": run["shape"][0],
            "hospitals": [h["name"] for h in run["hospitals"]]}  # fmt: skip


def _differences(first: Report, second: Report) -> dict[str, tuple[Any, Any]]:
    """Settings and inputs that are not the same in both."""
    ours, theirs = (
        {
            **_flat(r.run["provenance"]["settings"]),
            "hospitals": len(r.run["hospitals"]),
            "inputs": r.run["provenance"]["inputs"],
        }
        for r in (first, second)
    )
    names = dict.fromkeys([*ours, *theirs])
    return {n: (ours.get(n), theirs.get(n)) for n in names if ours.get(n) != theirs.get(n)}


def _flat(settings: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Settings of a study, which stand in tables, by their full names."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        inner = isinstance(value, dict)
        found |= _flat(value, f"{above}{name}.") if inner else {f"{above}{name}": value}
    return found


def _side(p: Phenotype) -> Side:
    total = p.prevalence.total if p.prevalence else None
    return Side(p.number, p.title, p.grade, p.share, total)


def _new(before: Phenotype, after: Phenotype) -> tuple[str, ...]:
    """Names of codes that the second shows and the first does not."""
    known = {(mode, c.code or c.name) for mode, codes in before.shown.items() for c in codes}
    return tuple(
        plain(c.name) for mode, codes in after.shown.items() for c in codes
        if (mode, c.code or c.name) not in known
    )  # fmt: skip
