"""The run failed: exit 1, TRIP-E1xx."""

from __future__ import annotations

import errno

from tripheno.errors.base import TriphenoError


class RunFailed(TriphenoError):
    """The run started and could not be finished."""

    code, exit_code = "TRIP-E100", 1


class Diverged(RunFailed):
    """The factors grew without bound.

    Penalties that do not fit the data do this, and so do the equations as the paper printed them.
    Use the `corrected` variant, whose penalties follow the data, or a larger consensus penalty.
    """

    code = "TRIP-E101"


class DriftedApart(RunFailed):
    """Hospitals that ran the same study no longer hold the same factors.

    Every sum compares them to a billionth. Processors and threads differ by less, so a hospital has
    another version, or its memory failed. The run goes on from the last checkpoint, beginning with
    the first hospital's state for all.
    """

    code = "TRIP-E103"


class DiskFailed(RunFailed):
    """A file could not be written: the disk is full, or the folder not writable.

    Nothing was half-written. Free some space, and start the same command again: a run of a
    federation goes on from the last checkpoint, others begin anew.
    """

    code = "TRIP-E102"


class ShardLost(RunFailed):
    """A shard of this hospital ended or failed, so its patients' part of a sum is missing.

    Shards are processes that compute on some of a hospital's patients. One that was killed, often
    for want of memory, cannot be replaced within a sum. Start the same command again: a run of a
    federation goes on from the last checkpoint. More shards need less memory each.
    """

    code = "TRIP-E104"


def of_the_system(fault: OSError, *, where: str = "") -> RunFailed:
    """What the operating system reports, in the shape of ours."""
    no_room = fault.errno in (errno.ENOSPC, errno.EDQUOT)
    what = fault.strerror or type(fault).__name__
    if no_room:
        return DiskFailed(what, where=where, fix="free some space, and start the command again")
    return RunFailed(what, where=where)
