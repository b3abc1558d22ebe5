"""What `tripheno check` looks at, one after the other."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tripheno.errors import MissingExtra, SettingsError, TriphenoError

RENEW = "tripheno cert renew"


@dataclass(frozen=True)
class CheckResult:
    """One check: no problem, or the error in its words."""

    name: str
    problem: str = ""
    fix: str = ""
    exit_code: int = 0


def proxy_of_this_machine() -> str:
    """The proxy that the engine's gRPC would take, as the environment says."""
    return os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY") or ""


def need_engine() -> None:
    """Refuse a command of the federation without its engine."""
    if importlib.util.find_spec("nvflare") is None:
        raise MissingExtra(
            "the federation's engine is not installed", fix="pip install 'tripheno[federation]'"
        )


def _try(name: str, look: Callable[[], str]) -> CheckResult:
    try:
        remark = look()
    except TriphenoError as fault:
        problem = f"{fault.code} " + " · ".join(
            p for p in (fault.what, fault.where, fault.why) if p
        )
        return CheckResult(name, problem, fault.fix, fault.exit_code)
    except OSError as fault:
        return CheckResult(name, fault.strerror or type(fault).__name__, "", 1)
    return CheckResult(name, "", remark)


def _engine_there() -> str:
    need_engine()
    return "installed"


def _machine(*folders: Path) -> list[CheckResult]:
    """Room where it writes, tasks, the clock: what stops an engine after weeks."""
    from tripheno.federation.machine_limits import check_room, check_tasks, clock_is_kept

    kept = clock_is_kept()
    clock = CheckResult("clock", fix="" if kept is None else "kept by a time service")
    if kept is False:
        clock = CheckResult("clock", "no time service keeps it", "timedatectl set-ntp true")
    room = _try("disk", lambda: check_room(folders))
    return [room, _try("tasks", check_tasks), clock]


def _lasting(name: str, days_of: Callable[[], int], fix: str) -> CheckResult:
    """Good, or soon to run out: that is no failure yet, but must be read."""
    from tripheno.federation.preflight import DAYS_TO_WARN

    days = DAYS_TO_WARN

    def look() -> str:
        nonlocal days
        days = days_of()
        return f"good for {days:,} days"

    found = _try(name, look)
    return CheckResult(name, f"runs out in {days} days", fix) if days < DAYS_TO_WARN else found


def site_checks(site_file: Path, federation_file: Path) -> list[CheckResult]:
    """At a hospital: settings, keys, data, approval, certificate, connection, disk."""
    from tripheno.cli.study_files import settings
    from tripheno.federation.gatekeeper import days_approved
    from tripheno.privacy.own_data import own_tensor
    from tripheno.protocol.key_files import read_identity

    found = [_try("engine", _engine_there)]
    read: list[Any] = []

    def both() -> str:
        read.extend(settings(site_file, federation_file))
        return ""

    found.append(_try("settings files", both))
    if not read:
        return found
    protocol, site = read

    def identity() -> str:
        from tripheno.errors import UnknownMember

        own = read_identity(site.identity).fingerprint
        agreed = {member.name: member.fingerprint for member in protocol.members}
        if agreed.get(site.name) != own:
            raise UnknownMember(
                "this hospital's key is not the one in federation.toml", where=site.name,
                fix=f"its fingerprint is {own}",
            )  # fmt: skip
        return "as agreed on"

    def data() -> str:
        tensor = own_tensor(protocol, site)
        return f"{tensor.patients:,} patients, {tensor.nonzeros:,} cells"

    found.append(_try("long-term key", identity))
    found.append(_try("events", data))

    mend = "tripheno preview, then tripheno approve"
    found.append(_lasting("approval", lambda: days_approved(protocol, site), mend))
    if found[0].exit_code == 0:
        found += _connection(protocol, site)
    here = site_file.resolve().parent
    return found + _machine(site.state, here / "runs", site.events, site.approval)


def _name(protocol: Any) -> CheckResult:
    from tripheno.federation.preflight import find_name
    from tripheno.federation.provisioning import Address

    return _try("name", lambda: ", ".join(find_name(Address.of(protocol.operation.address))))


def _connection(protocol: Any, site: Any) -> list[CheckResult]:
    from tripheno.federation.home import HospitalHome
    from tripheno.federation.preflight import check_dates, try_connection
    from tripheno.federation.provisioning import Address

    home, address = HospitalHome(site), protocol.operation.address

    def connection() -> str:
        try_connection(home.kit, Address.of(address), proxy_of_this_machine())
        return f"{address} answers"

    certificate = _lasting("certificate", lambda: check_dates(home.kit), RENEW)
    return [_name(protocol), certificate, _try("connection", connection)]


def coordinator_checks(federation_file: Path) -> list[CheckResult]:
    """At the coordinator: the study, its key, its server's certificate, disk."""
    from tripheno.cli.layers import layers_over
    from tripheno.protocol.agreed import read_protocol
    from tripheno.protocol.key_files import read_identity

    found = [_try("engine", _engine_there)]
    read: list[Any] = []
    folder = federation_file.resolve().parent

    def study() -> str:
        protocol = read_protocol(federation_file, layers_over("federation"))
        if not protocol.members:
            raise SettingsError(
                "no member is named", where="federation.toml", fix="add [[members]]"
            )
        read.append(protocol)
        return f"{len(protocol.members)} members"

    def identity() -> str:
        own = read_identity(folder / "keys" / "coordinator.key").fingerprint
        if read and read[0].coordinator not in ("", own):
            raise SettingsError(
                "coordinator.fingerprint is not this machine's key", fix=f"it is {own}"
            )
        return "readable by its owner only"

    found.append(_try("federation.toml", study))
    found.append(_try("long-term key", identity))
    if read and found[0].exit_code == 0:
        found += _server(read[0], folder)
    return found + _machine(folder / "state", folder / "run")


def _server(protocol: Any, folder: Path) -> list[CheckResult]:
    """The name, the port and the certificates of the coordinator's server."""
    from tripheno.federation.home import CoordinatorHome, is_held
    from tripheno.federation.preflight import check_dates, check_port_is_free
    from tripheno.federation.provisioning import Address

    home = CoordinatorHome(folder)

    def port() -> str:
        if is_held(home.machine.folder):
            return "held by `tripheno serve`"
        check_port_is_free(Address.of(protocol.operation.address).port)
        return "free"

    found = [_name(protocol), _try("port", port)]
    for label, kit, role in home.own_kits(protocol):
        if kit.has_certificate(role):
            days = partial(check_dates, kit, role)
            found.append(_lasting(f"certificate of the {label}", days, RENEW))
    return found
