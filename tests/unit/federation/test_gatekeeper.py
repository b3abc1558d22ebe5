"""A real hospital's gate: the approval, the budget and the log are looked at at every message."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest

from tripheno.errors import (
    BadMessage,
    BrokenChain,
    GateRefused,
    NotApproved,
    OlderBackup,
    OtherProtocol,
    RunFailed,
    SessionLost,
    SiteTooSmall,
    UnknownMember,
    Withdrawn,
    WrongStep,
)
from tripheno.exchange.keys import Identity
from tripheno.federation.audit_file import GIVEN, AuditFile, countersigned
from tripheno.federation.gatekeeper import SPENT, ApprovedGatekeeper, spent
from tripheno.federation.hospital import HospitalFile, HospitalService
from tripheno.federation.transport import Outbox
from tripheno.federation.wire import Asked, Hello
from tripheno.files import write_text
from tripheno.privacy.approval import APPROVAL, approve, withdraw
from tripheno.privacy.audit import AUDIT_HEAD, read_head, verify
from tripheno.privacy.faults import FAULT, fault_bytes, fault_of
from tripheno.privacy.manifest import MANIFEST
from tripheno.privacy.own_data import events_file, own_tensor
from tripheno.protocol.agreed import (
    AgreedMember,
    EvidenceSettings,
    StudyProtocol,
    protocol_hash,
)
from tripheno.protocol.limits import Budgets
from tripheno.protocol.site import Site
from tripheno.provenance import file_fingerprint
from tripheno.records.events import CountingRule, events_from_columns, write_events
from tripheno.solver.settings import SolverSettings
from tripheno.study.keys import ANNOUNCE
from tripheno.study.preview import preview
from tripheno.study.store import RunStore

KEEPER, COORDINATOR, OFFICER, STRANGER = (Identity.from_bytes(bytes([n]) * 32) for n in range(1, 5))
MEMBERS = tuple(AgreedMember(name, f"{n:064x}") for n, name in enumerate(("a", "b", "c")))
PROTOCOL = StudyProtocol(
    "a study", CountingRule(), SolverSettings(2), members=MEMBERS, budgets=Budgets(max_rounds=3),
    coordinator=COORDINATOR.fingerprint,
)  # fmt: skip
CODES = {"medication": 4, "diagnosis": 4}
RUN = "run-1"


@pytest.fixture(scope="module")
def previewed(tmp_path_factory):
    """Events of 30 patients and the manifest of what would leave."""
    folder = tmp_path_factory.mktemp("events")
    rng = np.random.default_rng(0)
    patients = np.tile(np.arange(30), 4)
    drawn = rng.integers(0, 4, 120)
    mode = ["medication"] * 60 + ["diagnosis"] * 60
    codes = [f"{name[0]}{n}" for name, n in zip(mode, drawn, strict=True)]
    write_events(
        events_from_columns(patients, patients, mode, codes),
        folder / "events.parquet", CountingRule(),
    )  # fmt: skip
    site = Site("a", folder, min_site_patients=5, officer=OFFICER.fingerprint)
    wide = preview(replace(PROTOCOL, budgets=Budgets()), site).manifest  # three rounds are too few
    return folder, replace(wide, most_rounds=3, protocol_sha256=protocol_hash(PROTOCOL))


@pytest.fixture
def site(previewed, tmp_path):
    events, manifest = previewed
    found = Site("a", events, min_site_patients=5, officer=OFFICER.fingerprint,
                 approval=tmp_path / "approved", state=tmp_path / "state")  # fmt: skip
    found.approval.mkdir()
    write_text(found.approval / MANIFEST, manifest.to_text())
    write_text(found.approval / APPROVAL, approve(manifest, OFFICER, date.today()))
    return found


def opened(site, day=date.today):
    gatekeeper = ApprovedGatekeeper(PROTOCOL, site, KEEPER, day)
    gatekeeper.begin(RUN, CODES, COORDINATOR.public, file_fingerprint(events_file(site)))
    return gatekeeper


def send(gatekeeper, n=1, data=b"hello"):
    return gatekeeper.pass_out(f"announce/{n}", ANNOUNCE, data, None)


def lines_of(site):
    text = (site.run_folder(RUN) / "audit.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_a_line_and_the_cost_are_on_disk_before_a_message_leaves(site):
    gatekeeper = opened(site)
    assert send(gatekeeper) == b"hello"
    gatekeeper.arrived("announce/1", b"everybody's")
    opening, approval, sent, received = lines_of(site)
    assert opening["keeper"] == KEEPER.public.hex()
    assert approval["officer"] == OFFICER.public.hex()
    assert (sent["direction"], received["direction"]) == ("out", "in")
    path = site.run_folder(RUN) / SPENT
    assert json.loads(path.read_bytes()) == [1, 5]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_approved_in_mid_run_holds_from_the_very_next_message(site, previewed):
    gatekeeper = opened(site)
    write_text(site.approval / APPROVAL, approve(previewed[1], OFFICER, date.max))
    send(gatekeeper)  # the same manifest, for longer
    less = replace(previewed[1], most_rounds=2)
    write_text(site.approval / MANIFEST, less.to_text())
    write_text(site.approval / APPROVAL, approve(less, OFFICER, date.max))
    with pytest.raises(NotApproved, match="another manifest"):
        send(gatekeeper, 2)
    assert lines_of(site)[-1]["reason"] == NotApproved.code


@pytest.mark.parametrize("how", ["withdrawn", "removed", "changed", "expired"])
def test_an_approval_that_no_longer_stands_stops_the_very_next_message(site, how):
    today = [date.today()]
    gatekeeper = opened(site, lambda: today[0])
    path = site.approval / APPROVAL
    if how == "withdrawn":
        withdraw(site.approval, "2026-11-18")
    elif how == "removed":
        path.unlink()
    elif how == "changed":
        path.write_text(path.read_text(encoding="utf-8") + " ", encoding="utf-8")
    else:
        today[0] += timedelta(days=1)
    with pytest.raises(Withdrawn if how == "withdrawn" else NotApproved) as caught:
        send(gatekeeper)
    assert caught.value.exit_code == 4
    last = lines_of(site)[-1]
    assert (last["kind"], last["reason"]) == ("refused", caught.value.code)
    assert not (site.run_folder(RUN) / SPENT).exists()
    assert gatekeeper.pass_out("fault", FAULT, fault_bytes(caught.value), None)


def test_starting_again_gives_nothing_back_even_without_the_file(site):
    for n in range(3):
        send(opened(site), n)
    with pytest.raises(GateRefused, match="budget of rounds"):
        send(opened(site), 4)
    folder = site.run_folder(RUN)
    (folder / SPENT).unlink()
    with pytest.raises(GateRefused, match="budget of rounds"):
        send(opened(site), 4)
    write_text(folder / SPENT, "[3, 15]")
    (folder / "audit.jsonl").unlink()
    with pytest.raises(BrokenChain, match="is gone"):
        opened(site)


def test_nothing_leaves_before_the_gate_is_opened(site):
    with pytest.raises(RunFailed, match="before the gate"):
        send(ApprovedGatekeeper(PROTOCOL, site, KEEPER))


def test_a_manifest_of_other_messages_opens_no_gate(site, previewed):
    fewer = replace(previewed[1], messages=previewed[1].messages[1:])
    write_text(site.approval / MANIFEST, fewer.to_text())
    write_text(site.approval / APPROVAL, approve(fewer, OFFICER, date.today()))
    with pytest.raises(NotApproved, match="other ones"):
        opened(site)


def test_events_that_were_approved_after_this_process_read_others_open_no_gate(site):
    gatekeeper = ApprovedGatekeeper(PROTOCOL, site, KEEPER)
    with pytest.raises(NotApproved, match="other data were approved"):
        gatekeeper.begin(RUN, CODES, COORDINATOR.public, "0" * 64)
    assert not site.run_folder(RUN).exists()


def test_a_hospital_has_twice_as_many_patients_as_there_are_resamples(site):
    """With as many resamples as patients their totals show single patients' rows."""
    assert own_tensor(replace(PROTOCOL, evidence=EvidenceSettings(15)), site).patients == 30
    with pytest.raises(SiteTooSmall, match="fewer than 32"):
        own_tensor(replace(PROTOCOL, evidence=EvidenceSettings(16)), site)


def test_a_study_that_names_no_coordinator_takes_nobody_for_it(site, tmp_path):
    open_to_all = replace(PROTOCOL, coordinator="")
    hello = Hello(RUN, 1, protocol_hash(open_to_all), COORDINATOR.public.hex())
    refusals = []
    local = HospitalService(hospital(site, tmp_path, refusals, protocol=open_to_all))
    with pytest.raises(UnknownMember, match="anybody could be it"):
        local.respond("1:0", hello.pack())
    assert refusals == [("1:0", UnknownMember.code)]


@pytest.mark.parametrize("field", ["version", "protocol", "coordinator"])
@pytest.mark.parametrize("wild", ["9" * 5_000, "\x1b[2J", "\ud800", "a\n"])
def test_a_hello_shows_people_nothing_long_and_nothing_that_a_terminal_obeys(field, wild):
    data = json.dumps({**vars(Hello(RUN, 1, "0" * 64)), field: wild}).encode()
    with pytest.raises(BadMessage) as refused:
        Hello.unpack(data)
    assert len(str(refused.value)) < 100
    assert wild not in str(refused.value)


def countersign(gatekeeper, kept=None, *, last=False):
    """Both sides of a head."""
    offered = gatekeeper.offer_head(last=last)
    head = countersigned(
        "a",
        gatekeeper.pass_out("audit-head/1", AUDIT_HEAD, offered, None),
        KEEPER.public,
        COORDINATOR,
        kept,
    )
    given = json.dumps({"a": head.countersignature}).encode()
    gatekeeper.arrived("audit-head/1", given + COORDINATOR.sign(GIVEN, given))
    return head


def test_heads_grow_and_the_whole_log_verifies_under_the_agreed_keys(site):
    gatekeeper = opened(site)
    send(gatekeeper)
    first = countersign(gatekeeper)
    last = countersign(gatekeeper, first, last=True)
    folder = site.run_folder(RUN)
    assert read_head((folder / "audit.head.json").read_text(encoding="utf-8")) == last
    text = (folder / "audit.jsonl").read_text(encoding="utf-8")
    pins = {"keeper": KEEPER.fingerprint, "coordinator": COORDINATOR.fingerprint}
    assert verify(text, last, **pins) == len(text.splitlines())
    with pytest.raises(BrokenChain, match="another coordinator"):
        verify(text, last, **{**pins, "coordinator": STRANGER.fingerprint})


def test_the_coordinator_refuses_a_log_that_shrank_or_forked(site, tmp_path):
    gatekeeper = opened(site)
    send(gatekeeper)
    kept = countersign(gatekeeper)
    other = AuditFile(tmp_path / "other.jsonl", RUN, KEEPER, COORDINATOR.public)
    with pytest.raises(BrokenChain, match="shrank") as shrank:
        countersigned("a", other.offer_head(last=False), KEEPER.public, COORDINATOR, kept)
    assert "older backup" in shrank.value.fix
    while len(other.lines) < kept.lines:
        other.write({"kind": "message"})
    with pytest.raises(BrokenChain, match="two logs"):
        countersigned("a", other.offer_head(last=False), KEEPER.public, COORDINATOR, kept)
    half = json.loads(other.offer_head(last=False)) | {"hash": "\ud800" * 64}
    for offered in (b"", b"[]", b"{}", b"[" * 100_000, json.dumps(half).encode()):
        with pytest.raises(BadMessage):
            countersigned("a", offered, KEEPER.public, COORDINATOR, kept)


@pytest.mark.parametrize("how", ["vanished", "cut", "rewritten", "other keys"])
def test_the_hospital_refuses_a_log_that_does_not_reach_its_head(site, how):
    gatekeeper = opened(site)
    send(gatekeeper)
    countersign(gatekeeper)
    path = site.run_folder(RUN) / "audit.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if how == "cut":
        path.write_text("".join(lines[:2]), encoding="utf-8")
    elif how != "vanished":
        path.unlink()
        copy = path.with_name("audit.head.json")
        kept = copy.read_bytes()
        copy.unlink()
        keeper = KEEPER if how == "rewritten" else STRANGER
        anew = AuditFile(path, RUN, keeper, COORDINATOR.public)
        for _ in lines:
            anew.write({"kind": "message"})
        copy.write_bytes(kept)
    else:
        path.unlink()
    with pytest.raises(BrokenChain) as caught:
        opened(site)
    assert caught.value.exit_code == 4


def test_an_error_leaves_as_its_code_and_is_told_in_fixed_words():
    told = fault_bytes(NotApproved("of patient 17", where="/home/officer"))
    assert told == b"TRIP-E414"
    assert "17" not in str(fault_of(told, "a"))
    assert isinstance(fault_of(told, "a"), NotApproved)
    assert fault_bytes(ValueError("patient 17")) == b"TRIP-E100"
    with pytest.raises(BadMessage):
        fault_of(b"TRIP-E999", "a")


def hospital(site, folder, refusals, protocol=PROTOCOL):
    return HospitalFile(
        "a", own_tensor(protocol, site), protocol, KEEPER,
        store=lambda run: RunStore(folder / run), gatekeeper=lambda _run, _key: opened(site),
        secret=bytes(range(32)), refused=lambda step, code: refusals.append((step, code)),
    )  # fmt: skip


def test_what_comes_out_of_turn_twice_or_misshapen_is_a_line_with_its_code(site, tmp_path):
    refusals = []
    local = HospitalService(hospital(site, tmp_path, refusals))
    hello = Hello(RUN, 1, protocol_hash(PROTOCOL), COORDINATOR.public.hex())
    first = local.respond("1:0", hello.pack())
    assert Asked.unpack(first, "a").step == "identity"
    for wrong in ("1:0", "1:2"):  # twice, out of turn
        with pytest.raises(WrongStep):
            local.respond(wrong, hello.pack())
    assert lines_of(site)[-1]["reason"] == WrongStep.code
    with pytest.raises(SessionLost):
        local.respond("2:1", b"")  # of another attempt
    with pytest.raises(BadMessage):
        local.respond("../../etc", b"")  # no step at all
    assert refusals[-2:] == [("2:1", SessionLost.code), ("../../etc", BadMessage.code)]
    with pytest.raises(OtherProtocol):
        local.respond("2:0", replace(hello, attempt=2, protocol="0" * 64).pack())  # another study
    with pytest.raises(BadMessage) as refused:
        local.respond("1:1", b"of another shape")
    told = [line for line in lines_of(site) if line["kind"] == "refused"]
    assert [line["reason"] for line in told] == [WrongStep.code, refused.value.code]
    sent = [one for one in lines_of(site) if one.get("direction") == "out"]
    assert [one["step"] for one in sent] == ["identity", "fault"]  # nothing was given twice


def test_an_answer_that_was_lost_does_not_leave_again_after_a_withdrawal(site, tmp_path):
    local = HospitalService(hospital(site, tmp_path, []))
    outbox = Outbox(local.respond, local.may_repeat)
    hello = Hello(RUN, 1, protocol_hash(PROTOCOL), COORDINATOR.public.hex()).pack()
    sent = outbox.answer("1:0", hello)
    assert outbox.answer("1:0", hello) == sent  # its answer was lost on the way
    withdraw(site.approval, "2026-11-19")
    with pytest.raises(Withdrawn):
        outbox.answer("1:0", hello)
    assert lines_of(site)[-1]["reason"] == Withdrawn.code


def test_the_first_step_of_another_run_is_not_taken_for_that_of_the_run_before(site, tmp_path):
    """Both are called 1:0: a hospital would stay in a run that was given up."""
    outbox = Outbox(HospitalService(hospital(site, tmp_path, [])).respond)
    hello = Hello("given-up", 1, protocol_hash(PROTOCOL), COORDINATOR.public.hex())
    outbox.answer("1:0", hello.pack())
    outbox.answer("1:0", replace(hello, run=RUN).pack())
    assert RunStore(tmp_path / RUN).attempt() == 1
    with pytest.raises(OlderBackup):  # nor is a run begun twice
        outbox.answer("1:0", hello.pack())


def test_what_was_spent_is_the_most_that_log_or_file_say(tmp_path):
    line = json.dumps({"kind": "message", "direction": "out", "bytes": 7})
    came = json.dumps({"kind": "message", "direction": "in", "bytes": 90})
    path = tmp_path / SPENT
    assert spent(path, [line, came, line]) == (2, 14)
    path.write_text("[5, 9]")
    assert spent(path, [line, line]) == (5, 14)
    path.write_text("[1, 99]")
    assert spent(path, [line, line]) == (2, 99)
    path.write_text("five")
    with pytest.raises(RunFailed, match="cannot be read"):
        spent(path, [])
