"""What would leave this hospital: its events, the agreed protocol, one rehearsal, a manifest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from tripheno import __version__
from tripheno.errors import SettingsError, TooFewHospitals
from tripheno.privacy.audit import AuditBuffer
from tripheno.privacy.gate import Gate
from tripheno.privacy.manifest import (
    NEVER_SENT,
    NEVER_SENT_IN_CLEAR,
    Facts,
    Manifest,
    Sample,
    listed,
)
from tripheno.privacy.own_data import (
    attributes_fingerprint,
    events_file,
    own_tensor,
    own_traits,
)
from tripheno.protocol.agreed import StudyProtocol, protocol_hash
from tripheno.protocol.site import Site
from tripheno.provenance import file_fingerprint
from tripheno.study.message_plan import most_codes, plan_of_protocol
from tripheno.study.rehearsal import Sent, rehearse
from tripheno.tensor.count_tensor import CountTensor

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Preview:
    """A manifest, and the messages of the rehearsal."""

    manifest: Manifest
    sent: tuple[Sent, ...]


def preview(protocol: StudyProtocol, site: Site, *, labels: bool = False) -> Preview:
    """The manifest of this hospital, from its events and a rehearsal of the first round."""
    if protocol.names and site.name not in protocol.names:
        raise SettingsError(
            f"'{site.name}' is no member of the study",
            fix="hospital.name in site.toml must be a member's name in federation.toml",
        )
    if protocol.members and len(protocol.members) < 2:
        raise TooFewHospitals("a study of one hospital")
    tensor = own_tensor(protocol, site)
    gate = Gate(
        site.name, plan_of_protocol(protocol, labels=labels),
        {axis.mode: axis.size for axis in tensor.axes}, AuditBuffer(),
        most_rounds=protocol.budgets.max_rounds,
        most_bytes=protocol.budgets.max_megabytes * MEBIBYTE,
        most_codes=most_codes(protocol),
    )  # fmt: skip
    strict = replace(protocol, thresholds=site.thresholds(protocol))
    traits = own_traits(protocol, site)
    sent = rehearse(site.name, tensor, strict, gate, labels=labels, traits=traits)
    return Preview(_manifest(protocol, site, tensor, sent, labels=labels), sent)


def _manifest(
    protocol: StudyProtocol,
    site: Site,
    tensor: CountTensor,
    sent: tuple[Sent, ...],
    *,
    labels: bool,
) -> Manifest:
    thresholds, most = site.thresholds(protocol), most_codes(protocol)
    people = dict(zip(tensor.modes, tensor.people_at_positions(), strict=True))
    few = thresholds.min_cell_count
    facts = Facts(
        tensor.patients,
        tensor.nonzeros,
        {axis.mode: axis.size for axis in tensor.axes},
        {mode: int(counted.min()) for mode, counted in people.items()},
        {mode: int((counted < few).sum()) for mode, counted in people.items()},
    )
    return Manifest(
        tripheno=__version__,
        study=protocol.study,
        hospital=site.name,
        members=len(protocol.members),
        protocol_sha256=protocol_hash(protocol),
        events_sha256=file_fingerprint(events_file(site)),
        attributes_sha256=attributes_fingerprint(protocol, site),
        min_cell_count=few,
        min_site_patients=thresholds.min_site_patients,
        facts=facts,
        most_codes=most,
        most_rounds=protocol.budgets.max_rounds,
        most_bytes=protocol.budgets.max_megabytes * MEBIBYTE,
        labels=labels,
        messages=listed(plan_of_protocol(protocol, labels=labels), most),
        never_sent=NEVER_SENT_IN_CLEAR if protocol.solver.method == "local" else NEVER_SENT,
        round_one=tuple(_sample(n, one) for n, one in enumerate(sent, start=1)),
    )


def _sample(number: int, sent: Sent) -> Sample:
    name = f"{number:02d}-{sent.step.replace('/', '-')}.sent"
    digest = hashlib.sha256(sent.data).hexdigest()
    return Sample(sent.step, sent.message, name, len(sent.data), digest)
