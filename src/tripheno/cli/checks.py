"""What `tripheno check` looks at, one after the other."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tripheno.errors import MissingExtra, SettingsError, TriphenoError

LEAST_FREE = 1 << 30


@dataclass(frozen=True)
class Outcome:
    """One check: no problem, or the error in its words."""

    name: str
    problem: str = ""
    fix: str = ""
    exit_code: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def need_engine() -> None:
    """Refuse a command of the federation without its engine."""
    if importlib.util.find_spec("nvflare") is None:
        raise MissingExtra(
            "the federation's engine is not installed", fix="pip install 'tripheno[federation]'"
        )


def _try(name: str, look: Callable[[], str]) -> Outcome:
    try:
        remark = look()
    except TriphenoError as fault:
        problem = f"{fault.code} " + " · ".join(
            p for p in (fault.what, fault.where, fault.why) if p
        )
        return Outcome(name, problem, fault.fix, fault.exit_code)
    except OSError as fault:
        return Outcome(name, fault.strerror or type(fault).__name__, "", 1)
    return Outcome(name, "", remark)


def _disk(folder: Path) -> str:
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE:
        raise SettingsError(
            f"{free / LEAST_FREE:.1f} GB are free", where=str(folder), fix="make room on this disk"
        )
    return f"{free / LEAST_FREE:.0f} GB free"


def _engine_there() -> str:
    need_engine()
    return "installed"


def site_checks(site_file: Path, federation_file: Path) -> list[Outcome]:
    """At a hospital: settings, keys, data, approval, certificate, connection, disk."""
    from tripheno.cli.preview import settings
    from tripheno.federation.doorkeeper import today
    from tripheno.privacy.approval import check_approval
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
    found.append(_try("approval", lambda: check_approval(protocol, site, today()).study))
    if found[0].exit_code == 0:
        found += _connection(protocol, site)
    found.append(_try("disk", lambda: _disk(site_file.resolve().parent)))
    return found


def _connection(protocol: Any, site: Any) -> list[Outcome]:
    from tripheno.federation.home import HospitalHome
    from tripheno.federation.preflight import check_dates, try_connection
    from tripheno.federation.provisioning import Address

    def certificate() -> str:
        return f"good for {check_dates(HospitalHome(site).kit):,} days"

    def connection() -> str:
        try_connection(HospitalHome(site).kit, Address.of(protocol.operation.address))
        return f"{protocol.operation.address} answers"

    return [_try("certificate", certificate), _try("connection", connection)]


def coordinator_checks(federation_file: Path) -> list[Outcome]:
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

    def address() -> str:
        from tripheno.federation.provisioning import Address

        return Address.of(read[0].operation.address).host

    found.append(_try("federation.toml", study))
    found.append(_try("long-term key", identity))
    if read:
        found.append(_try("address", address))
    found.append(_try("disk", lambda: _disk(folder)))
    return found
