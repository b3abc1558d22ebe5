"""The whole study, as every hospital runs it.

One process runs it for the hospitals that live there: all of them in a rehearsal, one over the
engine. The order is the program's; what comes from outside is the total of the step it waits for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tripheno.errors import ThresholdTooLow, UnknownMember
from tripheno.evaluation.rank import RankChoice
from tripheno.exchange.blind import BlindSession
from tripheno.exchange.communicator import Communicator
from tripheno.exchange.keys import Entropy, Identity, from_seed, from_system
from tripheno.exchange.registry import Declaration, register
from tripheno.exchange.roster import FEWEST
from tripheno.exchange.words import noise_from
from tripheno.privacy.labels import Named, share_labels
from tripheno.protocol.agreed import StudyProtocol
from tripheno.records.traits import nothing_known
from tripheno.solver.fit import fit
from tripheno.solver.loop import Watch
from tripheno.solver.solution import costs_of
from tripheno.study.alignment import Aligned, align
from tripheno.study.axes import Tensors, check_cells, with_common_labels
from tripheno.study.evidence import (
    Generators,
    choose_rank,
    home_generators,
    seeded_generators,
    weigh,
)
from tripheno.study.guides import resolved
from tripheno.study.keys import (
    Greeting,
    agree_on_end,
    agree_on_keys,
    sessions_of,
    set_back,
    strictest_cell,
)
from tripheno.study.result import RESULT, Findings, released
from tripheno.study.set_aside import Aside, Lacking
from tripheno.study.store import RunStore
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.shards import Shards
from tripheno.vocabulary.axis import Axis

KEY_BYTES = 32
TEST = "A TEST: all keys follow the seed, and nothing is hidden from whoever has federation.toml"
IDENTITY = register(
    Declaration(
        "identity", "gather", "none: this hospital's public key", (),
        lambda plan: int(plan.machines), lambda _plan, _codes: KEY_BYTES,
    )
)  # fmt: skip

Say = Callable[[str], None]


@dataclass(frozen=True)
class Hospital:
    """What one hospital brings to a study besides its patients."""

    identity: Identity
    secret: bytes  # its exponent in the study's tokens follows from it
    greeting: Greeting = field(default_factory=Greeting)
    labels: bool = False  # its officer approved the names of codes
    traits: np.ndarray | None = None  # patients × age, sex, year, outcome, where it has them


@dataclass(frozen=True)
class RunContext:
    """Which run of the study, and who watches it."""

    run: str
    epoch: int
    coordinator: bytes = bytes(KEY_BYTES)  # its public key
    watch: Watch | None = None
    say: Say = field(default=lambda _text: None)
    met: Callable[[], None] = field(default=lambda: None)  # keys are agreed on


@dataclass(frozen=True)
class Study:
    """A study as one process takes part in it: for the hospitals that live there."""

    protocol: StudyProtocol
    tensors: Mapping[str, CountTensor]  # of the hospitals here, on their own axes
    hospitals: Mapping[str, Hospital]
    federation: Communicator
    occasion: RunContext
    store: RunStore
    shards: Shards | None = None  # of the hospitals here; none: computed in this process

    @property
    def generators(self) -> Generators:
        """What hospitals draw at home: nobody else can, but in a rehearsal."""
        if self.protocol.test:
            return seeded_generators(self.protocol.solver.seed)
        return home_generators({name: one.secret for name, one in self.hospitals.items()})

    def entropy(self, name: str) -> Entropy:
        """Where a hospital's keys come from: the system, or the seed of a rehearsal."""
        return from_seed(self.protocol.solver.seed, name) if self.protocol.test else from_system


def conduct(study: Study) -> Findings:
    """Greeting, keys, axes, small cells, starts, fit, evidence, prevalence, release, names."""
    protocol, federation, occasion = study.protocol, study.federation, study.occasion
    check_cells(study.tensors)
    digest = _meet(study)
    fewest = strictest_cell(federation, protocol.thresholds.min_cell_count)
    occasion.met()
    occasion.say("all hospitals are there")
    aligned, seconds = _axes(study, digest, fewest)
    tensors = aligned.tensors
    if study.shards is not None:
        tensors = {name: study.shards.place(tensor) for name, tensor in tensors.items()}
    sizes = {axis.mode: axis.size for axis in next(iter(tensors.values())).axes}
    federation.resize(sizes)
    occasion.say("axes agreed on: " + ", ".join(f"{n:,} {mode}" for mode, n in sizes.items()))
    axes = {name: tensor.axes for name, tensor in tensors.items()}
    settings = resolved(federation, axes, protocol.solver.with_variant_rules())
    solution = fit(tensors, settings, federation, watch=occasion.watch, store=study.store)
    weighed = weigh(
        federation, tensors, solution,
        generators=study.generators, resamples=protocol.evidence.resamples, fewest=fewest,
        traits=_traits(study) if protocol.evidence.subgroups else None,
    )  # fmt: skip
    ranks = _ranks(study, tensors, fewest)
    agree_on_end(federation)
    notes = (TEST, *solution.notes) if protocol.test else solution.notes
    costs = costs_of(federation, solution.costs.seconds_shared)  # with evidence and other ranks
    solution = replace(solution, notes=notes, costs=costs)
    found = Findings(
        solution, weighed, aligned.removed, seconds, {}, ranks, aligned.aside, aligned.lacks,
        fewest,
    )  # fmt: skip
    sessions, result = sessions_of(federation), released(found)
    federation.release("result", RESULT, lambda name: sessions[name].signed(RESULT.name, result))
    approved = {name: hospital.labels for name, hospital in study.hospitals.items()}
    named = share_labels(federation, axes, found.shown, approved, sessions)
    named_axes = with_names(solution.axes, named)
    return replace(found, named=named, solution=replace(solution, axes=named_axes))


def _traits(study: Study) -> dict[str, np.ndarray]:
    """Every hospital's; of patients without attributes nothing is known."""
    return {
        name: nothing_known(study.tensors[name].patients) if one.traits is None else one.traits
        for name, one in study.hospitals.items()
    }


def _meet(study: Study) -> bytes:
    """Who is here, keys of this epoch, and where to go on from; gives the study's digest."""
    hospitals, federation, occasion = study.hospitals, study.federation, study.occasion
    publics = federation.gather("identity", IDENTITY, lambda n: hospitals[n].identity.public)
    roster = study.protocol.roster(publics, occasion.coordinator)
    if roster.names != federation.hospitals:
        raise UnknownMember("the hospitals are not the study's", where="roster")
    if roster.institutions < (FEWEST - 1 if study.protocol.allow_two else FEWEST):
        raise UnknownMember("members of too few institutions", where="roster")
    for name, local in federation.local_hospitals.items():
        entropy = study.entropy(name)
        local.session = BlindSession(
            name, hospitals[name].identity, roster, occasion.run, occasion.epoch, entropy
        )
        local.noise = noise_from(entropy, "noise")
    greetings = {name: hospital.greeting for name, hospital in hospitals.items()}
    resume = agree_on_keys(federation, greetings)
    study.store.begin(federation, None if resume is None else resume[0])
    if resume is not None:
        occasion.say(f"going on from sum {resume[0]}, which every hospital kept")
    elif behind := set_back(federation):
        who = ", ".join(behind)
        occasion.say(f"beginning anew: {who} kept no later checkpoint; from an older backup?")
    return roster.study


def _axes(study: Study, digest: bytes, fewest: int) -> tuple[Aligned, float]:
    """The tensors on axes that all share: agreed on now, or as they were kept."""
    protocol, hospitals = study.protocol, study.hospitals
    kept = study.store.axes()
    if kept is not None:
        axes, note = kept
        if note["fewest"] < fewest:
            raise ThresholdTooLow("a hospital became stricter during the run", fix="run it anew")
        taken = {name: tensor.on_axes(axes) for name, tensor in study.tensors.items()}
        aside = tuple(Aside(*one) for one in note["aside"])
        lacks = {name: tuple(Lacking(*one) for one in some) for name, some in note["lacks"].items()}
        return Aligned(with_common_labels(taken), note["removed"], aside, lacks), note["seconds"]
    started = time.perf_counter()
    aligned = align(
        study.federation, dict(study.tensors), protocol.alignment,
        fewest=fewest, rule=protocol.set_aside,
        lists={listed.mode: listed.codes for listed in protocol.lists}, study=digest,
        secrets=lambda name: hospitals[name].secret, entropy=study.entropy(next(iter(hospitals))),
    )  # fmt: skip
    seconds = time.perf_counter() - started
    axes = next(iter(aligned.tensors.values())).axes
    note = {"removed": aligned.removed, "aside": aligned.aside, "lacks": aligned.lacks}
    study.store.save_axes(axes, {**note, "seconds": seconds, "fewest": fewest})
    return aligned, seconds


def _ranks(study: Study, tensors: Tensors, fewest: int) -> RankChoice | None:
    """The evidence for other numbers of phenotypes."""
    protocol = study.protocol
    if not protocol.evidence.ranks:
        return None
    settings = replace(protocol.solver, guides=(), starts=1)
    return choose_rank(
        tensors, protocol.evidence.ranks, settings, study.federation,
        generators=study.generators, store=study.store, fewest=fewest,
    )  # fmt: skip


def with_names(axes: tuple[Axis, ...], named: Named) -> tuple[Axis, ...]:
    """Axes with the names that hospitals released; what was known here keeps its name."""
    found = []
    for axis in axes:
        given = named.get(axis.mode, {})
        if not given:
            found.append(axis)
            continue
        codes = list(axis.codes or [None] * axis.size)
        labels = dict(axis.labels)
        for position, (code, label) in given.items():
            if codes[position] is None:
                codes[position] = code
                if label:
                    labels[code] = label
        found.append(Axis(axis.mode, axis.size, tuple(codes), labels, axis.tokens))
    return tuple(found)
