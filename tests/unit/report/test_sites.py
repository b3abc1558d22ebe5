"""What cannot work is said before anything is fitted."""

from __future__ import annotations

import shutil

import pytest
from typer.testing import CliRunner

from tripheno.cli.main import app
from tripheno.errors import DisjointCodes, SettingsError, TriphenoWarning
from tripheno.records.events import CountingRule, check_events, write_events
from tripheno.report.sites import read_sites
from tripheno.study.beforehand import check_before


@pytest.fixture
def site(tmp_path):
    def make(name, system):
        events = check_events(
            {
                "patient": [0, 0, 1, 1],
                "window": [0, 0, 1, 1],
                "mode": ["medication", "diagnosis"] * 2,
                "code": ["a", f"{system}:x", "b", f"{system}:{name}"],
            }
        )
        (tmp_path / name).mkdir()
        write_events(events, tmp_path / name / "events.parquet", CountingRule())
        return tmp_path / name

    return make


def test_the_same_site_twice_is_refused_by_path_and_by_content(site, tmp_path):
    one = site("one", "ICD9")
    with pytest.raises(SettingsError, match="the same site twice"):
        read_sites([one, one], None, None, 0)
    shutil.copytree(one, tmp_path / "copy")
    with pytest.raises(SettingsError, match="same content"):
        read_sites([one, tmp_path / "copy"], None, None, 0)


def test_more_phenotypes_than_patients_are_refused(site):
    tensors = read_sites([site("one", "ICD9"), site("two", "ICD9")], None, None, 0).tensors
    check_before(tensors, 4, dealt_out=False)
    with pytest.raises(SettingsError, match="5 phenotypes of 4 patients"):
        check_before(tensors, 5, dealt_out=False)


def test_rank_refuses_what_simulate_refuses(site, tmp_path):
    sites = [str(site("one", "ICD9")), str(site("two", "ICD10"))]
    for ranks, said in {"2": "TRIP-E323", "2,5": "5 phenotypes of 4 patients"}.items():
        words = ["rank", *sites, "--ranks", ranks, "--out", str(tmp_path / "ranks")]
        done = CliRunner().invoke(app, words)
        assert done.exit_code in {DisjointCodes.exit_code, SettingsError.exit_code}
        assert said in done.output
    assert not (tmp_path / "ranks").exists()


def test_sites_that_share_no_code_of_a_mode_are_refused(site):
    tensors = read_sites([site("one", "ICD9"), site("two", "ICD10")], None, None, 0).tensors
    with pytest.raises(DisjointCodes, match="shares no diagnosis code"):
        check_before(tensors, 2, dealt_out=False)


def test_one_site_that_is_not_dealt_out_is_said_to_be_one_hospital(site):
    tensors = read_sites([site("one", "ICD9")], None, None, 0).tensors
    with pytest.warns(TriphenoWarning, match="--hospitals 3"):
        check_before(tensors, 1, dealt_out=False)
    dealt = read_sites([site("two", "ICD9")], 2, None, 0).tensors
    check_before(dealt, 1, dealt_out=True)
