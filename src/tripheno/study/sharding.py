"""Where a hospital's own shards run: processes of this machine, or a cluster that is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tripheno.protocol.site import EngineName
from tripheno.tensor.shard_processes import Processes
from tripheno.tensor.shards import Engine, Shards


@contextmanager
def shards_of(number: int, engine: EngineName = "processes") -> Iterator[Shards | None]:
    """So many shards until the end; with one on this machine there is nobody to share with."""
    if number == 1 and engine == "processes":
        yield None
        return
    with Shards(started(number, engine)) as shards:
        yield shards


def started(number: int, engine: EngineName, threads: int | None = None) -> Engine:
    """The shards, at work; their cores are shared out among processes if not said."""
    if engine == "ray":
        from tripheno.study.ray_shards import RayShards  # noqa: PLC0415  needs the extra

        return RayShards(number)
    return Processes(number, threads)
