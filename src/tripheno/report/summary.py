"""What a run found, in sentences anyone can read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tripheno.records.source import is_remainder
from tripheno.report.phenotypes import GRADES, Phenotype
from tripheno.report.run_folder import Report

ALIKE_FROM = 0.5


def sentences(report: Report) -> list[str]:
    """The report's findings: how sure before what, then who has it, doubts, what to do next.

    Where nothing is stable, that is the first thing said.
    """
    first = [_sure(report.phenotypes, report.run.get("starts", 0)), _what(report)]
    if any(p.grade in ("stable", None) for p in report.phenotypes):
        first.reverse()
    said = [*first, *_who(report), *_where(report.phenotypes)]
    said += _pooled(report)
    said += _doubts(report)
    return [*said, _next(report.phenotypes)]


def names_of(run: Mapping[str, Any]) -> list[str]:
    """The names of a run's hospitals, and of a remainder that is none."""
    return [hospital["name"] for hospital in run["hospitals"]]


def how_many(run: Mapping[str, Any]) -> str:
    """``3 hospitals`` of a run."""
    return hospitals_among(names_of(run))


def hospitals_among(names: Iterable[str]) -> str:
    """``3 hospitals``: patients of whom the hospital is not recorded are none."""
    count = sum(not is_remainder(name) for name in names)
    return f"{count} hospital{'' if count == 1 else 's'}"


def _what(report: Report) -> str:
    run = report.run
    hospitals = [name for name in names_of(run) if not is_remainder(name)]
    named = f" ({listed(hospitals)})" if 1 < len(hospitals) <= 6 else ""
    rest = [name.replace("-", " ") for name in names_of(run) if is_remainder(name)]
    named += f" and of others ({listed(rest)})" if rest else ""
    firm = [p for p in report.phenotypes if p.grade != "unstable"]
    found = "phenotypes" if firm else "candidates"
    return (
        f"{len(report.phenotypes)} {found}, groups of codes that occur together, were looked at "
        f"among {run['shape'][0]:,} patients of {how_many(run)}{named}."
    )


def _sure(phenotypes: Sequence[Phenotype], starts: int) -> str:
    """How many came back, before anything is said about what they are."""
    counts = Counter(p.grade for p in phenotypes)
    if counts[None] == len(phenotypes):
        return "How sure: not examined. Nobody looked whether they come back in other patients."
    stable, partly, unstable = (counts[grade] for grade in GRADES)
    if not stable + partly:
        return (
            "No finding: none of them came back when patients were resampled. What follows are "
            "candidates, to be looked at and not to be relied on."
        )
    if not stable and starts == 1:
        said = (
            "No phenotype is called stable, for no other start was tried: in other patients "
            f"{partly} came back, {unstable} did not."
        )
    elif not stable:
        few = sum(p.grade == "partly" and not p.named for p in phenotypes)
        came = [f"{partly - few} came back in part"] if partly > few else []
        came += [f"{few} came back and rest on too few patients"] if few else []
        said = f"No phenotype is stable: {', '.join([*came, f'{unstable} did not'])}."
    else:
        said = (
            f"How sure: {stable} stable, {partly or 'none'} partly, {unstable or 'none'} unstable."
        )
    if unstable:
        shaky = [str(p.number) for p in phenotypes if p.grade == "unstable"]
        if len(shaky) <= stable + partly:
            return f"{said} Not to be relied on: {_numbers(shaky)}."
        firm = [str(p.number) for p in phenotypes if p.grade == "stable"]
        part = [str(p.number) for p in phenotypes if p.grade == "partly"]
        held = [f"{_numbers(firm)} held"] if firm else []
        held += [f"{_numbers(part)} held in part"] if part else []
        said += f" Only {', '.join(held)}."
    return said


def _who(report: Report) -> list[str]:
    """The most common of those that can be relied on, and how many patients none describes."""
    known = [
        (p.prevalence.total, p)
        for p in report.phenotypes
        if p.worth_a_name and p.prevalence and p.prevalence.total
    ]
    most = sorted(known, key=lambda one: (-one[0], one[1].number))[:3]
    titles = [f"“{p.title}” ({total:,} patients)" for total, p in most]
    shaky = any(p.grade == "unstable" for p in report.phenotypes)
    among = " of those that held, wholly or in part" if shaky else ""
    said = [f"Most common{among}: {listed(titles)}."] if titles else []
    without = report.run.get("evidence", {}).get("patients_without")
    if without is not None:
        everyone = report.run["shape"][0]
        share = f"{100 * without / max(everyone, 1):.0f} %"
        which = "none of them, the unstable ones counted too" if shaky else "none of them"
        said.append(f"{without:,} of {everyone:,} patients ({share}) have {which}.")
    return said


def _next(phenotypes: Sequence[Phenotype]) -> str:
    """What a reader does now."""
    worth = [p for p in phenotypes if p.worth_a_name]
    judged = sum(bool(p.review.verdicts) for p in worth)
    if phenotypes and all(p.grade == "unstable" for p in phenotypes):
        return (
            "Next: do not name or use these. Try fewer phenotypes (tripheno rank), more patients "
            "or hospitals, or a wider window."
        )
    if phenotypes and all(p.grade is None for p in phenotypes):
        return "Next: see whether they come back: run it again with --resamples 10, then name them."
    if not worth and any(p.set_aside for p in phenotypes):
        return "Next: nothing is left to hand on; see the history of what was set aside."
    if not worth:
        return (
            "Next: nothing to name yet, for too few patients stand behind what came back. Try "
            "fewer phenotypes (tripheno rank), more patients or hospitals, or a wider window."
        )
    if judged < len(worth):
        kind = "stable" if any(p.grade == "stable" for p in worth) else "partly stable"
        return (
            f"Next: look at the codes of the {kind} ones first, judge and name them with "
            f"tripheno ui ({judged} of the {len(worth)} worth a name judged)."
        )
    return "Next: hand them on with tripheno export."


def _where(phenotypes: Sequence[Phenotype]) -> list[str]:
    kinds: dict[str, list[str]] = {}
    for phenotype in phenotypes:
        if phenotype.claimed is not None and not phenotype.set_aside:
            kinds.setdefault(phenotype.claimed.kind, []).append(phenotype.title)
    only = {"together": "Seen only together, in no hospital’s own model",
            "one": "Particular to one hospital"}  # fmt: skip
    said = [f"{words}: {listed([f'“{title}”' for title in kinds[kind]])}."
            for kind, words in only.items() if kind in kinds]  # fmt: skip
    for kind, whose in {"several": "several hospitals’", "everywhere": "every hospital’s"}.items():
        count = len(kinds.get(kind, ()))
        if count:
            verb = "is" if count == 1 else "are"
            said.append(f"{count} of them {verb} in {whose} own model{'s' * (kind == 'several')}.")
    return said


def _pooled(report: Report) -> list[str]:
    central = report.run["compare"].get("central")
    if central is None or report.run["method"] == "central":
        return []
    gap, match = abs(100 * central["rmse_gap"]), central["fms"]
    same = "the same" if match >= 0.95 else "mostly the same" if match >= 0.8 else "partly another"
    less = "less than 0.001" if gap < 0.0005 else f"{gap:.3f}"
    return [
        f"Compared with all patients in one place, the error differs by {less} % and what was "
        f"found is {same} (factor match {match:.3f}, 1 is identical)."
    ]


def _doubts(report: Report) -> list[str]:
    said = []
    if not report.run["converged"]:
        said.append(f"The run did not settle: {report.run['stopped_because']}.")
    few = sum(not p.named for p in report.phenotypes)
    if few:
        every = few == len(report.phenotypes)
        of = (
            "All rest"
            if every
            else f"Of the {len(report.phenotypes)}, {few} rest{'s' * (few == 1)}"
        )
        said.append(f"{of} on too few patients for their codes to be shown.")
    nobody = [str(p.number) for p in report.phenotypes if p.prevalence and p.prevalence.total == 0]
    if nobody:
        said.append(f"By the rule of “How common” nobody has {_numbers(nobody)}.")
    lost = [f"“{p.guided.name}”" for p in report.phenotypes if p.guided and not p.guided.followed]
    if lost:
        said.append(f"The data did not follow the guide {listed(lost)}.")
    alike = {
        tuple(sorted((p.number, p.overlap.number)))
        for p in report.phenotypes
        if p.overlap and p.overlap.similarity >= ALIKE_FROM
    }
    if alike:
        pairs = listed([f"{a} with {b}" for a, b in sorted(alike)])
        said.append(f"Much alike, perhaps one phenotype split in two: {pairs}.")
    return said


def _numbers(which: Sequence[str]) -> str:
    """Phenotypes by their numbers, so that nobody takes these for counts."""
    return f"number{'s' if len(which) > 1 else ''} {listed(which)}"


def listed(words: Sequence[str]) -> str:
    """``a, b and c``."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
