"""The demo's story holds whatever its seed."""

import time

import pytest

from tripheno.lab.demonstration import demonstrate

SICKLE_CELL = "Sickle cell / chronic pain crisis"


@pytest.mark.verify
@pytest.mark.parametrize("seed", range(10))
def test_sickle_cell_is_stable_together_and_unseen_by_every_hospital_alone(seed, tmp_path):
    def ignore(*_said):
        pass

    told = demonstrate(tmp_path / "run", seed, time.perf_counter(), ignore, ignore)
    row = next(row for row in told["planted"] if row["name"] == SICKLE_CELL)
    assert row["grade"] == "stable"
    assert not any(row["alone"].values())
    assert f"Seen only together: {SICKLE_CELL} (stable)." in told["sentences"]
    assert sum("lost together" in sentence for sentence in told["sentences"]) == 1
