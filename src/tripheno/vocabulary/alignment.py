"""Bring hospitals with different code lists onto the same axes.

Here by the plain union of the lists, which shows every hospital's list to whoever unites them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tripheno.errors import BadShape
from tripheno.vocabulary.axis import Axis, union


def align_plainly(axes_by_hospital: Sequence[Sequence[Axis]]) -> tuple[Axis, ...]:
    """One axis per mode that holds every code any hospital has."""
    orders = {tuple(axis.mode for axis in axes) for axes in axes_by_hospital}
    if len(orders) != 1:
        raise BadShape(
            f"hospitals have different modes: {sorted(map(list, orders))}",
            fix="ingest every hospital with the same --modes",
        )
    return tuple(union(axes) for axes in zip(*axes_by_hospital, strict=True))
