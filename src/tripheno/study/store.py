"""What a process keeps of a run on its own disk: whole files with their digest, or none.

::

    FOLDER/attempt             how often the run was begun or gone on with
    FOLDER/axes.state          the hospitals of this process on the axes that were agreed on
    FOLDER/00000021.state      shared and own state before sum 21 of the run
    FOLDER/start-0.outcome     a fit that was finished

A file whose digest does not hold is as good as none: the one before it is used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tripheno.errors import BadMessage, DiskFailed
from tripheno.exchange.communicator import Communicator
from tripheno.exchange.messages import pack, unpack
from tripheno.files import whole_file
from tripheno.solver import hospital
from tripheno.solver.checkpoints import (
    checkpoint_arrays,
    checkpoint_of,
    hospital_arrays,
    hospital_state,
    outcome_arrays,
    outcome_of,
    tournament_arrays,
    tournament_of,
)
from tripheno.solver.loop import Checkpoint, Keep, LoopResult, Members
from tripheno.solver.method import Method
from tripheno.solver.tournament_run import TournamentState
from tripheno.vocabulary.axis import Axis

KEPT = 3  # states of the last so many checkpoints: members may be one apart
DIGEST_BYTES = 32
SCALES, OWN = "scales|", "own|"
TOURNAMENT, DONE = "tournament", "done"  # behind a fit's label: its tournament; that it is finished
Arrays = dict[str, np.ndarray]


def write_whole(path: Path, data: bytes) -> None:
    """Write under another name, flush to disk, rename: after a crash the old file or the new one.

    A full disk is an error of ours, and the old file stays.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with whole_file(path) as stream:
            stream.write(data)
    except OSError as fault:
        with suppress(OSError):
            path.with_name(path.name + ".part").unlink(missing_ok=True)
        raise DiskFailed(
            "a checkpoint could not be written", why=fault.strerror or type(fault).__name__
        ) from None


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Named arrays behind their digest."""
    data = pack(_solid(arrays))
    write_whole(path, hashlib.sha256(data).digest() + data)


def read_arrays(path: Path) -> Arrays | None:
    """The arrays of a file, or nothing where it is missing or its digest does not hold."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(data[DIGEST_BYTES:]).digest() != data[:DIGEST_BYTES]:
        return None
    return unpack(data[DIGEST_BYTES:], where=path.name)


def _solid(arrays: Mapping[str, np.ndarray]) -> Arrays:
    kinds = {"f": "<f8", "i": "<i8", "u": "<u8", "b": "<i8"}
    return {
        name: np.ascontiguousarray(array)
        .astype("u1" if array.dtype == np.uint8 else kinds[array.dtype.kind], copy=False)
        .reshape(array.shape)
        for name, array in arrays.items()
    }


def _text(words: str) -> np.ndarray:
    return np.frombuffer(words.encode(), dtype=np.uint8)


def _words(array: np.ndarray) -> str:
    return array.astype(np.uint8).tobytes().decode()


class RunStore:
    """One process's folder for one run."""

    def __init__(self, folder: Path, every: int = 10) -> None:
        self.folder, self.every = folder, every
        self._federation: Communicator | None = None
        self._from: Arrays | None = None

    # ── attempts ──────────────────────────────────────────────────────────────────────────────

    def attempt(self) -> int:
        """The last attempt this process took part in; 0 before the first."""
        try:
            return int((self.folder / "attempt").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return 0

    def take_attempt(self, number: int) -> None:
        """Remember it: an attempt is never made twice."""
        write_whole(self.folder / "attempt", str(number).encode())

    def kept(self) -> tuple[tuple[int, bytes], ...]:
        """The checkpoints that can be gone on from: the number of the next sum, and the hash."""
        if read_arrays(self._axes) is None:
            return ()
        found = []
        for path in sorted(self.folder.glob("*.state")):
            arrays = read_arrays(path) if path.stem.isdigit() else None
            if arrays is not None:
                found.append((int(path.stem), arrays["h"].astype(np.uint8).tobytes()))
        return tuple(found)

    def begin(self, federation: Communicator, t: int | None) -> None:
        """Go on from a checkpoint, or begin anew; what lies after it has not been."""
        self._federation, self._from = federation, None
        if t is not None:
            self._from = read_arrays(self._state(t))
            if self._from is None:
                raise BadMessage("there is no such checkpoint", where=f"before sum {t}")
            cut = len(SCALES)
            learnt = {k[cut:]: v for k, v in self._from.items() if k.startswith(SCALES)}
            federation.scales.take(learnt)
        for path in self.folder.glob("*.state"):
            if path.stem.isdigit() and (t is None or int(path.stem) > t):
                path.unlink()
        for path in self.folder.glob("*.outcome"):
            arrays = read_arrays(path)
            if arrays is None or t is None or int(arrays["t"]) > t:
                path.unlink()
        if t is None:
            self._axes.unlink(missing_ok=True)

    # ── axes ──────────────────────────────────────────────────────────────────────────────────

    @property
    def _axes(self) -> Path:
        return self.folder / "axes.state"

    def save_axes(self, axes: tuple[Axis, ...], note: Mapping[str, Any]) -> None:
        """Keep the axes, frozen for the study, and what is to be said of them at the end."""
        plain = [vars(axis) for axis in axes]
        text = json.dumps({"axes": plain, "note": dict(note)})
        write_arrays(self._axes, {"text": _text(text)})

    def axes(self) -> tuple[tuple[Axis, ...], dict[str, Any]] | None:
        """The axes, if they were agreed on before the checkpoint gone on from."""
        arrays = read_arrays(self._axes) if self._from is not None else None
        if arrays is None:
            return None
        found = json.loads(_words(arrays["text"]))
        return tuple(_axis(one) for one in found["axes"]), found["note"]

    # ── fits ──────────────────────────────────────────────────────────────────────────────────

    def finished(self, members: Members, outcome: LoopResult) -> None:
        """Keep the outcome of a fit."""
        t, _ = self._where()
        path = self.folder / f"{_slug(members.label)}.outcome"
        write_arrays(path, {**outcome_arrays(outcome), "t": np.array(t)})
        self._keep(f"{members.label}{DONE}", {})

    def outcome(self, members: Members) -> LoopResult | None:
        """The outcome of a fit that was finished before; the patients are fitted again at home."""
        arrays = read_arrays(self.folder / f"{_slug(members.label)}.outcome")
        if self._from is None or arrays is None:
            return None
        found = outcome_of(arrays)
        for name, state in members.states.items():
            members.states[name] = hospital.measure(state, found.factors)[0]
        return found

    def resume(self, members: Members, method: Method) -> Checkpoint | None:
        """Where this fit stood at the checkpoint gone on from."""
        arrays = self._from
        if arrays is None or _words(arrays["label"]) != members.label:
            return None
        for name, state in members.states.items():
            prefix = f"{OWN}{name}|"
            own = {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}
            members.states[name] = hospital_state(
                own, state.tensor, state.settings, state.hospitals
            )
        return checkpoint_of(arrays, method)

    def keeper(self, members: Members) -> Keep:
        """Keep the state before an iteration, every so often."""

        def keep(checkpoint: Checkpoint) -> None:
            iteration = checkpoint.state.iteration
            if iteration == 1 or (iteration - 1) % self.every:
                return
            arrays = checkpoint_arrays(checkpoint)
            for name, state in members.states.items():
                own = hospital_arrays(state)
                arrays |= {f"{OWN}{name}|{key}": value for key, value in own.items()}
            self._keep(members.label, arrays)

        return keep

    def field_state(self, members: Members) -> TournamentState | None:
        """Where this fit's tournament stood at the checkpoint gone on from."""
        arrays = self._from
        if arrays is None or _words(arrays["label"]) != f"{members.label}{TOURNAMENT}":
            return None
        return tournament_of(arrays)

    def tournament_keeper(self, members: Members) -> Callable[[TournamentState], None]:
        """Keep where a tournament stands, every so often."""

        def keep(field_state: TournamentState) -> None:
            iteration = field_state.planned.iteration
            if iteration and iteration % self.every == 0:
                self._keep(f"{members.label}{TOURNAMENT}", tournament_arrays(field_state))

        return keep

    def _keep(self, label: str, arrays: Arrays) -> None:
        """A file of this state and of the scales, of which the last few are kept."""
        t, h = self._where()
        arrays = {**arrays, "label": _text(label), "h": np.frombuffer(h, dtype=np.uint8)}
        assert self._federation is not None
        arrays |= {SCALES + k: v for k, v in self._federation.scales.to_arrays().items()}
        write_arrays(self._state(t), arrays)
        old = sorted(p for p in self.folder.glob("*.state") if p.stem.isdigit())[:-KEPT]
        for path in old:
            path.unlink(missing_ok=True)

    def _where(self) -> tuple[int, bytes]:
        """The number of the next sum, and the hash of all before it."""
        assert self._federation is not None  # a run begins before anything is kept
        session = next(iter(self._federation.local_hospitals.values())).session
        return (session.t, session.h) if session is not None else (0, b"")

    def _state(self, t: int) -> Path:
        return self.folder / f"{t:08d}.state"


def _slug(label: str) -> str:
    return label.strip("/").replace("/", "-") or "fit"


def _axis(plain: dict[str, Any]) -> Axis:
    codes, tokens = (
        None if plain[name] is None else tuple(plain[name]) for name in ("codes", "tokens")
    )
    return Axis(plain["mode"], plain["size"], codes, plain["labels"], tokens)
