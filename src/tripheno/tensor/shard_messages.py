"""What a hospital and its own shards say to each other: words, numbers and arrays, never objects.

A message is a tree of lists, mappings, texts and numbers written as JSON, in which arrays are
named by their place behind it. It stays inside the hospital: nothing here is masked.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

ARRAY = "array"  # marks the place of an array in the tree


def packed(tree: Any) -> bytes:
    """The tree as bytes."""
    arrays: list[np.ndarray] = []

    def named(node: Any) -> Any:
        if isinstance(node, np.ndarray):
            arrays.append(np.ascontiguousarray(node))
            return {ARRAY: [len(arrays) - 1, node.dtype.str, node.shape]}
        if isinstance(node, list | tuple):
            return [named(item) for item in node]
        if isinstance(node, dict):
            return {key: named(item) for key, item in node.items()}
        return node.item() if isinstance(node, np.generic) else node

    head = json.dumps(named(tree)).encode()
    sizes = np.array([len(head), *(array.nbytes for array in arrays)], dtype="<u8").tobytes()
    parts = [array.reshape(-1).view(np.uint8).data for array in arrays]
    return b"".join([len(arrays).to_bytes(8, "little"), sizes, head, *parts])


def unpacked(data: bytes) -> Any:
    """The tree that bytes hold; its arrays are its own."""
    number = int.from_bytes(data[:8], "little")
    sizes = np.frombuffer(data, dtype="<u8", count=number + 1, offset=8)
    begins = 8 * (number + 2) + np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def found(node: Any) -> Any:
        if isinstance(node, list):
            return [found(item) for item in node]
        if isinstance(node, dict):
            if ARRAY not in node:
                return {key: found(item) for key, item in node.items()}
            place, kind, shape = node[ARRAY]
            flat = np.frombuffer(
                data, dtype=kind, count=int(np.prod(shape)), offset=int(begins[place + 1])
            )
            return flat.reshape(shape).copy()  # aligned, and free to be written to
        return node

    return found(json.loads(data[begins[0] : begins[1]]))
