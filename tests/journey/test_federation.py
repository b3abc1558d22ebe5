"""Three hospitals and a coordinator as separate processes, with our commands only."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from kit.federation_processes import FederationOnDisk, command, ended, factors
from kit.requirements import shared_data
from tripheno.report.run_folder import read_own_groups, read_report

MODEL = {"rank": "4", "max_iter": "3", "seed": "3", "tol": "1e-12"}
EVERYTHING = """[evidence]
resamples = 3
ranks = [2, 3]
[guides.Diabetes]
diagnosis = ["250.00"]
"""
SECONDS = 600.0  # only where something is broken: a busy machine takes a tenth of it
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
            assert run.wait(timeout=SECONDS) == 0, federation.said("run")
        for process in joined:
            assert process.wait(timeout=SECONDS) == 0
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
        assert events[-3:] == ["finished", "phase", "left"]  # the last head comes after the pages
        assert {"joined", "line", "begun", "stage", "phase"} <= set(events)
        seen = command("status", "--folder", federation.site(name))
        assert (seen["last run"], seen["joined"]) == (own.name, False)
        assert (seen["run"], seen["phase"]) == (own.name, "finished")
    found = command("status", "--folder", federation.coordinator)
    assert (found["state"], found["at work"]) == ("finished", False)
    no_code_is_logged(federation, tmp_path / "run")


def factors_of_a_run(federation, out):
    """Of a whole run by everybody."""
    joined = [federation.join(name, "--once") for name in federation.names]
    with ended(*joined):
        run = federation.run(out)
        with ended(run):
            assert run.wait(timeout=SECONDS) == 0, federation.said("run")
    return factors(out)


@pytest.mark.verify
def test_run_after_run_and_in_another_order_the_factors_are_the_same(tmp_path):
    settings = {**MODEL, "starts": "8"}
    usual = FederationOnDisk(tmp_path / "usual", settings)
    usual.folder.mkdir()
    usual.prepare()
    with ended(usual.serve()):
        first = factors_of_a_run(usual, tmp_path / "first")
        assert factors_of_a_run(usual, tmp_path / "second") == first
    rng = np.random.default_rng(0)
    shuffled = {
        name: table.take(rng.permutation(table.num_rows))
        for name, table in usual.synthetic_records().items()
    }
    turned = FederationOnDisk(
        tmp_path / "turned", settings, names=usual.names[::-1], records=shuffled
    )
    turned.folder.mkdir()
    turned.write_settings()
    turned.ingest()
    turned.write_lists()
    for place in (turned.coordinator, *map(turned.site, turned.names)):
        for mode in ("medication", "diagnosis"):
            codes = (place / f"{mode}.txt").read_text().splitlines()
            (place / f"{mode}.txt").write_text("".join(f"{code}\n" for code in codes[::-1]))
    turned.certify()
    turned.approve()
    with ended(turned.serve()):
        assert factors_of_a_run(turned, tmp_path / "third") == first


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
