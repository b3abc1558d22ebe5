"""``tripheno init``: a folder with settings file and keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tripheno.cli.console import Format, FormatOption, out, print_json
from tripheno.cli.study_files import Folder
from tripheno.errors import OutputExists, SettingsError

if TYPE_CHECKING:
    from tripheno.protocol.agreed import AgreedMember

Role = Literal["site", "coordinator"]


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

    site = role == "site"
    own = check_name(name or folder.resolve().name) if site else ""
    members = [_member(one) for one in member or ()]
    file = folder / ("site.toml" if site else "federation.toml")
    key = folder / "keys" / ("hospital.key" if site else "coordinator.key")
    if file.exists():
        raise OutputExists(f"{file} exists already", fix="edit it, or name another --folder")
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


def _member(words: str) -> AgreedMember:
    """A hospital as the coordinator heard it on the telephone."""
    from tripheno.federation.provisioning import check_name
    from tripheno.protocol.agreed import AgreedMember
    from tripheno.protocol.settings_file import fingerprint_text

    name, _, fingerprint = words.partition("=")
    try:
        return AgreedMember(check_name(name), fingerprint_text(fingerprint))
    except ValueError as fault:
        raise SettingsError(
            f"the fingerprint of '{name}' {fault}", where="--member",
            fix="write --member NAME=FINGERPRINT, as its `tripheno init site` printed it",
        ) from None  # fmt: skip
