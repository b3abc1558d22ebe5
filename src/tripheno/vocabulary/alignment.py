"""What hospitals' axes must have in common before they can be aligned, and the plain union."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tripheno.errors import BadShape
from tripheno.vocabulary.axis import Axis, union

AlignKind = Literal["tokens", "vocabulary", "polynomial"]

People = dict[str, dict[str, int]]
"""Mode → code → how many people of one hospital have it."""


@dataclass(frozen=True)
class Places:
    """What a hospital learns: the length of each axis, and where its own codes stand on it."""

    sizes: dict[str, int]
    positions: dict[str, np.ndarray]


def align_plainly(axes_by_hospital: Sequence[Sequence[Axis]]) -> tuple[Axis, ...]:
    """One axis per mode that holds every code any hospital has, which shows everybody's list."""
    check_modes(axes_by_hospital)
    return tuple(union(axes) for axes in zip(*axes_by_hospital, strict=True))


def check_modes(axes_by_hospital: Sequence[Sequence[Axis]]) -> None:
    """Refuse hospitals with different modes, or the same ones in another order."""
    orders = {tuple(axis.mode for axis in axes) for axes in axes_by_hospital}
    if len(orders) != 1:
        raise BadShape(
            f"hospitals have different modes: {sorted(map(list, orders))}",
            fix="ingest every hospital with the same --modes",
        )
