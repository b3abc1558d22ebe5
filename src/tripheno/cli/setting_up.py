"""``tripheno init``, ``cert`` and ``check``: an empty folder becomes a machine that takes part."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tripheno.cli.console import Format, FormatOption, out, print_json, table
from tripheno.cli.preview import FederationOption, SiteOption, settings
from tripheno.errors import NoSuchFile, OutputExists, SettingsError

if TYPE_CHECKING:
    from tripheno.protocol.agreed import Member, Protocol


class Role(StrEnum):
    """Whose folder it is."""

    site = "site"
    coordinator = "coordinator"


Folder = Annotated[Path, typer.Option("--folder", help="The folder to work in.")]


def init(
    role: Annotated[Role, typer.Argument(help="Whose folder this is.")],
    folder: Folder = Path(),
    name: Annotated[
        str, typer.Option(help="The hospital's name: small letters, digits, hyphens.")
    ] = "",
    study: Annotated[str, typer.Option(help="The study's name.")] = "my study",
    address: Annotated[
        str, typer.Option(help="Where the coordinator's server is reached, host:port.")
    ] = "coordinator.example.org:8002",
    member: Annotated[
        list[str] | None,
        typer.Option(help="A hospital of the study, NAME=FINGERPRINT; once for each."),
    ] = None,
    form: FormatOption = Format.text,
) -> None:
    """Write a commented settings file and make this machine's long-term key."""
    from tripheno.federation.provisioning import check_name
    from tripheno.protocol.key_files import make_identity
    from tripheno.protocol.templates import federation_toml, site_toml

    site = role is Role.site
    own = check_name(name or folder.resolve().name) if site else ""
    members = [_member(one) for one in member or ()]
    file = folder / ("site.toml" if site else "federation.toml")
    key = folder / "keys" / ("hospital.key" if site else "coordinator.key")
    if file.exists():
        raise OutputExists(f"There is a {file}", fix="edit it, or name another --folder")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700 if site else 0o777)
    fingerprint = make_identity(key).fingerprint
    key.parent.chmod(0o700)
    text = (
        site_toml(own)
        if site
        else federation_toml(study, members, address=address, fingerprint=fingerprint)
    )
    file.write_text(text, encoding="utf-8")
    if form is Format.json:
        print_json({"file": str(file), "key": str(key), "fingerprint": fingerprint})
        return
    out().print(f"Wrote {file}\nKey: {key}")
    if site:
        out().print(f"Read this fingerprint out to the coordinator: {fingerprint}")
    else:
        out().print(f"Fingerprint, in {file} already: {fingerprint}")


def _member(words: str) -> Member:
    """A hospital as the coordinator heard it on the telephone."""
    from tripheno.federation.provisioning import check_name
    from tripheno.protocol.agreed import Member
    from tripheno.protocol.settings_file import fingerprint_text

    name, _, fingerprint = words.partition("=")
    try:
        return Member(check_name(name), fingerprint_text(fingerprint))
    except ValueError as fault:
        raise SettingsError(
            f"the fingerprint of '{name}' {fault}", where="--member",
            fix="write --member NAME=FINGERPRINT, as its `tripheno init site` printed it",
        ) from None  # fmt: skip


# ── certificates ──────────────────────────────────────────────────────────────────────────────


def request(
    site_file: SiteOption = Path("site.toml"),
    federation_file: FederationOption = Path("federation.toml"),
    to: Annotated[Path, typer.Option("--out", help="Where to put the request.")] = Path(),
    again: Annotated[
        bool, typer.Option("--again", help="Make a new key and ask for a new certificate.")
    ] = False,
    form: FormatOption = Format.text,
) -> None:
    """Make a key for the connection, and a request for its certificate to send."""
    import shutil

    need_the_engine()
    from tripheno.errors import UnknownMember
    from tripheno.federation.home import HospitalHome
    from tripheno.federation.provisioning import Address, check_name

    protocol, site = settings(site_file, federation_file)
    if site.name not in protocol.names:
        raise UnknownMember(f"'{site.name}' is no member of the study", where="federation.toml")
    machine = HospitalHome(site).machine
    if again:
        machine.forget(site.name)
    address = Address.of(protocol.operation.address)
    made = machine.request(check_name(site.name), "client", address)
    file = to / made.name if to.is_dir() else to
    shutil.copyfile(made, file)
    if form is Format.json:
        print_json({"request": str(file)})
        return
    out().print(f"Send {file} to the coordinator. The key stays here.")


def renew(
    site_file: SiteOption = Path("site.toml"),
    federation_file: FederationOption = Path("federation.toml"),
    days: Annotated[
        int, typer.Option(help="At the coordinator: only what is good for fewer days.")
    ] = 60,
    to: Annotated[Path, typer.Option("--out", help="At a hospital: where to put it.")] = Path(),
    form: FormatOption = Format.text,
) -> None:
    """Renew this machine's certificates before they run out.

    At the coordinator, with `serve` stopped: its server's and its login's, at once. At a hospital:
    a request under a new key, to be approved and installed; until then the old one works.
    """
    if site_file.is_file():
        request(site_file, federation_file, to, again=True, form=form)
        return
    need_the_engine()
    from tripheno.federation.home import CoordinatorHome, alone

    folder = federation_file.resolve().parent
    home = CoordinatorHome(folder)
    with alone(home.machine.folder, "a server"):
        left = home.renew(study_of(folder), days)
    if form is Format.json:
        print_json(left)
        return
    for label, good in left.items():
        out().print(f"The certificate of the {label} is good for {good:,} days.")


def approve(
    file: Annotated[Path, typer.Argument(help="A hospital's .request.zip.")],
    folder: Folder = Path(),
    to: Annotated[
        Path | None, typer.Option("--out", help="The signed file; else beside the request.")
    ] = None,
    form: FormatOption = Format.text,
) -> None:
    """Sign a member's request, at the coordinator."""
    need_the_engine()
    from tripheno.federation.home import CoordinatorHome
    from tripheno.federation.provisioning import requested_name

    protocol = study_of(folder)
    if not file.is_file():
        raise NoSuchFile(f"No file {file}", fix="name the .request.zip you were sent")
    home = CoordinatorHome(folder)
    name = requested_name(file)
    fingerprint, _ = home.prepare(protocol)
    signed = to or file.with_name(f"{name}.signed.zip")
    home.machine.approve(file.resolve(), signed.resolve(), protocol.names)
    if form is Format.json:
        print_json({"hospital": name, "signed": str(signed), "fingerprint": fingerprint})
        return
    out().print(f"Send {signed} to {name}, and read this fingerprint out on the telephone:")
    out().print(fingerprint)


def install(
    file: Annotated[Path, typer.Argument(help="The .signed.zip from the coordinator.")],
    fingerprint: Annotated[
        str, typer.Option(help="The authority's fingerprint, as the coordinator read it out.")
    ],
    site_file: SiteOption = Path("site.toml"),
    federation_file: FederationOption = Path("federation.toml"),
    form: FormatOption = Format.text,
) -> None:
    """Put the certificate in place, if its authority is the one that was read out."""
    need_the_engine()
    from tripheno.federation.home import HospitalHome
    from tripheno.federation.preflight import check_dates

    _, site = settings(site_file, federation_file)
    kit = HospitalHome(site).machine.install(file.resolve(), site.name, fingerprint)
    days = check_dates(kit)
    if form is Format.json:
        print_json({"hospital": site.name, "days": days})
        return
    out().print(f"Installed. The certificate of {site.name} is good for {days:,} days.")


# ── check ─────────────────────────────────────────────────────────────────────────────────────


def check(
    site_file: SiteOption = Path("site.toml"),
    federation_file: FederationOption = Path("federation.toml"),
    form: FormatOption = Format.text,
) -> None:
    """Look over this machine before it takes part: one line a check."""
    from tripheno.cli.checks import Outcome, coordinator_checks, site_checks

    if site_file.is_file():
        found = site_checks(site_file, federation_file)
    else:
        found = coordinator_checks(federation_file)
    if form is Format.json:
        print_json([one.to_dict() for one in found])
    else:
        shown = table("", {"Check": False, "Problem": False, "How to fix": False})
        for one in found:
            shown.add_row(one.name, one.problem or "none", one.fix)
        out().print(shown)
    worst: Outcome | None = next((one for one in found if one.exit_code), None)
    if worst is not None:
        raise SystemExit(worst.exit_code)


def study_of(folder: Path) -> Protocol:
    """The study in a coordinator's folder."""
    from tripheno.cli.layers import layers_over
    from tripheno.protocol.agreed import read_protocol

    return read_protocol(folder / "federation.toml", layers_over("federation"))


def need_the_engine() -> None:
    """Refuse without the federation's engine."""
    from tripheno.cli.checks import need_engine

    need_engine()
