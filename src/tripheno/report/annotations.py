"""What reviewers say about the phenotypes of one run: an append-only file, a line for each thing.

Every line bears the run's id. Lines of another run are kept and counted, never applied.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from tripheno.errors import SettingsError
from tripheno.files import BINARY, lock
from tripheno.report.phenotypes import Phenotype, PhenotypeReview

Field = Literal["name", "verdict", "comment", "decision"]
FIELDS: tuple[str, ...] = get_args(Field)
VERDICTS = ("", "meaningful", "possibly meaningful", "not meaningful")
REJECTED = "rejected"
LONGEST = 2_000
_MERGED = re.compile(r"merged into (\d{1,4})")


@dataclass(frozen=True)
class Annotation:
    """One reviewer set one field of one phenotype. Nothing is ever changed or removed."""

    time: str
    run: str
    phenotype: int
    reviewer: str
    field: str
    value: str


@dataclass(frozen=True)
class Annotations:
    """The file of one run folder, and the id of the run that stands there now."""

    path: Path
    run: str

    def add(
        self, phenotype: int, reviewer: str, field: str, value: str, known: Collection[int] = ()
    ) -> Annotation:
        """Add one line and make sure that it is on the disk; others may write at the same time.

        ``known`` are the numbers of the run's phenotypes, where they are to be checked.
        """
        faults = self.faults(
            phenotype,
            reviewer.strip(),
            field,
            value.strip(),
            known=known,
            decided=decisions(self.said()),
        )
        if faults:
            raise SettingsError("; ".join(faults), where="annotation")
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        said = Annotation(now, self.run, phenotype, reviewer.strip(), field, value.strip())
        line = json.dumps(asdict(said), ensure_ascii=False).encode() + b"\n"
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | BINARY, 0o600)
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

    @staticmethod
    def faults(
        phenotype: int, reviewer: str, field: str, value: str, *, known: Collection[int] = (),
        decided: Mapping[int, str] | None = None,
    ) -> list[str]:  # fmt: skip
        """What keeps a statement from being added; ``decided`` is what holds of each phenotype."""
        into = merged_into(value)
        back = field == "decision" and phenotype in _merged_after(into, decided or {})
        other = into is not None and into != phenotype and (not known or into in known)
        wrong = {
            "no such phenotype": known and phenotype not in known,
            f"no field '{field[:20]}'": field not in FIELDS,
            f"a verdict is {', '.join(VERDICTS[1:-1])} or {VERDICTS[-1]}":
                field == "verdict" and value not in VERDICTS,
            "a decision is 'rejected', 'merged into' another phenotype's number, or empty":
                field == "decision" and value not in ("", REJECTED) and not other,
            f"phenotype {into} is merged into {phenotype} already": back,
            "a reviewer has a name of 1 to 80 characters": not 0 < len(reviewer) <= 80,
            f"longer than {LONGEST:,} characters": len(value) > LONGEST,
        }  # fmt: skip
        return [words for words, so in wrong.items() if so]

    def said(self) -> list[Annotation]:
        """What was said about this run, in the order it was written."""
        return [one for one in self._every() if one.run == self.run]

    def of_other_runs(self) -> int:
        """How many lines speak of a run that stood here before, or were copied from elsewhere."""
        return sum(one.run != self.run for one in self._every())

    def _every(self) -> list[Annotation]:
        """Every line; one torn by a crash is passed over."""
        if not self.path.exists():
            return []
        found = []
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                found.append(Annotation(**{"run": "", **json.loads(line)}))
            except (ValueError, TypeError):
                continue
        return found


def merged_into(decision: str) -> int | None:
    """The phenotype that a decision merges into, if it merges."""
    found = _MERGED.fullmatch(decision)
    return int(found[1]) if found else None


def decisions(said: Iterable[Annotation]) -> dict[int, str]:
    """Phenotype → the last decision about it, whoever took it."""
    return {one.phenotype: one.value for one in said if one.field == "decision"}


def _merged_after(number: int | None, decided: Mapping[int, str]) -> list[int]:
    """What a phenotype was merged into, what that was merged into, and so on."""
    found: list[int] = []
    while number is not None and number not in found:
        found.append(number)
        number = merged_into(decided.get(number, ""))
    return found[1:]


def latest(said: Iterable[Annotation]) -> dict[tuple[int, str], dict[str, str]]:
    """(phenotype, reviewer) → what each field holds now. Two tabs that set two fields keep both."""
    state: dict[tuple[int, str], dict[str, str]] = {}
    for one in said:
        state.setdefault((one.phenotype, one.reviewer), {})[one.field] = one.value
    return state


def changes(
    said: Sequence[Annotation], number: int, reviewer: str, form: dict[str, str]
) -> dict[str, str]:
    """What a form says that this reviewer has not said yet.

    ``was_<field>`` is what the form showed and ``shown_to`` whose words those were. A field left as
    it was is no statement, so two tabs do not undo each other; except that a verdict shown to one
    reviewer and sent by another is that other's own.
    """
    own = latest(said).get((number, reviewer), {})
    other = form.get("shown_to", reviewer) != reviewer
    found = {}
    for field in FIELDS:
        value = form.get(field, "").strip()
        touched = value != form.get(f"was_{field}", "")
        agreed = other and field == "verdict" and value != ""
        new = field == "decision" or value != own.get(field, "")  # a decision is everybody's
        if field in form and (touched or agreed) and new:
            found[field] = value
    return found


def reviewed(phenotypes: Sequence[Phenotype], said: Sequence[Annotation]) -> list[Phenotype]:
    """The phenotypes with the names, decisions and verdicts that people gave them."""
    return [_with_words(p, [one for one in said if one.phenotype == p.number]) for p in phenotypes]


def _with_words(phenotype: Phenotype, said: Sequence[Annotation]) -> Phenotype:
    if not said:
        return phenotype
    last = {one.field: one for one in said}
    name, decision = last.get("name"), last.get("decision")
    chosen = decision.value if decision else ""
    by = decision.reviewer if decision else ""
    verdicts = {o.reviewer: o.value for o in said if o.field == "verdict"}
    into = merged_into(chosen)
    review = PhenotypeReview(
        named_by=name.reviewer if name and name.value else "",
        rejected_by=by if chosen == REJECTED else "",
        merged_into=into,
        merged_by=by if into else "",
        verdicts={who: verdict for who, verdict in verdicts.items() if verdict},
    )
    return replace(phenotype, name=(name and name.value) or phenotype.name, review=review)


def target_of(phenotype: Phenotype, phenotypes: Sequence[Phenotype]) -> int | None:
    """The number a phenotype counts under: its own, that of the last it was merged into, or none.

    None is for rejected ones, and for a ring of merges, which says nothing.
    """
    by_number = {p.number: p for p in phenotypes}
    seen: set[int] = set()
    while phenotype.review.merged_into in by_number and phenotype.number not in seen:
        seen.add(phenotype.number)
        phenotype = by_number[phenotype.review.merged_into]
    return None if phenotype.review.rejected_by or phenotype.number in seen else phenotype.number


def groups(phenotypes: Sequence[Phenotype]) -> list[tuple[Phenotype, list[Phenotype]]]:
    """Every phenotype that stands on its own, with those that count under it, itself first."""
    under: dict[int, list[Phenotype]] = {}
    for phenotype in phenotypes:
        target = target_of(phenotype, phenotypes)
        if target is not None:
            under.setdefault(target, []).append(phenotype)
    return [
        (p, sorted(under[p.number], key=lambda one: one.number != p.number))
        for p in phenotypes
        if p.number in under
    ]


def annotation_rows(said: Sequence[Annotation]) -> list[list[Any]]:
    """The present state as a table with a heading, a row for each phenotype and reviewer."""
    rows = [
        [phenotype, reviewer, *(fields.get(field, "") for field in FIELDS)]
        for (phenotype, reviewer), fields in sorted(latest(said).items())
    ]
    return [["phenotype", "reviewer", *FIELDS], *rows]


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
