"""A whole federation in one process: the research and what-if tool."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np

from tripheno.errors import TriphenoWarning
from tripheno.evaluation.claims import hospitals_differ
from tripheno.exchange.communicator import Communicator, Listener, in_clear
from tripheno.exchange.keys import Identity, from_seed
from tripheno.privacy.audit import AuditBuffer, AuditLog
from tripheno.privacy.gate import GateLog
from tripheno.privacy.prevalence import MIN_CELL
from tripheno.progress import ProgressLog, both
from tripheno.protocol.agreed import NOTHING_ASIDE, SetAside
from tripheno.solver.fit import fit
from tripheno.solver.settings import Method, SolverSettings
from tripheno.solver.solution import Costs, Iteration, Solution, costs_of
from tripheno.study.alignment import align
from tripheno.study.axes import Tensors, check_cells
from tripheno.study.evidence import Weighed, seeded_generators, weigh
from tripheno.study.makers import Maker, SumsKind
from tripheno.study.message_plan import simulated_gatekeepers
from tripheno.study.set_aside import Aside, Lacks
from tripheno.study.subgroups import Traits
from tripheno.tensor.count_tensor import CountTensor, pooled
from tripheno.vocabulary.alignment import AlignKind
from tripheno.vocabulary.axis import Axis

MOST_TO_SPLIT = 2_000_000  # cells: twenty more models of each hospital would take minutes


@dataclass(frozen=True)
class Federation:
    """Hospitals on common axes, and how long agreeing on them took."""

    tensors: Tensors
    axes: tuple[Axis, ...]
    alignment_seconds: float = 0.0
    align: AlignKind = "tokens"
    codes_removed: dict[str, int] = field(default_factory=dict)  # by mode, for small cells
    audit_buffer: AuditBuffer = field(
        default_factory=AuditBuffer
    )  # what left while axes were agreed on
    traits: Traits | None = None  # age, sex, year and outcome of their patients, where known
    aside: tuple[Aside, ...] = ()  # codes that take no part, and why
    lacks: Lacks = field(default_factory=dict)  # hospital → what others use often and it never
    left_out: Mapping[str, str] = field(default_factory=dict)  # hospital → why it took no part

    @property
    def nonzeros(self) -> int:
        """Cells of all hospitals together."""
        return sum(tensor.nonzeros for tensor in self.tensors.values())


def assemble(
    tensors: Mapping[str, CountTensor],
    kind: AlignKind = "tokens",
    *,
    seed: int = 0,
    insecure: bool = False,
    min_cell: int | None = None,
    rule: SetAside = NOTHING_ASIDE,
) -> Federation:
    """Bring every hospital's tensor onto the axes they share, without showing code lists.

    A simulation's `vocabulary` has for its public list every code that any hospital has.
    `polynomial` is the seed's insecure protocol, and must be accepted as such. With ``min_cell``,
    codes that fewer people in the network have go.
    """
    check_cells(tensors)
    started, audit_buffer = time.perf_counter(), AuditBuffer()
    own = {axis.mode: axis.size for axis in next(iter(tensors.values())).axes}
    maker = Maker(seed=seed)
    blind = maker.of(tuple(tensors)) == "blind"
    gatekeepers = simulated_gatekeepers(
        tensors, own, SolverSettings(), audit_buffer, alignment=kind, blind=blind
    )
    federation = maker(tuple(tensors), gatekeepers)
    aligned = align(
        federation, dict(tensors), kind,
        fewest=min_cell or 1, rule=rule, seed=seed, insecure=insecure,
    )  # fmt: skip
    axes = next(iter(aligned.tensors.values())).axes
    seconds = time.perf_counter() - started
    return Federation(
        aligned.tensors, axes, seconds, kind, aligned.removed, audit_buffer,
        aside=aligned.aside, lacks=aligned.lacks,
    )  # fmt: skip


Announce = Callable[[Method, Iteration], None]


def run_method(
    federation: Federation,
    settings: SolverSettings,
    maker: Maker,
    *,
    resamples: int | None = 0,
    won: tuple[np.ndarray, ...] = (),
    announce: Announce | None = None,
    listen: Listener | None = None,
    record: GateLog | None = None,
) -> tuple[Solution, Weighed | None]:
    """One method on a federation, behind gates that write to the record; and what speaks for it.

    Nothing is asked for that with ``resamples`` None: the method is run to compare with. ``won`` is
    the start that won another method's tournament.
    """
    tensors, method, traits = federation.tensors, settings.method, federation.traits
    if method == "central":
        tensors = {method: pooled(list(tensors.values()))}
        if traits is not None:
            traits = {method: np.concatenate([traits[name] for name in federation.tensors])}
        communicator = in_clear(tensors)
    else:
        sizes = {axis.mode: axis.size for axis in federation.axes}
        blind = maker.of(tuple(tensors)) == "blind"
        gatekeepers = simulated_gatekeepers(
            tensors, sizes, settings, record, resamples=resamples or 0, blind=blind,
            subgroups=traits is not None,
        )  # fmt: skip
        communicator = maker(tuple(tensors), gatekeepers, listen)

    def watch(line: Iteration) -> None:
        if announce is not None:
            announce(method, line)

    among = None if method == "central" else communicator  # the solver pools for itself
    solution = fit(federation.tensors, settings, among, won=won, watch=watch)
    weighed = None
    if resamples is not None:
        weighed = weigh(
            communicator,
            tensors,
            solution,
            generators=seeded_generators(settings.seed),
            resamples=resamples,
            fewest=MIN_CELL,
            traits=traits,
        )
    return replace(solution, costs=_whole_costs(communicator, solution.costs)), weighed


def _whole_costs(federation: Communicator, costs: Costs) -> Costs:
    """The costs with what was asked after the fit; pooled data keep those of pooling."""
    return costs_of(federation, costs.seconds_shared) if federation.size > 1 else costs


def run_methods(
    federation: Federation,
    settings: SolverSettings,
    methods: Iterable[Method],
    *,
    maker: Maker | None = None,
    resamples: Mapping[Method, int] | None = None,
    announce: Announce | None = None,
    listeners: Mapping[Method, Listener] | None = None,
    records: Mapping[Method, GateLog] | None = None,
) -> dict[Method, tuple[Solution, Weighed | None]]:
    """Every method from the same start on the same federation; evidence for those resampled.

    Pooled data that are only compared with begin, after them, at the start that won the tournament
    of `exact` or `trip`: the same iterations from the same start, without all the other starts.
    """
    maker, methods = maker or Maker("plain", settings.seed), list(methods)
    many = {method: 0 if resamples is None else resamples.get(method) for method in methods}
    found: dict[Method, tuple[Solution, Weighed | None]] = {}
    for method in sorted(methods, key=lambda one: one == "central" and many[one] is None):
        won: tuple[np.ndarray, ...] = ()
        if method == "central" and many[method] is None:
            won = next((one.start for one, _ in found.values() if one.start), ())
        found[method] = run_method(
            federation, replace(settings, method=method), maker, announce=announce,
            resamples=many[method], won=won,
            listen=(listeners or {}).get(method), record=(records or {}).get(method),
        )  # fmt: skip
    return {method: found[method] for method in methods}


def own_models(federation: Federation, settings: SolverSettings) -> dict[str, Solution]:
    """What each hospital finds from its own patients, on the common axes.

    Guides are left out: a seed that every hospital starts from would be found everywhere. In a
    simulation all of them are at hand. A real federation learns them only where every
    hospital has agreed to release its own phenotypes, as the `local` baseline does.
    """
    alone = replace(settings, method="central", track_rmse=False, guides=())
    with warnings.catch_warnings():
        # a hospital too small for the rank is the very thing to be seen
        warnings.simplefilter("ignore", TriphenoWarning)
        return {name: fit({name: tensor}, alone) for name, tensor in federation.tensors.items()}


EVERY_METHOD: tuple[Method, ...] = ("central", "exact", "trip", "local")
STAGES: dict[Method, str] = {
    "central": "all patients in one place (central)",
    "exact": "the hospitals together (exact)",
    "trip": "the hospitals together (trip)",
    "local": "every hospital alone, then averaged (local)",
}


@dataclass(frozen=True)
class Simulation:
    """What is to be run on a federation, and beside what."""

    federation: Federation
    settings: SolverSettings
    inputs: Mapping[str, str]
    every: bool = False  # one sub-folder per method
    beside: tuple[Method, ...] = ("central", "local")  # run too, to compare with
    names: Mapping[str, dict[int, str]] = field(default_factory=dict)  # method → component → name
    sums: SumsKind | None = None  # blind from three hospitals on, if not said
    resamples: int = 10  # of the patients, to see whether phenotypes come back

    @property
    def sums_kind(self) -> SumsKind:
        """How contributions are added."""
        return Maker(self.sums, self.settings.seed).of(tuple(self.federation.tensors))


@dataclass(frozen=True)
class Simulated:
    """Everything that was run."""

    solutions: dict[Method, Solution]
    audits: dict[Method, AuditLog]
    own: dict[str, Solution]
    weighed: dict[Method, Weighed]  # of the methods asked for
    differ: dict[Method, np.ndarray]  # per component: hospitals differ more than a random split


def simulate(study: Simulation, log: ProgressLog, announce: Announce | None = None) -> Simulated:
    """Every method asked for, its messages audited and its progress written down; and evidence."""
    settings, federation = study.settings, study.federation
    wanted = {settings.method, *study.beside}
    known = EVERY_METHOD if settings.loss == "squared" else ("central", "exact")
    methods = [m for m in known if study.every or m in wanted]
    audits: dict[Method, AuditLog] = {
        method: _audit_log(study, method) for method in methods if method != "central"
    }

    def heard(method: Method) -> Listener:
        def stage(*_message: object) -> None:
            if log.status.stage != STAGES[method]:
                log.stage(STAGES[method])

        return both(stage, log.listen)

    def line_of(method: Method, line: Iteration) -> None:
        log.iteration(line._asdict(), shown=method == settings.method)
        if announce is not None:
            announce(method, line)

    maker = Maker(study.sums, settings.seed)
    asked = methods if study.every else [settings.method]
    found = run_methods(
        federation, settings, methods, maker=maker, announce=line_of,
        resamples={m: 0 if m == "local" else study.resamples for m in asked},
        listeners={method: heard(method) for method in methods}, records=audits,
    )  # fmt: skip
    solutions = {method: solution for method, (solution, _) in found.items()}
    own: dict[str, Solution] = {}
    differ: dict[Method, np.ndarray] = {}
    if len(federation.tensors) > 1 and "local" in solutions:
        own = solutions["local"].own
        if settings.guides:
            log.stage("every hospital's own model")
            own = own_models(federation, settings)
        if federation.nonzeros <= MOST_TO_SPLIT:
            log.stage("random splits of the patients")
            differ = {m: hospitals_differ(federation.tensors, solutions[m]) for m in asked}
    weighed = {method: one for method, (_, one) in found.items() if one is not None}
    return Simulated(solutions, audits, own, weighed, differ)


def _audit_log(study: Simulation, method: Method) -> AuditLog:
    """The log of a method's messages; a simulation's keys come from its seed."""
    entropy = from_seed(study.settings.seed, f"audit/{method}")
    keeper, coordinator = (Identity.from_bytes(entropy(who)) for who in ("keeper", "coordinator"))
    run = f"simulate {method}, seed {study.settings.seed}"
    log = AuditLog(run, keeper, coordinator, lambda: datetime.now(UTC).isoformat("T", "seconds"))
    log.take(study.federation.audit_buffer)
    return log
