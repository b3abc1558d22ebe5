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
from tripheno.exchange.secure import sealed_bytes
from tripheno.privacy.outgoing import Field, Outgoing, phase_of

FORMAT = 1
MANIFEST = "manifest.json"
NEVER_SENT = (
    "records, visits, dates and identifiers of patients",
    "counts of one patient, and any list or table with a row for each patient",
    "patients' memberships in phenotypes",
    "the names of codes, before the final release",
    "this hospital's own sums, except under masks that only cancel in the sum of all hospitals",
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
class Sample:
    """A message of the rehearsal: its file, size and hash."""

    step: str
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
    min_cell_count: int
    min_site_patients: int
    facts: Facts
    most_codes: Mapping[str, int]
    most_rounds: int
    most_bytes: int
    labels: bool
    messages: tuple[Outgoing, ...]
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

    def bytes_here(self, message: Outgoing) -> int:
        """Bytes of one message at this hospital's own sizes: as rehearsed, else as derived."""
        for sample in self.round_one:
            if phase_of(sample.step) == message.phase:
                return sample.bytes
        if message.masked:
            return sealed_bytes(message.layout(self.facts.codes))
        return message.most_bytes

    def rounds(self, message: Outgoing) -> int:
        """How often it may leave: as the method needs it, within the budget of the whole."""
        return min(message.most_rounds, self.most_rounds)


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
        Outgoing(
            **{
                **one,
                "fields": tuple(
                    Field(f["name"], tuple(f["shape"]), f["dtype"]) for f in one["fields"]
                ),
            }
        )
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
