"""What would leave this hospital: its events, the agreed protocol, one rehearsal, a manifest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tripheno import __version__
from tripheno.errors import SettingsError, SiteTooSmall, TooFewHospitals
from tripheno.privacy.gate import Gate
from tripheno.privacy.manifest import NEVER_SENT, NEVER_SENT_IN_CLEAR, Facts, Manifest, Sample
from tripheno.privacy.outgoing import Traffic
from tripheno.privacy.rehearsal import Sent, Witness, rehearse
from tripheno.privacy.small_cells import people_at_positions
from tripheno.protocol.agreed import Protocol, protocol_hash
from tripheno.protocol.site import Site
from tripheno.provenance import file_fingerprint
from tripheno.records.events import counting_rule, read_events
from tripheno.tensor.count_tensor import CountTensor

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Preview:
    """A manifest, and the messages of the rehearsal."""

    manifest: Manifest
    sent: tuple[Sent, ...]


def own_tensor(protocol: Protocol, site: Site) -> CountTensor:
    """A hospital's tensor as the study counts it: patients and codes that have a cell.

    Refused when the events were made for another rule, or when there are too few patients.
    """
    events = read_events(events_file(site))
    rule = counting_rule(events)
    if set(rule.modes) != set(protocol.rule.modes) or rule.window != protocol.rule.window:
        raise SettingsError(
            f"the events are {', '.join(rule.modes)} by {rule.window}, the study counts "
            f"{', '.join(protocol.rule.modes)} by {protocol.rule.window}",
            where=site.events.name,
            fix="ingest again with the study's modes and window",
        )
    tensor = CountTensor.from_events(events, rule=protocol.rule).drop_unused()
    fewest = site.thresholds(protocol).min_site_patients
    if tensor.patients < fewest:
        raise SiteTooSmall(
            f"fewer than {fewest} patients take part here",
            where=site.name,
            fix="lower thresholds.min_site_patients in site.toml if your privacy officer agrees",
        )
    return tensor


def events_file(site: Site) -> Path:
    """The event table of a hospital's folder."""
    return site.events / "events.parquet" if site.events.is_dir() else site.events


def traffic_of(protocol: Protocol, *, labels: bool) -> Traffic:
    """Which messages a study's protocol has."""
    most = dict.fromkeys(protocol.rule.modes, protocol.budgets.max_codes)
    most.update({one.mode: len(one.codes) for one in protocol.lists})
    return Traffic(
        protocol.rule.modes,
        most,
        protocol.solver,
        max(len(protocol.members), 2),
        alignment=protocol.alignment,
        count_people=True,
        labels=labels,
        machines=True,
    )


def preview(protocol: Protocol, site: Site, *, labels: bool = False) -> Preview:
    """The manifest of this hospital, from its events and a rehearsal of the first round."""
    if protocol.names and site.name not in protocol.names:
        raise SettingsError(
            f"'{site.name}' is no member of the study",
            fix="hospital.name in site.toml must be a member's name in federation.toml",
        )
    if protocol.members and len(protocol.members) < 2:
        raise TooFewHospitals("a study of one hospital")
    tensor = own_tensor(protocol, site)
    traffic = traffic_of(protocol, labels=labels)
    codes = {axis.mode: axis.size for axis in tensor.axes}
    witness = Witness()
    gate = Gate(
        site.name, traffic.messages(), codes, witness,
        most_rounds=protocol.budgets.max_rounds,
        most_bytes=protocol.budgets.max_megabytes * MEBIBYTE,
        own_codes=codes,
    )  # fmt: skip
    sent = rehearse(site.name, tensor, protocol, gate, witness)
    return Preview(_manifest(protocol, site, tensor, traffic, sent), sent)


def _manifest(
    protocol: Protocol,
    site: Site,
    tensor: CountTensor,
    traffic: Traffic,
    sent: tuple[Sent, ...],
) -> Manifest:
    thresholds = site.thresholds(protocol)
    people = dict(zip(traffic.modes, people_at_positions(tensor), strict=True))
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
        min_cell_count=few,
        min_site_patients=thresholds.min_site_patients,
        facts=facts,
        most_codes=dict(traffic.most_codes),
        most_rounds=protocol.budgets.max_rounds,
        most_bytes=protocol.budgets.max_megabytes * MEBIBYTE,
        labels=traffic.labels,
        messages=traffic.messages(),
        never_sent=NEVER_SENT_IN_CLEAR if protocol.solver.method == "local" else NEVER_SENT,
        round_one=tuple(_sample(n, one) for n, one in enumerate(sent, start=1)),
    )


def _sample(number: int, sent: Sent) -> Sample:
    name = f"{number:02d}-{sent.step.replace('/', '-')}.sent"
    return Sample(sent.step, name, len(sent.data), hashlib.sha256(sent.data).hexdigest())
