"""What a hospital says first in an epoch, signed: a fresh key, its thresholds, what it kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from tripheno.errors import BadMessage, OtherProtocol, WrongStep
from tripheno.exchange.keys import KEY_BYTES, SIGNATURE_BYTES, Identity, check_signature
from tripheno.exchange.roster import Roster

LARGEST = 1 << 20
_PURPOSE = b"sums 2 announce"
_BYTES = ("study", "key", "snapshot")

Kept = tuple[int, bytes]
"""A checkpoint: the step it stands before, and the transcript's hash there."""


@dataclass(frozen=True)
class Announcement:
    """One hospital's words at the beginning of an epoch; bytes are in hexadecimal on the wire."""

    study: bytes
    run: str
    epoch: int
    name: str
    key: bytes  # x25519, fresh
    snapshot: bytes  # salted digest of the data
    thresholds: Mapping[str, int]
    kept: tuple[Kept, ...]

    def signed(self, identity: Identity) -> bytes:
        """The announcement as it leaves the hospital."""
        body = self._body()
        return body + identity.sign(_PURPOSE, body)

    def _body(self) -> bytes:
        value = asdict(self)
        for name in _BYTES:
            value[name] = value[name].hex()
        value["thresholds"] = dict(self.thresholds)
        value["kept"] = [[step, h.hex()] for step, h in self.kept]
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def read_announcement(data: bytes, name: str, roster: Roster, run: str, epoch: int) -> Announcement:
    """A member's announcement, if the member signed it for this study, run and epoch."""
    where = f"announcement of {name}"
    if not SIGNATURE_BYTES < len(data) <= LARGEST:
        raise BadMessage("a message of the wrong length", where=where)
    body, signature = data[:-SIGNATURE_BYTES], data[-SIGNATURE_BYTES:]
    check_signature(roster.key_of(name), _PURPOSE, body, signature, where=where)
    found = _read(body, where)
    if found.study != roster.study:
        raise OtherProtocol("it was made for another study", where=where)
    if (found.name, found.run, found.epoch) != (name, run, epoch):
        raise WrongStep("it was made for another run or epoch", where=where)
    return found


def _read(body: bytes, where: str) -> Announcement:
    try:
        value = json.loads(body)
        kept = tuple((int(step), bytes.fromhex(h)) for step, h in value.pop("kept"))
        for name in _BYTES:
            value[name] = bytes.fromhex(value[name])
        thresholds = {str(name): int(least) for name, least in value.pop("thresholds").items()}
        found = Announcement(**value, kept=kept, thresholds=thresholds)
        same = found._body() == body
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise BadMessage("it cannot be read", where=where) from None
    lengths = {len(found.study), len(found.key), len(found.snapshot), *(len(h) for _, h in kept)}
    sound = isinstance(found.run, str) and isinstance(found.name, str) and lengths == {KEY_BYTES}
    counts = [found.epoch, *thresholds.values(), *(step for step, _ in kept)]
    if not (same and sound and all(type(n) is int and 0 <= n < 1 << 63 for n in counts)):
        raise BadMessage("it cannot be read", where=where)
    return found


def newest_kept_by_all(announced: Mapping[str, Announcement]) -> Kept | None:
    """The newest checkpoint that stands in every announcement: where the run goes on."""
    common = set.intersection(*(set(one.kept) for one in announced.values()))
    return max(common, default=None)


def strictest(announced: Mapping[str, Announcement]) -> dict[str, int]:
    """For each threshold the highest that a hospital announced: it holds for all."""
    names = {name for one in announced.values() for name in one.thresholds}
    return {
        name: max(one.thresholds.get(name, 0) for one in announced.values())
        for name in sorted(names)
    }
