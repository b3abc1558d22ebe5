"""Phenotypes that a user has in mind: codes that a component starts from and is pulled towards.

A guide does three things, and no more. Its component starts from the guide's codes instead of a
random column, in every mode the guide has codes of. At every step the component is pulled towards
them: Ψ gets the term η Σ (1 − cos(a_r, s_r)) with s_r the guide's codes in equal parts and
η = ``guide_pull`` · ‖O‖²/R. And the component keeps the guide's name, as long as the data follow.

Nothing is fixed: other codes may join, the guide's may go, and the report says how much of the
component stands on the codes it was given.
"""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tripheno.errors import BadGuide, NoSuchFile, TriphenoWarning
from tripheno.tensor.factors import unit_columns
from tripheno.vocabulary.axis import Axis


@dataclass(frozen=True)
class Guide:
    """A name, and codes (or their labels) by mode."""

    name: str
    codes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def positions(self, axis: Axis) -> tuple[list[int], list[str]]:
        """Where the guide's codes stand on an axis, and those that are not on it."""
        known = {label.casefold(): code for code, label in axis.labels.items()}
        places = {str(key): n for n, key in enumerate(axis.keys)}
        places |= {code: n for n, code in axis.known.items()}
        found, missing = [], []
        for code in self.codes.get(axis.mode, ()):
            place = places.get(code, places.get(known.get(code.casefold(), code)))
            if place is None:
                missing.append(code)
            else:
                found.append(place)
        return found, missing


def as_guides(given: Any) -> tuple[Guide, ...]:
    """Guides as they are, or from ``{name: {mode: [codes]}}``; all faults at once."""
    if not isinstance(given, Mapping):
        return tuple(given)
    faults, made = [], []
    for name, modes in given.items():
        if not isinstance(modes, Mapping) or not modes:
            faults.append(f"'{name}' has no codes by mode")
            continue
        for mode, codes in modes.items():
            if not isinstance(codes, list | tuple) or not all(isinstance(c, str) for c in codes):
                faults.append(f"'{name}', {mode}: not a list of codes")
        if not faults:
            made.append(Guide(str(name), {str(m): tuple(codes) for m, codes in modes.items()}))
    if faults:
        raise BadGuide("; ".join(faults), fix='as in diagnosis = ["I50.9", "I50.1"]')
    return tuple(made)


def read_guides(path: Path) -> tuple[Guide, ...]:
    """Guides from a TOML file: one table per phenotype, its keys the modes."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise NoSuchFile(f"No file {path}", fix="name a TOML file with --guide") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise BadGuide(f"{path} is no TOML file", why=str(fault)) from None
    if not given:
        raise BadGuide(f"{path} holds no guide", fix='begin with ["Heart failure"]')
    return as_guides(given)


def guide_columns(
    axes: Sequence[Axis], guides: Sequence[Guide], rank: int
) -> tuple[np.ndarray, ...]:
    """Per mode, codes × components: column r of unit length on the codes of guide r, else zero."""
    columns = tuple(np.zeros((axis.size, rank)) for axis in axes)
    unknown_modes = {m for guide in guides for m in guide.codes} - {axis.mode for axis in axes}
    if unknown_modes:
        have = ", ".join(axis.mode for axis in axes)
        raise BadGuide(f"no mode {', '.join(sorted(unknown_modes))}", fix=f"one of {have}")
    for r, guide in enumerate(guides):
        absent: list[str] = []
        for axis, column in zip(axes, columns, strict=True):
            found, missing = guide.positions(axis)
            column[found, r] = 1.0
            absent += missing
        if not any(column[:, r].any() for column in columns):
            raise BadGuide(
                f"none of the codes of '{guide.name}' is in the data",
                why=", ".join(absent[:5]),
                fix="use the codes or labels of the run's tables",
            )
        if absent:
            warnings.warn(
                TriphenoWarning(
                    f"guide '{guide.name}': {len(absent)} of its codes are not in the data: "
                    + ", ".join(absent[:5])
                ),
                stacklevel=2,
            )
    return tuple(unit_columns(column)[0] for column in columns)


def followed(
    factors: Sequence[np.ndarray], columns: Sequence[np.ndarray], r: int, own: int
) -> float:
    """The part of component ``r``'s weight on the codes of guide ``own``, mean over its modes."""
    parts = [
        float(
            np.abs(factor[:, r])[column[:, own] > 0].sum() / max(np.abs(factor[:, r]).sum(), 1e-300)
        )
        for factor, column in zip(factors, columns, strict=True)
        if column[:, own].any()
    ]
    return float(np.mean(parts))
