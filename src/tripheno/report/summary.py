"""What a run found, in sentences anyone can read."""

from __future__ import annotations

from collections.abc import Sequence

from tripheno.report.phenotypes import Phenotype
from tripheno.report.run_folder import Report

UNSTABLE_BELOW = 0.7
ALIKE_FROM = 0.5


def sentences(report: Report) -> list[str]:
    """The report's findings, the most important first."""
    said = [_what(report)]
    said += _where(report.phenotypes)
    said += _pooled(report)
    said += _doubts(report)
    return said


def _what(report: Report) -> str:
    run = report.run
    hospitals = [hospital["name"] for hospital in run["hospitals"]]
    named = f" ({listed(hospitals)})" if 1 < len(hospitals) <= 6 else ""
    return (
        f"{len(report.phenotypes)} phenotypes, groups of codes that occur together, were found "
        f"among {run['shape'][0]:,} patients of {len(hospitals)} hospitals{named}."
    )


def _where(phenotypes: Sequence[Phenotype]) -> list[str]:
    kinds: dict[str, list[str]] = {}
    for phenotype in phenotypes:
        if phenotype.origin is not None:
            kinds.setdefault(phenotype.origin.kind, []).append(phenotype.title)
    said = []
    if "together" in kinds:
        titles = listed([f"“{title}”" for title in kinds["together"]])
        said.append(f"Seen only together, in no hospital’s own model: {titles}.")
    if "one" in kinds:
        titles = listed([f"“{title}”" for title in kinds["one"]])
        said.append(f"Particular to one hospital: {titles}.")
    if "everywhere" in kinds:
        count = len(kinds["everywhere"])
        verb = "is" if count == 1 else "are"
        said.append(f"{count} of them {verb} in every hospital’s own model.")
    return said


def _pooled(report: Report) -> list[str]:
    central = report.run["compare"].get("central")
    if central is None or report.run["method"] == "central":
        return []
    gap, match = 100 * central["rmse_gap"], central["fms"]
    same = "the same" if match >= 0.95 else "mostly the same" if match >= 0.8 else "partly other"
    return [
        f"Compared with all patients in one place, the error differs by {gap:+.3f} % and the "
        f"phenotypes are {same} (factor match {match:.3f}, 1 is identical)."
    ]


def _doubts(report: Report) -> list[str]:
    said = []
    if not report.run["converged"]:
        said.append(f"The run did not settle: {report.run['stopped_because']}.")
    shaky = [
        str(p.number)
        for p in report.phenotypes
        if p.stability is not None and p.stability < UNSTABLE_BELOW
    ]
    if shaky:
        one = len(shaky) == 1
        said.append(
            f"Phenotype{'' if one else 's'} {listed(shaky)} {'was' if one else 'were'} not found "
            "again from every start: read with care."
        )
    fleeting = [
        str(p.number)
        for p in report.phenotypes
        if p.stability_halves is not None and p.stability_halves < UNSTABLE_BELOW
    ]
    if fleeting:
        one = len(fleeting) == 1
        said.append(
            f"Phenotype{'' if one else 's'} {listed(fleeting)} {'depends' if one else 'depend'} on "
            "which patients are looked at: half of them give another one."
        )
    lost = [f"“{p.guided.name}”" for p in report.phenotypes if p.guided and not p.guided.followed]
    if lost:
        said.append(f"The data did not follow the guide {listed(lost)}.")
    alike = [
        f"{p.number} and {p.overlap.number}"
        for p in report.phenotypes
        if p.overlap and p.overlap.similarity >= ALIKE_FROM and p.number < p.overlap.number
    ]
    if alike:
        said.append(f"Much alike, perhaps one phenotype split in two: {listed(alike)}.")
    return said


def listed(words: Sequence[str]) -> str:
    """``a, b and c``."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
