"""What a process keeps of a run is whole, or it is nothing."""

from __future__ import annotations

import numpy as np

from tripheno.study.store import read_arrays, write_arrays


def test_of_three_hundred_flipped_bits_none_is_taken(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "00000007.state"
    arrays = {"factor": rng.random((40, 5)), "h": rng.integers(0, 256, 32).astype(np.uint8)}
    write_arrays(path, arrays)
    kept = path.read_bytes()
    for _ in range(300):
        data = bytearray(kept)
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        assert read_arrays(path) is None
    path.write_bytes(kept)
    assert np.array_equal(read_arrays(path)["factor"], arrays["factor"])
    path.write_bytes(kept[:-1])
    assert read_arrays(path) is None
