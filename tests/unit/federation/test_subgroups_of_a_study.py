"""Who has a phenotype, over the table: counted at home, added blindly, small counts withheld."""

import json
import shutil
from dataclasses import replace
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kit.small_study import NETWORK
from tripheno.errors import NotApproved
from tripheno.exchange.keys import Identity
from tripheno.files import write_text
from tripheno.lab.synthetic.network import synthetic_network
from tripheno.privacy.approval import APPROVAL, approve, check_approval
from tripheno.privacy.manifest import MANIFEST
from tripheno.privacy.own_data import data_fingerprint, own_tensor, own_traits
from tripheno.protocol.agreed import EvidenceSettings
from tripheno.protocol.site import Site
from tripheno.records.events import CountingRule, events_from_columns, write_events
from tripheno.records.traits import TRAITS
from tripheno.report.federated import RunIdentity, write_coordinator_run, write_hospital_run
from tripheno.study.preview import preview
from tripheno.study.subgroups import counted_groups

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")
FEWEST = 11


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """Site folders as `ingest` writes them; every third patient died, few at northfield are men."""
    found = {}
    for hospital in synthetic_network(NETWORK).hospitals:
        folder = tmp_path_factory.mktemp(hospital.name)
        write_events(hospital.events, folder / "events.parquet", CountingRule(), synthetic=True)
        ids = np.arange(pa.compute.max(hospital.events["patient"]).as_py() + 3)  # two without event
        few = hospital.name == "northfield"
        (folder / "local").mkdir()
        rows = {"patient": ids, "birth_year": pa.array(1930 + ids % 70, pa.int32()),
                "sex": np.where(ids % (30 if few else 2) == 0, "male", "female"),
                "died": ids % 3 == 0}  # fmt: skip
        pq.write_table(pa.table(rows), folder / "local" / "attributes.parquet")
        found[hospital.name] = Site(hospital.name, folder, min_site_patients=20)
    return found


def with_subgroups(protocol):
    return replace(protocol, evidence=EvidenceSettings(0, subgroups=True))


def test_the_folders_of_all_show_the_same_groups_and_a_hospital_its_own(table, sites, tmp_path):
    around, runs = table(), tmp_path / "runs"
    around.protocol = protocol = with_subgroups(around.protocol)
    when, traits, having = RunIdentity(protocol, "run-1", 0.0), {}, {}

    def write(name, tensor):
        def finished(_run, found):
            having[name] = found.weighed.having[name]
            write_hospital_run(runs / name, name, tensor, found, when, traits=traits[name])

        return finished

    for name, site in sites.items():
        tensor, traits[name] = own_tensor(protocol, site), own_traits(protocol, site)
        assert len(traits[name]) == tensor.patients
        around.sit(name, tensor=tensor, traits=traits[name], finished=write(name, tensor))
    write_coordinator_run(runs / "all", around.run().findings, when)

    shown = json.loads((runs / "all" / "subgroups.json").read_text())
    assert list(shown) == ["all hospitals"]
    counted = [counted_groups(traits[name], having[name]) for name in sites]
    people, with_it = sum(c.people for c in counted), sum(c.having for c in counted)
    seen = 0
    for place, group in enumerate(shown["all hospitals"]):
        assert group["people"] in (None, people[place])
        for count, true in zip(group["having"], with_it[place], strict=True):
            assert count in (None, true)
            assert count is None or count == 0 or count >= FEWEST
            seen += bool(count)
    assert seen
    assert people.max() in [group["people"] for group in shown["all hospitals"]]
    for name in sites:
        own = json.loads((runs / name / "subgroups.json").read_text())
        assert list(own) == ["all hospitals", name]
        assert own["all hospitals"] == shown["all hospitals"]
        for group in own[name]:
            assert all(n in (None, 0) or n >= FEWEST for n in [group["people"], *group["having"]])
        if name == "northfield":  # three men: neither they nor, by subtraction, the women
            assert own[name][len(TRAITS["age"]) + 1]["people"] is None
        assert f"(<bdi>{name}</bdi>)</summary>" in (runs / name / "report.html").read_text()
    page = (runs / "all" / "report.html").read_text()
    assert "(<bdi>all hospitals</bdi>)</summary>" in page
    assert not any(f"<bdi>{name}</bdi>)</summary>" in page for name in sites)
    assert not list((runs / "all" / "local").iterdir())


def test_traits_stay_with_their_patients_where_some_have_no_cell(table, sites, tmp_path):
    """Patient 1 has drugs alone and takes no part: the row of patient 2 must follow that of 0."""
    patients = [0, 0, 1, 2, 2]
    modes = ["medication", "diagnosis", "medication", "medication", "diagnosis"]
    made = events_from_columns(patients, patients, modes, ["a", "b", "a", "a", "b"])
    write_events(made, tmp_path / "events.parquet", CountingRule(), synthetic=True)
    (tmp_path / "local").mkdir()
    rows = {"patient": [0, 1, 2], "birth_year": pa.array([None] * 3, pa.int32()),
            "sex": ["male", "unknown", "female"], "died": [True, None, False]}  # fmt: skip
    pq.write_table(pa.table(rows), tmp_path / "local" / "attributes.parquet")
    protocol = with_subgroups(table().protocol)
    found = own_traits(protocol, Site("northfield", tmp_path))
    assert found[:, 1].tolist() == [1, 0]
    assert found[:, 3].tolist() == [0, 1]
    assert (
        own_traits(replace(protocol, evidence=EvidenceSettings(0)), Site("northfield", tmp_path))
        is None
    )


def test_preview_names_the_counts_of_groups_and_only_where_the_study_asks(table, sites):
    protocol = table().protocol
    site = sites["northfield"]
    asked = preview(with_subgroups(protocol), site)
    assert "subgroups" in [one.message for one in asked.sent]
    assert "subgroups" in [one.name for one in asked.manifest.messages]
    plain = preview(replace(protocol, evidence=EvidenceSettings(0)), site).manifest
    assert "subgroups" not in [one.name for one in plain.messages]


def test_attributes_that_changed_since_they_were_approved_let_nothing_out(table, sites, tmp_path):
    """Else two runs on the same events would tell whose outcome was written down in between."""
    asked = with_subgroups(table().protocol)
    folder = tmp_path / "northfield"
    shutil.copytree(sites["northfield"].events, folder)
    officer = Identity.from_bytes(bytes([7]) * 32)
    site = replace(
        sites["northfield"], events=folder, officer=officer.fingerprint, approval=tmp_path / "ok"
    )
    plain = replace(asked, evidence=EvidenceSettings(0))
    manifests = {protocol: preview(protocol, site).manifest for protocol in (plain, asked)}

    def approved(protocol):
        write_text(site.approval / MANIFEST, manifests[protocol].to_text())
        signed = approve(manifests[protocol], officer, date.max)
        write_text(site.approval / APPROVAL, signed)
        return check_approval(protocol, site, date.today())

    site.approval.mkdir()
    assert approved(asked).data_sha256 == data_fingerprint(asked, site)
    attributes = folder / "local" / "attributes.parquet"
    rows = pq.read_table(attributes)
    died = [*rows["died"].to_pylist()]
    changed = pa.array([not died[0], *died[1:]])
    pq.write_table(rows.set_column(rows.column_names.index("died"), "died", changed), attributes)
    with pytest.raises(NotApproved, match="attributes have changed"):
        approved(asked)
    assert data_fingerprint(asked, site) != manifests[asked].data_sha256
    assert approved(plain).attributes_sha256 == ""  # a study that counts no groups has no use
