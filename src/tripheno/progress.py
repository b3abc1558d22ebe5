"""A run as it goes on: ``history.jsonl`` line by line, and ``status.json`` beside it.

A simulation writes both in its run folder, the coordinator of a federation in its own; the
dashboard follows them. Neither holds a patient's value.

``history.jsonl``, one line an iteration of the method that is shown; another start begins it anew,
and the finished run leaves the lines of the start that was kept:

===========  =====================================================================
iteration    1, 2, …
objective    Ψ
rmse         over nonzero cells; null where it is not followed
primal       disagreement of the hospitals with the agreed factors; null for `exact`
dual         movement of the agreed factors; null for `exact`
bytes        sent so far, up and down, all hospitals
seconds      since this start began
===========  =====================================================================

A federation's coordinator reads no objective: its history is written at the end, from the result.

``status.json``, replaced whole at most twice a second and at every change of state:

===========  =====================================================================
state        ``running``, ``finished``, ``failed`` or ``interrupted``
why          of a failure: the error with its code
stage        what is being done, in words
run          the folder of ``history.jsonl``, relative to this one; "" is this one
method       the method that is shown
rank         its number of phenotypes
start        which start of ``starts`` the stage is in
starts       how many there are
iteration    of the stage, with ``objective`` beside it
most         iterations at most
rounds       round trips of the stage so far
hospitals    per hospital ``name``, ``bytes_up``, ``bytes_down`` and the last ``step`` it
             answered; ``patients`` and ``nonzeros`` where the writer may know them;
             ``seconds`` until its answer, of late, where the writer can tell
slowest      the hospital whose answers take longest; "" where the writer cannot tell
started      ISO time
updated      ISO time of this state
===========  =====================================================================
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from tripheno.errors import TriphenoError
from tripheno.files import append_line, begin_lines, write_text

State = Literal["running", "finished", "failed", "interrupted"]
STATUS, HISTORY = "status.json", "history.jsonl"
SECONDS_BETWEEN_STATUS = 0.5


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class Status:
    """What ``status.json`` says; the module's text explains the fields."""

    method: str
    rank: int
    most: int
    starts: int = 1
    run: str = ""
    state: State = "running"
    why: str = ""
    stage: str = "beginning"
    start: int = 0
    iteration: int = 0
    objective: float | None = None
    rounds: int = 0
    hospitals: tuple[dict[str, Any], ...] = ()
    slowest: str = ""
    started: str = field(default_factory=_now)
    updated: str = ""


class ProgressLog:
    """Writes both files; use it in a ``with`` so that an error leaves its word behind.

    An older run's ``run.json`` goes first: a folder that has one is complete.
    """

    def __init__(self, folder: Path, status: Status, hospitals: Sequence[Mapping[str, Any]]):
        nothing = {"bytes_up": 0, "bytes_down": 0, "step": ""}
        self.folder = folder
        self._hospitals = {one["name"]: {**one, **nothing} for one in hospitals}
        self._step, self._written = "", 0.0
        self.status = status
        self._history = folder / status.run / HISTORY

    def __enter__(self) -> Self:
        """Begin: make the folder, take away what would tell of an older run."""
        self._history.parent.mkdir(parents=True, exist_ok=True)
        (self.folder / "run.json").unlink(missing_ok=True)
        begin_lines(self._history)
        self._write()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End: finished, failed with the error's own words, or interrupted."""
        state: State = "finished" if fault is None else "failed"
        if fault is not None and not isinstance(fault, Exception):
            state = "interrupted"
        why = "" if fault is None else type(fault).__name__  # its text may hold what it worked on
        if isinstance(fault, TriphenoError):
            why = str(fault)
        self.status = replace(self.status, state=state, why=why)
        self._write()

    def stage(self, words: str, starts: int = 1) -> None:
        """Something else begins: a method, the hospitals alone, the report."""
        for one in self._hospitals.values():
            one.update(bytes_up=0, bytes_down=0, step="")
        self.status = replace(
            self.status, stage=words, start=0, starts=starts, iteration=0, objective=None,
            rounds=0,
        )  # fmt: skip
        self._write()

    def at(self, iteration: int, answers_in: Mapping[str, float]) -> None:
        """Where hospitals are, and how long their answers take: what a coordinator can see."""
        for name, seconds in answers_in.items():
            self._hospitals[name]["seconds"] = round(seconds, 4)
        slowest = max(answers_in, key=lambda name: answers_in[name], default="")
        self.status = replace(self.status, iteration=iteration, slowest=slowest)

    def listen(self, step: str, hospital: str, broadcast: bytes, answer: bytes) -> None:
        """Told of every message by the channel; counts it and forgets it."""
        if step != self._step:
            self._step = step
            self.status = replace(self.status, rounds=self.status.rounds + 1)
        if hospital in self._hospitals:
            one = self._hospitals[hospital]
            one["bytes_up"] += len(answer)
            one["bytes_down"] += len(broadcast)
            one["step"] = step
        if time.monotonic() - self._written > SECONDS_BETWEEN_STATUS:
            self._write()

    def iteration(self, line: Mapping[str, Any], *, shown: bool = True) -> None:
        """An iteration is done. Only those of the method ``shown`` go into the history."""
        first = line["iteration"] == 1
        self.status = replace(
            self.status,
            start=self.status.start + int(first),
            iteration=line["iteration"],
            objective=line["objective"],
        )
        if shown:
            if first:
                begin_lines(self._history)
            append_line(self._history, json.dumps(dict(line)))
        if first or time.monotonic() - self._written > SECONDS_BETWEEN_STATUS:
            self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        hospitals = tuple(dict(one) for one in self._hospitals.values())
        self.status = replace(self.status, hospitals=hospitals, updated=_now())
        write_text(self.folder / STATUS, json.dumps(asdict(self.status), ensure_ascii=False) + "\n")


def read_status(folder: Path) -> dict[str, Any] | None:
    """The ``status.json`` of a folder, or nothing where there is none that can be read."""
    try:
        status = json.loads((folder / STATUS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return status if isinstance(status, dict) and "state" in status else None


def both(*listeners: Callable[..., None] | None) -> Callable[[str, str, bytes, bytes], None]:
    """One listener that tells several."""
    heard = [one for one in listeners if one is not None]

    def listen(step: str, hospital: str, broadcast: bytes, answer: bytes) -> None:
        for one in heard:
            one(step, hospital, broadcast, answer)

    return listen


def spoken(seconds: float) -> str:
    """Seconds, minutes or hours, as one says them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5_400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h"
