"""Three hospitals and a coordinator as separate processes, with our commands only."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tripheno.testing.federation_processes import FederationOnDisk, command, ended

MODEL = {"rank": "4", "max_iter": "3", "seed": "3", "tol": "1e-12"}


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    made = FederationOnDisk(tmp_path_factory.mktemp("federation"), MODEL)
    made.prepare()
    return made


def factors(folder: Path) -> dict[str, list[list[float]]]:
    found = {}
    for path in sorted((folder / "factors").glob("*.parquet")):
        table = pq.read_table(path)
        columns = [name for name in table.column_names if name.startswith("component_")]
        found[path.stem] = [table[name].to_pylist() for name in columns]
    return found


def named_codes(shown) -> list[str]:
    """Every code anywhere in a list of phenotypes."""
    if isinstance(shown, dict):
        own = [shown["code"]] if isinstance(shown.get("code"), str) else []
        return own + [code for part in shown.values() for code in named_codes(part)]
    return [code for part in shown for code in named_codes(part)] if isinstance(shown, list) else []


@pytest.mark.parametrize("method", ["trip", pytest.param("exact", marks=pytest.mark.verify)])
def test_separate_machines_find_bit_for_bit_what_a_simulation_finds(federation, method, tmp_path):
    if method != federation.method:
        text = (federation.coordinator / "federation.toml").read_text()
        federation.share(text.replace(f'"{federation.method}"', f'"{method}"'))
        federation.method = method
        federation.approve()
    processes = [federation.serve(), *(federation.join(n, "--once") for n in federation.names)]
    with ended(*processes):
        run = federation.run(tmp_path / "run")
        with ended(run):
            assert run.wait(timeout=240) == 0, federation.said("run")
        for process in processes[1:]:
            assert process.wait(timeout=60) == 0
    sites = [tmp_path / "sites" / name for name in federation.names]
    for site in sites:  # a simulation names hospitals by their folders
        shutil.copytree(federation.site(site.name) / "events", site)
    out = tmp_path / "simulated"
    command(
        "simulate", *sites, "--out", out,
        "--method", method, "--rank", "4", "--max-iter", "3", "--seed", "3", "--tol", "1e-12",
        "--min-cell", "11", "--order", "protocol", "--sums", "secure", "--no-compare",
    )  # fmt: skip
    wanted = factors(out)
    assert factors(tmp_path / "run") == wanted
    summary = json.loads((tmp_path / "run" / "run.json").read_text())
    assert summary["sums"] == "secure"
    assert [h["patients"] for h in summary["hospitals"]] == [None, None, None]
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    shown = json.loads((tmp_path / "run" / "phenotypes.json").read_text())
    assert any(code.strip() for code in named_codes(shown))  # the first hospital approved that
    for name in federation.names:
        own = federation.site(name) / "runs" / summary["run"]
        assert factors(own) == wanted
        check = command("audit", "verify", federation.site(name) / "state" / "runs" / own.name)
        assert check["ok"]
        kept = federation.coordinator / "state" / "runs" / own.name / "heads" / f"{name}.json"
        assert json.loads(kept.read_text())["hash"] == check["head"]
