"""``tripheno approve``: the privacy officer signs what may leave."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated

import typer

from tripheno.cli.console import Format, FormatOption, out, print_json
from tripheno.cli.study_files import FederationOption, SiteOption, settings, shout_test


def approve(
    site_file: SiteOption = Path("site.toml"),
    federation_file: FederationOption = Path("federation.toml"),
    key: Annotated[
        Path, typer.Option(help="The privacy officer's private key (Ed25519, PEM).")
    ] = Path("keys/officer.key"),
    make_key: Annotated[
        bool, typer.Option("--make-key", help="Make that key first, and sign nothing.")
    ] = False,
    days: Annotated[int, typer.Option(help="For how many days it is good.", min=1)] = 90,
    words: Annotated[
        str, typer.Option(help="The study words that another hospital reads out; else asked for.")
    ] = "",
    name: Annotated[
        str, typer.Option(help="Who approves, for the audit log; your login if not given.")
    ] = "",
    other_rosters: Annotated[
        bool,
        typer.Option(
            "--other-rosters", help="The same data may take part with one institution changed."
        ),
    ] = False,
    form: FormatOption = Format.text,
) -> None:
    """Sign the manifest that `preview` wrote: only what it lists may leave."""
    from datetime import UTC, datetime, timedelta

    from tripheno.errors import NotApproved
    from tripheno.files import write_text
    from tripheno.privacy import approval
    from tripheno.privacy.manifest import read_manifest
    from tripheno.protocol.agreed import check_words, protocol_hash
    from tripheno.protocol.key_files import make_identity, read_identity

    if make_key:
        _say_key(make_identity(key).fingerprint, key, form)
        return
    protocol, site = settings(site_file, federation_file)
    if not words and sys.stdin.isatty():
        words = typer.prompt("The eight study words, as another hospital reads them out to you")
    if not words.strip():
        raise NotApproved(
            "the study words were not typed", why="they show that all hospitals mean one study",
            fix="ask another hospital for its eight words, and give them with --words",
        )  # fmt: skip
    check_words(protocol, words)
    manifest, officer = read_manifest(site.approval), read_identity(key)
    if manifest.protocol_sha256 != protocol_hash(protocol):
        raise NotApproved("the manifest is for another protocol", fix="run `tripheno preview`")
    today = datetime.now(UTC).date()
    expires = today + timedelta(days=days)
    path = site.approval / approval.APPROVAL
    (site.approval / approval.WITHDRAWAL).unlink(missing_ok=True)
    who = name or getpass.getuser()
    signed_text = approval.approve(
        manifest, officer, expires, approver=who, other_rosters=other_rosters
    )
    write_text(path, signed_text)
    try:
        approval.check_approval(protocol, site, today)
    except NotApproved:
        path.unlink()
        raise
    signed = {
        "approval": str(path), "manifest_sha256": manifest.sha256,
        "protocol_sha256": manifest.protocol_sha256, "expires": expires.isoformat(),
        "officer": officer.fingerprint, "approver": who,
    }  # fmt: skip
    if form is Format.json:
        print_json(signed)
        return
    shout_test(protocol)
    out().print(f"Approved until {expires}: manifest {manifest.sha256[:16]}…  ({path})")


def _say_key(fingerprint: str, key: Path, form: Format) -> None:
    if form is Format.json:
        print_json({"key": str(key), "fingerprint": fingerprint})
        return
    out().print(f"Key: {key}\nFingerprint, for keys.officer in site.toml: {fingerprint}")
