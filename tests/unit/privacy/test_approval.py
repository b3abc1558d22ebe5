"""Preview, manifest and approval: what would leave is shown, signed, and must not change."""

from __future__ import annotations

import json
import re
import shutil
import stat
from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest
from safetensors.numpy import load
from typer.testing import CliRunner

from tripheno.cli.main import app
from tripheno.errors import NotApproved, SettingsError, SiteTooSmall, Withdrawn
from tripheno.exchange.keys import Identity
from tripheno.privacy.approval import APPROVAL, approve, check_approval
from tripheno.privacy.manifest import MANIFEST, read_manifest
from tripheno.privacy.own_data import own_tensor
from tripheno.privacy.summary import SUMMARY
from tripheno.protocol.agreed import AgreedMember, read_protocol, words_of
from tripheno.protocol.key_files import make_identity
from tripheno.protocol.site import read_site
from tripheno.protocol.templates import federation_toml, site_toml
from tripheno.records.events import CountingRule, events_from_columns, write_events
from tripheno.study.preview import preview
from tripheno.study.rehearsal import stand_in

NAMES = ("northfield", "harbour", "lakeside")
TODAY = date(2026, 11, 16)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A hospital of 120 patients with its settings, the study's, and an officer's key."""
    folder = tmp_path_factory.mktemp("hospital")
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(120), 6)
    codes = [f"D{n}" for n in rng.integers(0, 9, 360)] + [f"M{n}" for n in rng.integers(0, 7, 360)]
    mode = ["diagnosis"] * 360 + ["medication"] * 360
    patients = np.concatenate([patient[:360] // 3 % 120, patient[:360] // 3 % 120])
    (folder / "records").mkdir()
    events = events_from_columns(patients, patients, mode, codes)
    write_events(events, folder / "records" / "events.parquet", CountingRule())
    officer = make_identity(folder / "keys" / "officer.key")
    members = [
        AgreedMember(n, Identity.from_bytes(n.encode().ljust(32)).fingerprint) for n in NAMES
    ]
    text = federation_toml("a study", members).replace("rank = 10", "rank = 3")
    (folder / "federation.toml").write_text(text, encoding="utf-8")
    own = site_toml("northfield", "records").replace(
        '# officer = ""', f'officer = "{officer.fingerprint}"'
    )
    own = own.replace("# min_site_patients = 100", "min_site_patients = 20")
    (folder / "site.toml").write_text(own, encoding="utf-8")
    return folder


def tripheno(home, *words, check=0):
    files = ("--site", home / "site.toml", "--federation", home / "federation.toml")
    done = CliRunner().invoke(app, [str(word) for word in (*words, *files)])
    assert done.exit_code == check, done.output
    return done.output


def signing(home, key=None):
    words = words_of(read_protocol(home / "federation.toml"))
    return "--key", key or home / "keys" / "officer.key", "--words", words


@pytest.fixture(scope="module")
def signed(home, tmp_path_factory):
    """A copy of the hospital's folder with an approval, made once."""
    folder = tmp_path_factory.mktemp("signed") / "hospital"
    shutil.copytree(home, folder)
    tripheno(folder, "preview")
    tripheno(folder, "approve", *signing(folder))
    return folder


@pytest.fixture
def approved(signed, tmp_path):
    folder = tmp_path / "hospital"
    shutil.copytree(signed, folder)
    return read_protocol(folder / "federation.toml"), read_site(folder / "site.toml")


def now():
    return date.today()


def test_preview_writes_manifest_summary_and_the_very_bytes_of_round_one(home):
    told = json.loads(tripheno(home, "preview", "--format", "json"))
    folder = home / "approved"
    manifest = read_manifest(folder)
    assert told["manifest_sha256"] == manifest.sha256
    assert stat.S_IMODE((folder / "local").stat().st_mode) == 0o700
    assert [one.file[:2] for one in manifest.round_one][:2] == ["01", "02"]
    for sample in manifest.round_one:
        assert (folder / "local" / sample.file).stat().st_size == sample.bytes
    assert {sample.message for sample in manifest.round_one} == {
        "identity", "announce", "shares", "confirm", "tokens-passed", "tokens", "holders", "people",
        "objections", "patients", "common", "totals", "lengths", "normal-equations", "review",
        "factors", "measures", "effective", "carriers", "end", "labels", "result",
    }  # fmt: skip
    (totals,) = (one for one in manifest.round_one if one.message == "totals")
    tensor = own_tensor(read_protocol(home / "federation.toml"), read_site(home / "site.toml"))
    content = (folder / "local" / totals.file).with_suffix(".safetensors")
    assert float(load(content.read_bytes())["patients"]) == tensor.patients
    assert tensor.patients == manifest.facts.patients
    assert stat.S_IMODE(content.stat().st_mode) == 0o600
    assert manifest.facts.codes == {"medication": 7, "diagnosis": 9}


def test_the_summary_has_the_facts_and_none_of_the_words_we_may_not_print(home):
    tripheno(home, "preview", "--labels")
    manifest = read_manifest(home / "approved")
    page = (home / "approved" / SUMMARY).read_text(encoding="utf-8")
    protocol = read_protocol(home / "federation.toml")
    for fact in (manifest.sha256, manifest.protocol_sha256, words_of(protocol),
                 *(f"| {one.name} | `{one.fingerprint}` |" for one in protocol.members),
                 f"{manifest.facts.patients:,} patients", "7 medication codes", "fewer than 11",
                 "releases the names"):  # fmt: skip
        assert fact in page
    assert not re.search(r"anonym|cannot leak|HIPAA|GDPR", page, re.IGNORECASE)


def test_an_approved_manifest_is_given_back(approved):
    protocol, site = approved
    assert check_approval(protocol, site, now()).hospital == "northfield"


def test_a_new_preview_takes_the_old_approval_away(approved):
    tripheno(approved[1].events.parent, "preview")
    with pytest.raises(NotApproved, match="there is no approval"):
        check_approval(*approved, now())


def test_anything_that_differs_is_refused_and_all_of_it_is_named(approved, monkeypatch):
    protocol, site = approved
    with pytest.raises(NotApproved) as caught:
        check_approval(replace(protocol, study="another"), replace(site, officer="0" * 64),
                       now() + timedelta(days=91))  # fmt: skip
    for words in ("the protocol is another one", "it was good until", "officer's key is not"):
        assert words in caught.value.what
    assert caught.value.exit_code == 4
    with pytest.raises(NotApproved, match="another hospital"):
        check_approval(protocol, replace(site, name="harbour"), now())
    with pytest.raises(NotApproved, match="events have changed"):
        check_approval(protocol, replace(site, events=site.events / "none"), now())
    for lower in ({"min_site_patients": 19}, {"min_cell_count": 12}, {"min_site_patients": None}):
        with pytest.raises(NotApproved, match="other thresholds"):
            check_approval(protocol, replace(site, **lower), now())
    monkeypatch.setattr("tripheno.privacy.approval.__version__", "9.9.9")
    with pytest.raises(NotApproved, match=r"tripheno is 9\.9\.9"):
        check_approval(protocol, site, now())


@pytest.mark.parametrize("name", [APPROVAL, MANIFEST])
def test_a_change_of_any_single_byte_is_detected(approved, name):
    protocol, site = approved
    path = site.approval / name
    whole = path.read_bytes()
    step = max(1, len(whole) // 400)
    for at in range(0, len(whole), step):
        for bit in (1, 32):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
            with pytest.raises(NotApproved):
                check_approval(protocol, site, now())
    for other in (whole + b"\n", whole[:-1], b"", b"{}", b"[" * 100_000, b"null"):
        path.write_bytes(other)
        with pytest.raises(NotApproved):
            check_approval(protocol, site, now())
    path.write_bytes(whole)
    check_approval(protocol, site, now())


def test_an_approval_of_somebody_else_is_refused(approved):
    protocol, site = approved
    stranger = Identity.from_bytes(b"stranger".ljust(32))
    text = approve(read_manifest(site.approval), stranger, now())
    (site.approval / APPROVAL).write_text(text, encoding="utf-8")
    with pytest.raises(NotApproved, match="officer's key is not the one"):
        check_approval(protocol, site, now())


def test_approve_signs_nothing_that_join_would_refuse(home):
    tripheno(home, "preview")
    key = home / "keys" / "stranger.key"
    if not key.exists():
        tripheno(home, "approve", "--make-key", "--key", key)
    assert "TRIP-E414" in tripheno(home, "approve", *signing(home, key), check=4)
    assert not (home / "approved" / APPROVAL).exists()


def test_approve_signs_nothing_without_the_words_of_this_very_study(approved):
    _, site = approved
    folder = site.events.parent
    (site.approval / APPROVAL).unlink()
    *own, words = signing(folder)
    for typed, code in (("", "TRIP-E414"), (" ", "TRIP-E414"), (words[::-1], "TRIP-E421")):
        assert code in tripheno(folder, "approve", *own, typed, check=4)
        assert not (site.approval / APPROVAL).exists()
    tripheno(folder, "approve", *own, words)
    assert (site.approval / APPROVAL).exists()


def test_a_hospital_with_too_few_patients_stays_out(home):
    protocol = read_protocol(home / "federation.toml")
    site = replace(read_site(home / "site.toml"), min_site_patients=None)
    with pytest.raises(SiteTooSmall) as caught:
        preview(protocol, site)
    assert caught.value.exit_code == 4
    assert "fewer than 100" in str(caught.value)


def test_events_made_for_another_rule_are_refused(home):
    protocol = read_protocol(home / "federation.toml")
    site = read_site(home / "site.toml")
    with pytest.raises(SettingsError, match="ingest again"):
        preview(replace(protocol, rule=CountingRule(window="person")), site)
    with pytest.raises(SettingsError, match="no member"):
        preview(protocol, replace(site, name="elsewhere"))


def test_a_withdrawn_approval_is_none_until_somebody_approves_again(approved):
    protocol, site = approved
    folder = site.events.parent
    assert "nothing more leaves" in " ".join(tripheno(folder, "withdraw").split())
    with pytest.raises(Withdrawn) as caught:
        check_approval(protocol, site, now())
    assert caught.value.exit_code == 4
    tripheno(folder, "approve", *signing(folder))
    check_approval(protocol, site, now())


def test_an_approval_is_taken_back_whatever_became_of_the_studys_file(approved):
    protocol, site = approved
    folder = site.events.parent
    (folder / "federation.toml").write_text("no longer TOML [", encoding="utf-8")
    tripheno(folder, "withdraw")
    with pytest.raises(Withdrawn):
        check_approval(protocol, site, now())


def test_stand_ins_have_enough_people_for_every_code_and_nobodys_data(home):
    tensor = own_tensor(read_protocol(home / "federation.toml"), read_site(home / "site.toml"))
    other = stand_in(tensor.axes, 11, np.random.default_rng(0))
    assert other.patients == 11
    assert other.axes == tensor.axes
    assert all(people.min() == 11 for people in other.people_at_positions())


def test_a_public_list_is_x(home):
    for mode, letter in (("medication", "M"), ("diagnosis", "D")):
        codes = "\n".join(f"{letter}{n}" for n in range(30))
        (home / f"{mode}.txt").write_text(codes, encoding="utf-8")
    text = (home / "federation.toml").read_text(encoding="utf-8")
    lists = '[alignment.lists]\nmedication = "medication.txt"\ndiagnosis = "diagnosis.txt"\n\n'
    text = text.replace('mode = "tokens"', 'mode = "vocabulary"').replace(
        "[model]", lists + "[model]"
    )
    path = home / "public.toml"
    path.write_text(text, encoding="utf-8")
    found = preview(read_protocol(path), read_site(home / "site.toml"))
    assert found.manifest.most_codes == {"medication": 30, "diagnosis": 30}
    counted = [load(one.content) for one in found.sent if one.message == "people"]
    assert counted[0]["people.0"].shape == (30,)
    assert counted[0]["people.0"].max() == 1  # whether anybody has it, before how many
    assert counted[-1]["people.0"].max() <= 11
