"""The demo's story holds whatever its seed."""

import time

import pytest

from tripheno.lab.demonstration import demonstrate

SICKLE_CELL = "Sickle cell / chronic pain crisis"


@pytest.mark.verify
@pytest.mark.parametrize("seed", range(20))
def test_sickle_cell_is_stable_together_and_missed_by_two_hospitals_of_three_at_least(
    seed, tmp_path
):
    def ignore(*_said):
        pass

    told = demonstrate(tmp_path / "run", seed, time.perf_counter(), ignore, ignore)
    row = next(row for row in told["planted"] if row["name"] == SICKLE_CELL)
    assert row["grade"] == "stable"
    assert sum(row["alone"].values()) <= 1
    assert any(f"{SICKLE_CELL} (stable)" in sentence for sentence in told["sentences"])
    assert sum("lost together" in sentence for sentence in told["sentences"]) == 1
