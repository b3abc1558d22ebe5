"""A coordinator that lies to real hospitals: their services, approvals, gates, ledgers and logs.

Each hospital has its folder, its events, a manifest that its officer signed, and answers steps as
over the engine. The coordinator hands on something else than it should, at one step, and goes on
with whoever still answers. Every hospital has to refuse, with a code and a line in its log.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path

from tripheno.errors import TriphenoError, WrongStep
from tripheno.exchange.communicator import RECORD, bundle, unbundled
from tripheno.exchange.keys import Identity, fingerprint_of, from_seed
from tripheno.exchange.session import add
from tripheno.federation.coordinator import CarriedStudy, coordinate
from tripheno.federation.gatekeeper import REFUSALS, ApprovedGatekeeper, note_refusal
from tripheno.federation.hospital import HospitalFile, HospitalService
from tripheno.federation.transport import InProcessChannel
from tripheno.federation.wire import Asked, Hello
from tripheno.files import write_text
from tripheno.lab.attacks.finding import COORDINATOR as COORDINATOR_ROLE
from tripheno.lab.attacks.finding import SHIPPED, Finding
from tripheno.lab.synthetic.network import SyntheticSettings, synthetic_network
from tripheno.privacy.approval import APPROVAL, approve
from tripheno.privacy.manifest import MANIFEST
from tripheno.privacy.own_data import events_file, own_tensor
from tripheno.protocol.agreed import AgreedMember, EvidenceSettings, StudyProtocol
from tripheno.protocol.limits import Thresholds
from tripheno.protocol.site import Site
from tripheno.provenance import file_fingerprint
from tripheno.records.events import CountingRule, write_events
from tripheno.solver.settings import SolverSettings
from tripheno.study.preview import preview
from tripheno.study.store import RunStore

NAMES = ("harbour", "lakeside", "northfield")
RUN = "run-1"
OFFICER = Identity.from_bytes(bytes([7]) * 32)
COORDINATOR = Identity.from_bytes(bytes([8]) * 32)
STRANGER = Identity.from_bytes(bytes([9]) * 32)


@dataclass
class Hospitals:
    """Three hospitals with folders of their own, and what is on the line to them."""

    folder: Path
    protocol: StudyProtocol
    local_hospitals: dict[str, HospitalService] = field(default_factory=dict)

    def site(self, name: str) -> Site:
        """A hospital's own settings."""
        home = self.folder / name
        return Site(
            name, home / "events", min_site_patients=20, officer=OFFICER.fingerprint,
            approval=home / "approved", state=home / "state",
        )  # fmt: skip

    def refusals(self, name: str) -> list[str]:
        """The codes in a hospital's log, of what it refused."""
        path = self.site(name).run_folder(RUN) / "audit.jsonl"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        lines = [json.loads(line) for line in text.splitlines()]
        found = [str(line["reason"]) for line in lines if line["kind"] == "refused"]
        before = self.site(name).state / REFUSALS  # of attempts that never opened a log
        if before.is_file():
            found += [json.loads(line)["reason"] for line in before.read_text().splitlines()]
        return found

    def sit(self, name: str) -> None:
        """A hospital takes part, as `tripheno join` has it."""
        site = self.site(name)
        identity = identity_of(name)
        tensor, events = own_tensor(self.protocol, site), file_fingerprint(events_file(site))

        def gatekeeper(run: str, coordinator: bytes) -> ApprovedGatekeeper:
            made = ApprovedGatekeeper(self.protocol, site, identity)
            sizes = {axis.mode: axis.size for axis in tensor.axes}
            made.begin(run, sizes, coordinator, events)
            return made

        self.local_hospitals[name] = HospitalService(
            HospitalFile(
                name, tensor, self.protocol, identity,
                store=lambda run: RunStore(site.run_folder(run), 3), gatekeeper=gatekeeper,
                secret=from_seed(9, name)("tokens"),
                thresholds={"min_cell_count": self.protocol.thresholds.min_cell_count},
                refused=lambda step, code: note_refusal(site, step, code),
            )
        )  # fmt: skip


def identity_of(name: str) -> Identity:
    """A hospital's long-term key."""
    return Identity.from_bytes(from_seed(9, name)("ed25519"))


def seated(folder: Path, seed: int) -> Hospitals:
    """Hospitals in their places, whose folders are there."""
    protocol = StudyProtocol(
        "small", CountingRule(),
        SolverSettings(3, max_iter=4, seed=seed, tol=1e-12, starts=1),
        thresholds=Thresholds(5, 20), evidence=EvidenceSettings(3),
        members=tuple(AgreedMember(n, fingerprint_of(identity_of(n).public)) for n in NAMES),
        coordinator=COORDINATOR.fingerprint,
    )  # fmt: skip
    made = Hospitals(folder, protocol)
    for name in NAMES:
        if made.site(name).events.is_dir():
            made.sit(name)
    return made


def approved_hospitals(folder: Path, seed: int) -> Hospitals:
    """Hospitals with events, manifests and their officer's signature."""
    codes = {"medication": 14, "diagnosis": 12}
    network = synthetic_network(
        SyntheticSettings((60, 50, 40), codes_per_mode=codes, seed=seed, hospital_names=NAMES)
    )
    made = seated(folder, seed)
    for hospital in network.hospitals:
        site = made.site(hospital.name)
        site.events.mkdir(parents=True)
        path = site.events / "events.parquet"
        write_events(hospital.events, path, CountingRule(), synthetic=True)
        manifest = preview(made.protocol, site).manifest
        site.approval.mkdir(mode=0o700)
        write_text(site.approval / MANIFEST, manifest.to_text())
        expires = date.today() + timedelta(days=1)
        signed = approve(manifest, OFFICER, expires, approver="the officer")
        write_text(site.approval / APPROVAL, signed)
    return seated(folder, seed)


# ── a coordinator's lies ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Heard:
    """What the coordinator has when it answers a step: its name, all parts, the right answer."""

    step: str
    parts: Mapping[str, bytes]
    right: bytes
    earlier: bytes


Lie = Callable[[Heard, str], bytes]
"""``handed = lie(heard, hospital)``: what a hospital gets in place of the answer."""


def _flipped(data: bytes) -> bytes:
    return data[:-8] + bytes([data[-8] ^ 1]) + data[-7:]


def _replaced(heard: Heard, **parts: bytes) -> bytes:
    return bundle({**unbundled(heard.right, tuple(heard.parts), heard.step), **parts})


def _in_another_order(heard: Heard) -> bytes:
    parts = list(heard.parts.items())[::-1]
    head = json.dumps([[name, len(part)] for name, part in parts]).encode()
    return len(head).to_bytes(4, "little") + head + b"".join(part for _, part in parts)


def _with_a_token(union: bytes) -> bytes:
    return b"".join(sorted([union[at : at + RECORD] for at in range(0, len(union), RECORD)]
                           + [bytes([77]) * RECORD]))  # fmt: skip


LIES: dict[str, tuple[str, Lie]] = {
    "another total for one hospital": ("fit/2/0/0", lambda heard, name: _flipped(heard.right)
                                       if name == NAMES[0] else heard.right),
    "a forged total": ("fit/1/1/0", lambda heard, _: _flipped(heard.right)),
    "an earlier total": ("fit/2/0/0", lambda heard, _: heard.earlier),
    "a sum without one hospital": ("fit/1/0/0", lambda heard, _: add(
        list(heard.parts.values())[1:])),
    "one hospital twice, another not": ("fit/1/1/0", lambda heard, _: add(
        [heard.parts[NAMES[n]] for n in (0, 1, 0)])),
    "a total cut short": ("fit/2/1/0", lambda heard, _: heard.right[:-8]),
    "one contribution for the sum": ("people/0", lambda heard, _: heard.parts[NAMES[0]]),
    "another last total": ("carriers", lambda heard, _: _flipped(heard.right)),
    "a scale and a cap in place of a total": ("people/0", lambda _h, _: b'{"cap": 1000000}'),
    "a request for labels": ("fit/1/0/0", lambda _h, _: b'{"labels": "all"}'),
    "another key for a member": ("identity", lambda heard, _: _replaced(
        heard, lakeside=STRANGER.public)),
    "one member more": ("announce", lambda heard, _: _replaced(heard, sybil=heard.parts[NAMES[1]])),
    "a member's place taken by another's words": ("announce", lambda heard, _: _replaced(
        heard, lakeside=heard.parts[NAMES[2]])),
    "other shares": ("shares", lambda heard, _: _replaced(
        heard, lakeside=_flipped(heard.parts[NAMES[1]]))),
    "one signature for all at the end": ("end", lambda heard, _: _replaced(
        heard, **dict.fromkeys(NAMES, heard.parts[NAMES[0]]))),
    "a union without a token": ("tokens/medication", lambda heard, _: heard.right[32:]),
    "a forged countersignature": ("audit-head/first", lambda _h, _: json.dumps(
        dict.fromkeys(NAMES, "00" * 64)).encode()),
    "no countersignature": ("audit-head/first", lambda _h, _: b""),
    "two members' keys exchanged": ("identity", lambda heard, _: _replaced(
        heard, harbour=heard.parts[NAMES[1]], lakeside=heard.parts[NAMES[0]])),
    "members in another order": ("announce", lambda heard, _: _in_another_order(heard)),
    "another union for one hospital": ("tokens/diagnosis", lambda heard, name: _with_a_token(
        heard.right) if name == NAMES[2] else heard.right),
    "a union with a token that nobody sent": ("tokens/diagnosis", lambda heard, _: _with_a_token(
        heard.right)),
    "a total without an end": ("fit/1/0/0", lambda heard, _: heard.right + bytes(1 << 23)),
    "a total of nothing": ("fit/1/0/0", lambda _h, _: b""),
    "other axes for one hospital": ("objections/people/few/0", lambda heard, name: _flipped(
        heard.right) if name == NAMES[1] else heard.right),
    "names of another hospital": ("labels", lambda heard, _: _replaced(
        heard, lakeside=heard.parts[NAMES[0]])),
    "names that nobody gave": ("labels", lambda heard, _: _replaced(
        heard, lakeside=b'{"diagnosis": {"0": ["I10", ""]}}' + bytes(64))),
}  # fmt: skip


class LyingChannel(InProcessChannel):
    """Hands a lie to every hospital at one step; afterwards it only hears the refusals."""

    def __init__(self, hospitals: Hospitals, at: str, lie: Lie) -> None:
        super().__init__({name: hospitals.local_hospitals[name].respond for name in NAMES})
        self.at, self.lie = at, lie
        self.last: dict[str, Asked] = {}
        self.earlier = b""
        self.codes: dict[str, str] = {}
        self.lied = False

    def round(self, step: str, broadcast: bytes) -> dict[str, bytes]:
        """One step of an attempt: the truth, or the lie and what follows from it."""
        name = next(iter(self.last.values())).step if self.last else ""
        if name != self.at:
            answers = super().round(step, broadcast)
            self.last = {n: Asked.unpack(data, n) for n, data in answers.items()}
            self.earlier = broadcast
            return answers
        self.lied = True
        heard = Heard(name, {n: one.data for n, one in self.last.items()}, broadcast, self.earlier)
        left: dict[str, bytes] = {}
        for one in NAMES:
            self._ask(one, step, self.lie(heard, one), left)
        attempt, _, number = step.partition(":")
        asked = {one: Asked.unpack(data, one) for one, data in left.items()}
        for one in asked:  # to those who noticed nothing: what those like them make up
            self._ask(one, f"{attempt}:{int(number) + 1}", _rest(asked, one), {})
        raise TriphenoError("the lie was told")

    def _ask(self, name: str, step: str, data: bytes, left: dict[str, bytes]) -> None:
        try:
            left[name] = self._outboxes[name].answer(step, data)
        except TriphenoError as fault:
            self.codes[name] = fault.code


def _rest(asked: Mapping[str, Asked], name: str) -> bytes:
    """The sum of those who are in the same step as this hospital, with as many words."""
    alike = [one.data for one in asked.values() if len(one.data) == len(asked[name].data)]
    return add(alike) if asked[name].how == "sum" else b""


def lied_to(hospitals: Hospitals, lie: str) -> dict[str, str]:
    """Hospital → the code with which it refused; a hospital that went on is not in it."""
    at, handed = LIES[lie]
    channel = LyingChannel(hospitals, at, handed)
    store = RunStore(hospitals.folder / "coordinator")
    try:
        coordinate(CarriedStudy(hospitals.protocol, RUN, store, COORDINATOR), channel)
    except TriphenoError:
        if not channel.lied:
            raise
    if not channel.lied:
        raise WrongStep("no step at which this lie could be told", where=at)
    return channel.codes


HELLOS: dict[str, Callable[[Hello], Hello]] = {
    "another protocol": lambda hello: replace(hello, protocol="0" * 64),
    "another version": lambda hello: replace(hello, version="0.0"),
    "another coordinator's key": lambda hello: replace(
        hello, coordinator=STRANGER.public.hex()),
    "an attempt of before": lambda hello: replace(hello, attempt=1),
}  # fmt: skip


def greeted_with(hospitals: Hospitals, lie: str, hello: Hello) -> dict[str, str]:
    """Hospital → the code with which it refused a false beginning."""
    false, codes = HELLOS[lie](hello), {}
    for name, local in hospitals.local_hospitals.items():
        try:
            local.respond(f"{false.attempt}:0", false.pack())
        except TriphenoError as fault:
            codes[name] = fault.code
    return codes


def against_hospitals(seed: int) -> Finding:
    """Every lie to hospitals with approvals, gates and logs: the share that somebody believed."""
    believed = []
    with tempfile.TemporaryDirectory() as folder:
        made = approved_hospitals(Path(folder) / "approved", seed)
        for n, lie in enumerate(LIES):
            shutil.copytree(made.folder, Path(folder) / str(n))
            hospitals = seated(Path(folder) / str(n), seed)
            codes = lied_to(hospitals, lie)
            logged = all(code in hospitals.refusals(name) for name, code in codes.items())
            if set(codes) != set(NAMES) or not logged:
                believed.append(lie)
    return Finding(
        "lies to the real hospital code that somebody believed", COORDINATOR_ROLE, SHIPPED, "share",
        len(believed) / len(LIES), bool(believed), note="; ".join(believed) or f"{len(LIES)} tried",
        expect="none: a refusal with its code and a line in the log at every hospital",
    )  # fmt: skip
