"""A hospital runs only code it installed: no other job is unpacked, started, or heard of."""

import io
import json
import zipfile

import pytest
from nvflare.apis.signal import Signal
from nvflare.collab.api.context import Context, get_call_context, set_call_context
from nvflare.fuel.utils.config_factory import ConfigFactory
from nvflare.private.fed.client import admin, scheduler_cmds
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

from tripheno.errors import ForeignJob
from tripheno.federation import client_train, job
from tripheno.federation.hardening import harden
from tripheno.federation.job import HospitalPost
from tripheno.federation.job_files import (
    SIGNATURES,
    app_files,
    check_app,
    files_of_folder,
    files_of_zip,
    write_job,
)
from tripheno.federation.launching import GuardedDeployer, check_unpacked


def zipped(files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as parts:
        for name, data in files.items():
            parts.writestr(name, data)
    return made.getvalue()


def test_our_own_job_passes_as_files_and_as_it_travels(tmp_path):
    folder = write_job(tmp_path / "job", ["northfield"]) / "app"
    for name in SIGNATURES:
        (folder / name).write_text("{}")
    check_app(files_of_folder(folder))
    check_app(files_of_zip(zipped(files_of_folder(folder))))


CHANGES = {
    "settings of the connection": {"config/comm_config.json": b"{}"},
    "a module": {"config/evil.py": b""},
    "a signature that is none": {"custom/.__nvfl_sig.json": b"{}"},
    "another class": {"config/config_fed_client.json": b'{"format_version": 2}'},
    "another format": {"config/config_fed_client.conf": b""},
    "a bomb": {"config/config_fed_server.json": bytes(2 << 20)},
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_any_other_file_or_content_is_refused_before_it_is_unpacked(change):
    with pytest.raises(ForeignJob) as refused:
        check_app(files_of_zip(zipped({**app_files(), **CHANGES[change]})))
    assert "evil" not in str(refused.value)
    data = zipped({**app_files(), **CHANGES[change]})
    assert "TRIP-E518" in GuardedDeployer().deploy(app_data=data)


@pytest.mark.parametrize("data", [b"", b"PK", bytes(100)], ids=["nothing", "a stump", "zeros"])
def test_what_is_no_archive_is_refused(data):
    assert "TRIP-E518" in GuardedDeployer().deploy(app_data=data)


class Unpacked:
    """A job's folder as the engine tells a launcher of it."""

    def __init__(self, folder):
        self.folder = folder

    def get_prop(self, _name):
        return self

    def get_app_dir(self, job):
        return str(self.folder / job / "app_server")

    def get_run_dir(self, job):
        return str(self.folder / job)


def test_a_job_that_lies_here_already_is_not_started_and_goes(tmp_path):
    write_job(tmp_path / "made", ["northfield"])
    (tmp_path / "made" / "app").rename(tmp_path / "made" / "app_server")
    check_unpacked({"job_id": "made"}, Unpacked(tmp_path))
    (tmp_path / "made" / "app_server" / "config" / "comm_config.json").write_text("{}")
    with pytest.raises(ForeignJob):
        check_unpacked({"job_id": "made"}, Unpacked(tmp_path))
    assert not (tmp_path / "made").exists()


@pytest.fixture
def workspace(tmp_path):
    made = tmp_path / "kits" / "tripheno" / "prod_00" / "harbour"
    for name in ("local/resources.json.default", "startup/fed_client.json"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text('{"client": {}, "mine": true}')
    harden(made)
    return made


@pytest.mark.parametrize("name", ["comm_config.json", "resources.json", "fed_client.json"])
@pytest.mark.parametrize("ending", [".json", ".conf", ".yml", ".json.default"])
def test_what_the_engine_finds_by_walking_is_the_owners_and_not_a_jobs(workspace, name, ending):
    job = workspace / "0a-job" / "app_harbour" / "config"
    job.mkdir(parents=True)
    (job / (name.removesuffix(".json") + ending)).write_text("{}")
    _, found = ConfigFactory.search_config_format(name, [str(workspace)])
    assert found == str(workspace / name)
    assert json.loads((workspace / name).read_text())


def test_hardening_again_changes_nothing(workspace):
    before = {path.name: path.read_bytes() for path in workspace.iterdir() if path.is_file()}
    harden(workspace)
    assert before == {p.name: p.read_bytes() for p in workspace.iterdir() if p.is_file()}


def test_an_agent_answers_what_a_study_needs_and_no_shell_command(monkeypatch):
    known = list(ClientRequestProcessors.request_processors)
    monkeypatch.setattr(ClientRequestProcessors, "request_processors", known)
    monkeypatch.setattr(client_train.runpy, "run_module", lambda *_words, **_more: None)
    assert "ShellCommandProcessor" in {type(one).__name__ for one in known}
    for module in (admin, scheduler_cmds):
        monkeypatch.setattr(module, "secure_format_exception", str)
    client_train.main()
    assert {type(one).__name__ for one in known} == client_train.ANSWERED
    for module in (admin, scheduler_cmds):
        assert module.secure_format_exception(OSError("/home/somebody")) == "OSError"


def test_a_hospital_takes_no_step_from_another_hospital(monkeypatch):
    """The engine lets every participant of a job call every other one."""
    steps = []
    monkeypatch.setattr(job, "connect_to_relay", lambda _workspace: steps.append("connected"))
    before = get_call_context()
    try:
        set_call_context(Context(None, "southfield", "northfield", Signal()))
        with pytest.raises(PermissionError):
            HospitalPost().answer("1:1", b"a total")
    finally:
        set_call_context(before)
    assert not steps
