"""``tripheno preview`` and ``tripheno approve``: see what would leave, and sign it."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tripheno.cli.console import Format, FormatOption, out, print_json, table

if TYPE_CHECKING:
    from tripheno.privacy.manifest import Manifest
    from tripheno.protocol.agreed import Protocol
    from tripheno.protocol.site import Site
    from tripheno.study.preview import Preview

SiteOption = Annotated[Path, typer.Option("--site", help="This hospital's own settings.")]
FederationOption = Annotated[Path, typer.Option("--federation", help="The study's protocol.")]
LOCAL = "local"


def preview(
    site_file: SiteOption = Path("site.toml"),
    federation_file: FederationOption = Path("federation.toml"),
    labels: Annotated[
        bool,
        typer.Option("--labels", help="Release the names of codes in the final phenotypes."),
    ] = False,
    form: FormatOption = Format.text,
) -> None:
    """Show what exactly would leave this hospital; write the manifest and round one's bytes."""
    from tripheno.protocol.agreed import words_of
    from tripheno.study.preview import preview as run

    protocol, site = settings(site_file, federation_file)
    found = run(protocol, site, labels=labels)
    write_preview(site.approval, found, protocol)
    if form is Format.json:
        words = {"study_words": words_of(protocol)}
        print_json({"folder": str(site.approval), **words, **_plain(found.manifest)})
        return
    _show(found.manifest, site.approval)
    shout_test(protocol)
    out().print(
        f"Study words, to compare with the other hospitals by telephone: {words_of(protocol)}"
    )


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


def shout_test(protocol: Protocol) -> None:
    """A study that hides nothing says so wherever it is looked at."""
    if protocol.test:
        from tripheno.study.program import TEST

        out().print(TEST.upper(), style="bold red")


def settings(site_file: Path, federation_file: Path) -> tuple[Protocol, Site]:
    """Both settings files under what the environment says."""
    from tripheno.cli.layers import layers_over
    from tripheno.protocol.agreed import read_protocol
    from tripheno.protocol.site import read_site

    protocol = read_protocol(federation_file, layers_over("federation"))
    return protocol, read_site(site_file, layers_over("site"))


def write_preview(folder: Path, found: Preview, protocol: Protocol) -> None:
    """Manifest and summary; round one's bytes where only the owner can look."""
    from tripheno.files import owners_folder, write_text
    from tripheno.privacy.approval import APPROVAL
    from tripheno.privacy.manifest import MANIFEST
    from tripheno.privacy.summary import SUMMARY, summary_of
    from tripheno.study.store import write_whole

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    local = owners_folder(folder / LOCAL)
    (folder / APPROVAL).unlink(missing_ok=True)  # it was for the manifest that is replaced
    for old in local.glob("[0-9][0-9]-*"):
        old.unlink()
    for sample, sent in zip(found.manifest.round_one, found.sent, strict=True):
        write_whole(local / sample.file, sent.data)
        if sent.content is not None:
            write_whole((local / sample.file).with_suffix(".safetensors"), sent.content)
    write_text(folder / MANIFEST, found.manifest.to_text())
    write_text(folder / SUMMARY, summary_of(found.manifest, protocol))


def _plain(manifest: Manifest) -> dict[str, Any]:
    import json

    return {"manifest_sha256": manifest.sha256, **json.loads(manifest.to_text())}


def _say_key(fingerprint: str, key: Path, form: Format) -> None:
    if form is Format.json:
        print_json({"key": str(key), "fingerprint": fingerprint})
        return
    out().print(f"Key: {key}\nFingerprint, for keys.officer in site.toml: {fingerprint}")


def _show(manifest: Manifest, folder: Path) -> None:
    from tripheno.privacy.manifest import LEAVES

    shown = table(
        "", {"Message": False, "Leaves": False, "Rows are": False, "Bytes here": True,
             "At most": True, "Times": True},
    )  # fmt: skip
    for message in manifest.messages:
        shown.add_row(
            message.name, LEAVES[message.how], message.rows, f"{manifest.bytes_here(message):,}",
            f"{message.most_bytes:,}", f"{manifest.times(message):,}",
        )  # fmt: skip
    console = out()
    console.print(f"What would leave {manifest.hospital} in {manifest.study}", style="bold")
    console.print(shown)
    facts = manifest.facts
    console.print(f"\nBehind it: {facts.patients:,} patients, {facts.cells:,} cells.")
    for mode, fewest in facts.fewest_patients.items():
        console.print(
            f"{mode}: {facts.codes[mode]:,} codes, fewest patients behind one here: {fewest:,}; "
            f"{facts.codes_under_threshold[mode]:,} have fewer than {manifest.min_cell_count} here."
        )
    console.print("Never sent: " + "; ".join(manifest.never_sent) + ".")
    console.print(
        f"\nManifest {manifest.sha256[:16]}…, summary and round one: {folder}  "
        "(read it, then `tripheno approve`)"
    )
