"""The image and its services promise what the page says: no rights, one volume, one port."""

import re
from pathlib import Path

import pytest
import yaml

from tripheno.federation.machine_limits import LEAST_TASKS

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
IMAGE = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
SERVICES = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]


def test_the_image_runs_as_nobody_and_has_one_volume():
    last = IMAGE.rpartition("\nFROM ")[2]
    assert re.findall(r"^USER (\d+):(\d+)$", last, re.MULTILINE) == [("10001", "10001")]
    assert re.findall(r"^VOLUME (.*)$", IMAGE, re.MULTILINE) == ["/study"]
    assert "EXPOSE" not in IMAGE
    assert "-c /source/constraints.txt" in IMAGE


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_has_no_rights_and_nothing_to_write_to_but_the_study(name):
    service = SERVICES[name]
    assert service["command"][0] == name
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert [volume.rpartition(":")[2] for volume in service["volumes"]] == ["/study"]
    assert service["pids_limit"] >= LEAST_TASKS
    assert ("ports" in service) == (name == "serve")
