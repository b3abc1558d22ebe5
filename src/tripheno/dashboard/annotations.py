"""What reviewers say about phenotypes: an append-only file, one line for each thing said."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from tripheno.errors import SettingsError
from tripheno.files import BINARY, lock

Field = Literal["name", "verdict", "comment"]
FIELDS: tuple[str, ...] = get_args(Field)
VERDICTS = ("", "meaningful", "possibly meaningful", "not meaningful")
LONGEST = 2_000


@dataclass(frozen=True)
class Annotation:
    """One reviewer set one field of one phenotype. Nothing is ever changed or removed."""

    time: str
    phenotype: int
    reviewer: str
    field: str
    value: str


def annotate(path: Path, phenotype: int, reviewer: str, field: str, value: str) -> Annotation:
    """Add one line and make sure that it is on the disk; others may write at the same time."""
    faults = []
    if field not in FIELDS:
        faults.append(f"no field '{field[:20]}'")
    if field == "verdict" and value not in VERDICTS:
        faults.append("unknown verdict")
    if not reviewer.strip() or len(reviewer) > 80:
        faults.append("a reviewer has a name of 1 to 80 characters")
    if len(value) > LONGEST:
        faults.append(f"longer than {LONGEST:,} characters")
    if faults:
        raise SettingsError("; ".join(faults), where="annotation")
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    said = Annotation(now, phenotype, reviewer.strip(), field, value.strip())
    line = json.dumps(asdict(said), ensure_ascii=False).encode() + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | BINARY, 0o600)
    try:
        lock(descriptor, wait=True)
        size = os.fstat(descriptor).st_size
        os.lseek(descriptor, max(size - 1, 0), os.SEEK_SET)
        torn = size > 0 and os.read(descriptor, 1) != b"\n"
        os.write(descriptor, b"\n" + line if torn else line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return said


def read_annotations(path: Path) -> list[Annotation]:
    """Every line in the order it was written; a line torn by a crash is passed over."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            found.append(Annotation(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found


def latest(said: Iterable[Annotation]) -> dict[tuple[int, str], dict[str, str]]:
    """(phenotype, reviewer) → what each field holds now. Two tabs that set two fields keep both."""
    state: dict[tuple[int, str], dict[str, str]] = {}
    for one in said:
        state.setdefault((one.phenotype, one.reviewer), {})[one.field] = one.value
    return state


def names_of(said: Sequence[Annotation]) -> dict[int, str]:
    """The name last given to each phenotype, by whoever gave it."""
    names = {one.phenotype: one.value for one in said if one.field == "name"}
    return {phenotype: name for phenotype, name in names.items() if name}


def as_csv(said: Sequence[Annotation]) -> str:
    """The present state as a table, a row for each phenotype and reviewer.

    A value that a spreadsheet would run as a formula gets an apostrophe before it.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["phenotype", "reviewer", *FIELDS])
    for (phenotype, reviewer), fields in sorted(latest(said).items()):
        row = [reviewer, *(fields.get(field, "") for field in FIELDS)]
        writer.writerow([phenotype, *("'" + v if v[:1] in tuple("=+-@\t\r") else v for v in row)])
    return stream.getvalue()


@dataclass(frozen=True)
class Agreement:
    """Cohen's κ of two reviewers' verdicts on the phenotypes that both judged."""

    first: str
    second: str
    judged: int
    agreed: float
    kappa: float | None  # none where chance alone would give full agreement


def agreement(said: Sequence[Annotation], first: str, second: str) -> Agreement | None:
    """κ = (p_o − p_e)/(1 − p_e), or nothing when no phenotype was judged by both."""
    state = latest(said)
    pairs = [
        (fields["verdict"], state[phenotype, second]["verdict"])
        for (phenotype, reviewer), fields in state.items()
        if reviewer == first
        and fields.get("verdict")
        and state.get((phenotype, second), {}).get("verdict")
    ]
    if not pairs:
        return None
    observed = sum(a == b for a, b in pairs) / len(pairs)
    shares = [
        sum(a == v for a, _ in pairs) * sum(b == v for _, b in pairs) / len(pairs) ** 2
        for v in VERDICTS
    ]
    chance = sum(shares)
    kappa = None if chance >= 1.0 else (observed - chance) / (1.0 - chance)
    return Agreement(first, second, len(pairs), observed, kappa)
