"""The manifest: what exactly would leave this hospital, for a person to read and sign.

It stays at the hospital. Its file is read back byte for byte: a change of a single byte is another
manifest, or none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tripheno.errors import NotApproved
from tripheno.exchange.communicator import PROJECTIONS, STATE, VOTES
from tripheno.exchange.fixed_point import Layout
from tripheno.exchange.registry import (
    NO_STACK,
    Declaration,
    Field,
    How,
    MessagePlan,
    Sizes,
    messages_of,
)
from tripheno.exchange.session import LONGEST_NAME, sealed_bytes
from tripheno.privacy.gate import MOST_VOTES

FORMAT = 2
CLEAR_HEAD = 1024  # names and shapes in clear before a message that is not blind
LEAVES: dict[How, str] = {
    "sum": "in a blind sum",
    "gather": "to every hospital",
    "unite": "to a sorted union",
    "release": "to the coordinator",
}
MANIFEST = "manifest.json"
NEVER_SENT = (
    "records, visits, dates and identifiers of patients",
    "counts of one patient, and any list or table with a row for each patient",
    "patients' memberships in phenotypes",
    "the names of codes, before the final release",
    "this hospital's own sums, except under masks that only cancel in the sum of all hospitals, "
    "which hospitals read and the coordinator does not",
)
NEVER_SENT_IN_CLEAR = NEVER_SENT[:-1]  # the baseline `local` sends a hospital's own factors


@dataclass(frozen=True)
class Facts:
    """What is behind the messages, at this hospital."""

    patients: int
    cells: int
    codes: Mapping[str, int]  # by mode
    fewest_patients: Mapping[str, int]  # behind any code, by mode
    codes_under_threshold: Mapping[str, int]  # that fewer patients have here than the threshold


@dataclass(frozen=True)
class Listed:
    """One kind of message: how it leaves, what its rows are, and how much of it there may be."""

    name: str
    how: How
    rows: str
    fields: tuple[Field, ...]
    most_bytes: int  # of one message
    most_times: int


def holds(fields: tuple[Field, ...]) -> str:
    """Fields with their shapes, in words."""
    return "; ".join(map(_in_words, fields)) or "–"


def _in_words(field: Field) -> str:
    shape = " × ".join(map(str, field.shape)) or "one number"
    return f"`{field.name}` {shape}" + (", for each mode" if field.per_mode else "")


def listed(plan: MessagePlan, most_codes: Mapping[str, int]) -> tuple[Listed, ...]:
    """Every kind of message of a study, by name, as the registry declares it."""
    found = (
        Listed(one.name, one.how, one.rows, one.fields, _most_bytes(one, plan, most_codes),
               one.times(plan))
        for one in messages_of(plan)
    )  # fmt: skip
    return tuple(sorted(found, key=lambda one: one.name))


def _most_bytes(one: Declaration, plan: MessagePlan, codes: Mapping[str, int]) -> int:
    """Of one message, at the largest rank, on the largest axes."""
    if one.opaque is not None:
        return one.opaque(plan, codes)
    rank = max(plan.ranks)
    stack = max(plan.stacks, default=NO_STACK, key=lambda one: one[1:])
    sizes = Sizes(tuple(codes[mode] for mode in plan.modes), rank + int(plan.bias), rank, stack)
    if one.how != "sum" or not plan.blind:
        return CLEAR_HEAD + 8 * (one.numbers(sizes) + MOST_VOTES + PROJECTIONS)
    carried = {VOTES: (MOST_VOTES,), STATE: (PROJECTIONS,)}
    layouts = [Layout.named({**shapes, **carried}) for shapes in one.allowed(sizes)]
    return sealed_bytes("x" * LONGEST_NAME, max(like.size + like.lanes for like in layouts))


@dataclass(frozen=True)
class Sample:
    """A message of the rehearsal: its kind, file, size and hash."""

    step: str
    message: str
    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Everything that may leave one hospital in one study."""

    tripheno: str
    study: str
    hospital: str
    members: int
    protocol_sha256: str
    events_sha256: str
    attributes_sha256: str  # of ages, sexes and outcomes, where the study counts groups
    min_cell_count: int
    min_site_patients: int
    facts: Facts
    most_codes: Mapping[str, int]
    most_rounds: int
    most_bytes: int
    labels: bool
    messages: tuple[Listed, ...]
    never_sent: tuple[str, ...]
    round_one: tuple[Sample, ...]

    def to_text(self) -> str:
        """The file, with one spelling."""
        plain = {"format": FORMAT, **asdict(self)}
        return json.dumps(plain, indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    @property
    def sha256(self) -> str:
        """Hash of the file's bytes."""
        return hashlib.sha256(self.to_text().encode()).hexdigest()

    @property
    def data_sha256(self) -> str:
        """Hashes of all that was approved of the patients: events, and attributes if any."""
        return self.events_sha256 + self.attributes_sha256

    def bytes_here(self, message: Listed) -> int:
        """Bytes of one message at this hospital's own sizes, where it was rehearsed."""
        seen = [sample.bytes for sample in self.round_one if sample.message == message.name]
        return max(seen, default=message.most_bytes)

    def times(self, message: Listed) -> int:
        """How often it may leave: as the method needs it, within the budget of the whole."""
        return min(message.most_times, self.most_rounds)


def read_manifest(folder: Path) -> Manifest:
    """The manifest in a folder, if it is one, whole and unchanged in its spelling."""
    path = folder / MANIFEST
    if not path.is_file():
        raise NotApproved("there is no manifest", where=str(folder), fix="run `tripheno preview`")
    text = path.read_bytes().decode("utf-8", "replace")
    try:
        manifest = _from_plain(json.loads(text))
        spelt = manifest.to_text()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise NotApproved("is no manifest, or was changed", where=MANIFEST) from None
    if spelt != text:
        raise NotApproved("was changed after it was written", where=MANIFEST)
    return manifest


def _from_plain(plain: dict[str, Any]) -> Manifest:
    if plain.pop("format") != FORMAT:
        raise ValueError("another format")
    messages = tuple(
        Listed(**{**one, "fields": tuple(_field(**field) for field in one["fields"])})
        for one in plain["messages"]
    )
    samples = tuple(Sample(**one) for one in plain["round_one"])
    given = {
        **plain,
        "facts": Facts(**plain["facts"]),
        "messages": messages,
        "never_sent": tuple(plain["never_sent"]),
        "round_one": samples,
    }
    return Manifest(**given)


def _field(name: str, shape: list[int | str], per_mode: bool, least: int) -> Field:
    return Field(name, tuple(shape), per_mode, least)
