"""What a hospital says when it cannot go on: an error's code and nothing else.

Its words are fixed and known to whoever reads it; a path, a name or a value has no place in it.
"""

from __future__ import annotations

from tripheno.errors import BadMessage, RunFailed, TriphenoError, catalogue, of_the_system
from tripheno.exchange.registry import Declaration, register

CODE_BYTES = 9

FAULT = register(
    Declaration(
        "fault", "release", "none: the code of an error, whose words are fixed", (),
        lambda plan: int(plan.machines), lambda _plan, _codes: CODE_BYTES,
    )
)  # fmt: skip


def fault_bytes(fault: Exception) -> bytes:
    """An error as it may leave."""
    if isinstance(fault, OSError):
        fault = of_the_system(fault)
    return (fault.code if isinstance(fault, TriphenoError) else RunFailed.code).encode()


def fault_of(data: bytes, hospital: str) -> TriphenoError:
    """The error that a hospital tells of, in our own words."""
    kind = catalogue().get(data.decode("ascii", "replace"))
    if kind is None:
        raise BadMessage("an error that does not exist", where=hospital)
    words = (kind.__doc__ or kind.code).splitlines()[0].rstrip(".")
    return kind(words, where=hospital, fix="its own log says more")
