"""A hospital's own patients in the dashboard: only where its own folder was named."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from tripheno.dashboard.app import make_app
from tripheno.dashboard.patients import OwnPatients
from tripheno.errors import NoSuchFile, TriphenoWarning
from tripheno.lab.synthetic.network import SyntheticSettings, synthetic_network
from tripheno.records.events import CountingRule, write_events
from tripheno.report.run_folder import read_report
from tripheno.report.simulated import run_simulation
from tripheno.solver.settings import SolverSettings
from tripheno.study.simulation import Simulation, assemble
from tripheno.tensor.count_tensor import CountTensor

TOKEN, HOST = "a-token-for-tests", "127.0.0.1:8124"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A run of three hospitals, and the folder of the first with dated events."""
    home = tmp_path_factory.mktemp("home")
    made = synthetic_network(SyntheticSettings(patients_per_hospital=(150, 120, 100)))
    tensors = {one.name: CountTensor.from_events(one.events) for one in made.hospitals}
    study = Simulation(assemble(tensors), SolverSettings(4, tol=1e-3, starts=2), {}, beside=())
    run_simulation(study, home / "run", 0.0)
    events = made.hospitals[0].events
    days = np.datetime64("2020-01-01", "us") + np.arange(events.num_rows) * np.timedelta64(1, "h")
    at = events.column_names.index("time") if "time" in events.column_names else None
    times = pa.array(days, pa.timestamp("us"))
    dated = (events.append_column("time", times) if at is None
             else events.set_column(at, "time", times))  # fmt: skip
    (home / "site").mkdir()
    write_events(dated, home / "site" / "events.parquet", CountingRule())
    return home


def client_of(home, site=None):
    app = make_app(home / "run", TOKEN, [HOST], site)
    client = TestClient(app, base_url=f"http://{HOST}")
    client.get(f"/?token={TOKEN}")
    return client


def test_without_the_hospitals_folder_there_is_no_such_page(home):
    client = client_of(home)
    assert client.get("/patients").status_code == 404
    assert "Patients</a>" not in client.get("/").text


def test_without_the_token_no_patient_is_shown(home):
    client = TestClient(
        make_app(home / "run", TOKEN, [HOST], home / "site"), base_url=f"http://{HOST}"
    )
    assert client.get("/patients").status_code == 403


def test_a_patients_days_are_in_order_and_the_phenotypes_codes_are_marked(home):
    own = OwnPatients(home / "run", home / "site")
    phenotype = read_report(home / "run").phenotypes[0]
    patient = own.who(1)[0]
    days = own.timeline(patient, phenotype)
    assert [day["day"] for day in days] == sorted(day["day"] for day in days)
    assert any(event["share"] for day in days for event in day["events"])
    page = client_of(home, home / "site").get(f"/patients?phenotype=1&patient={patient}").text
    assert f"Patient {patient}" in page
    assert len(re.findall("●", page)) > 1
    assert "for your eyes only" in page


def test_a_patient_without_the_phenotype_is_not_shown(home):
    client = client_of(home, home / "site")
    others = set(range(150)) - set(OwnPatients(home / "run", home / "site").who(1))
    answer = client.get(f"/patients?phenotype=1&patient={min(others)}")
    assert answer.status_code == 400
    assert client.get("/patients?phenotype=1&patient=x").status_code == 400


def test_nothing_of_a_patient_is_written(home):
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    client_of(home, home / "site").get("/patients?phenotype=2")
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before


def test_a_folder_without_events_is_refused_before_the_first_page(home, tmp_path):
    with pytest.raises(NoSuchFile):
        make_app(home / "run", TOKEN, [HOST], tmp_path)


def test_the_first_day_of_a_long_stay_is_on_the_timeline(home, tmp_path):
    """A code in every hour of a year, newest first: nothing is cut off unsaid."""
    patient = OwnPatients(home / "run", home / "site").who(1)[0]
    known = pq.read_table(home / "site" / "events.parquet")
    hours = np.datetime64("2021-12-31T23:00", "us") - np.arange(8_760) * np.timedelta64(1, "h")
    stay = {"patient": [patient] * 8_760, "window": [10**6] * 8_760, "mode": ["diagnosis"] * 8_760,
            "code": ["o"] * 8_759 + ["f"], "label": ["Often"] * 8_759 + ["First"],
            "time": pa.array(hours, pa.timestamp("us"))}  # fmt: skip
    added = pa.table({name: stay[name] for name in known.column_names}).cast(known.schema)
    write_events(pa.concat_tables([known, added]), tmp_path / "events.parquet", CountingRule())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TriphenoWarning)  # codes that the run does not know
        days = OwnPatients(home / "run", tmp_path).timeline(
            patient, read_report(home / "run").phenotypes[0]
        )
    year = [day for day in days if day["day"].startswith("2021")]
    assert len(year) == 365
    assert [event["name"] for event in year[0]["events"]] == ["First", "Often"]
    assert all(len(day["events"]) == 1 for day in year[1:])
