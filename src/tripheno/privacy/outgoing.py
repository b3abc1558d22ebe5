"""Every kind of message that may leave a hospital, as the protocol derives it.

Names, types and shapes follow from the modes, their sizes and the rank; never from patients. The
list is what the manifest shows to a privacy officer and what the gate holds each message against.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tripheno.exchange.fixed_point import Layout
from tripheno.exchange.keys import KEY_BYTES, SIGNATURE_BYTES
from tripheno.exchange.secure import RETRY, sealed_bytes
from tripheno.solver.messages import REVIEW
from tripheno.solver.settings import SolverSettings
from tripheno.vocabulary.aligners import AlignKind
from tripheno.vocabulary.tokens import TOKEN_BYTES

SAFETENSORS_HEAD = 1024  # names and shapes in clear before a message that is not masked
PLAIN = "<f8"
PEOPLE_COUNTS = 20  # times people are counted until every code left has enough of them
SHARE_BYTES = 2 * (32 + 16) + 64  # an encrypted share in hexadecimal, and a name
GREETING_BYTES = 4096
LABEL_BYTES = 400  # a code and its label


@dataclass(frozen=True)
class Field:
    """One array of a message. A size is a number, or the name of the mode whose codes it counts."""

    name: str
    shape: tuple[int | str, ...]
    dtype: str = PLAIN

    def sized(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape in numbers."""
        return tuple(sizes[size] if isinstance(size, str) else size for size in self.shape)


@dataclass(frozen=True)
class Outgoing:
    """One kind of message: what it is, what its rows are, and how much of it there may be."""

    phase: str  # the step's name without its numbers
    message: str  # the type
    rows: str  # what its rows are, in a reader's words
    masked: bool  # added under masks; else it leaves as it stands
    fields: tuple[Field, ...]
    most_bytes: int  # of one message
    most_rounds: int

    def layout(self, sizes: Mapping[str, int]) -> Layout:
        """Names and shapes under these sizes."""
        return Layout.named({one.name: one.sized(sizes) for one in self.fields})

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def phase_of(step: str) -> str:
    """The kind of a step: ``iterate/12/1/0/retry2`` asks for mode 1 and is ``iterate/1``."""
    retried = RETRY.match(step) if "/retry" in step else None
    parts = (retried["step"] if retried else step).split("/")
    if parts[0] == "iterate" and len(parts) == 4:
        return f"iterate/{parts[2]}"
    return "/".join(parts[:2]) if parts[0] in ("keys", "share", "tokens") else parts[0]


@dataclass(frozen=True)
class Traffic:
    """What decides which messages there are."""

    modes: tuple[str, ...]
    most_codes: Mapping[str, int]
    solver: SolverSettings
    members: int
    masked: bool = True
    alignment: AlignKind | None = None  # None: axes are agreed on already
    count_people: bool = False
    labels: bool = False  # names of the final phenotypes' codes
    machines: bool = False  # hospitals are separate machines, which greet and may be started again

    def messages(self) -> tuple[Outgoing, ...]:
        """Every kind of message, in the order in which a run sends them."""
        found = [*self._greeting(), *self._keys(), *self._alignment(), *self._people()]
        found += self._solver()
        if self.labels:
            most = LABEL_BYTES * sum(self.most_codes.values())
            rows = "codes of the final phenotypes, by position, in clear"
            found.append(Outgoing("labels", "Labels", rows, False, (), most, 1))
        elif self.machines:  # asked all the same, and answered with nothing
            found.append(Outgoing("labels", "Nothing", "none", False, (), 0, 1))
        return tuple(found)

    def _greeting(self) -> Iterator[Outgoing]:
        """What separate machines say besides: who is here, and that they heard."""
        if not self.machines:
            return
        rows = "none: a public key, versions, and which iterations can be gone on from"
        yield Outgoing("hello", "Here", rows, False, (), GREETING_BYTES, 1)
        for step, times in (("roster", 1), ("kept", PEOPLE_COUNTS), ("resume", 1), ("end", 1)):
            yield Outgoing(step, "Nothing", "none", False, (), 0, times)

    def _keys(self) -> Iterator[Outgoing]:
        """Public keys and signatures: a run has one agreement, alignment and each count too."""
        if not self.masked and self.alignment is None:
            return
        runs = self.solver.restarts + (PEOPLE_COUNTS if self.count_people else 0) + 1
        for step, size in (
            ("announce", KEY_BYTES + SIGNATURE_BYTES), ("confirm", SIGNATURE_BYTES), ("agree", 0),
        ):  # fmt: skip
            rows = "none: a public key and a signature"
            yield Outgoing(f"keys/{step}", "Keys", rows, False, (), size, runs)

    def _alignment(self) -> Iterator[Outgoing]:
        if self.alignment is None:
            return
        shares = SHARE_BYTES * self.members
        rows = "none: encrypted shares of a key that only hospitals hold"
        yield Outgoing("share/give", "Shares", rows, False, (), shares, 1)
        yield Outgoing("share/take", "Nothing", "none", False, (), 0, 1)
        if self.alignment == "tokens":
            most = sum(2 * TOKEN_BYTES * n + 80 for n in self.most_codes.values())
            rows = "this hospital's codes as opaque tokens, sorted"
            yield Outgoing("tokens/list", "Tokens", rows, False, (), most, 1)
            yield Outgoing("tokens/places", "Nothing", "none", False, (), 0, 1)

    def _people(self) -> Iterator[Outgoing]:
        if self.count_people or self.alignment == "vocabulary":
            fields = tuple(Field(f"people.{n}", (mode,)) for n, mode in enumerate(self.modes))
            rows = "codes of every mode: patients who have it, counted no further than the cap"
            yield self._sum("people", "PeoplePerSlot", rows, fields, PEOPLE_COUNTS)

    def _solver(self) -> Iterator[Outgoing]:
        solver = self.solver.with_variant_rules()
        starts, rank = solver.restarts, solver.rank
        numbers = [Field(name, ()) for name in ("squared_norm", "nonzeros", "patients")]
        rows = "none: three numbers about all patients together"
        yield self._sum("begin", "Totals", rows, numbers, starts)
        if solver.method == "local":
            yield self._own_factors(rank, starts)
        else:
            yield from self._rounds(solver)
        measured = [Field("squared_error", ()), Field("squared_error_nonzeros", ())]
        rows = "phenotypes × phenotypes, and two errors over all patients"
        gram = Field("patient_gram", (rank, rank))
        yield self._sum("release", "Measures", rows, [*measured, gram], starts)
        yield Outgoing("finish", "Nothing", "none", False, (), 0, starts)
        rows = "phenotypes: how many patients have each, all hospitals together"
        carriers = Field("carriers", (solver.n_components,))
        yield self._sum("carriers", "Carriers", rows, [carriers], starts)

    def _rounds(self, solver: SolverSettings) -> Iterator[Outgoing]:
        rank, review = solver.rank, Field("review", (len(REVIEW),))
        inner = max(solver.inner_steps, solver.most_inner_steps) if solver.method == "trip" else 1
        rounds = solver.restarts * (solver.max_iter + 1) * inner
        for n, mode in enumerate(self.modes):
            if solver.method == "trip":
                fields = [Field("proposal", (mode, rank)), Field("penalty", (2, rank)), review]
                kind = "Proposal"
            else:
                gram = Field("patient_gram", (rank, rank))
                fields, kind = [Field("mttkrp", (mode, rank)), gram, review], "NormalEquations"
            rows = f"{mode} codes × phenotypes, all patients together"
            yield self._sum(f"iterate/{n}", kind, rows, fields, rounds)
        rows = "none: six numbers about all patients together"
        yield self._sum("review", "Review", rows, [review], solver.restarts)

    def _own_factors(self, rank: int, starts: int) -> Outgoing:
        """The baseline that shows a hospital's own phenotypes to the server, in clear."""
        fields = [Field(f"factors.{n}", (mode, rank)) for n, mode in enumerate(self.modes)]
        whole = [Field(name, (), "<i8") for name in ("iterations", "converged")]
        rows = "codes × phenotypes of this hospital alone, IN CLEAR"
        most = self._clear_bytes([*fields, *whole])
        return Outgoing("own", "OwnFactors", rows, False, (*fields, *whole), most, starts)

    def _sum(
        self, phase: str, kind: str, rows: str, fields: Sequence[Field], rounds: int
    ) -> Outgoing:
        made = Outgoing(phase, kind, rows, self.masked, tuple(fields), 0, rounds)
        most = self._clear_bytes(fields)
        if self.masked:
            most = sealed_bytes(made.layout(self.most_codes))
        return Outgoing(phase, kind, rows, self.masked, tuple(fields), most, rounds)

    def _clear_bytes(self, fields: Sequence[Field]) -> int:
        return SAFETENSORS_HEAD + 8 * sum(math.prod(f.sized(self.most_codes)) for f in fields)
