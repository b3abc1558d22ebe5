from __future__ import annotations

from pathlib import Path

import pytest

from kit.requirements import require
from tripheno.errors import DiskFailed, UnreadableTable
from tripheno.records.duck import Workbench


def test_a_full_disk_has_its_code_and_is_not_called_a_damaged_table(tmp_path):
    full = Path("/dev/full")
    require(full.exists(), "no /dev/full on this system to stand for a full disk")
    with Workbench(tmp_path) as bench:
        (bench.folder / "kept.parquet").symlink_to(full)
        with pytest.raises(DiskFailed, match="no space left"):
            bench.keep("SELECT range FROM range(100_000)", "kept")
        (tmp_path / "broken.csv.gz").write_bytes(b"\x1f\x8b\x08 cut off")
        with pytest.raises(UnreadableTable):
            bench.rows(f"SELECT * FROM read_csv('{tmp_path / 'broken.csv.gz'}')")
