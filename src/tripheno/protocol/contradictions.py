"""What one setting of a study says about another: whatever no study can do is refused here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tripheno.exchange.roster import FEWEST
from tripheno.protocol.settings_file import SettingsFile
from tripheno.solver.tournament import FINAL

if TYPE_CHECKING:
    from tripheno.protocol.agreed import StudyProtocol

Fault = tuple[str, str]
"""The setting's path, and what is wrong with it."""

OF_TRIP = ("consensus_penalty", "split_penalty", "penalty_scale")
FITS_OF_A_RANK = 3  # of all patients, and of two halves


def check_whole(file: SettingsFile, protocol: StudyProtocol) -> None:
    """Remember every contradiction as a fault of the file."""
    for check in (_members, _method, _said_in_vain, _evidence, _budget):
        for path, what in check(file, protocol):
            file.fault(path, what)


def _members(_file: SettingsFile, protocol: StudyProtocol) -> Iterator[Fault]:
    owners = protocol.institutions
    if protocol.members and len(owners) < (2 if protocol.allow_two else FEWEST):
        why = "with two, each sees the other's contribution; accept that with study.allow_two"
        yield "members", f"{len(owners)} institution(s): three are needed ({why})"


def _method(_file: SettingsFile, protocol: StudyProtocol) -> Iterator[Fault]:
    method = protocol.solver.method
    if method == "central":
        yield "model.method", "model.method central pools patients and is no federation"
    if method == "trip" and not protocol.accept_division_leak:
        yield (
            "model.method",
            "model.method trip shows peers how patients are divided: use exact, or accept that "
            "with study.accept_division_leak",
        )
    if protocol.alignment == "polynomial":
        where = "alignment.mode"
        yield where, f"{where} polynomial shows code lists: `tripheno simulate` only"


def _said_in_vain(file: SettingsFile, protocol: StudyProtocol) -> Iterator[Fault]:
    """A setting that nothing in the study would follow."""
    solver = protocol.solver
    if solver.method != "trip":
        vain = [f"penalties.{name}" for name in OF_TRIP if file.says(f"penalties.{name}")]
        for path in [*vain, *["model.variant"] * (solver.variant != "corrected")]:
            yield path, f"{path} acts on model.method trip only"
    if file.says("penalties.sparsity") and solver.constraint != "sparse":
        yield "penalties.sparsity", "penalties.sparsity acts on model.constraint sparse only"
    if protocol.alignment != "vocabulary" and protocol.lists:
        yield "alignment.lists", "alignment.lists belong to alignment.mode vocabulary"


def _evidence(file: SettingsFile, protocol: StudyProtocol) -> Iterator[Fault]:
    method, ranks = protocol.solver.method, protocol.evidence.ranks
    if ranks and method not in ("exact", "trip"):
        yield "evidence.ranks", f"evidence.ranks cannot be weighed by {method}"
    if len(set(ranks)) < len(ranks):
        yield "evidence.ranks", "evidence.ranks names a number twice"
    if method == "local" and file.says("evidence.resamples") and protocol.evidence.resamples:
        yield "evidence.resamples", "evidence.resamples: local has no common model to fit to them"


def _budget(_file: SettingsFile, protocol: StudyProtocol) -> Iterator[Fault]:
    """No study is shorter than its tournament and one iteration of every fit."""
    solver, modes = protocol.solver, len(protocol.rule.modes)
    if solver.method == "local":
        return
    iterations = 1 + FITS_OF_A_RANK * len(protocol.evidence.ranks) + FINAL * (solver.starts > 1)
    if protocol.budgets.max_rounds < iterations * modes:
        yield (
            "budgets.max_rounds",
            f"budgets.max_rounds {protocol.budgets.max_rounds}: this study takes "
            f"{iterations * modes} or more",
        )
