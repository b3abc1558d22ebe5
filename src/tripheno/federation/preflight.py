"""Try the way to the coordinator before the engine does, and say what is wrong in words."""

from __future__ import annotations

import socket
import ssl
from base64 import b64encode
from datetime import UTC, datetime
from urllib.parse import unquote, urlsplit

from tripheno.errors import (
    BadCertificate,
    CoordinatorUnreachable,
    ExpiredCertificate,
    NameNotInCertificate,
    PortTaken,
)
from tripheno.federation.provisioning import Address, Kit

SECONDS = 5.0
DAYS_TO_WARN = 30
LONGEST_ANSWER = 10_000  # bytes of a proxy's


def check_dates(kit: Kit, role: str = "client") -> int:
    """Days for which this machine's certificate is still good; refused if it is not good today."""
    certificate, now = kit.certificate(role), datetime.now(UTC)
    if now > certificate.not_valid_after_utc:
        raise ExpiredCertificate(
            f"this machine's certificate ran out on {certificate.not_valid_after_utc:%Y-%m-%d}",
            fix="tripheno cert renew",
        )
    if now < certificate.not_valid_before_utc:
        raise ExpiredCertificate(
            f"this machine's certificate is good from {certificate.not_valid_before_utc:%Y-%m-%d}",
            why="the clock of this machine is behind",
            fix="set the clock (timedatectl)",
        )
    return kit.days_left(role)


def find_name(address: Address) -> list[str]:
    """The addresses behind the coordinator's name."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError:
        raise _unknown_name(address) from None
    return sorted({str(one[4][0]) for one in found})


def _unknown_name(address: Address) -> CoordinatorUnreachable:
    return CoordinatorUnreachable(
        "the coordinator's name is not known here", where=f"{address.host}:{address.port}",
        fix="check coordinator.address, and this machine's name service",
    )  # fmt: skip


def check_port_is_free(port: int) -> None:
    """Refuse to serve where somebody else does; the engine would try in silence."""
    try:
        socket.create_server(("", port)).close()
    except OSError as fault:
        raise PortTaken(
            f"port {port} cannot be served", why=fault.strerror or type(fault).__name__,
            fix="stop what listens there (ss -ltnp), or agree on another coordinator.address",
        ) from None  # fmt: skip


def try_connection(kit: Kit, address: Address, proxy: str = "") -> None:
    """Connect and shake hands as the engine will; the first fault raises.

    ``proxy`` is ``http://user:password@host:port``, which the engine takes for `grpc` alone.
    """
    where = f"{address.host}:{address.port}"
    startup = kit.startup
    context = ssl.create_default_context(cafile=str(startup / "rootCA.pem"))
    context.load_cert_chain(startup / "client.crt", startup / "client.key")
    try:
        if proxy and address.scheme == "grpc":
            plain = _through(proxy, address)
        else:
            plain = socket.create_connection((address.host, address.port), timeout=SECONDS)
    except socket.gaierror:
        raise _unknown_name(address) from None
    except OSError as fault:
        raise CoordinatorUnreachable(
            "nobody answers", where=where, why=fault.strerror or type(fault).__name__,
            fix="is `tripheno serve` running? is this port open outbound in the firewall?",
        ) from None  # fmt: skip
    with plain:
        _shake_hands(plain, context, address, where)


def _through(proxy: str, address: Address) -> socket.socket:
    """A connection that an HTTP proxy opened with CONNECT; TLS goes through it unopened."""
    at = urlsplit(proxy)
    try:
        plain = socket.create_connection((at.hostname or "", at.port or 80), timeout=SECONDS)
    except OSError as fault:
        raise CoordinatorUnreachable(
            "the proxy does not answer", where=f"{at.hostname}:{at.port}",
            why=fault.strerror or type(fault).__name__,
            fix="https_proxy is http://host:port, or http://user:password@host:port",
        ) from None  # fmt: skip
    words = f"CONNECT {address.host}:{address.port} HTTP/1.1\r\nHost: {address.host}\r\n"
    if at.username is not None:
        login = f"{unquote(at.username)}:{unquote(at.password or '')}"
        words += f"Proxy-Authorization: Basic {b64encode(login.encode()).decode()}\r\n"
    plain.sendall(f"{words}\r\n".encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n") and len(answer) < LONGEST_ANSWER:
        byte = plain.recv(1)
        if not byte:
            break
        answer += byte
    code = answer.partition(b" ")[2][:3].decode("ascii", "replace")
    if code != "200":
        plain.close()
        raise CoordinatorUnreachable(
            "the proxy opens no way to the coordinator", where=f"{at.hostname}:{at.port}",
            why=f"it answered {code or 'nothing'}",
            fix="407: user and password in https_proxy; 403: let it CONNECT to this host and port",
        )  # fmt: skip
    return plain


def _shake_hands(
    plain: socket.socket, context: ssl.SSLContext, address: Address, where: str
) -> None:
    try:
        with context.wrap_socket(plain, server_hostname=address.host) as secured:
            secured.settimeout(0.5)
            try:  # a server that refuses our certificate says so after the handshake
                secured.recv(1)
            except TimeoutError:
                return
    except ssl.SSLCertVerificationError as fault:
        raise _verification_fault(fault, where) from None
    except ssl.SSLError as fault:
        raise _tls_fault(fault, where) from None
    except OSError:
        raise BadCertificate(
            "the server closed the connection", where=where,
            why="it may have refused this machine's certificate",
            fix="have a certificate of this study approved, and install it",
        ) from None  # fmt: skip


def _verification_fault(fault: ssl.SSLCertVerificationError, where: str) -> BadCertificate:
    text = fault.verify_message
    if "expired" in text or "not yet valid" in text:
        return ExpiredCertificate(
            "the server's certificate is not good today", where=where, why=text,
            fix="check this machine's clock; then tell the coordinator",
        )  # fmt: skip
    if "ostname" in text or "IP address" in text:
        return NameNotInCertificate(
            "the server's certificate was made for another name", where=where, why=text,
            fix="use the host in coordinator.address that `tripheno serve` was started with",
        )  # fmt: skip
    return BadCertificate(
        "the server's certificate is from another authority", where=where, why=text,
        fix="compare the fingerprint with the coordinator; an inspecting proxy does this too",
    )  # fmt: skip


def _tls_fault(fault: ssl.SSLError, where: str) -> BadCertificate | CoordinatorUnreachable:
    text = fault.reason or ""
    if "ALERT" in text:
        return BadCertificate(
            "the server refused this machine's certificate", where=where, why=text.lower(),
            fix="have a certificate of this study approved, and install it",
        )  # fmt: skip
    return CoordinatorUnreachable(
        "what answers there speaks no TLS of ours", where=where, why=text.lower(),
        fix="check the port; a proxy must pass TLS through unopened",
    )  # fmt: skip
