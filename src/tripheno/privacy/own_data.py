"""What a hospital brings to a study: its events, counted as the protocol says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from tripheno.errors import RealDataInTest, SettingsError, SiteTooSmall
from tripheno.protocol.agreed import StudyProtocol
from tripheno.protocol.site import Site
from tripheno.provenance import file_fingerprint
from tripheno.records.events import counting_rule, is_synthetic, read_events
from tripheno.records.site_folder import ATTRIBUTES, LOCAL
from tripheno.records.traits import read_traits
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.large import count_file, count_in_parts, is_large

PATIENTS_PER_RESAMPLE = 2
"""With as many resamples as patients, totals show single patients' rows, whatever the weights."""


def own_tensor(protocol: StudyProtocol, site: Site) -> CountTensor:
    """A hospital's tensor as the study counts it: patients and codes that have a cell.

    Refused when the events were made for another rule, or when there are too few patients.
    """
    path = events_file(site)
    large = is_large(path)
    events = pq.read_schema(path).empty_table() if large else read_events(path)
    if protocol.test and not is_synthetic(events):
        raise RealDataInTest(
            "the study has `test = true`, and these events are not marked synthetic",
            where=site.events.name,
            fix="take `test` out of federation.toml; for made-up records, `ingest --synthetic`",
        )
    rule = counting_rule(events)
    if set(rule.modes) != set(protocol.rule.modes) or rule.window != protocol.rule.window:
        raise SettingsError(
            f"the events are {', '.join(rule.modes)} by {rule.window}, the study counts "
            f"{', '.join(protocol.rule.modes)} by {protocol.rule.window}",
            where=site.events.name,
            fix="ingest again with the study's modes and window",
        )
    if large:
        tensor = count_in_parts(path, protocol.rule).drop_unused()
    else:
        tensor = CountTensor.from_events(events, rule=protocol.rule).drop_unused()
    resampled = PATIENTS_PER_RESAMPLE * protocol.evidence.resamples
    fewest = max(site.thresholds(protocol).min_site_patients, resampled)
    if tensor.patients < fewest:
        raise SiteTooSmall(
            f"fewer than {fewest} patients take part here",
            where=site.name,
            fix="lower thresholds.min_site_patients in site.toml if your privacy officer agrees, "
            "but not below twice the study's evidence.resamples",
        )
    return tensor


def own_traits(protocol: StudyProtocol, site: Site) -> np.ndarray | None:
    """Age, sex, year and outcome of the patients of :func:`own_tensor`, where the study asks."""
    if not protocol.evidence.subgroups:
        return None
    events = events_file(site)
    tensor = count_file(events, protocol.rule)
    found: np.ndarray = read_traits(events.parent, tensor.patients)
    return found[np.diff(tensor.cells.starts) > 0]


def attributes_fingerprint(protocol: StudyProtocol, site: Site) -> str:
    """Hash of the patients' ages, sexes and outcomes, where the study asks and there are any."""
    path = events_file(site).parent / LOCAL / ATTRIBUTES
    asked = protocol.evidence.subgroups and path.is_file()
    return file_fingerprint(path) if asked else ""


def data_fingerprint(protocol: StudyProtocol, site: Site) -> str:
    """What a manifest's `data_sha256` is, of the files as they lie there now."""
    return file_fingerprint(events_file(site)) + attributes_fingerprint(protocol, site)


def events_file(site: Site) -> Path:
    """The event table of a hospital's folder."""
    return site.events / "events.parquet" if site.events.is_dir() else site.events
