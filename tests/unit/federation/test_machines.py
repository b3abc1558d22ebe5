"""What an operator is told before a study, and how certificates are renewed."""

import json
import shutil
import socket
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kit import small_study
from kit.federation_processes import FederationOnDisk, command
from tripheno.cli.console import err, out
from tripheno.cli.main import app
from tripheno.errors import NameTaken, OtherProtocol, SettingsError
from tripheno.federation import machine_limits
from tripheno.federation.home import CoordinatorHome, alone
from tripheno.federation.preflight import find_name
from tripheno.federation.provisioning import Address
from tripheno.protocol.agreed import read_protocol

Usage = namedtuple("Usage", "total used free")


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    made = FederationOnDisk(tmp_path_factory.mktemp("machines"))
    made.write_settings()
    made.certify_one("harbour")
    return made


def files_of(site):
    return ("--site", site / "site.toml", "--federation", site / "federation.toml")


def checked(*files):
    done = CliRunner().invoke(app, ["check", *map(str, files), "--format", "json"])
    return {one["name"]: one for one in json.loads(done.stdout)}, done.exit_code


def test_a_fingerprint_is_printed_as_it_is(capsys):
    text = "12:AB:34:CD:A:B:O2:ID:NG:OK:UP"
    out().print(text)
    err().print(text)
    assert capsys.readouterr() == (text + "\n", text + "\n")


def test_a_server_whose_port_is_taken_says_so_and_serves_nothing(federation):
    address = read_protocol(federation.coordinator / "federation.toml").operation.address
    with socket.create_server(("127.0.0.1", Address.of(address).port)):
        done = CliRunner().invoke(app, ["serve", "--folder", str(federation.coordinator)])
        found, _ = checked("--federation", federation.coordinator / "federation.toml")
    assert done.exit_code == 5
    assert "TRIP-E519" in done.stderr
    assert "serving" not in done.output
    assert found["port"]["problem"].startswith("TRIP-E519")


def test_the_coordinator_looks_at_its_name_port_certificates_and_machine(federation):
    found, code = checked("--federation", federation.coordinator / "federation.toml")
    assert (found["port"]["fix"], code) == ("free", 0)
    assert "127.0.0.1" in found["name"]["fix"]
    assert found["certificate of the server"]["fix"].startswith("good for 1,09")
    assert {"disk", "tasks", "clock", "certificate of the login"} <= set(found)


def test_a_certificate_that_soon_runs_out_is_named_and_is_no_failure_yet(federation, monkeypatch):
    monkeypatch.setattr("tripheno.federation.preflight.DAYS_TO_WARN", 5_000)
    site = federation.site("harbour")
    found, _ = checked(*files_of(site))
    assert found["certificate"]["problem"].startswith("runs out in 1")
    assert found["certificate"]["fix"] == "tripheno cert renew"
    assert found["certificate"]["exit_code"] == 0


def test_a_name_that_nobody_knows_is_said(federation):
    with pytest.raises(Exception, match="TRIP-E511 the coordinator's name is not known"):
        find_name(Address("no-such-host.invalid", 8002))


def test_room_is_looked_for_where_it_is_written(tmp_path, monkeypatch):
    full = tmp_path / "state"
    full.mkdir()
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: Usage(1, 1, 0 if path == full else 1 << 40)
    )
    assert "1024 GB free" in machine_limits.check_room([tmp_path, tmp_path / "not-yet"])
    with pytest.raises(SettingsError, match="are free") as refused:
        machine_limits.check_room([tmp_path, full / "runs" / "not-yet"])
    assert refused.value.where == str(full)


def test_too_few_tasks_are_refused_with_the_limit_that_is_too_low(tmp_path):
    own = Path("/proc/self/cgroup").read_text().partition("::")[2].strip()
    group = tmp_path / own.lstrip("/")
    group.mkdir(parents=True, exist_ok=True)
    (group / "pids.max").write_text("100\n")
    with pytest.raises(SettingsError, match="only 100 tasks") as refused:
        machine_limits.check_tasks(tmp_path)
    assert refused.value.where == "TasksMax of the service"
    (group / "pids.max").write_text("max\n")
    assert machine_limits.check_tasks(tmp_path)


def keys(home, protocol):
    return [kit.certificate(role).public_key() for _, kit, role in home.own_kits(protocol)]


def serials(home, protocol):
    return {
        label: kit.certificate(role).serial_number for label, kit, role in home.own_kits(protocol)
    }


def test_the_coordinator_renews_what_is_due_and_keeps_its_authority(federation):
    folder = federation.coordinator
    home, protocol = CoordinatorHome(folder), read_protocol(folder / "federation.toml")
    authority, _ = home.prepare(protocol)
    before, own = serials(home, protocol), keys(home, protocol)
    words = ("cert", "renew", "--federation", folder / "federation.toml")
    assert command(*words) == {"server": 1094, "login": 1094}
    assert serials(home, protocol) == before
    in_use = home.engine_settings(protocol).server / "local" / "relay.json"
    in_use.touch()  # where a job finds the `run` that waits
    command(*words, "--days", "2000")
    assert in_use.is_file()
    after = serials(home, protocol)
    assert not set(after.values()) & set(before.values())
    assert keys(home, protocol) == own  # agents that are connected trust what it signed
    assert home.prepare(protocol)[0] == authority
    assert home.engine_settings(protocol).server.joinpath("comm_config.json").is_file()
    with (
        pytest.raises(AssertionError, match=NameTaken.code),
        alone(home.machine.folder, "a server"),
    ):
        command(*words)


def test_a_hospital_renews_while_its_old_certificate_works(federation):
    site = federation.site("harbour")
    kit = next(site.glob("state/engine/kits/*/*/harbour/startup/client.crt"))
    before, in_use = kit.read_bytes(), kit.parents[1] / "local" / "relay.json"
    in_use.touch()  # where a job finds the `join` that runs
    request = command("cert", "renew", *files_of(site), "--out", site)["request"]
    assert kit.read_bytes() == before
    signed = command("cert", "approve", request, "--folder", federation.coordinator)
    command(
        "cert", "install", signed["signed"], "--fingerprint", signed["fingerprint"], *files_of(site)
    )
    assert kit.read_bytes() != before
    assert in_use.is_file()
    assert (kit.parents[1] / "comm_config.json").is_file()


@pytest.mark.parametrize("what", ["protocol", "version"])
def test_a_paused_run_of_another_study_or_version_is_named_and_not_gone_on_with(
    tmp_path, monkeypatch, what
):
    home, agreed = CoordinatorHome(tmp_path), small_study.protocol()
    run, _ = home.begin(agreed, anew=False)
    assert home.begin(agreed, anew=False) == (run, True)
    if what == "version":
        monkeypatch.setattr("tripheno.federation.home.__version__", "99.0")
    else:
        agreed = replace(agreed, study="another")
    with pytest.raises(OtherProtocol, match=f"{run} is paused") as refused:
        home.begin(agreed, anew=False)
    assert "--abort" in refused.value.fix
    home.close("given up")
    assert home.begin(agreed, anew=False)[1] is False
