"""Certificates for machines: made where they are used, approved by the coordinator.

Every private key is made on the machine that uses it and never moves. The engine's own steps are
wrapped, so that a person sees three commands: request, approve, install.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from tripheno.errors import BadCertificate, NoSuchFile, SettingsError, UnknownMember
from tripheno.federation.hardening import harden

PROJECT = "tripheno"
LEAD = "coordinator@tripheno.org"
CERTIFICATE_DAYS = 1095
_COMMANDS = Lock()  # the engine's command line reads the process's own words
_NAME = re.compile(r"^[a-z0-9][a-z0-9-]{0,62}$")


@dataclass(frozen=True)
class Address:
    """Where the coordinator's server listens: one port, which hospitals open outbound."""

    host: str
    port: int
    scheme: str = "tcp"  # or grpc, which goes through a proxy

    @classmethod
    def of(cls, text: str) -> Address:
        """``host:port`` or ``grpc://host:port`` as `federation.toml` says it."""
        scheme, _, rest = text.rpartition("://")
        host, _, port = rest.rpartition(":")
        wrong = not host or not port.isdigit() or not 0 < int(port) < 65536
        if wrong or scheme not in ("", "tcp", "grpc"):
            raise SettingsError(
                f"coordinator.address is '{text}'",
                where="federation.toml",
                fix='write "host:port" of the coordinator\'s server, or "grpc://host:port"',
            )
        return cls(host, int(port), scheme or "tcp")


def check_name(name: str) -> str:
    """Refuse a hospital's name that cannot stand in a certificate."""
    if not _NAME.match(name):
        raise SettingsError(
            f"'{name}' cannot be a hospital's name in a federation",
            fix="small letters, digits and hyphens, at most 63",
        )
    return name


class Kit:
    """What one machine needs to take part: its key, its certificate, the authority's."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.startup = workspace / "startup"

    @property
    def ready(self) -> bool:
        """Whether it was installed."""
        return (self.workspace / "local" / "resources.json").is_file()

    def certificate(self, role: str = "client") -> x509.Certificate:
        """The certificate of this machine."""
        return x509.load_pem_x509_certificate((self.startup / f"{role}.crt").read_bytes())

    def has_certificate(self, role: str) -> bool:
        """Whether there is one, good or not."""
        return (self.startup / f"{role}.crt").is_file()

    def days_left(self, role: str = "client") -> int:
        """Days until this machine's certificate runs out; below zero when it did."""
        return (self.certificate(role).not_valid_after_utc - datetime.now(UTC)).days


class Machine:
    """One machine's engine folder: requests, kits, and at the coordinator the authority."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def kit(self, name: str) -> Kit:
        """The kit of a name, installed or not."""
        return Kit(self.folder / "kits" / PROJECT / "prod_00" / name)

    def request(self, name: str, kind: str, address: Address) -> Path:
        """Make a key here, and a request for its certificate as a file to be sent."""
        self._own()
        request = self.folder / name / f"{name}.request.zip"
        if not request.is_file():
            form = self.folder / f"{name}.yaml"
            form.write_text(_form(name, kind, address), encoding="utf-8")
            self._engine("cert", "request", "-p", form, "--out", self.folder / name)
        return request

    def found_authority(self, address: Address) -> str:
        """The coordinator's certificate authority, made once; its fingerprint."""
        self._own()
        profile = self.folder / "profile.yaml"
        profile.write_text(_profile(address), encoding="utf-8")
        root = self.folder / "authority" / "rootCA.pem"
        if not root.is_file():
            out = self.folder / "authority"
            self._engine("cert", "init", "--profile", profile, "-o", out)
        return fingerprint_of_certificate(root.read_bytes())

    def approve(self, request: Path, out: Path, names: tuple[str, ...]) -> Path:
        """Sign the request of a member."""
        name = requested_name(request)
        if name not in names:
            raise UnknownMember(f"'{name}' is no member of the study", where=request.name)
        authority, profile = self.folder / "authority", self.folder / "profile.yaml"
        days = str(CERTIFICATE_DAYS)
        self._engine(
            "cert", "approve", request, "-c", authority, "--profile", profile,
            "--out", out, "--valid-days", days, "--force",
        )  # fmt: skip
        return out

    def install(self, signed: Path, name: str, fingerprint: str) -> Kit:
        """Put certificate and key together, if the authority is the one read out to us.

        Over a kit that is there and may be in use: what a process keeps in it stays.
        """
        if not signed.is_file():
            raise NoSuchFile(f"No file {signed}", fix="name the .signed.zip you were sent")
        plain = re.sub(r"^(sha256)?[:\s]*|[:\s]", "", fingerprint, flags=re.IGNORECASE).upper()
        spelt = "SHA256:" + ":".join(plain[n : n + 2] for n in range(0, len(plain), 2))
        self._engine(
            "package", signed, "--request-dir", self.folder / name, "--fingerprint", spelt,
            "-w", self.folder / "made", "--force",
        )  # fmt: skip
        kit = self.kit(name)
        shutil.copytree(self.folder / "made", self.folder / "kits", dirs_exist_ok=True)
        shutil.rmtree(self.folder / "made")
        if (kit.workspace / "local" / "resources.json.default").is_file():
            harden(kit.workspace)
        return kit

    def own_kit(self, name: str, kind: str, address: Address, fingerprint: str) -> Kit:
        """The coordinator's own kits: requested, approved and installed in one go."""
        kit = self.kit(name)
        if not (kit.workspace / "startup" / "rootCA.pem").is_file():
            return self.make_own(name, kind, address, fingerprint)
        return kit

    def make_own(self, name: str, kind: str, address: Address, fingerprint: str) -> Kit:
        """One of the coordinator's kits, in place of the one before if there is one."""
        request = self.request(name, kind, address)
        signed = self.approve(request, self.folder / f"{name}.signed.zip", (name,))
        return self.install(signed, name, fingerprint)

    def forget(self, name: str) -> None:
        """Remove a request and its key, to ask for another certificate."""
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def _own(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)

    def _engine(self, *words: str | Path) -> None:
        """One of the engine's own commands, in a home of its own: it keeps notes there."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        code, said = _command([str(word) for word in words], home)
        if code != 0:
            raise _refused(words, said)


def _command(words: list[str], home: Path) -> tuple[int, str]:
    """The engine's command line inside this process: starting it anew would take seconds."""
    from nvflare.cli import main  # noqa: PLC0415

    said = io.StringIO()
    with (
        _COMMANDS,
        redirect_stdout(said),
        redirect_stderr(said),
        _started_with(["nvflare", *words], home),
    ):
        try:
            main()
        except SystemExit as end:
            return (0 if end.code is None else int(end.code)), said.getvalue()
    return 0, said.getvalue()


@contextmanager
def _started_with(words: list[str], home: Path) -> Iterator[None]:
    """What a process would be started with: its words and its home."""
    before, at_home = sys.argv, os.environ.get("HOME")
    sys.argv, os.environ["HOME"] = words, str(home)
    try:
        yield
    finally:
        sys.argv = before
        if at_home is None:
            del os.environ["HOME"]
        else:
            os.environ["HOME"] = at_home


def _refused(words: tuple[str | Path, ...], said: str) -> BadCertificate:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    shown = next((line for line in lines if "ingerprint" in line or "nvalid" in line), "")
    if "ingerprint" in shown:
        return BadCertificate(
            "the certificate authority is not the one whose fingerprint was given",
            where=str(words[1]),
            fix="ask the coordinator to read the fingerprint to you again; do not go on without",
        )
    return BadCertificate(
        f"'{words[0]}' was refused",
        why=(shown or (lines[0] if lines else ""))[:300],
        fix="request a new certificate, or ask the coordinator",
    )


def port_of(kit: Kit, role: str = "server") -> int:
    """The port that a kit was made for."""
    config = json.loads((kit.startup / f"fed_{role}.json").read_text(encoding="utf-8"))
    return int(str(config["servers"][0]["service"]["target"]).rpartition(":")[2])


def requested_name(request: Path) -> str:
    """Whose certificate a request asks for."""
    try:
        with zipfile.ZipFile(request) as parts:
            return str(json.loads(parts.read("request.json"))["name"])
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        raise BadCertificate(
            "this is no request for a certificate", where=request.name,
            fix="name the .request.zip that `tripheno cert request` wrote",
        ) from None  # fmt: skip


def fingerprint_of_certificate(pem: bytes) -> str:
    """SHA-256 of a certificate, in pairs of digits, to be read out."""
    der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    digest = hashlib.sha256(der).hexdigest().upper()
    return ":".join(digest[n : n + 2] for n in range(0, len(digest), 2))


def _profile(address: Address) -> str:
    return (
        f"name: {PROJECT}\nscheme: {address.scheme}\nconnection_security: mtls\nserver:\n"
        f"  host: {address.host}\n  fed_learn_port: {address.port}\n  admin_port: {address.port}\n"
    )


def _form(name: str, kind: str, address: Address) -> str:
    """A participant, as the engine wants it described."""
    lines = [f"name: {PROJECT}", "participants:", f"  - name: {name}", f"    type: {kind}"]
    lines.append("    org: tripheno")
    ports = [f"fed_learn_port: {address.port}", f"admin_port: {address.port}"]
    if kind == "server":
        lines += [f"    {port}" for port in ports]
    else:
        lines += [
            "    server:",
            f"      host: {address.host}",
            *(f"      {port}" for port in ports),
        ]
    if kind == "admin":
        lines.append("    role: lead")
    return "\n".join(lines) + "\n"
