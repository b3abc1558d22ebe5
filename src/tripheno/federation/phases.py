"""A channel seen through one attempt of a run: its steps bear the attempt's number."""

from __future__ import annotations

from tripheno.errors import BadMessage
from tripheno.exchange.channel import Channel


class Attempt(Channel):
    """The same hospitals and the same accounts; steps are named ``attempt:step`` on the way."""

    def __init__(self, channel: Channel, number: int) -> None:
        self._channel, self.number = channel, number
        super().__init__()
        self.traffic = channel.traffic

    @property
    def hospitals(self) -> tuple[str, ...]:
        """The members."""
        return self._channel.hospitals

    def round(self, step: str, broadcast: bytes) -> dict[str, bytes]:
        """A round of this attempt."""
        return self._channel.round(f"{self.number}:{step}", broadcast)


def split_step(step: str) -> tuple[int, str]:
    """The attempt and the step itself."""
    number, _, inner = step.partition(":")
    if not number.isdigit() or not inner:
        raise BadMessage("a step without its attempt", where=step[:40])
    return int(number), inner
