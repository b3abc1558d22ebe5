"""Every kind of message that may leave a hospital, declared once, beside the step that makes it.

A declaration names the fields with symbolic shapes, says in words what the rows are, and how often
a study may send it. Zeros, gate, manifest, preview, the report's "what left" and the table in the
documentation are all derived from it.

Symbols: ``codes`` is the number of codes of the step's mode, ``rank`` the columns of a factor,
``components`` the same without a bias. A field of the type ``tuple`` has one array per mode.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from tripheno.exchange.fixed_point import NARROWEST
from tripheno.exchange.messages import Contribution, Message

How = Literal["sum", "gather", "unite", "release"]
"""Added blindly; handed to all; united into one sorted list; given to the coordinator."""

Size = int | str
Stack = tuple[int, int, int]
"""Models side by side, their columns together, the entries of their Gram matrices together."""
NO_STACK: Stack = (0, 0, 0)

CODES, RANK, COMPONENTS = "codes", "rank", "components"
CORE = "core"  # rank to the power of the modes
SKETCH = "sketch"  # test vectors of a sketch
MODELS, COLUMNS, GRAMS = "models", "columns", "grams"  # several models side by side in a message
TRIANGLES = "triangles"  # of their Gram matrices, one half of each with its diagonal

SKETCH_MORE = 10  # test vectors of a sketch beyond the rank


@dataclass(frozen=True)
class Sizes:
    """What the symbols stand for in one study."""

    codes: tuple[int, ...]  # of every mode, in the protocol's order
    rank: int
    components: int
    stack: Stack = NO_STACK

    def of(self, symbol: Size, mode: int) -> int:
        """A size in numbers, for one mode."""
        if isinstance(symbol, int):
            return symbol
        if symbol == CORE:
            return int(self.rank ** len(self.codes))
        if symbol == SKETCH:
            return self.components + SKETCH_MORE
        if symbol == TRIANGLES:
            return (self.stack[1] + self.stack[2]) // 2
        if symbol in (MODELS, COLUMNS, GRAMS):
            return self.stack[(MODELS, COLUMNS, GRAMS).index(symbol)]
        return int(self.codes[mode] if symbol == CODES else getattr(self, symbol))


@dataclass(frozen=True)
class MessagePlan:
    """The facts about a study that decide which messages it sends, and how often at most."""

    modes: tuple[str, ...]
    members: int
    method: str = "exact"
    loss: str = "squared"
    ranks: tuple[int, ...] = (10,)
    bias: bool = False
    fits: int = 1  # the study's own, and those of other ranks in halves
    tournaments: int = 0  # of those, how many choose among many starts
    stacks: tuple[Stack, ...] = ()  # the sets of models that go side by side in one message
    resampled: int = 0  # iterations with resampled patients
    bounded: bool = False  # one patient's influence is bounded
    iterations: int = 100
    inner_steps: int = 1
    choices: int = 0  # decisions of an iteration that are sums of their own
    alignment: str | None = None  # None: axes are agreed on already
    counts: int = 0  # times people are counted
    labels: bool = False
    blind: bool = True
    machines: bool = False  # hospitals are separate machines, whose processes may start again
    evidence: int = 0  # held-out and core questions
    subgroups: bool = False  # patients are counted by age, sex, year and outcome
    siblings: bool = False  # some hospitals are of one institution
    guided: bool = False  # phenotypes in mind, whose codes only some hospitals know
    tracked: bool = False  # the error over nonzeros is measured at every iteration


Times = Callable[[MessagePlan], int]


@dataclass(frozen=True)
class Field:
    """One array of a message, or one per mode."""

    name: str
    shape: tuple[Size, ...]
    per_mode: bool = False
    least: int = NARROWEST  # bits before the point of its scale until a total was not zero

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"name": self.name, "shape": list(self.shape), "per_mode": self.per_mode}


@dataclass(frozen=True)
class Declaration:
    """One kind of message: what it is called, how it leaves, what its rows are."""

    name: str
    how: How
    rows: str
    fields: tuple[Field, ...]
    times: Times
    opaque: Callable[[MessagePlan, Mapping[str, int]], int] | None = (
        None  # bytes, where no fields say so
    )

    def shapes(self, sizes: Sizes, mode: int = 0) -> dict[str, tuple[int, ...]]:
        """Every array's shape under these sizes, for a step about one mode."""
        found = {}
        for field in self.fields:
            modes = range(len(sizes.codes)) if field.per_mode else (mode,)
            for n in modes:
                name = f"{field.name}.{n}" if field.per_mode else field.name
                found[name] = tuple(sizes.of(size, n) for size in field.shape)
        return found

    def allowed(self, sizes: Sizes) -> Iterator[dict[str, tuple[int, ...]]]:
        """The shapes the message may have: one set per mode where a field hangs on the mode."""
        seen = []
        for mode in range(len(sizes.codes)):
            shapes = self.shapes(sizes, mode)
            if shapes not in seen:
                seen.append(shapes)
                yield shapes

    def numbers(self, sizes: Sizes) -> int:
        """How many numbers the largest of them holds."""
        return max(
            sum(math.prod(shape) for shape in shapes.values()) for shapes in self.allowed(sizes)
        )


REGISTRY: dict[str, Declaration] = {}
C = TypeVar("C", bound=type[Message])


def shaped(*shape: Size, least: int = NARROWEST) -> Any:
    """A field of a message: an array of this shape; ``least`` bits where it begins with zeros."""
    return dataclasses.field(metadata={"shape": shape, "least": least})


def declared(name: str, rows: str, times: Times, how: How = "sum") -> Callable[[C], C]:
    """Declare a message type: its fields say their shapes, the rest is said here."""

    def declare(kind: C) -> C:
        fields = tuple(_field(field) for field in dataclasses.fields(kind))
        kind.declaration = register(Declaration(name, how, rows, fields, times))  # type: ignore[attr-defined]
        return kind

    return declare


def _field(field: dataclasses.Field[Any]) -> Field:
    shape = field.metadata.get("shape", ())
    least = field.metadata.get("least", NARROWEST)
    return Field(field.name, tuple(shape), str(field.type).startswith("tuple"), least)


def register(declaration: Declaration) -> Declaration:
    """Enter a declaration; two messages of one name would be one hole in every list."""
    before = REGISTRY.get(declaration.name)
    if before is not None and (before.how, before.fields) != (declaration.how, declaration.fields):
        raise ValueError(f"two messages are called {declaration.name}")
    REGISTRY[declaration.name] = declaration
    return declaration


def declaration_of(kind: type[Message] | Message) -> Declaration:
    """The declaration of a message or of its type."""
    found: Declaration = kind.declaration  # type: ignore[union-attr]
    return found


K = TypeVar("K", bound=Contribution)


def zeros(kind: type[K], sizes: Sizes, mode: int = 0) -> K:
    """An empty sum of this type."""
    shapes = declaration_of(kind).shapes(sizes, mode)
    return kind.from_arrays({name: np.zeros(shape) for name, shape in shapes.items()})


def messages_of(plan: MessagePlan) -> tuple[Declaration, ...]:
    """Every kind of message that a study of this plan sends, by name."""
    return tuple(one for _, one in sorted(REGISTRY.items()) if one.times(plan) > 0)
