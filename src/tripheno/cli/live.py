"""A federation's run as it goes on: on the terminal, in the run folder, in the log."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tripheno.cli.console import Progress
from tripheno.errors import TriphenoError
from tripheno.solver.resamples import RESAMPLED
from tripheno.solver.tournament import FINAL

if TYPE_CHECKING:
    from tripheno.federation.journal import Journal
    from tripheno.federation.line import Awaited, Notice
    from tripheno.federation.transport import Channel
    from tripheno.progress import ProgressLog

SECONDS_TO_MENTION = 3.0


PHASES = {
    "identity": "greeting", "announce": "keys", "shares": "keys", "confirm": "keys",
    "people": "axes", "tokens": "axes", "tokens-passed": "axes", "guides": "axes",
    "objections": "axes", "common": "axes", "lengths": "axes",
    "sketch": "tournament", "opening": "tournament", "starts": "tournament", "ballot": "tournament",
    "totals": "axes", "fit": "fit", "review": "fit", "measures": "fit", "choice": "fit",
    "own-factors": "fit", "effective": "prevalence", "carriers": "prevalence",
    "resamples": "evidence", "end": "release", "labels": "release",
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


class LiveRun:
    """Told of every stage, step and wait."""

    channel: Channel  # set before the first iteration

    def __init__(self, progress: Progress, log: ProgressLog, journal: Journal, most: int) -> None:
        self._progress, self._log, self._journal = progress, log, journal
        self._most, self._step, self._phase = most, "", ""
        self._mentioned: tuple[str, ...] = ()

    @contextmanager
    def told(self, begins: str) -> Iterator[None]:
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
        phase, iteration = phase_of(name)
        if phase != self._phase:
            self._phase = phase
            self._log.stage(phase)
            self._journal.note("phase", phase)
        traffic = self.channel.traffic
        pace = {one: t.answers_in for one, t in traffic.items() if t.answers_in}
        slowest = max(pace, key=lambda one: pace[one]) if pace else ""
        self._log.at(iteration, pace)
        parts = [phase]
        if iteration:
            most = {"tournament": FINAL, "evidence": RESAMPLED}.get(phase, self._most)
            parts.append(f"iteration {iteration} of at most {most}")
        parts.append(f"{sum(t.bytes_up + t.bytes_down for t in traffic.values()) / 1e6:,.1f} MB")
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
