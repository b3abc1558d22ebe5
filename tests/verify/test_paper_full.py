"""The seed paper's experiments in small, whole; and the phenotype that is seen only together."""

import json

import pytest
from typer.testing import CliRunner

from tripheno.cli.main import app
from tripheno.lab.paper.ledger import read_rows
from tripheno.lab.paper.plan import PaperSettings, contenders_of, points_of
from tripheno.lab.paper.running import GRIDS
from tripheno.lab.paper.seed_figures import SEED_WORST_GAP
from tripheno.lab.paper.tensors import hospitals_of
from tripheno.lab.paper.two_hospitals import discover, only_together

pytestmark = pytest.mark.verify

JUDGED = range(100, 110)  # the case mix was chosen on seeds from 1001 on, and 0 and 1 were seen


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("paper")
    words = ["paper", "all", "--scale", "0.02", "--repeats", "2", "--out", str(made)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return made


@pytest.fixture(scope="module")
def rows(folder):
    return {name: read_rows(folder / f"{name}.csv") for name in GRIDS}


def test_every_row_of_the_grids_is_there(rows):
    for name, found in rows.items():
        assert len(found) == 2 * len(points_of(name)) * len(contenders_of(name))


def test_trip_is_as_near_to_central_as_in_the_paper_in_every_row(rows):
    every = [row for found in rows.values() for row in found]
    far = [r for r in every if r.variant == "corrected" and abs(r.rmse_gap) > SEED_WORST_GAP]
    assert far == []


def test_exact_is_central_in_every_row(rows):
    every = [row for found in rows.values() for row in found]
    assert [r for r in every if r.method == "exact" and abs(r.rmse_gap) > 1e-9] == []


def test_local_is_worse_wherever_hospitals_differ(rows):
    trip = {(r.x, r.repeat): r for r in rows["case-mix"] if r.variant == "corrected"}
    alone = [r for r in rows["case-mix"] if r.method == "local"]
    assert len(alone) == len(trip) > 0
    for row in alone:
        federated = trip[row.x, row.repeat]
        assert row.rmse_gap > SEED_WORST_GAP >= abs(federated.rmse_gap)
        assert row.fms < federated.fms


def test_local_is_worse_on_small_hospitals_that_are_alike_too(rows):
    at_random = [row for name in ("nonzeros", "hospitals", "skew") for row in rows[name]]
    assert [r for r in at_random if r.method == "local" and r.x != 1.0 and r.rmse_gap <= 0] == []


def test_fifty_hospitals_were_summed_under_masks_and_in_clear(rows):
    masked, clear = (
        [r for r in rows[name] if r.x == 50.0] for name in ("sums-blind", "sums-plain")
    )
    assert len(masked) == len(clear) == 6
    for one, other in zip(masked, clear, strict=True):
        assert one.rmse_nonzeros == pytest.approx(other.rmse_nonzeros, rel=1e-9)
        assert one.method == "central" or one.bytes_up > other.bytes_up


def test_the_page_and_its_figures_are_there(folder):
    assert len(list((folder / "figures").glob("*.svg"))) == 12
    assert (folder / "index.html").read_text().count("<svg") == 12
    for name in (*GRIDS, "phenotypes"):
        assert json.loads((folder / f"{name}.json").read_text())["runs"]


def test_the_hidden_phenotype_is_found_only_together_in_nine_of_ten_seeds():
    found = []
    for seed in JUDGED:
        settings = PaperSettings(seed=seed)
        tensors, network = hospitals_of(settings, 0)
        discovery, _ = discover(tensors, settings, 0)
        found.append(only_together(discovery.recovered(network)))
    assert sum(found) >= 9, found
