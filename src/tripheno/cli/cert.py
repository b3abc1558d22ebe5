"""``tripheno cert``: certificates of machines, requested, approved, installed, renewed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tripheno.cli.checks import need_engine
from tripheno.cli.console import Format, FormatOption, out, print_json
from tripheno.cli.study_files import (
    FederationOption,
    Folder,
    SiteOption,
    settings,
    study_of,
)
from tripheno.errors import NoSuchFile


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

    need_engine()
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
    need_engine()
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
    need_engine()
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
    need_engine()
    from tripheno.federation.home import HospitalHome
    from tripheno.federation.preflight import check_dates

    _, site = settings(site_file, federation_file)
    kit = HospitalHome(site).machine.install(file.resolve(), site.name, fingerprint)
    days = check_dates(kit)
    if form is Format.json:
        print_json({"hospital": site.name, "days": days})
        return
    out().print(f"Installed. The certificate of {site.name} is good for {days:,} days.")
