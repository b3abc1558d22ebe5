"""A run as it goes on: new lines of its history, as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

SECONDS_BETWEEN_LOOKS = 0.5


async def follow(path: Path) -> AsyncIterator[str]:
    """Every whole line of a history file, those already there first; starts over if it shrinks."""
    place = 0
    while True:
        size = path.stat().st_size if path.exists() else 0
        if size < place:
            place = 0
        if size > place:
            with path.open("rb") as stream:
                stream.seek(place)
                whole, _, _ = stream.read().rpartition(b"\n")
            if whole:
                place += len(whole) + 1
                for line in whole.split(b"\n"):
                    if event := _event(line):
                        yield event
        else:
            yield ": still here\n\n"
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)


def _event(line: bytes) -> str:
    try:
        return f"event: iteration\ndata: {json.dumps(json.loads(line))}\n\n"
    except ValueError:
        return ""
