"""What a run found, in sentences anyone can read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tripheno.report.phenotypes import GRADES, Phenotype
from tripheno.report.run_folder import Report

ALIKE_FROM = 0.5


def sentences(report: Report) -> list[str]:
    """The report's findings: what, how sure, who has it, doubts, and what to do next."""
    said = [_what(report), *_sure(report.phenotypes), *_who(report.phenotypes)]
    said += _where([p for p in report.phenotypes if p.grade != "unstable"])
    said += _pooled(report)
    said += _doubts(report)
    return [*said, _next(report.phenotypes)]


def _what(report: Report) -> str:
    run = report.run
    hospitals = [hospital["name"] for hospital in run["hospitals"]]
    named = f" ({listed(hospitals)})" if 1 < len(hospitals) <= 6 else ""
    return (
        f"{len(report.phenotypes)} phenotypes, groups of codes that occur together, were found "
        f"among {run['shape'][0]:,} patients of {len(hospitals)} hospitals{named}."
    )


def _sure(phenotypes: Sequence[Phenotype]) -> list[str]:
    """How many came back, before anything is said about what they are."""
    counts = Counter(p.grade for p in phenotypes)
    if counts[None] == len(phenotypes):
        return ["How sure: not examined. Nobody looked whether they come back from other starts."]
    stable, partly, unstable = (counts[grade] for grade in GRADES)
    said = f"How sure: {stable or 'none'} stable, {partly or 'none'} partly, {unstable} unstable."
    if not stable + partly:
        said += " Not one of them is a finding."
    elif unstable:
        shaky = [str(p.number) for p in phenotypes if p.grade == "unstable"]
        firm = [str(p.number) for p in phenotypes if p.grade != "unstable"]
        few = len(shaky) <= len(firm)
        said += f" Not to be relied on: {listed(shaky)}." if few else f" Only {listed(firm)} held."
    return [said]


def _who(phenotypes: Sequence[Phenotype]) -> list[str]:
    """The most common of those that can be relied on."""
    known = [
        (p.prevalence.total, p)
        for p in phenotypes
        if p.prevalence and p.prevalence.total and p.grade != "unstable" and not p.set_aside
    ]
    if not known:
        return []
    most = sorted(known, key=lambda one: (-one[0], one[1].number))[:3]
    return [f"Most common: {listed([f'“{p.title}” ({total:,} patients)' for total, p in most])}."]


def _next(phenotypes: Sequence[Phenotype]) -> str:
    """What a reader does now."""
    judged = sum(bool(p.review.verdicts) for p in phenotypes)
    if phenotypes and all(p.grade == "unstable" for p in phenotypes):
        return "Next: fewer phenotypes (tripheno rank), more patients, or a wider window."
    if judged < len(phenotypes):
        return f"Next: judge and name them with tripheno ui ({judged} of {len(phenotypes)} judged)."
    return "Next: hand them on with tripheno export."


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
    gap, match = abs(100 * central["rmse_gap"]), central["fms"]
    same = "the same" if match >= 0.95 else "mostly the same" if match >= 0.8 else "partly other"
    return [
        f"Compared with all patients in one place, the error differs by {gap:.3f} % and the "
        f"phenotypes are {same} (factor match {match:.3f}, 1 is identical)."
    ]


def _doubts(report: Report) -> list[str]:
    said = []
    if not report.run["converged"]:
        said.append(f"The run did not settle: {report.run['stopped_because']}.")
    nobody = [str(p.number) for p in report.phenotypes if p.prevalence and p.prevalence.total == 0]
    if nobody:
        said.append(f"By the rule of “How common” nobody has {listed(nobody)}.")
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
