"""A privacy officer's signature under a manifest, and the check of it before anything leaves."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from tripheno import __version__
from tripheno.errors import BadSignature, NotApproved, Withdrawn
from tripheno.exchange.keys import Identity, check_signature, fingerprint_of
from tripheno.files import write_text
from tripheno.privacy.audit import canonical
from tripheno.privacy.manifest import Manifest, read_manifest
from tripheno.privacy.own_data import attributes_fingerprint, events_file
from tripheno.protocol.agreed import StudyProtocol, protocol_hash
from tripheno.protocol.site import Site
from tripheno.provenance import file_fingerprint

APPROVAL, WITHDRAWAL = "approval.json", "withdrawal.json"
PURPOSE = b"approval"


@dataclass(frozen=True)
class Approval:
    """What was signed: everything that must not change afterwards."""

    manifest_sha256: str
    protocol_sha256: str
    tripheno: str
    hospital: str
    most_rounds: int
    most_bytes: int
    expires: str  # the last day on which it is good, ISO 8601
    officer: str  # the officer's public key, hexadecimal
    approver: str  # the officer's name, for the audit log
    other_rosters: bool  # the same data may take part with one institution more or less

    def signed_text(self) -> bytes:
        """The bytes under the signature."""
        return canonical(asdict(self)).encode()

    def file_text(self, signature: bytes) -> str:
        """The file, with one spelling."""
        return canonical({**asdict(self), "signature": signature.hex()}) + "\n"


def approve(
    manifest: Manifest,
    officer: Identity,
    expires: date,
    *,
    approver: str = "",
    other_rosters: bool = False,
) -> str:
    """The text of `approval.json`: the officer's signature under this manifest."""
    approval = Approval(
        manifest.sha256,
        manifest.protocol_sha256,
        manifest.tripheno,
        manifest.hospital,
        manifest.most_rounds,
        manifest.most_bytes,
        expires.isoformat(),
        officer.public.hex(),
        approver,
        other_rosters,
    )
    return approval.file_text(officer.sign(PURPOSE, approval.signed_text()))


def withdraw(folder: Path, at: str) -> Path:
    """Take the approval back: no message leaves while this file is there."""
    read_approval(folder)
    path = folder / WITHDRAWAL
    write_text(path, canonical({"withdrawn": at}) + "\n")
    return path


def read_approval(folder: Path) -> Approval:
    """The approval in a folder, if its signature holds and not a byte of it was changed."""
    path = folder / APPROVAL
    if not path.is_file():
        raise NotApproved("there is no approval", where=str(folder), fix="run `tripheno approve`")
    text = path.read_bytes().decode("utf-8", "replace")
    try:
        plain = dict(json.loads(text))
        signature = bytes.fromhex(plain.pop("signature"))
        approval = Approval(**plain)
        spelt = approval.file_text(signature)
        check_signature(
            bytes.fromhex(approval.officer), PURPOSE, approval.signed_text(), signature, APPROVAL
        )
        date.fromisoformat(approval.expires)
    except BadSignature:
        raise NotApproved("the officer's signature does not hold", where=APPROVAL) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise NotApproved("is no approval, or was changed", where=APPROVAL) from None
    if spelt != text:
        raise NotApproved("was changed after it was signed", where=APPROVAL)
    return approval


def check_approval(protocol: StudyProtocol, site: Site, today: date) -> Manifest:
    """The manifest that was approved, or :class:`NotApproved` with all that differs.

    Call it before anything leaves: the folder is the hospital's own (``site.approval``).
    """
    if (site.approval / WITHDRAWAL).exists():
        raise Withdrawn("the approval was withdrawn", where=site.name, fix="approve again")
    approval, manifest = read_approval(site.approval), read_manifest(site.approval)
    found = file_fingerprint(events_file(site)) if events_file(site).is_file() else ""
    now = site.thresholds(protocol)
    thresholds = (now.min_cell_count, now.min_site_patients)
    faults = [
        text
        for text, differs in (
            ("the manifest is another one", manifest.sha256 != approval.manifest_sha256),
            ("the protocol is another one", protocol_hash(protocol) != approval.protocol_sha256),
            (f"tripheno is {__version__}, not {approval.tripheno}",
             approval.tripheno != __version__),
            ("it was given for another hospital", approval.hospital != site.name),
            ("the events have changed", manifest.events_sha256 != found),
            ("the patients' attributes have changed",
             manifest.attributes_sha256 != attributes_fingerprint(protocol, site)),
            ("site.toml has other thresholds",
             (manifest.min_cell_count, manifest.min_site_patients) != thresholds),
            (f"it was good until {approval.expires}",
             today > date.fromisoformat(approval.expires)),
            (_unnamed(site), _stranger(approval, site)),
        )
        if differs
    ]  # fmt: skip
    if faults:
        raise NotApproved(
            "; ".join(faults), where=str(site.approval), fix="run `tripheno preview`, then approve"
        )
    return manifest


def days_left(site: Site, today: date) -> int:
    """Days after today on which the approval is still good."""
    return (date.fromisoformat(read_approval(site.approval).expires) - today).days


def _unnamed(site: Site) -> str:
    """Why an approval of somebody else does not count, and where the right name would stand."""
    if not site.officer:
        return "site.toml names no privacy officer: put the fingerprint under [keys] as `officer`"
    return "the officer's key is not the one that [keys] in site.toml names"


def _stranger(approval: Approval, site: Site) -> bool:
    """Whether the officer is not the one this hospital named. Nobody named: nobody may approve."""
    return fingerprint_of(bytes.fromhex(approval.officer)) != site.officer
