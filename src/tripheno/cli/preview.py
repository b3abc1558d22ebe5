"""``tripheno preview``: what this hospital would send, word for word."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tripheno.cli.console import Format, FormatOption, out, print_json, table
from tripheno.cli.study_files import FederationOption, SiteOption, settings, shout_test

if TYPE_CHECKING:
    from tripheno.privacy.manifest import Manifest
    from tripheno.protocol.agreed import StudyProtocol
    from tripheno.study.preview import Preview

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
    for one in protocol.members:
        out().print(f"{one.name} ({one.institution or one.name}): {one.fingerprint}")
    shout_test(protocol)
    out().print(
        f"Study words, to compare with the other hospitals by telephone: {words_of(protocol)}"
    )


def write_preview(folder: Path, found: Preview, protocol: StudyProtocol) -> None:
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
