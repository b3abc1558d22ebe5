"""What is refused at the border, each with its own error and exit code."""

import datetime
import json
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import contextmanager
from datetime import UTC, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner

from kit.engine_federation import free_port
from kit.federation_processes import FederationOnDisk
from tripheno.cli.main import app
from tripheno.errors import (
    BadCertificate,
    CoordinatorUnreachable,
    ExpiredCertificate,
    NameNotInCertificate,
    NameTaken,
    RunFailed,
    UnknownMember,
)
from tripheno.federation.gatekeeper import ApprovedGatekeeper
from tripheno.federation.hardening import ALLOWED, hardened_resources, permissions
from tripheno.federation.home import alone
from tripheno.federation.preflight import check_dates, try_connection
from tripheno.federation.provisioning import Address, Kit, Machine
from tripheno.federation.relay import opened_answer, sealed_answer


class Authority:
    """A certificate authority of a test, with what it signed."""

    def __init__(self, name):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.pem = self._sign(self.name, self.key, ca=True).public_bytes(Encoding.PEM)

    def _sign(self, subject, key, *, ca=False, days=30, host="localhost"):
        now = datetime.datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=60))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
        )
        usage = x509.KeyUsage(True, False, False, False, False, ca, ca, False, False)
        return builder.add_extension(usage, critical=True).sign(self.key, hashes.SHA256())

    def issue(self, folder, role, **how):
        folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, role)])
        signed = self._sign(subject, key, **how).public_bytes(Encoding.PEM)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / f"{role}.crt").write_bytes(signed)
        (folder / f"{role}.key").write_bytes(private)
        (folder / "rootCA.pem").write_bytes(self.pem)
        return folder


@contextmanager
def server(folder):
    """A server that wants certificates of its own authority, as the engine's does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    context.load_verify_locations(folder / "rootCA.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("localhost", 0)) as listener:

        def serve():
            try:
                plain, _ = listener.accept()
                with plain, context.wrap_socket(plain, server_side=True) as secured:
                    secured.settimeout(3)
                    secured.recv(1)
            except OSError:
                pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Address("localhost", listener.getsockname()[1])
        thread.join(5)


@pytest.fixture
def kit(tmp_path):
    def make(authority, **how):
        authority.issue(tmp_path / "kit" / "startup", "client", **how)
        return Kit(tmp_path / "kit")

    return make


def test_a_certificate_of_the_study_is_good(kit, tmp_path):
    authority = Authority("study")
    made = kit(authority)
    with server(authority.issue(tmp_path / "server", "server")) as address:
        try_connection(made, address)
    assert check_dates(made) == 29


def test_a_server_of_another_authority_is_refused(kit, tmp_path):
    made = kit(Authority("study"))
    with (
        server(Authority("another").issue(tmp_path / "server", "server")) as address,
        pytest.raises(BadCertificate, match="another authority") as refused,
    ):
        try_connection(made, address)
    assert refused.value.exit_code == 5


def test_a_hospital_of_another_authority_is_refused_by_the_server(kit, tmp_path):
    study, another = Authority("study"), Authority("another")
    made = kit(another)
    (made.startup / "rootCA.pem").write_bytes(study.pem)
    with (
        server(study.issue(tmp_path / "server", "server")) as address,
        pytest.raises(BadCertificate, match=r"refused|closed"),
    ):
        try_connection(made, address)


def test_a_server_of_another_name_is_refused(kit, tmp_path):
    authority = Authority("study")
    made = kit(authority)
    folder = authority.issue(tmp_path / "server", "server", host="elsewhere.example.org")
    with server(folder) as address, pytest.raises(NameNotInCertificate):
        try_connection(made, address)


def test_an_expired_certificate_is_refused_here_and_at_the_server(kit, tmp_path):
    authority = Authority("study")
    made = kit(authority, days=-1)
    with pytest.raises(ExpiredCertificate, match="ran out"):
        check_dates(made)
    good = kit(authority)
    folder = authority.issue(tmp_path / "server", "server", days=-1)
    with server(folder) as address, pytest.raises(ExpiredCertificate, match="not good today"):
        try_connection(good, address)


def test_a_port_where_nobody_answers_is_unreachable(kit):
    with pytest.raises(CoordinatorUnreachable, match="nobody answers"):
        try_connection(kit(Authority("study")), Address("localhost", free_port()))


@pytest.mark.parametrize("proxy", ["http://localhost:{port}", "http://nowhere.invalid:{port}"])
def test_a_proxy_that_is_away_is_named_and_not_the_coordinator(kit, proxy):
    address = Address("localhost", free_port(), "grpc")
    with pytest.raises(CoordinatorUnreachable, match="proxy does not answer") as refused:
        try_connection(kit(Authority("study")), address, proxy.format(port=free_port()))
    assert str(address.port) not in refused.value.where


def test_an_unknown_hospital_gets_no_certificate(tmp_path):
    address = Address("localhost", 8002)
    coordinator, stranger = Machine(tmp_path / "coordinator"), Machine(tmp_path / "stranger")
    coordinator.found_authority(address)
    request = stranger.request("stranger", "client", address)
    with pytest.raises(UnknownMember, match="no member") as refused:
        coordinator.approve(request, tmp_path / "stranger.signed.zip", ("northfield",))
    assert refused.value.exit_code == 4


def test_an_authority_with_another_fingerprint_is_not_installed(tmp_path):
    address = Address("localhost", 8002)
    coordinator, hospital = Machine(tmp_path / "coordinator"), Machine(tmp_path / "hospital")
    coordinator.found_authority(address)
    request = hospital.request("harbour", "client", address)
    signed = coordinator.approve(request, tmp_path / "harbour.signed.zip", ("harbour",))
    with pytest.raises(BadCertificate, match="fingerprint"):
        hospital.install(signed, "harbour", ":".join(["AB"] * 32))
    assert not hospital.kit("harbour").ready


def test_a_second_process_under_a_hospitals_name_is_refused(tmp_path):
    with (
        alone(tmp_path, "harbour"),
        pytest.raises(NameTaken, match="already at work") as refused,
        alone(tmp_path, "harbour"),
    ):
        pass
    assert refused.value.exit_code == 5


def test_a_site_builds_our_classes_only_and_uploads_no_log(tmp_path):
    default = {
        "class_allow_list": ["nvflare.everything."],
        "allow_log_streaming": True,
        "client": {},
        "components": [{"id": "site_log_streamer"}, {"id": "resource_manager"}],
        "root": "/tmp/nvflare/jobs",
    }
    made = hardened_resources(default, tmp_path)
    assert made["class_allow_list"] == list(ALLOWED)
    assert made["allow_log_streaming"] is False
    assert [one["id"] for one in made["components"]] == ["resource_manager", "app_deployer"]
    assert made["root"] == f"{tmp_path}/jobs"
    launcher = "nvflare.app_common.job_launcher.client_process_launcher.ClientProcessJobLauncher"
    parts = [
        {"id": "process_launcher", "path": launcher, "args": {}},
        {"id": "job_scheduler", "path": "a.Scheduler", "args": {"max_jobs": 4}},
    ]
    launching, scheduling = hardened_resources({"components": parts}, tmp_path)["components"]
    assert launching["path"] == "tripheno.federation.launching.HospitalLauncher"
    assert scheduling["args"]["max_schedule_interval"] <= 2  # a job waits no longer than needed
    for rights in permissions()["permissions"].values():
        assert rights["byoc"] == "none"
        assert rights["shell_commands"] == "none"


def test_of_an_error_inside_a_hospital_only_its_kind_leaves():
    def respond(step, data):
        raise ValueError("patient 17 has 3 of code 250.00")

    told = sealed_answer(respond, "1:3", b"")
    assert told[1:] == b"TRIP-E100"
    with pytest.raises(RunFailed, match="could not be finished") as caught:
        opened_answer("harbour", told)
    assert caught.value.where == "harbour"


def test_join_is_refused_without_an_approval_and_with_one_that_ran_out(tmp_path, monkeypatch):
    federation = FederationOnDisk(tmp_path)
    federation.write_settings()
    federation.ingest()
    federation.write_lists()
    site = federation.site("harbour")
    files = ["--site", str(site / "site.toml"), "--federation", str(site / "federation.toml")]

    def join():
        return CliRunner().invoke(app, ["join", *files])

    missing = join()
    assert missing.exit_code == 4
    assert "TRIP-E414" in missing.stderr
    federation.approve()
    assert join().exit_code == 5  # approved, but it has no certificate yet
    later = datetime.datetime.now(UTC).date() + timedelta(days=400)
    monkeypatch.setattr(ApprovedGatekeeper.__init__, "__defaults__", (lambda: later,))
    expired = join()
    assert expired.exit_code == 4
    assert "it was good until" in expired.stderr
    checked = CliRunner().invoke(app, ["check", *files, "--format", "json"])
    problems = {one["name"]: one["problem"][:9] for one in json.loads(checked.stdout)}
    fixes = {one["name"]: one["fix"] for one in json.loads(checked.stdout)}
    assert (problems["approval"], fixes["approval"]) == ("", "good for 90 days")
    assert problems["certificate"] == "TRIP-E515"
    monkeypatch.setattr("tripheno.federation.preflight.DAYS_TO_WARN", 91)
    soon = CliRunner().invoke(app, ["check", *files, "--format", "json"])
    found = {one["name"]: one for one in json.loads(soon.stdout)}["approval"]
    assert (found["problem"], found["exit_code"]) == ("runs out in 90 days", 0)
    assert checked.exit_code == 5


def test_without_the_engine_a_machine_says_so_and_does_everything_else():
    script = (
        "import sys\n"
        "sys.modules['nvflare'] = sys.modules['psutil'] = None\n"
        "import tripheno.report.federated, tripheno.report.simulated\n"
        "import tripheno.cli.checks as checks\n"
        "import importlib.util\n"
        "importlib.util.find_spec = lambda name: None\n"
        "checks.need_engine()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert "tripheno[federation]" in done.stderr.splitlines()[-1]
    assert "MissingExtra" in done.stderr
