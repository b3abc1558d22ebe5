"""A federation's run as it goes on, at the coordinator and at a hospital: terminal, log, status."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tripheno.cli.console import Progress
from tripheno.errors import RunFailed, TriphenoError, Withdrawn
from tripheno.files import write_text
from tripheno.solver.tournament import FINAL
from tripheno.study.evidence import RESAMPLED

if TYPE_CHECKING:
    from tripheno.federation.journal import Journal
    from tripheno.federation.line import Awaited, Notice
    from tripheno.federation.transport import Channel
    from tripheno.progress import ProgressLog

SECONDS_TO_MENTION = 3.0
SECONDS_BETWEEN_LINES = 10.0  # of a log that tells iterations
SECONDS_BETWEEN_STATUS = 0.5


PHASES = {
    "identity": "greeting", "announce": "keys", "shares": "keys", "confirm": "keys",
    "people": "axes", "tokens": "axes", "tokens-passed": "axes", "holders": "axes",
    "guides": "axes", "objections": "axes", "patients": "axes", "common": "axes",
    "lengths": "axes",
    "sketch": "tournament", "opening": "tournament", "starts": "tournament", "ballot": "tournament",
    "totals": "axes", "fit": "fit", "review": "fit", "measures": "fit", "choice": "fit",
    "led": "fit", "factors": "fit", "own-factors": "fit",
    "effective": "prevalence", "carriers": "prevalence",
    "resamples": "evidence", "likeness": "evidence", "end": "release", "labels": "release",
    "result": "release", "audit-head": "audit heads",
}  # fmt: skip


_LABEL = re.compile(r"(half|rank|fold)-\d+")  # which of a study's fits


def phase_of(step: str) -> tuple[str, int]:
    """The phase of a step in words, and its iteration where it has one."""
    parts = step.removeprefix("choice/").split("/")
    labels = []
    while _LABEL.fullmatch(parts[0]) and len(parts) > 1:
        labels.append(parts.pop(0))
    kind, *numbers = parts
    before = {"fit": 0, "starts": 1, "resamples": 1}.get(kind)  # fits count from one, others from 0
    iteration = int(numbers[0]) + before if before is not None and numbers else 0
    if kind == "starts" and iteration > FINAL:  # one start is left: it is fitted to the end
        kind, iteration = "fit", iteration - FINAL
    return labels[0].replace("-", " ") if labels else PHASES.get(kind, kind), iteration


class StudyProgress:
    """Where a study is, by the names of its steps: a line of the log a phase, and now and then."""

    def __init__(self, journal: Journal) -> None:
        self._journal, self._logged_at, self._began = journal, 0.0, time.monotonic()
        self.phase, self.iteration = "", 0

    def at(self, name: str, **facts: Any) -> bool:
        """The study is at a step; whether that begins a phase."""
        before = self.phase
        self.phase, self.iteration = phase_of(name)
        begins, now = self.phase != before, time.monotonic()
        if begins or now - self._logged_at > SECONDS_BETWEEN_LINES:
            self._logged_at = now
            seconds = round(now - self._began, 1)
            text = self.phase if begins else f"{self.phase}, iteration {self.iteration}"
            event = "phase" if begins else "iteration"
            self._journal.note(event, text, iteration=self.iteration, seconds=seconds, **facts)
        return begins


class LiveHospital:
    """Told of a hospital's line, runs, steps and failures."""

    def __init__(self, journal: Journal, state: Path) -> None:
        self._journal, self._path = journal, state / "status.json"
        self._steps, self._written = StudyProgress(journal), 0.0
        self._lost = 0.0  # when the line was, by the monotonic clock
        self._now: dict[str, Any] = {"connected": False}
        self._write()

    def line(self, stands: bool) -> None:
        """The line to the coordinator came, was lost or is back."""
        if not stands:
            self._lost = time.monotonic()
        again = f" again, after {time.monotonic() - self._lost:.0f} s" if self._lost else ""
        words = f"stands{again}" if stands else "is lost"
        self._journal.note("line", f"the line to the coordinator {words}", connected=int(stands))
        self._now |= {"connected": stands, "connected since" if stands else "lost since": _now()}
        self._now.pop("lost since" if stands else "connected since", None)
        self._write()

    def begun(self, run: str) -> None:
        """An attempt at a run."""
        self._journal.note("begun", f"run {run} began", run=run)
        self._steps = StudyProgress(self._journal)
        self._now |= {"run": run, "begun": _now()}

    def step(self, name: str) -> None:
        """A step of the study: the program is about to send something."""
        begins = self._steps.at(name)
        self._now |= {"phase": self._steps.phase, "iteration": self._steps.iteration}
        self._now["last step"] = _now()
        if begins or time.monotonic() - self._written > SECONDS_BETWEEN_STATUS:
            self._write()

    def over(self) -> None:
        """The very last step was taken."""
        self._now |= {"phase": "finished", "iteration": 0}
        self._write()

    def failed(self, fault: Exception) -> None:
        """The attempt ended here; of an accident only its kind is told."""
        ours = isinstance(fault, TriphenoError)
        code = fault.code if isinstance(fault, TriphenoError) else RunFailed.code
        text = str(fault) if ours else f"{code} {type(fault).__name__}"
        event = "withdrawn" if isinstance(fault, Withdrawn) else "failed"
        self._journal.note(event, text, code=code)
        self._now |= {"phase": event, "why": text}
        self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        with suppress(OSError):  # a full disk stops no study because of this
            write_text(self._path, json.dumps(self._now, ensure_ascii=False) + "\n", private=True)


def hospital_now(state: Path) -> dict[str, Any]:
    """What :class:`LiveHospital` wrote down last; nothing where `join` was never started."""
    with suppress(OSError, ValueError):
        return dict(json.loads((state / "status.json").read_text(encoding="utf-8")))
    return {}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class LiveRun:
    """Told of every stage, step and wait."""

    channel: Channel  # set before the first iteration

    def __init__(self, progress: Progress, log: ProgressLog, journal: Journal, most: int) -> None:
        self._progress, self._log, self._journal = progress, log, journal
        self._most, self._step, self._steps = most, "", StudyProgress(journal)
        self._mentioned: tuple[str, ...] = ()

    @contextmanager
    def announced(self, begins: str) -> Iterator[None]:
        """The log says how the run began and how it ended."""
        self._progress.say(begins)
        self._journal.note("run", begins)
        try:
            yield
        except TriphenoError as fault:
            self._journal.note("failed", str(fault), code=fault.code)
            raise
        except BaseException as fault:
            self._journal.note("interrupted", type(fault).__name__)
            raise
        self._journal.note("finished", "finished")

    def stage(self, text: str) -> None:
        """Something else begins."""
        self._progress.say(text)
        self._log.stage(text)
        self._journal.note("stage", text)

    def listen(self, number: str, hospital: str, sent: bytes, answer: bytes) -> None:
        """A message of a hospital, under the name that the study gives the step."""
        del number
        self._log.listen(self._step, hospital, sent, answer)

    def step(self, name: str) -> None:
        """Which step hospitals are at: phase and iteration are all a coordinator can see."""
        self._step = name
        traffic = self.channel.traffic
        sent = sum(one.bytes_up + one.bytes_down for one in traffic.values())
        if self._steps.at(name, bytes=sent):
            self._log.stage(self._steps.phase)
        phase, iteration = self._steps.phase, self._steps.iteration
        pace = {one: t.answers_in for one, t in traffic.items() if t.answers_in}
        slowest = max(pace, key=lambda one: pace[one]) if pace else ""
        self._log.at(iteration, pace)
        parts = [phase]
        if iteration:
            most = {"tournament": FINAL, "evidence": RESAMPLED}.get(phase, self._most)
            parts.append(f"iteration {iteration} of at most {most}")
        parts.append(f"{sent / 1e6:,.1f} MB")
        if slowest:
            parts.append(f"slowest {slowest} {pace[slowest]:.2f} s")
        self._progress.move(" · ".join(parts))

    def awaiting(self, write_down: Notice) -> Callable[[Awaited | None], None]:
        """Who is awaited: written down; said aloud once it takes long."""

        def notice(awaited: Awaited | None) -> None:
            write_down(awaited)
            if awaited is None:
                if self._mentioned:
                    self._journal.note("answered", "everybody answered")
                self._mentioned = ()
            elif awaited.why and awaited.hospitals != self._mentioned:
                self._mention(awaited)

        return notice

    def _mention(self, awaited: Awaited) -> None:
        waited = time.time() - awaited.since
        if waited <= SECONDS_TO_MENTION:
            return
        self._mentioned = awaited.hospitals
        names = ", ".join(awaited.hospitals)
        text = f"waiting for {names} since {waited:.0f} s ({awaited.why})"
        self._progress.say(text)
        self._journal.note(
            "waiting", text, hospitals=list(awaited.hospitals), step=awaited.step, why=awaited.why
        )
