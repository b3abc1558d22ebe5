"""Which messages a study has, and the gates of simulated hospitals.

A simulation has no officer who approved a manifest; what may leave follows from its own settings,
through the same gate as a real hospital's.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping

from tripheno.exchange.communicator import Gatekeeper, OpenGatekeeper
from tripheno.exchange.registry import MessagePlan
from tripheno.exchange.roster import FEWEST
from tripheno.privacy.gate import Gate, GateLog
from tripheno.protocol.agreed import StudyProtocol
from tripheno.solver.settings import SolverSettings
from tripheno.solver.tournament import FINALISTS, stacks
from tripheno.study.axes import MOST_COUNTS
from tripheno.study.evidence import RESAMPLED
from tripheno.study.makers import Gatekeepers

NO_LIMIT = 2**62
COUNTS = 3 * MOST_COUNTS  # codes that nobody has, that too few have, and again once some are aside
IN_HALVES = 4 * MOST_COUNTS  # counts and objections of each half of the patients
DECLARE = ("tripheno.study.program", "tripheno.privacy.audit", "tripheno.privacy.faults")


def declare_all() -> None:
    """Import what sends messages: a program declares what it sends, or cannot be imported."""
    for module in DECLARE:
        importlib.import_module(module)


def plan_of(
    solver: SolverSettings,
    modes: Iterable[str],
    members: int,
    *,
    alignment: str | None = None,
    counts: int = 0,
    fits: int = 1,
    tournaments: int = 1,
    resamples: int = 0,
    ranks: tuple[int, ...] = (),
    evidence: int = 0,
    labels: bool = False,
    machines: bool = False,
    blind: bool = True,
    subgroups: bool = False,
    siblings: bool = False,
) -> MessagePlan:
    """Which messages a study with these settings has, and how often at most."""
    solver = solver.with_variant_rules()
    penalised = bool(
        solver.distinctness or solver.relative_distinctness or solver.guides
        or solver.constraint == "sparse" or solver.most_inner_steps > 1
    )  # fmt: skip
    names = tuple(modes)
    raced = solver.starts > 1 and solver.method in ("exact", "trip")
    side_by_side = stacks(solver.n_components, solver.starts) if raced else ()
    if solver.loss != "squared":  # from one start too, and for every rank that is tried
        side_by_side += tuple((1, r, r * r) for r in ranks or (solver.n_components,))
    rank = solver.rank
    more_asked = raced and bool(resamples) and not solver.nothing_more
    beside = range(1 + sum(FINALISTS.values()) * int(more_asked))
    side_by_side += tuple(  # none: zeros; with finalists that are fitted on
        (n, n * rank, n * rank * rank) for n in (resamples + other for other in beside)
    )
    return MessagePlan(
        names, members, solver.method, solver.loss, ranks or (solver.n_components,), solver.bias,
        fits, tournaments * int(raced), side_by_side, RESAMPLED if resamples else 0,
        solver.influence == "bounded", solver.max_iter + 1,
        max(solver.inner_steps, solver.most_inner_steps) if solver.method == "trip" else 1,
        len(names) * max(solver.most_inner_steps, 1) + 1 if penalised
        else int(solver.method == "trip"),  # whether it is at an end
        alignment, counts, labels, blind, machines, evidence,
        subgroups, siblings, bool(solver.guides),
        solver.track_rmse and solver.plain and (raced or solver.loss != "squared"),
    )  # fmt: skip


def plan_of_protocol(protocol: StudyProtocol, *, labels: bool) -> MessagePlan:
    """Which messages a study of separate machines has.

    For each other rank there are three fits, each from one start, and three questions.
    """
    declare_all()
    solver, asked = protocol.solver, protocol.evidence
    other = len(asked.ranks)
    return plan_of(
        solver, protocol.rule.modes, max(len(protocol.members), FEWEST),
        alignment=protocol.alignment, counts=COUNTS + IN_HALVES * bool(other),
        fits=1 + 3 * other, resamples=asked.resamples * int(solver.method != "local"),
        ranks=tuple(dict.fromkeys((solver.n_components, *asked.ranks))),
        evidence=3 * other, labels=labels, machines=True, subgroups=asked.subgroups,
        siblings=len(protocol.institutions) < len(protocol.members),
    )  # fmt: skip


def most_codes(protocol: StudyProtocol) -> dict[str, int]:
    """How long an axis may be: as the public list, else as the budget says."""
    most = dict.fromkeys(protocol.rule.modes, protocol.budgets.max_codes)
    return {**most, **{one.mode: len(one.codes) for one in protocol.lists}}


def simulated_gatekeepers(
    hospitals: Iterable[str],
    codes: Mapping[str, int],
    settings: SolverSettings,
    record: GateLog | None,
    *,
    alignment: str | None = None,
    resamples: int = 0,
    subgroups: bool = False,
    blind: bool = True,
) -> Gatekeepers:
    """One gate for each hospital, which all write to one record; none without a record."""
    names = tuple(hospitals)
    counts = COUNTS if alignment is not None else 0
    plan = plan_of(
        settings, codes, len(names),
        alignment=alignment, counts=counts, resamples=resamples, blind=blind,
        subgroups=subgroups,
    )  # fmt: skip

    def gatekeeper(name: str) -> Gatekeeper:
        if record is None or alignment == "polynomial":
            return OpenGatekeeper()
        return Gate(name, plan, codes, record, most_rounds=NO_LIMIT, most_bytes=NO_LIMIT)

    return gatekeeper
