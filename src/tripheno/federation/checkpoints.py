"""What a member keeps of a run on its own disk: whole files or none.

::

    FOLDER/attempt             how often the run was begun or gone on with
    FOLDER/axes.json           the axes, once they are agreed on
    FOLDER/00000021.state      the state before iteration 21
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tripheno.errors import BadMessage, DiskFailed
from tripheno.exchange.messages import pack, unpack
from tripheno.vocabulary.axis import Axis

KEPT = 3  # states of the last so many checkpoints: members may be one apart


def write_whole(path: Path, data: bytes) -> None:
    """Write under another name, flush to disk, rename: after a crash the old file or the new one.

    A full disk is an error of ours, and the old file stays.
    """
    temporary = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as fault:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise DiskFailed(
            "a checkpoint could not be written", why=fault.strerror or type(fault).__name__
        ) from None


class Checkpoints:
    """One member's folder for one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def attempt(self) -> int:
        """The last attempt this member took part in; 0 before the first."""
        try:
            return int((self.folder / "attempt").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return 0

    def take_attempt(self, number: int) -> None:
        """Remember it: an attempt is never made twice."""
        write_whole(self.folder / "attempt", str(number).encode())

    def save(self, iteration: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep the state before an iteration, and forget the oldest."""
        write_whole(self._path(iteration), pack(_solid(arrays)))
        for old in self.iterations()[:-KEPT]:
            self._path(old).unlink(missing_ok=True)

    def load(self, iteration: int) -> dict[str, np.ndarray]:
        """The state before an iteration."""
        try:
            return unpack(self._path(iteration).read_bytes(), where=f"checkpoint {iteration}")
        except OSError:
            raise BadMessage(
                "there is no such checkpoint", where=f"iteration {iteration}"
            ) from None

    def iterations(self) -> list[int]:
        """Which states are there, oldest first."""
        return sorted(int(path.stem) for path in self.folder.glob("*.state") if _whole(path))

    def save_axes(self, axes: Iterable[Axis]) -> None:
        """Keep the axes: they are frozen for the study."""
        plain = [
            {"mode": a.mode, "size": a.size, "codes": a.codes, "labels": a.labels} for a in axes
        ]
        write_whole(self.folder / "axes.json", json.dumps(plain).encode())

    def axes(self) -> tuple[Axis, ...] | None:
        """The axes, if they were agreed on."""
        path = self.folder / "axes.json"
        if not path.is_file():
            return None
        return tuple(map(_axis, json.loads(path.read_text(encoding="utf-8"))))

    def save_note(self, note: dict[str, Any]) -> None:
        """What is to be said of the axes at the end."""
        write_whole(self.folder / "note.json", json.dumps(note).encode())

    def note(self) -> dict[str, Any]:
        """What was noted."""
        return dict(json.loads((self.folder / "note.json").read_text(encoding="utf-8")))

    def _path(self, iteration: int) -> Path:
        return self.folder / f"{iteration:08d}.state"


def _axis(plain: dict[str, Any]) -> Axis:
    codes = None if plain["codes"] is None else tuple(plain["codes"])
    return Axis(plain["mode"], plain["size"], codes, plain["labels"])


def _whole(path: Path) -> bool:
    return path.stem.isdigit() and path.stat().st_size > 0


def _solid(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    kinds = {"f": "<f8", "i": "<i8", "u": "<u8", "b": "<i8"}
    return {
        name: np.ascontiguousarray(array)
        .astype(kinds[array.dtype.kind], copy=False)
        .reshape(array.shape)
        for name, array in arrays.items()
    }


def common_iteration(kept: Sequence[Iterable[int]]) -> int | None:
    """The last iteration that every member kept."""
    shared = set.intersection(*(set(one) for one in kept)) if kept else set()
    return max(shared, default=None)
