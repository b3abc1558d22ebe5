"""What may cross a hospital's wall is a type.

A message is a frozen dataclass whose fields are numbers, arrays or tuples of arrays. No message has
a field for patients, so sending one is a type error. On the wire a message is a safetensors block:
named arrays with their types and shapes, nothing that could be executed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from tripheno.errors import BadMessage

LARGEST_MESSAGE = 1 << 31
KINDS = tuple(map(np.dtype, ("<f8", "<i8", "<u8", "u1")))  # what a message may hold


@dataclass(frozen=True)
class Message:
    """Named arrays under way between a hospital and the coordinator."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Every field as an array; the members of a tuple are numbered."""
        found: dict[str, np.ndarray] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, tuple):
                found.update({f"{field.name}.{n}": _array(part) for n, part in enumerate(value)})
            else:
                found[field.name] = _array(value)
        return found

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        """The message of this type with these arrays, or a refusal that names what is wrong."""
        left = dict(arrays)
        values: dict[str, Any] = {}
        for field in fields(cls):
            kind = str(field.type)
            if kind.startswith("tuple"):
                parts: list[np.ndarray] = []
                while f"{field.name}.{len(parts)}" in left:
                    parts.append(left.pop(f"{field.name}.{len(parts)}"))
                values[field.name] = tuple(parts)
            elif field.name not in left:
                raise BadMessage(f"field '{field.name}' is missing", where=cls.__name__)
            else:
                array = left.pop(field.name)
                if kind in ("int", "float"):
                    if array.shape != ():
                        raise BadMessage(f"field '{field.name}' is no number", where=cls.__name__)
                    if kind == "int" and array.dtype.kind == "f":
                        raise BadMessage(f"field '{field.name}' is not whole", where=cls.__name__)
                    values[field.name] = int(array) if kind == "int" else float(array)
                else:
                    values[field.name] = array
        if left:
            raise BadMessage(f"unknown field(s) {sorted(left)[:3]}", where=cls.__name__)
        return cls(**values)

    def pack(self) -> bytes:
        """The message as bytes."""
        return pack(self.arrays())

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """The message that bytes hold, checked."""
        return cls.from_arrays(unpack(data, where=cls.__name__))


@dataclass(frozen=True)
class Contribution(Message):
    """What a hospital adds to a sum: numbers and arrays whose shape follows from the protocol."""


C = TypeVar("C", bound=Contribution)


def _array(value: Any) -> np.ndarray:
    kind = np.int64 if isinstance(value, int | np.integer) else None
    array = np.asarray(value, dtype=kind)
    if array.dtype not in KINDS:
        array = array.astype("<f8")
    # ascontiguousarray would turn a number into an array of one
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def pack(arrays: dict[str, np.ndarray]) -> bytes:
    """Named arrays as one safetensors block."""
    return bytes(save(arrays))


def unpack(data: bytes, *, where: str) -> dict[str, np.ndarray]:
    """The arrays of a safetensors block; truncated, oversized and non-finite ones are refused."""
    if len(data) > LARGEST_MESSAGE:
        raise BadMessage(f"{len(data):,} bytes are more than a message may have", where=where)
    try:
        arrays = load(data)
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError) as fault:
        raise BadMessage("cannot be read", where=where, why=type(fault).__name__) from None
    for name, array in arrays.items():
        if array.dtype not in KINDS:
            raise BadMessage(f"'{name[:40]}' is {array.dtype}", where=where, why="no such type")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise BadMessage(f"'{name[:40]}' holds values that are not finite", where=where)
    return dict(arrays)
