"""Can these hospitals be asked for so many phenotypes? Said before anything is fitted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from tripheno.errors import DisjointCodes, SettingsError, TriphenoWarning
from tripheno.tensor.count_tensor import CountTensor


def check_before(tensors: Mapping[str, CountTensor], rank: int, *, dealt_out: bool) -> None:
    """Refuse what is impossible and say what is pointless, before anything is fitted."""
    patients = sum(tensor.patients for tensor in tensors.values())
    cells = sum(tensor.nonzeros for tensor in tensors.values())
    most = min(patients, cells)
    if rank > most:
        raise SettingsError(
            f"{rank} phenotypes of {patients:,} patients and {cells:,} cells",
            why="there cannot be more phenotypes than patients",
            fix=f"ask for {most} or fewer; `tripheno rank` weighs the evidence",
        )
    if len(tensors) == 1 and not dealt_out:
        warnings.warn(
            "one site is one hospital: nothing is shared and nothing is compared. "
            "--hospitals 3 deals its patients to three",
            TriphenoWarning, stacklevel=2,
        )  # fmt: skip
    for mode in next(iter(tensors.values())).modes:
        _check_codes(mode, {name: _codes(tensor, mode) for name, tensor in tensors.items()})


def _check_codes(mode: str, codes: Mapping[str, frozenset[str]]) -> None:
    """Refuse a hospital that shares no code of a mode with any other: another code system."""
    if len(codes) < 2 or not all(codes.values()):
        return
    for name, own in codes.items():
        others = frozenset[str]().union(*(codes[other] for other in codes if other != name))
        if not own & others:
            raise DisjointCodes(
                f"{name} shares no {mode} code with any other hospital",
                why="their codes are of different systems",
                fix="roll both up to one system: `tripheno ingest … --rollup`",
            )


def _codes(tensor: CountTensor, mode: str) -> frozenset[str]:
    known = (axis.codes or () for axis in tensor.axes if axis.mode == mode)
    return frozenset(code for codes in known for code in codes if code is not None)
