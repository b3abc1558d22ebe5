"""Three hospitals and a coordinator as separate processes, with our commands only."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tripheno.report.run_folder import read_own_groups, read_report
from tripheno.testing.federation_processes import FederationOnDisk, command, ended, factors
from tripheno.testing.requirements import shared_data

MODEL = {"rank": "4", "max_iter": "3", "seed": "3", "tol": "1e-12"}
EVERYTHING = """[evidence]
resamples = 3
ranks = [2, 3]
[guides.Diabetes]
diagnosis = ["250.00"]
"""
REGIONS = ("Midwest", "South", "West")  # of eICU's hospitals; the others have too few patients


def eicu_regions(folder: Path) -> dict[str, Path]:
    """Ingested, each region a hospital."""
    data = shared_data("eicu-demo-2.0.1-dev")
    command("ingest", "eicu", data, "--out", folder, "--by", "region")
    return {region.lower(): folder / region for region in REGIONS}


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthetic")
    guide = folder / "guide.toml"
    guide.write_text('[Diabetes]\ndiagnosis = ["250.00"]\n')
    settings = {**MODEL, "starts": "8"}
    words = ("--resamples", "3", "--guide", str(guide))
    made = FederationOnDisk(folder, settings, more=EVERYTHING, simulated=words)
    made.prepare()
    with ended(made.serve()):
        yield made


@pytest.fixture(scope="module")
def eicu(tmp_path_factory):
    folder = tmp_path_factory.mktemp("eicu")
    regions = eicu_regions(folder / "regions")
    counted = "[evidence]\nresamples = 0\nsubgroups = true\n"
    made = FederationOnDisk(folder, MODEL, names=tuple(regions), ingested=regions, more=counted)
    made.prepare()
    with ended(made.serve()):
        yield made


def named_codes(shown) -> list[str]:
    """Every code anywhere in a list of phenotypes."""
    if isinstance(shown, dict):
        own = [shown["code"]] if isinstance(shown.get("code"), str) else []
        return own + [code for part in shown.values() for code in named_codes(part)]
    return [code for part in shown for code in named_codes(part)] if isinstance(shown, list) else []


def evidence_of(folder):
    """What a run says of finalists, resampled patients and those behind a phenotype."""
    shown = json.loads((folder / "phenotypes.json").read_text())
    return [(one["stability"] or 0.0, one["stability_resamples"] or 0.0) for one in shown]


def use_method(federation, method):
    """Another study in the same folders: everybody approves it anew."""
    if method != federation.method:
        text = (federation.coordinator / "federation.toml").read_text()
        federation.share(text.replace(f'"{federation.method}"', f'"{method}"'))
        federation.method = method
        federation.approve()


@pytest.mark.parametrize(
    ("data", "method"),
    [
        ("synthetic", "exact"),  # a tournament, a guide, resamples and other ranks
        pytest.param("eicu", "trip", marks=pytest.mark.verify),
        ("eicu", "exact"),
    ],
)
def test_separate_machines_find_bit_for_bit_what_a_simulation_finds(
    data, method, request, tmp_path
):
    federation = request.getfixturevalue(data)
    use_method(federation, method)
    joined = [federation.join(name, "--once", "--format", "json") for name in federation.names]
    with ended(*joined):
        run = federation.run(tmp_path / "run")
        with ended(run):
            assert run.wait(timeout=240) == 0, federation.said("run")
        for process in joined:
            assert process.wait(timeout=60) == 0
    federation.simulate(tmp_path / "simulated", tmp_path / "sites")
    wanted = factors(tmp_path / "simulated")
    assert factors(tmp_path / "run") == wanted
    pairs = zip(evidence_of(tmp_path / "run"), evidence_of(tmp_path / "simulated"), strict=True)
    assert all(ours == pytest.approx(theirs, rel=1e-9) for ours, theirs in pairs)
    if data == "synthetic":
        ranks = json.loads((tmp_path / "run" / "ranks.json").read_text())
        assert [one["rank"] for one in ranks["evidence"]] == [2, 3]
    else:  # by age, sex and outcome: the sum of all everywhere, its own table at each hospital
        together = read_report(tmp_path / "simulated").groups
        assert sum(one.people or 0 for one in together["all hospitals"] if one.trait == "sex") > 400
        assert read_report(tmp_path / "run").groups == together
        alone = read_own_groups(tmp_path / "simulated")
    summary = json.loads((tmp_path / "run" / "run.json").read_text())
    assert summary["sums"] == "blind"
    assert [h["patients"] for h in summary["hospitals"]] == [None, None, None]
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    shown = json.loads((tmp_path / "run" / "phenotypes.json").read_text())
    assert any(code.strip() for code in named_codes(shown))  # the first hospital approved that
    for name in federation.names:
        own = federation.site(name) / "runs" / summary["run"]
        assert factors(own) == wanted
        if data == "eicu":
            assert read_report(own).groups == {**together, name: alone[name]}
        check = command("audit", "verify", federation.site(name) / "state" / "runs" / own.name)
        assert check["ok"]
        kept = federation.coordinator / "state" / "runs" / own.name / "heads" / f"{name}.json"
        assert json.loads(kept.read_text())["hash"] == check["head"]
        events = [json.loads(line)["event"] for line in federation.said(name).splitlines()]
        assert events[-2:] == ["finished", "left"]
        assert {"joined", "begun", "stage"} <= set(events)
        seen = command("status", "--folder", federation.site(name))
        assert (seen["last run"], seen["joined"]) == (own.name, False)
    found = command("status", "--folder", federation.coordinator)
    assert (found["state"], found["at work"]) == ("finished", False)
    no_code_is_logged(federation, tmp_path / "run")


def no_code_is_logged(federation, run):
    """Neither a code nor a drug's name stands in what the machines wrote down of their work."""
    logs = [path for folder in (federation.coordinator, *map(federation.site, federation.names))
            for path in folder.rglob("log*") if path.is_file()]  # fmt: skip
    assert len([path for path in logs if path.name == "log.jsonl"]) >= 5
    said = "\n".join(path.read_text() for path in [*logs, run / "status.json"])
    for name in federation.names:
        events = pq.read_table(federation.site(name) / "events" / "events.parquet")
        codes = set(events["code"].unique().to_pylist())
        assert [code for code in codes if f'"{code}"' in said or f"'{code}'" in said] == []
