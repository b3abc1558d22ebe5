"""Every error a user can meet.

Each has a code, an exit code for the command line, and a docstring that ``tripheno explain`` shows.

::

    TriphenoError
    ├── RunFailed            exit 1   TRIP-E1xx
    ├── SettingsError        exit 2   TRIP-E2xx   usage, options, settings files
    ├── DataError            exit 3   TRIP-E3xx   records, events, cells, tensors
    ├── PolicyError          exit 4   TRIP-E4xx   thresholds, approvals
    ├── NetworkError         exit 5   TRIP-E5xx   connections, TLS, malformed messages
    └── PeerLost             exit 6   TRIP-E6xx   time-outs, hospitals that left

An error reads ``TRIP-E204 what · where · why · what to do`` and never holds a patient's value.
"""

from __future__ import annotations

from collections.abc import Iterator

# ruff: noqa: F403, F405 (a name added to a family is a name of the package)
from tripheno.errors.base import *
from tripheno.errors.data import *
from tripheno.errors.network import *
from tripheno.errors.policy import *
from tripheno.errors.run import *
from tripheno.errors.settings import *


def catalogue() -> dict[str, type[TriphenoError]]:
    """Every error code and the class that carries it, in order."""

    def walk(kind: type[TriphenoError]) -> Iterator[type[TriphenoError]]:
        for child in kind.__subclasses__():
            yield child
            yield from walk(child)

    return {kind.code: kind for kind in sorted(walk(TriphenoError), key=lambda kind: kind.code)}
