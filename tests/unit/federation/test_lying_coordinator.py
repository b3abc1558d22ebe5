"""Real hospitals with approvals, gates and logs, and a coordinator that lies to them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from tripheno.errors import (
    BrokenChain,
    NotApproved,
    OlderBackup,
    OtherProtocol,
    RealDataInTest,
    SessionLost,
    TriphenoError,
    UnknownMember,
    WrongStep,
)
from tripheno.exchange import communicator
from tripheno.exchange.blind import BlindSession
from tripheno.exchange.session import HEAD
from tripheno.federation.coordinator import CarriedStudy, coordinate
from tripheno.federation.ledger import Entry, RunLedger
from tripheno.federation.transport import InProcessChannel
from tripheno.federation.wire import Asked, Hello
from tripheno.lab.attacks.hospitals import (
    COORDINATOR,
    HELLOS,
    LIES,
    NAMES,
    RUN,
    approved_hospitals,
    greeted_with,
    lied_to,
    seated,
)
from tripheno.privacy.own_data import own_tensor
from tripheno.protocol.agreed import AgreedMember, protocol_hash
from tripheno.records.events import CountingRule, read_events, write_events
from tripheno.study.store import RunStore

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")

SEEDS = range(5)
CASES = [(lie, seed) for lie in LIES for seed in SEEDS]
MARKED = [
    pytest.param(lie, seed, marks=() if n % len(SEEDS) == seed else pytest.mark.verify)
    for n, lie in enumerate(LIES)
    for seed in SEEDS
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Approved hospitals of every seed, made once and copied."""
    folders = {}

    def of(seed, folder):
        if seed not in folders:
            folders[seed] = tmp_path_factory.mktemp("approved") / "all"
            approved_hospitals(folders[seed], seed)
        shutil.copytree(folders[seed], folder)
        return seated(folder, seed)

    return of


def test_every_seed_is_tried_in_every_test_run():
    quick = {case.values[1] for case in MARKED if not case.marks}
    assert quick == set(SEEDS)
    assert len(MARKED) == len(CASES)


@pytest.mark.parametrize(("lie", "seed"), MARKED)
def test_a_lie_is_refused_by_every_hospital_with_a_code_and_a_line(made, tmp_path, lie, seed):
    hospitals = made(seed, tmp_path / "all")
    codes = lied_to(hospitals, lie)
    assert set(codes) == set(NAMES)
    for name, code in codes.items():
        assert code in hospitals.refusals(name)


@pytest.mark.parametrize("lie", HELLOS)
def test_a_false_beginning_is_refused_by_every_hospital_with_a_code_and_a_line(made, tmp_path, lie):
    hospitals = made(0, tmp_path / "all")
    hello = Hello(RUN, 2, protocol_hash(hospitals.protocol), COORDINATOR.public.hex())
    if lie == "an attempt of before":
        for name in NAMES:
            RunStore(hospitals.site(name).state / "runs" / RUN).take_attempt(1)
    codes = greeted_with(hospitals, lie, hello)
    wanted = {"an attempt of before": OlderBackup, "another coordinator's key": UnknownMember}
    assert set(codes.values()) == {wanted.get(lie, OtherProtocol).code}
    for name in NAMES:
        assert hospitals.refusals(name) == [codes[name]]


class Replaying(InProcessChannel):
    """Leaves an attempt at one step, and hands on in the next what it heard in the first."""

    def __init__(self, hospitals, at, left):
        super().__init__({name: hospitals.local_hospitals[name].respond for name in NAMES})
        self.at, self.left, self.first, self.codes = at, left, {}, {}
        self.last = ""

    def round(self, step, broadcast):
        if self.last == self.at and step.startswith("2:"):
            for name in NAMES:
                try:
                    self._outboxes[name].answer(step, self.first[self.at])
                except TriphenoError as fault:
                    self.codes[name] = fault.code
            raise WrongStep("what was heard before was handed on")
        if step.startswith("1:"):
            self.first[self.last] = broadcast
        if step.startswith("1:") and self.last == self.left:
            raise SessionLost("the coordinator leaves the attempt")
        answers = super().round(step, broadcast)
        self.last = Asked.unpack(answers[NAMES[0]], NAMES[0]).step
        return answers


@pytest.mark.parametrize("at", ["announce", "shares", "confirm", "holders", "fit/1/0/0"])
def test_what_was_said_in_an_attempt_of_before_is_refused_in_the_next(made, tmp_path, at):
    hospitals = made(1, tmp_path / "all")
    channel = Replaying(hospitals, at, "fit/2/0/0")
    store = RunStore(hospitals.folder / "coordinator")
    with pytest.raises(WrongStep, match="handed on"):
        coordinate(CarriedStudy(hospitals.protocol, RUN, store, COORDINATOR), channel)
    assert set(channel.codes) == set(NAMES)
    for name, code in channel.codes.items():
        assert code in hospitals.refusals(name)


def test_a_run_whose_folder_vanished_is_not_begun_anew(made, tmp_path):
    """Else what was spent of its rounds and bytes would be given back."""
    hospitals = made(0, tmp_path / "all")
    hello = Hello(RUN, 1, protocol_hash(hospitals.protocol), COORDINATOR.public.hex())
    hospitals.local_hospitals[NAMES[0]].respond("1:0", hello.pack())
    shutil.rmtree(hospitals.site(NAMES[0]).state / "runs" / RUN)
    again = seated(hospitals.folder, 0).local_hospitals[NAMES[0]]
    with pytest.raises(BrokenChain, match="gone"):
        again.respond("1:0", hello.pack())


# ── what the coordinator's machine holds before the release ───────────────────────────────────


@pytest.fixture(scope="module")
def run(made, tmp_path_factory):
    """A whole study over real hospitals: every byte in either direction, and the truth."""
    hospitals = made(0, tmp_path_factory.mktemp("run") / "all")
    heard, truth = [], []
    real = communicator.decode

    def noting(layout, words, exponents, size):
        found = real(layout, words, exponents, size)
        truth.append((found, np.array(exponents)))
        return found

    channel = InProcessChannel(
        {name: hospitals.local_hospitals[name].respond for name in NAMES},
        lambda _step, name, down, up: heard.append((name, down, Asked.unpack(up, name))),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(communicator, "decode", noting)
        store = RunStore(hospitals.folder / "coordinator")
        carried = coordinate(CarriedStudy(hospitals.protocol, RUN, store, COORDINATOR), channel)
    released = next(n for n, (*_, asked) in enumerate(heard) if asked.how == "release")
    return hospitals, heard, released, truth, carried.findings


def eights(data):
    rows = [np.frombuffer(data, "<u8", (len(data) - at) // 8, offset=at) for at in range(8)]
    return np.unique(np.concatenate(rows))


def hidden(values, kind, haystack):
    words = np.unique(np.asarray(values, dtype=kind).view("<u8"))
    place = np.minimum(np.searchsorted(haystack, words), len(haystack) - 1)
    return not (haystack[place] == words).any()


def test_before_the_release_no_total_factor_code_count_or_scale_is_at_the_coordinator(run):
    hospitals, heard, released, truth, found = run
    before = b"".join(down + asked.data for _, down, asked in heard[:released])
    haystack = eights(before)
    totals = np.concatenate([np.ravel(a) for arrays, _ in truth for a in arrays.values()])
    totals = totals[~np.isin(totals, (0.0, 1.0, 2.0, 3.0))]
    assert len(totals) > 5_000
    assert hidden(totals, "<f8", haystack)
    factors = np.concatenate([factor.ravel() for factor in found.solution.factors])
    factors = factors[factors != 0.0]
    assert hidden(factors, "<f8", haystack)
    counts = [*found.weighed.carriers, found.solution.patients, found.solution.nonzeros]
    counts = [count for count in counts if count is not None and count > 255]
    assert hidden(np.array(counts, dtype=float), "<f8", haystack)
    assert hidden(counts, "<i8", haystack)
    names = [
        code
        for name in NAMES
        for axis in own_tensor(hospitals.protocol, hospitals.site(name)).axes
        for code in axis.known.values()
        if len(code) > 4
    ]
    assert len(names) > 20
    assert not [code for code in names if code.encode() in before]
    scales = {e.tobytes() for _, e in truth if e.size >= 8}
    assert scales
    assert not [one for one in scales if one in before]
    # the search finds what is there: factors in the release, a total that is put in
    after = eights(b"".join(asked.data for *_, asked in heard[released:]))
    assert not hidden(factors, "<f8", after)
    assert not hidden(totals[:1], "<f8", eights(before + b"x" + totals[:1].tobytes()))
    assert not hidden([987_654], "<i8", eights(before + np.int64(987_654).tobytes() + b"xyz"))


@pytest.mark.parametrize("of", ["contributions", "totals"])
def test_contributions_and_totals_of_a_whole_study_are_uniform(run, of):
    """χ² of the words' bytes and of every bit; chance fails less than once in a million."""
    _, heard, *_ = run
    blocks = {asked.data if of == "contributions" else down for _, down, asked in heard}
    words = np.concatenate(
        [
            np.frombuffer(data[-8 * HEAD.unpack_from(data)[-1] :], "<u8")
            for data in blocks
            if data[:4] == BlindSession.magic
        ]
    )
    assert len(words) > 4_000
    assert len(np.unique(words)) == len(words)
    bits = np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")[:, :61]
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5.5 * 0.5 / np.sqrt(len(words))
    seen = np.bincount(words.view(np.uint8).reshape(-1, 8)[:, :7].ravel(), minlength=256)
    expected = seen.sum() / 256
    assert abs(((seen - expected) ** 2 / expected).sum() - 255) < 5 * np.sqrt(2 * 255)


def test_the_log_names_who_approved_and_the_study_leaves_its_entry(run):
    hospitals, *_ = run
    text = (hospitals.site(NAMES[0]).state / "runs" / RUN / "audit.jsonl").read_text()
    assert '"approver":"the officer"' in text
    (entry,) = RunLedger(hospitals.site(NAMES[0]).state).entries
    agreed = hospitals.protocol.members
    assert (entry.runs, entry.members) == ([RUN], {one.fingerprint: one.name for one in agreed})


# ── what a hospital remembers of its studies ──────────────────────────────────────────────────


def entry(*institutions, study="a", allowed=False, snapshot="s"):
    return Entry(study, snapshot, {one: one.rstrip("0123456789") for one in institutions}, allowed)


def test_the_same_data_with_one_institution_changed_needs_both_approvals(tmp_path):
    RunLedger(tmp_path).enter(entry("a", "b", "c"), "run-1", 9)
    for others in (("a", "b", "c", "d"), ("a", "b"), ("a", "b", "d")):
        with pytest.raises(NotApproved, match="one institution"):
            RunLedger(tmp_path).enter(entry(*others, study="b", allowed=True), "run-2", 9)
    RunLedger(tmp_path).enter(entry("a", "b", "c", study="c"), "run-3", 9)
    RunLedger(tmp_path).enter(entry("a", "e", "f", study="d"), "run-4", 9)
    RunLedger(tmp_path).enter(entry("a", "b", "d", study="b", snapshot="other"), "run-5", 9)
    other = tmp_path / "other"
    RunLedger(other).enter(entry("a", "b", "c", allowed=True), "run-1", 9)
    RunLedger(other).enter(entry("a", "b", study="b", allowed=True), "run-2", 9)


def test_one_hospital_of_an_institution_that_stays_is_a_difference_too(tmp_path):
    """Else the difference of the two studies' sums would be that hospital's contribution."""
    RunLedger(tmp_path).enter(entry("a", "b", "c1", "c2"), "run-1", 9)
    for others in (("a", "b", "c1"), ("a", "b", "c1", "c2", "c3"), ("a", "b", "c1", "c3")):
        with pytest.raises(NotApproved, match="one institution"):
            RunLedger(tmp_path).enter(entry(*others, study="b"), "run-2", 9)
    RunLedger(tmp_path).enter(entry("a1", "b1", "c3", study="c"), "run-3", 9)  # keys are new ones


def test_a_ledger_that_knows_institutions_alone_still_refuses(tmp_path):
    before = {"study": "a", "snapshot": "s", "institutions": ["a", "b", "c"],
              "other_rosters": False, "runs": ["run-1"]}  # fmt: skip
    (tmp_path / "ledger.json").write_text(json.dumps([before]), encoding="utf-8")
    with pytest.raises(NotApproved, match="one institution"):
        RunLedger(tmp_path).enter(entry("a1", "b1", "c1", "d1", study="b"), "run-2", 9)
    RunLedger(tmp_path).enter(entry("a1", "b1", "c1", study="b"), "run-2", 9)


def test_the_number_of_runs_is_spent_and_only_grows(tmp_path):
    for run_name in ("run-1", "run-2", "run-1"):
        RunLedger(tmp_path).enter(entry("a", "b", "c"), run_name, 2)
    with pytest.raises(NotApproved, match="spent"):
        RunLedger(tmp_path).enter(entry("a", "b", "c"), "run-3", 2)
    assert RunLedger(tmp_path).entries[0].runs == ["run-1", "run-2"]


def test_a_run_too_many_is_refused_at_the_real_gate_with_a_line(made, tmp_path):
    hospitals = made(0, tmp_path / "all")
    site = hospitals.site(NAMES[0])
    local = hospitals.local_hospitals[NAMES[0]]
    hash_ = protocol_hash(hospitals.protocol)
    most = hospitals.protocol.budgets.max_runs
    for n in range(most + 1):
        hello = Hello(f"run-{n}", 1, hash_, COORDINATOR.public.hex())
        if n < most:
            local.respond("1:0", hello.pack())
            continue
        with pytest.raises(NotApproved, match="spent"):
            local.respond("1:0", hello.pack())
    text = (site.state / "runs" / f"run-{most}" / "audit.jsonl").read_text(encoding="utf-8")
    assert NotApproved.code in text


def test_a_test_study_takes_no_data_that_are_not_marked_synthetic(made, tmp_path):
    hospitals = made(0, tmp_path / "all")
    site = hospitals.site(NAMES[0])
    test = replace(hospitals.protocol, test=True)
    assert own_tensor(test, site).patients > 0
    path = site.events / "events.parquet"
    table = read_events(path).replace_schema_metadata(None)
    write_events(table, path, CountingRule())
    with pytest.raises(RealDataInTest, match="synthetic"):
        own_tensor(test, site)
    assert own_tensor(hospitals.protocol, site).patients > 0


def test_members_of_one_institution_count_as_one_however_it_is_spelt(made, tmp_path):
    hospitals = made(0, tmp_path / "all")
    spelt = ("St Mary", "st  mary", "Harbour")
    members = tuple(
        AgreedMember(one.name, one.fingerprint, institution)
        for one, institution in zip(hospitals.protocol.members, spelt, strict=True)
    )
    assert len(replace(hospitals.protocol, members=members).institutions) == 2
