"""The coordinator's side of a whole study, over any channel.

It sees sums, sizes of axes and opaque tokens; codes, patients and a hospital's own factors never.
An attempt ends when a hospital lost its keys; the next one goes on from the last iteration that
every member kept, under new keys.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tripheno.errors import NothingLeft, SessionLost, SettingsError
from tripheno.exchange import Channel, Exchange
from tripheno.exchange.keys import Identity
from tripheno.exchange.secure import ServerSums
from tripheno.federation.audit_file import countersigned
from tripheno.federation.axes import with_names
from tripheno.federation.checkpoints import Checkpoints, common_iteration
from tripheno.federation.keys import alignment_entropy, server_keys
from tripheno.federation.messages import (
    Hello,
    Here,
    Kept,
    Resume,
    check_agreement,
)
from tripheno.federation.phases import Attempt
from tripheno.privacy.audit import Head
from tripheno.privacy.labels import STEP as LABELS
from tripheno.privacy.labels import Named, ask_labels, united_labels
from tripheno.protocol.agreed import Protocol, protocol_hash
from tripheno.solver.diagnosis import count_carriers
from tripheno.solver.federated import server_method, solution_of
from tripheno.solver.loop import Moment, Outcome, Watch, first_factors, run_rounds
from tripheno.solver.moments import moment_arrays, moment_of
from tripheno.solver.solution import Solution
from tripheno.tensor.factors import leading_positions
from tripheno.vocabulary.axis import Axis
from tripheno.vocabulary.hospital_key import agree_on_hospital_key
from tripheno.vocabulary.public_list import kept_slots
from tripheno.vocabulary.tokens import unite_tokens

MOST_ATTEMPTS = 25  # of one process; a person looks then
SCALES = "scales|"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    """What the coordinator has at the end: network-wide sums, nothing of one hospital."""

    solution: Solution
    removed: dict[str, int]  # mode → codes that too few people have
    alignment_seconds: float
    attempts: int
    named: Named = field(default_factory=dict)  # names of codes that hospitals released


@dataclass(frozen=True)
class Study:
    """What the coordinator runs."""

    protocol: Protocol
    run: str
    store: Checkpoints
    identity: Identity | None = None  # countersigns audit heads; None: there are none
    heads: Callable[[str, Head], None] = field(default=lambda _name, _head: None)
    watch: Watch | None = None
    moment: Callable[[Moment], None] = field(default=lambda _moment: None)  # before each iteration
    say: Say = field(default=lambda _text: None)


def check_study(protocol: Protocol) -> None:
    """Refuse what a federation of separate machines does not do."""
    if protocol.solver.method not in ("trip", "exact"):
        raise SettingsError(
            f"model.method {protocol.solver.method} shows each hospital's own factors",
            fix="use trip or exact; `tripheno simulate` compares with local models",
        )
    if protocol.solver.guides:
        raise SettingsError(
            "guided phenotypes need a server that knows the codes",
            fix="leave the guides out; `tripheno simulate` has them",
        )
    if protocol.solver.restarts > 1:
        raise SettingsError(
            f"model.restarts is {protocol.solver.restarts}",
            fix="a federation runs one start; choose the seed with `tripheno simulate`",
        )
    if protocol.alignment == "polynomial":
        raise SettingsError(
            "alignment.mode polynomial shows code lists", fix="use tokens or vocabulary"
        )


def coordinate(study: Study, channel: Channel) -> Result:
    """Run the study to its end, in as many attempts as it takes."""
    check_study(study.protocol)
    for number in range(1, MOST_ATTEMPTS + 1):
        attempt = study.store.attempt() + 1
        study.store.take_attempt(attempt)
        try:
            return _Attempt(study, channel, attempt).run()
        except SessionLost as fault:
            if number == MOST_ATTEMPTS:
                raise
            study.say(f"{fault.where} was started again; going on under new keys")
    raise SessionLost("too many attempts", where=study.run)


class _Attempt:
    """One attempt: greeting, keys, then from the start or from where all members stand."""

    def __init__(self, study: Study, channel: Channel, number: int) -> None:
        self.study, self.protocol, self.store = study, study.protocol, study.store
        self.channel = Attempt(channel, number)
        public = study.identity.public.hex() if study.identity is not None else ""
        self.hello = Hello(study.run, number, protocol_hash(study.protocol), public)
        self.publics: dict[str, bytes] = {}
        self.started = time.perf_counter()

    def run(self) -> Result:
        """The whole attempt."""
        here = self._greet()
        self.publics = {name: one.public for name, one in here.items()}
        shown = {name: public.hex() for name, public in self.publics.items()}
        server = server_keys(self.protocol, self.hello, shown)
        self.channel.round("roster", json.dumps(shown, sort_keys=True).encode())
        exchange = Exchange(self.channel, server)
        server.agree(self.channel)
        kept = [self.store.iterations(), *(one.kept for one in here.values())]
        iteration = common_iteration(kept) if self.store.axes() is not None else None
        if iteration is not None:
            return self._finish(exchange, *self._go_on(exchange, server, iteration))
        axes, removed = self._agree_on_axes(exchange, server)
        seconds = time.perf_counter() - self.started
        self.store.save_note({"removed": removed, "alignment_seconds": seconds})
        self.store.save_axes(axes)
        settings = self.protocol.solver.with_variant_rules()
        self.study.say(
            "axes agreed on: " + ", ".join(f"{axis.size:,} {axis.mode}" for axis in axes)
        )
        outcome = self._rounds(exchange, server, first_factors(axes, settings), None)
        return self._finish(exchange, axes, outcome, removed, seconds)

    def _greet(self) -> dict[str, Here]:
        answers = self.channel.round("hello", self.hello.pack())
        here = {name: Here.unpack(data, where=name) for name, data in answers.items()}
        for name, one in here.items():
            check_agreement(self.protocol, one, where=name)
        self.study.say(f"all {len(here)} hospitals are there")
        return here

    # ── axes ──────────────────────────────────────────────────────────────────────────────────

    def _agree_on_axes(
        self, exchange: Exchange, server: ServerSums
    ) -> tuple[tuple[Axis, ...], dict[str, int]]:
        """Sizes of the common axes, without the codes that too few people have."""
        modes, fewest = self.protocol.rule.modes, self.protocol.thresholds.min_cell_count
        if self.protocol.alignment == "tokens":
            secret = alignment_entropy(self.protocol, "server")("shuffle")
            found = unite_tokens(self.channel, server, secret)
            sizes = [found[mode] for mode in modes]
        else:
            agree_on_hospital_key(self.channel)
            listed = {one.mode: len(one.codes) for one in self.protocol.lists}
            sizes = self._count(exchange, [listed[mode] for mode in modes], fewest, "list")
        first = list(sizes)
        round_number = 0
        while True:
            round_number += 1
            before = sizes
            sizes = self._count(exchange, before, fewest, str(round_number))
            if sizes == before:
                break
        axes = tuple(Axis(mode, size) for mode, size in zip(modes, sizes, strict=True))
        removed = {m: a - b for m, a, b in zip(modes, first, sizes, strict=True)}
        return axes, removed

    def _count(self, exchange: Exchange, sizes: list[int], fewest: int, name: str) -> list[int]:
        """One count of people per position; hospitals are told which positions stay."""
        kept = kept_slots(exchange, sizes, fewest, step=f"people/{name}")
        for mode, keep in zip(self.protocol.rule.modes, kept, strict=True):
            if not keep.any():
                raise NothingLeft(f"no code has {fewest} people", where=mode)
        if name == "list" or not all(keep.all() for keep in kept):
            exchange.tell(f"kept/{name}", Kept(tuple(keep.astype(np.uint8) for keep in kept)))
        return [int(keep.sum()) for keep in kept]

    # ── rounds ────────────────────────────────────────────────────────────────────────────────

    def _rounds(
        self,
        exchange: Exchange,
        server: ServerSums,
        factors: tuple[np.ndarray, ...],
        resume: Moment | None,
    ) -> Outcome:
        every = self.protocol.operation.checkpoint_every

        def keep(moment: Moment) -> None:
            self.study.moment(moment)
            iteration = moment.state.iteration
            if iteration > 1 and (iteration - 1) % every == 0:
                scales = {SCALES + key: value for key, value in server.scales.to_arrays().items()}
                self.store.save(iteration, {**moment_arrays(moment), **scales})
                self._countersign(str(iteration))

        method = server_method(self.protocol.solver.with_variant_rules())
        watch = self.study.watch
        return run_rounds(method, exchange, factors, watch, keep=keep, resume=resume)

    def _go_on(
        self, exchange: Exchange, server: ServerSums, iteration: int
    ) -> tuple[tuple[Axis, ...], Outcome, dict[str, int], float]:
        """From the last iteration that every member kept."""
        self.study.say(f"going on from iteration {iteration}, which every member kept")
        axes = self.store.axes()
        assert axes is not None  # asked before
        arrays = self.store.load(iteration)
        cut = len(SCALES)
        server.scales.take({k[cut:]: v for k, v in arrays.items() if k.startswith(SCALES)})
        method = server_method(self.protocol.solver.with_variant_rules())
        moment = moment_of(arrays, method)
        for line in moment.history:
            if self.study.watch is not None:
                self.study.watch(line)
        exchange.tell("resume", Resume(iteration))
        outcome = self._rounds(exchange, server, moment.state.shared_factors, moment)
        note = self.store.note()
        return axes, outcome, note["removed"], note["alignment_seconds"]

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def _finish(
        self,
        exchange: Exchange,
        axes: tuple[Axis, ...],
        outcome: Outcome,
        removed: dict[str, int],
        seconds: float,
    ) -> Result:
        settings = self.protocol.solver.with_variant_rules()
        counted = count_carriers(exchange, settings.n_components)
        named = self._ask_names(axes, outcome.factors, settings.n_components)
        axes = with_names(axes, named)
        solution = solution_of(outcome, exchange, axes, settings, {}, carriers=counted)
        result = Result(solution, removed, seconds, self.channel.number, named)
        self.channel.round("end", json.dumps(end_of(result, self.protocol)).encode())
        self._countersign("last")
        return result

    def _ask_names(
        self, axes: tuple[Axis, ...], factors: tuple[np.ndarray, ...], shown: int
    ) -> Named:
        """Names of the codes that the final phenotypes show, from hospitals that approved it."""
        asked = {
            axis.mode: sorted({int(n) for c in factor.T[:shown] for n in leading_positions(c)})
            for axis, factor in zip(axes, factors, strict=True)
        }
        answers = self.channel.round(LABELS, ask_labels(asked))
        return united_labels({name: data for name, data in answers.items() if data}, asked)

    def _countersign(self, name: str) -> None:
        """Every hospital shows where its audit log stands; the coordinator signs and keeps it."""
        identity = self.study.identity
        if identity is None:
            return
        offered = self.channel.round(f"head/{name}", b"")
        heads = {
            hospital: countersigned(hospital, data, self.publics[hospital], identity)
            for hospital, data in offered.items()
        }
        for hospital, head in heads.items():
            self.study.heads(hospital, head)
        given = {hospital: head.countersignature for hospital, head in heads.items()}
        self.channel.round(f"countersign/{name}", json.dumps(given, sort_keys=True).encode())


def end_of(result: Result, protocol: Protocol) -> dict[str, Any]:
    """What every member is told at the end: sums over all of them."""
    solution = result.solution
    fewest = protocol.thresholds.min_cell_count
    return {
        "objective": solution.objective,
        "weights": solution.weights.tolist(),
        "rmse": solution.rmse._asdict(),
        "history": [line._asdict() for line in solution.history],
        "converged": solution.converged,
        "stopped_because": solution.stopped_because,
        "notes": list(solution.notes),
        "patients": solution.patients,
        "nonzeros": solution.nonzeros,
        "costs": solution.costs._asdict(),
        "carriers": [count if count >= fewest else None for count in solution.carriers or ()],
        "squared_norm": solution.squared_norm,
        "removed": result.removed,
        "alignment_seconds": result.alignment_seconds,
        "names": {
            mode: {str(place): list(name) for place, name in places.items()}
            for mode, places in result.named.items()
        },
    }
