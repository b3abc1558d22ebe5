"""What is handed on: phenotypes that hold, each with the codes of those merged into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tripheno.errors import NothingToExport, SettingsError
from tripheno.report.annotations import groups
from tripheno.report.phenotypes import Phenotype, RankedCode
from tripheno.report.run_folder import Report, read_report, shown_folder


@dataclass(frozen=True)
class Wanted:
    """What a user asked for beside the format."""

    unstable: bool = False  # hand on unstable phenotypes too
    concepts: Path | None = None  # an OMOP concept table, for runs with other codes
    scored: Path | None = None  # patients scored by `transform`, for exports of patients
    only: tuple[int, ...] = ()  # these phenotypes and no others


@dataclass(frozen=True)
class Chosen:
    """One phenotype to be handed on."""

    phenotype: Phenotype
    codes: Mapping[str, tuple[RankedCode, ...]]


@dataclass(frozen=True)
class Source:
    """A run folder, what it reports, and what is wanted of it."""

    folder: Path
    report: Report
    wanted: Wanted = field(default_factory=Wanted)

    @property
    def run(self) -> dict[str, Any]:
        """The content of ``run.json``."""
        return self.report.run

    def chosen(self) -> list[Chosen]:
        """Phenotypes that reviewers kept; unstable ones only if named by people, or asked for.

        Never one that too few patients stand behind: its codes would point at them.
        """
        only = self.wanted.only
        missing = sorted(set(only) - {p.number for p in self.report.phenotypes})
        if missing:
            raise SettingsError(f"no phenotype {missing[0]}", where=str(self.folder))
        found = [
            Chosen(phenotype, _united(under))
            for phenotype, under in groups(self.report.phenotypes)
            if (not only or phenotype.number in only)
            and phenotype.named
            and (phenotype.grade != "unstable" or phenotype.name or self.wanted.unstable)
        ]
        if not found:
            raise NothingToExport(
                "No phenotype of this run can be handed on",
                where=str(self.folder),
                why="all are unstable, rest on too few patients, or were rejected",
                fix="--unstable hands on unstable ones that enough patients carry",
            )
        return found


def open_source(folder: Path, wanted: Wanted) -> Source:
    """A run folder for export."""
    return Source(shown_folder(folder), read_report(folder), wanted)


def _united(under: list[Phenotype]) -> dict[str, tuple[RankedCode, ...]]:
    """The codes of several phenotypes by mode, each once, the first phenotype's first."""
    codes: dict[str, dict[int, RankedCode]] = {}
    for phenotype in under:
        for mode, ranked in phenotype.shown.items():
            for code in ranked:
                codes.setdefault(mode, {}).setdefault(code.position, code)
    return {mode: tuple(found.values()) for mode, found in codes.items()}
