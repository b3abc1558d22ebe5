"""A federation's run as it goes on: on the terminal, in the run folder, in the log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tripheno.cli.console import Progress
from tripheno.errors import TriphenoError
from tripheno.solver.remaining import Forecast, Outlook

if TYPE_CHECKING:
    from tripheno.exchange.channel import Channel
    from tripheno.federation.journal import Journal
    from tripheno.federation.line import Awaited, Notice
    from tripheno.progress import ProgressLog
    from tripheno.solver.loop import Moment
    from tripheno.solver.settings import SolverSettings
    from tripheno.solver.solution import Iteration

SECONDS_TO_MENTION = 3.0


class LiveRun:
    """Told of every stage, iteration and wait."""

    channel: Channel  # set before the first iteration

    def __init__(
        self, progress: Progress, log: ProgressLog, journal: Journal, settings: SolverSettings
    ) -> None:
        self._progress, self._log, self._journal = progress, log, journal
        self._most, self._outlook = settings.max_iter, Outlook(settings)
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

    def moment(self, moment: Moment) -> None:
        """Before every iteration: the residuals of the last one."""
        self._outlook.hear_residuals(*moment.relative_residuals)

    def iteration(self, line: Iteration) -> None:
        """One more line, with the slowest hospital and the time that the rest may take."""
        forecast = self._outlook.hear(line)
        pace = {name: one.answers_in for name, one in self.channel.traffic.items()}
        more = self._log.expect(pace, forecast.seconds, forecast.most_seconds)
        self._log.iteration({**line._asdict(), **more})
        slowest = f"slowest {more['slowest']} {more['slowest_seconds']:.2f} s"
        self._progress.move(self._in_words(line, more["rounds"], slowest, forecast))

    def _in_words(self, line: Iteration, rounds: int, slowest: str, forecast: Forecast) -> str:
        parts = [f"iteration {line.iteration} of at most {self._most}, round {rounds}"]
        parts.append(f"objective {line.objective:.6g}")
        if line.primal is not None and line.dual is not None:
            parts.append(f"residuals {line.primal:.1e} and {line.dual:.1e}")
        return " · ".join([*parts, f"{line.bytes / 1e6:,.1f} MB", slowest, forecast.in_words()])

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
