"""What all errors have in common, and the warnings."""

from __future__ import annotations


class TriphenoError(Exception):
    """Something a user can mend. The message says what, where, why and what to do."""

    code = "TRIP-E000"
    exit_code = 1

    def __init__(self, what: str, *, where: str = "", why: str = "", fix: str = "") -> None:
        self.what, self.where, self.why, self.fix = what, where, why, fix
        super().__init__(what)

    def __str__(self) -> str:
        parts = [part for part in (self.what, self.where, self.why, self.fix) if part]
        return f"{self.code} " + " · ".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.where, self.why, self.fix)


def _rebuild(kind: type[TriphenoError], what: str, where: str, why: str, fix: str) -> TriphenoError:
    return kind(what, where=where, why=why, fix=fix)


class TriphenoWarning(UserWarning):
    """A result is usable but deserves a second look."""


class NotConverged(TriphenoWarning):
    """The iteration limit came before the stopping rule; the factors may still move."""


class SingularGram(TriphenoWarning):
    """Two components coincide, so a small ridge was added to keep the equations solvable."""


class EmptyComponent(TriphenoWarning):
    """A component has no weight left: the rank is larger than the data supports."""


class Insecure(TriphenoWarning):
    """What was asked for does not protect what it seems to protect."""


class PaperVariant(TriphenoWarning):
    """A variant of the seed paper with known faults was asked for, to study it."""
