"""A part of a hospital's counts as one file: a head that names the arrays, then the arrays."""

from __future__ import annotations

import io
import json
import mmap
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tripheno.files import whole_file
from tripheno.tensor.blocks import Body, PatientBlocks
from tripheno.tensor.cells import Cells

LINE = 64  # bytes: arrays begin with a cache line


def saved_part(
    part: Cells | PatientBlocks, folder: Path
) -> tuple[Cells | PatientBlocks, mmap.mmap]:
    """The same part, its arrays in a file without a name: it goes when nobody holds it."""
    descriptor, name = tempfile.mkstemp(dir=folder, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            _write(part, stream)
        return opened_part(Path(name))
    finally:
        Path(name).unlink()


def write_part(part: Cells | PatientBlocks, path: Path) -> None:
    """Write whole or not at all; only its owner can read it."""
    with whole_file(path) as stream:
        _write(part, stream)


def opened_part(path: Path) -> tuple[Cells | PatientBlocks, mmap.mmap]:
    """The part, its arrays views of the file; and the map to be told when it is not needed."""
    with path.open("rb") as stream:
        # copied on a write that never comes: loops compiled for arrays that may be written take it
        file = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
    return part_of(file), file


def part_of(file: Any) -> Cells | PatientBlocks:
    """The part, its arrays views of the bytes of a file."""
    head = json.loads(bytes(file[8 : 8 + int.from_bytes(file[:8], "little")]))
    arrays = {
        name: np.frombuffer(file, dtype=kind, count=int(np.prod(shape)), offset=begin).reshape(
            shape
        )
        for name, kind, shape, begin in head["arrays"]
    }
    starts, sizes = arrays.pop("starts"), tuple(head["sizes"])
    if "indices" in arrays:
        return Cells(starts, arrays["indices"], arrays["values"], sizes)
    return PatientBlocks(Body(**arrays), starts, sizes)


def part_bytes(part: Cells | PatientBlocks) -> bytes:
    """What a part's file would hold, for a shard that keeps its own."""
    stream = io.BytesIO()
    size = _write(part, stream)
    return stream.getvalue().ljust(size, b"\0")


def _write(part: Cells | PatientBlocks, stream: Any) -> int:
    arrays: Mapping[str, np.ndarray] = (
        part.body._asdict()
        if isinstance(part, PatientBlocks)
        else {"indices": part.indices, "values": part.values}
    )
    arrays = {"starts": part.starts, **arrays}
    room = 256 * (len(arrays) + 2) + 24 * len(part.sizes)
    described, begin = [], -(-(8 + room) // LINE) * LINE
    for name, array in arrays.items():
        described.append((name, array.dtype.str, array.shape, begin))
        begin += -(-max(array.nbytes, 1) // LINE) * LINE
    sizes = [int(size) for size in part.sizes]
    head = json.dumps({"sizes": sizes, "arrays": described}).encode()
    stream.write(len(head).to_bytes(8, "little") + head)
    for array, (_, _, _, offset) in zip(arrays.values(), described, strict=True):
        stream.seek(offset)
        stream.write(np.ascontiguousarray(array))
    stream.truncate(begin)
    return begin
