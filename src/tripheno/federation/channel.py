"""The engine's channel: a round trip to hospitals on other machines.

A round that fails on the way (a killed process, a cut line, a server that was started again) is
repeated until it is through or the time for a step is over: hospitals answer a repeated step with
the same bytes. A hospital's own error stops the round at once.
"""

from __future__ import annotations

import time

from tripheno.federation.line import Awaited, EngineLine, Request
from tripheno.federation.relay import opened_answer
from tripheno.federation.transport import Channel, Listener


class EngineChannel(Channel):
    """Rounds over a line to the engine."""

    def __init__(self, line: EngineLine, listen: Listener | None = None) -> None:
        self._line, self._listen = line, listen
        super().__init__()

    @property
    def hospitals(self) -> tuple[str, ...]:
        """The members, in the protocol's order."""
        return self._line.hospitals

    def round(self, step: str, broadcast: bytes) -> dict[str, bytes]:
        """Ask every hospital, again and again if need be, until all answered or time is over."""
        line, started, since = self._line, time.monotonic(), time.time()
        request = Request(step, broadcast, started + line.engine_settings.round_seconds, since)
        line.notice(Awaited(self.hospitals, step, since))
        while True:
            answers, failures = line.ask(request)
            found = {n: opened_answer(n, answers[n]) for n in self.hospitals if n in answers}
            late = [name for name in self.hospitals if name not in found]
            if not late:
                break
            line.wait(request, late, failures.get(late[0], "no answer"))
            line.give_up_lost_job(late)
        line.notice(None)
        seconds = time.monotonic() - started
        for name, answer in found.items():
            self.traffic[name].note_answer(line.arrived.get(name, seconds))
            self.traffic[name].bytes_down += len(broadcast)
            self.traffic[name].bytes_up += len(answer)
            self.traffic[name].seconds += seconds / len(found)
            if self._listen is not None:
                self._listen(step, name, broadcast, answer)
        return found
