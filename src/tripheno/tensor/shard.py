"""One shard of a hospital: it holds its patients and answers the hospital's own process.

``python -m tripheno.tensor.shard DESCRIPTOR THREADS`` answers over a socket that it was given.
"""

from __future__ import annotations

import importlib
import mmap
import os
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.part_files import opened_part, part_of
from tripheno.tensor.parts import PatientParts, Stored
from tripheno.tensor.shard_messages import packed, unpacked
from tripheno.tensor.shards import FUNCTIONS
from tripheno.tensor.threads import limited_to, one_blas_thread
from tripheno.vocabulary.axis import Axis

PRODUCTS = ("patient_product", "update_patients", "feature_product", "at_cells", "patient_gram")
FAILED = "failed"  # the answer of a shard whose computation ended in an error


class Shard:
    """The patients of one shard, and the rows that belong to them."""

    def __init__(self) -> None:
        self.parts: dict[int, list[tuple[Stored, mmap.mmap | None]]] = {}
        self.modes: dict[int, list[str]] = {}
        self.rows: dict[int, np.ndarray] = {}
        self._tensors: dict[tuple[int, int | None], CountTensor] = {}

    def answer(self, request: bytes) -> bytes:
        """What the hospital's process asked for. Of a fault it is told the kind, nothing more."""
        asked = unpacked(request)
        for key in asked.pop("forget", ()):
            self._forget(key)
        try:
            return packed(getattr(self, f"_{asked.pop('call')}")(**asked))
        except (ArithmeticError, LookupError, ValueError, TypeError, OSError, MemoryError) as fault:
            return packed({FAILED: type(fault).__name__})

    def _pass(self) -> None:
        """Another shard was meant."""

    def _begin(self, key: int, modes: list[str]) -> None:
        self.parts[key], self.modes[key] = [], modes

    def _part(self, key: int, part: np.ndarray, mapped: bool) -> None:
        """One more part: in a file without a name where the hospital has its own in files."""
        if not mapped:
            self.parts[key].append((part_of(part.data), None))
            return
        descriptor, name = tempfile.mkstemp(suffix=".tmp")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(part.data)
            self.parts[key].append(opened_part(Path(name)))
        finally:
            Path(name).unlink()

    def _keep(self, key: int, rows: np.ndarray) -> None:
        self.rows[key] = rows

    def _rows(self, rows: dict[str, Any]) -> np.ndarray:
        return np.asarray(self._found(rows))

    def _function(
        self,
        *,
        tensor: int,
        weights: int | None,
        function: str,
        shared: dict[str, Any],
        rows: dict[str, Any],
        gives: list[str],
        key: int,
    ) -> list[Any]:
        """A marked function, or a product of the counts, on this shard's patients."""
        here, given = self._tensor(tensor, weights), {n: self._found(v) for n, v in rows.items()}
        if function == "squared_norm":
            found: Any = here.squared_norm
        elif function in PRODUCTS:
            found = getattr(here.cells, function)(**shared, **given)
        else:
            module = function.partition(":")[0]
            if module.startswith("tripheno."):
                importlib.import_module(module)
            found = FUNCTIONS[function](tensor=here, **shared, **given)
        results = found if len(gives) > 1 else (found,)
        return [
            self._kept(key, result) if kind == "rows" else result
            for kind, result in zip(gives, results, strict=True)
        ]

    def _tensor(self, key: int, weights: int | None) -> CountTensor:
        if (key, weights) not in self._tensors:
            parts, files = zip(*self.parts[key], strict=True)
            folder = None if files[0] is None else Path(tempfile.gettempdir())
            sizes = zip(self.modes[key], parts[0].sizes, strict=True)
            axes = tuple(Axis(mode, int(size)) for mode, size in sizes)
            alone = len(parts) == 1 and folder is None
            cells = parts[0] if alone else PatientParts(parts, files, folder)
            own = None if weights is None else self.rows[weights]
            self._tensors[key, weights] = CountTensor(axes, cells).with_weights(own)
        return self._tensors[key, weights]

    def _found(self, value: Any) -> Any:
        """Rows by their name, or as they came."""
        if isinstance(value, list):
            return [self._found(one) for one in value]
        if not isinstance(value, dict):
            return value
        rows = self.rows[value["rows"]]
        return rows if value["scale"] is None else rows * value["scale"]

    def _kept(self, key: int, result: Any) -> list[Any]:
        """Rows stay here; their names and widths are told. Many models have many names."""
        if not isinstance(result, list):
            self.rows[key] = result
            return [key, result.shape[1]]
        names = [key + (n << 40) for n in range(len(result))]
        self.rows.update(zip(names, result, strict=True))
        return [[name, rows.shape[1]] for name, rows in zip(names, result, strict=True)]

    def _forget(self, key: int) -> None:
        self.rows.pop(key, None)
        self.parts.pop(key, None)
        self._tensors = {at: one for at, one in self._tensors.items() if key not in at}


def main() -> None:
    """Answer until the hospital's process closes the line or ends."""
    line, shard = Connection(int(sys.argv[1])), Shard()
    with limited_to(int(sys.argv[2])), one_blas_thread():
        while True:
            try:
                request = line.recv_bytes()
                line.send_bytes(shard.answer(request))
            except (EOFError, OSError):
                return


if __name__ == "__main__":
    main()
