"""How far one attack came: what the table, the figure and the exit code are made of."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

RECOVERED = 1e-2  # relative error below which a matrix counts as recovered
COORDINATOR, PEER = "coordinator", "another hospital"
FIRST_VERSION = "the first version, masked"
SHIPPED = "as shipped"  # what a study does, whatever method is under test

Unit = Literal["share", "error", "AUC"]


@dataclass(frozen=True)
class Finding:
    """How far one attack came."""

    attack: str
    by: str
    setup: str
    unit: Unit
    value: float
    succeeded: bool  # whether something of one hospital was recovered
    low: float | None = None
    high: float | None = None
    chance: float | None = None
    null_control: float | None = None
    note: str = ""
    said: bool = False  # hospitals learn this of each other, and the documentation says so
    expect: str = ""  # what to expect of this attack

    def to_dict(self) -> dict[str, Any]:
        """As plain values; an infinite error is none."""
        plain = asdict(self)
        plain["value"] = float(self.value) if np.isfinite(self.value) else None
        for name in ("low", "high", "chance", "null_control"):
            plain[name] = None if plain[name] is None else float(plain[name])
        return {**plain, "succeeded": bool(self.succeeded)}
