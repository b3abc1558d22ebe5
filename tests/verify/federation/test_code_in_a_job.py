"""The hole through which a job ran code at every hospital, with the engine's own rules and ours."""

import json

import pytest

from kit.engine_federation import EngineFederation, bring_code
from kit.federation_processes import wait_until
from tripheno.errors import EngineRefused
from tripheno.federation import supervision
from tripheno.federation.hardening import LAUNCHERS, harden
from tripheno.federation.job_files import write_job
from tripheno.federation.session import ServerLogin

# the engine leaves the sockets of a login that failed to the garbage collector
pytestmark = [
    pytest.mark.verify,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ENGINES = {ours: theirs for theirs, ours in LAUNCHERS.items()}


def without_guards(workspace):
    """Our rules but for what compares a job with ours."""
    harden(workspace)
    path = workspace / "local" / "resources.json"
    made = json.loads(path.read_text())
    made["components"] = [
        {**one, "path": ENGINES.get(one.get("path"), one.get("path"))}
        for one in made["components"]
        if one["id"] != "app_deployer"
    ]
    path.write_text(json.dumps(made))


def with_nothing_in_the_root(workspace):
    """Nor a file that is found before a job's."""
    without_guards(workspace)
    (workspace / "comm_config.json").unlink()


@pytest.mark.parametrize(
    ("rules", "runs"), [(with_nothing_in_the_root, True), (without_guards, False)]
)
def test_settings_in_a_job_run_code_unless_the_owners_stand_in_the_root(
    tmp_path, monkeypatch, rules, runs
):
    monkeypatch.setattr(supervision, "harden", rules)
    made = EngineFederation(tmp_path / "federation", ("northfield", "harbour"))
    job = write_job(tmp_path / "job", made.hospitals)
    marker = bring_code(job, "communication settings", tmp_path / "ran")

    def logged_in():
        try:
            return ServerLogin(made.lead.workspace)
        except EngineRefused:
            return None

    with made.running():
        session = None
        while session is None:
            session = logged_in()
        with session:
            wait_until("agents", lambda: len(session.connected()) == len(made.hospitals))
            number = session.submit(job)
            wait_until(
                "a process of the job",
                lambda: marker.exists() or session.over(number) or list(made.folder.rglob("*.csv")),
                90,
            )
            session.abort(number)
    assert marker.exists() == runs
