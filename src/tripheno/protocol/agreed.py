"""`federation.toml`: the protocol that every hospital of a study agreed on, and its hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from tripheno import __version__
from tripheno.errors import BadGuide, BadProtocol, OtherProtocol, SettingsError, UnknownMember
from tripheno.exchange.keys import fingerprint_of
from tripheno.exchange.roster import Member as RosterMember
from tripheno.exchange.roster import Roster, same_institution
from tripheno.exchange.study_words import are_the_words, study_words
from tripheno.protocol.contradictions import check_whole
from tripheno.protocol.limits import Budgets, Thresholds
from tripheno.protocol.settings_file import (
    Layer,
    SettingsFile,
    fingerprint_text,
    number,
    one_of,
    plain_name,
    text,
    texts,
    truth,
    whole,
    wholes,
)
from tripheno.provenance import fingerprint
from tripheno.records.events import CountingRule
from tripheno.solver.guides import Guide, as_guides
from tripheno.solver.settings import (
    CONSTRAINTS,
    INFLUENCES,
    LOSSES,
    METHODS,
    VARIANTS,
    SolverSettings,
)
from tripheno.vocabulary.alignment import AlignKind

FORMAT = 1  # of what is hashed
MOST_RESAMPLES = 50  # more sums over the same patients tell more about single ones
ALIGNMENTS: tuple[str, ...] = get_args(AlignKind)


@dataclass(frozen=True)
class AgreedMember:
    """A hospital that takes part, the fingerprint of its long-term Ed25519 key, and whose it is."""

    name: str
    fingerprint: str
    institution: str = ""  # members of one institution count as one; "" is its own

    @property
    def owner(self) -> str:
        """Whose it is, as names of institutions are compared."""
        return same_institution(self.institution or self.name)


@dataclass(frozen=True)
class CodeList:
    """A public list of a mode's codes, for the alignment `vocabulary`."""

    mode: str
    file: str
    codes: tuple[str, ...]

    @property
    def sha256(self) -> str:
        """One hash of the codes in their order."""
        return hashlib.sha256("\n".join(self.codes).encode()).hexdigest()


@dataclass(frozen=True)
class SetAside:
    """Which codes take no part because they say nothing about a disease."""

    carriers: bool = True  # fluids and bags that only carry a drug, as the records mark them
    common: float = 0.9  # codes that a larger share of all patients has; 1: none


NOTHING_ASIDE = SetAside(carriers=False, common=1.0)


@dataclass(frozen=True)
class EvidenceSettings:
    """What a study asks besides its phenotypes."""

    resamples: int = 10  # of the patients, to see whether phenotypes come back; 0 for none
    ranks: tuple[int, ...] = ()  # other numbers of phenotypes to weigh
    subgroups: bool = False  # count patients by age, sex, year and outcome


@dataclass(frozen=True)
class Operation:
    """Where the coordinator is reached and how long it waits: no part of the agreement's hash."""

    address: str = ""  # host:port
    round_seconds: int = 600  # a hospital that needs longer than this is late
    checkpoint_every: int = 10  # iterations


@dataclass(frozen=True)
class StudyProtocol:
    """What a study does, spelt out. Two hospitals with the same hash agreed on the same study."""

    study: str
    rule: CountingRule
    solver: SolverSettings
    alignment: AlignKind = "tokens"
    lists: tuple[CodeList, ...] = ()
    thresholds: Thresholds = Thresholds()
    set_aside: SetAside = SetAside()
    budgets: Budgets = Budgets()
    members: tuple[AgreedMember, ...] = ()
    coordinator: str = ""  # fingerprint of the key that countersigns audit heads
    evidence: EvidenceSettings = EvidenceSettings()
    allow_two: bool = False
    accept_division_leak: bool = False  # `trip` shows peers how patients are divided
    test: bool = False  # keys and shuffles follow the seed: for rehearsals on synthetic data
    operation: Operation = Operation()

    @property
    def names(self) -> tuple[str, ...]:
        """The members, in the order that is frozen for the run."""
        return tuple(member.name for member in self.members)

    @property
    def institutions(self) -> frozenset[str]:
        """Whose hospitals take part; members of one institution count as one."""
        return frozenset(one.owner for one in self.members)

    def roster(self, publics: Mapping[str, bytes], coordinator: bytes) -> Roster:
        """The members with the public keys they show, if those are the ones agreed on."""
        for member in self.members:
            if fingerprint_of(publics.get(member.name, b"")) != member.fingerprint:
                raise UnknownMember("shows no key, or not the one agreed on", where=member.name)
        strangers = sorted(set(publics) - set(self.names))
        if strangers:
            raise UnknownMember(f"{len(strangers)} key(s) of hospitals that are no members")
        members = tuple(
            RosterMember(one.name, one.institution or one.name, publics[one.name])
            for one in self.members
        )
        return Roster(members, coordinator, bytes.fromhex(protocol_hash(self)), __version__)

    def to_dict(self) -> dict[str, Any]:
        """What was agreed on, as plain values. Where the coordinator stands is left out."""
        lists = [{"mode": one.mode, "sha256": one.sha256} for one in self.lists]
        return {
            "format": FORMAT,
            "study": self.study,
            "rule": {**asdict(self.rule), "modes": list(self.rule.modes)},
            "solver": self.solver.to_dict(),
            "alignment": self.alignment,
            "lists": sorted(lists, key=lambda one: one["mode"]),
            "thresholds": asdict(self.thresholds),
            "set_aside": asdict(self.set_aside),
            "budgets": asdict(self.budgets),
            "members": [asdict(member) for member in self.members],
            "coordinator": self.coordinator,
            "evidence": {
                "resamples": self.evidence.resamples,
                "ranks": list(self.evidence.ranks),
                "subgroups": self.evidence.subgroups,
            },
            "allow_two": self.allow_two,
            "accept_division_leak": self.accept_division_leak,
            "test": self.test,
        }


def protocol_hash(protocol: StudyProtocol) -> str:
    """One hash of everything agreed on; comments, order of keys and spelling do not matter."""
    return fingerprint(protocol.to_dict())


def words_of(protocol: StudyProtocol) -> str:
    """Eight words that stand for the protocol, its members' keys among it, to be read out."""
    return " ".join(study_words(bytes.fromhex(protocol_hash(protocol))))


def check_words(protocol: StudyProtocol, typed: str) -> None:
    """Refuse words that another hospital read out of another study."""
    if not are_the_words(typed, bytes.fromhex(protocol_hash(protocol))):
        raise OtherProtocol(
            "these are the words of another study",
            fix="compare federation.toml with the other hospitals, not with the coordinator alone",
        )


def read_protocol(path: Path, layers: Sequence[Layer] = ()) -> StudyProtocol:
    """The protocol in a `federation.toml`, or every fault in it at once."""
    file = SettingsFile(path, BadProtocol, layers)
    rule = _rule(file)
    solver = _solver(file, rule.modes)
    alignment: AlignKind = file.take("alignment.mode", one_of(ALIGNMENTS), "tokens")
    cell = file.take("thresholds.min_cell_count", whole(1), Thresholds.min_cell_count)
    protocol = StudyProtocol(
        study=file.need("study.name", text, ""),
        rule=rule,
        solver=solver,
        alignment=alignment,
        lists=_lists(file, rule, alignment),
        thresholds=Thresholds(
            cell,
            file.take("thresholds.min_site_patients", whole(1), Thresholds.min_site_patients),
        ),
        set_aside=_set_aside(file),
        budgets=Budgets(
            file.take("budgets.max_rounds", whole(1), Budgets.max_rounds),
            file.take("budgets.max_megabytes", whole(1), Budgets.max_megabytes),
            file.take("budgets.max_codes", whole(1), Budgets.max_codes),
            file.take("budgets.max_runs", whole(1), Budgets.max_runs),
        ),
        members=_members(file),
        coordinator=file.take("coordinator.fingerprint", fingerprint_text, ""),
        evidence=_evidence(file, cell),
        allow_two=file.take("study.allow_two", truth, False),
        accept_division_leak=file.take("study.accept_division_leak", truth, False),
        test=file.take("study.test", truth, False),
        operation=Operation(
            file.take("coordinator.address", text, ""),
            file.take("coordinator.round_seconds", whole(1), Operation.round_seconds),
            file.take("coordinator.checkpoint_every", whole(1), Operation.checkpoint_every),
        ),
    )
    check_whole(file, protocol)
    file.finish()
    return protocol


def _rule(file: SettingsFile) -> CountingRule:
    modes = file.take("data.modes", texts, CountingRule.modes)
    window = file.take("data.window", text, CountingRule.window)
    cap = file.take("data.cap", whole(1), 0) or None
    try:
        return CountingRule(modes, window, cap)
    except SettingsError as fault:
        file.fault("data", fault.what)
        return CountingRule()


def _set_aside(file: SettingsFile) -> SetAside:
    """[set_aside]: carriers and codes that nearly every patient has."""
    common = file.take("set_aside.common", number(positive=True), SetAside.common)
    if common > 1:
        file.fault("set_aside.common", "set_aside.common is a share of patients: at most 1")
    return SetAside(file.take("set_aside.carriers", truth, SetAside.carriers), common)


def _solver(file: SettingsFile, modes: Sequence[str]) -> SolverSettings:
    """[model] and [penalties]; what the file does not name has the solver's own default."""
    default = SolverSettings()
    given: dict[str, Any] = {
        "n_components": file.take("model.rank", whole(1), default.n_components),
        "method": file.take("model.method", one_of(METHODS), default.method),
        "variant": file.take("model.variant", one_of(VARIANTS), default.variant),
        "constraint": file.take("model.constraint", one_of(CONSTRAINTS), default.constraint),
        "loss": file.take("model.loss", one_of(LOSSES), default.loss),
        "tol": file.take("model.tol", number(positive=True), default.tol),
        "bias": file.take("model.bias", truth, default.bias),
        "influence": file.take("model.influence", one_of(INFLUENCES), default.influence),
    }
    for name, least in (("seed", 0), ("max_iter", 1), ("starts", 1)):
        given[name] = file.take(f"model.{name}", whole(least), getattr(default, name))
    for name in ("distinctness", "relative_distinctness", "sparsity"):
        check = number(positive=False)
        given[name] = file.take(f"penalties.{name}", check, getattr(default, name))
    for name in ("consensus_penalty", "split_penalty"):
        given[name] = file.take(f"penalties.{name}", number(positive=True), 0.0) or None
    given["guides"] = _guides(file, modes)
    scale = file.take("penalties.penalty_scale", number(positive=True), default.penalty_scale)
    try:
        return SolverSettings(**given, penalty_scale=scale)
    except SettingsError as fault:
        for what in fault.what.split("; "):
            file.fault(_said_where(file, what), what)
        return default


def _said_where(file: SettingsFile, what: str) -> str:
    """The setting that a solver's fault is about, where the file has it."""
    named = (f"{table}.{word}" for word in what.split() for table in ("model", "penalties"))
    return next(filter(file.says, named), "model")


def _guides(file: SettingsFile, modes: Sequence[str]) -> tuple[Guide, ...]:
    """[guides.NAME]: codes by mode, for phenotypes that a study has in mind."""
    given: dict[str, dict[str, tuple[str, ...]]] = {}
    for path, codes in file.below("guides", texts).items():
        name, _, mode = path.rpartition(".")
        given.setdefault(name, {})[mode] = codes
        if mode not in modes:
            file.fault(f"guides.{path}", f"guides.{path} is of a mode that the study has not")
    try:
        return as_guides(given) if given else ()
    except BadGuide as fault:
        file.fault("guides", fault.what)
        return ()


def _evidence(file: SettingsFile, cell: int) -> EvidenceSettings:
    """[evidence]: resamples, and ranks as a list of whole numbers.

    With as many resamples as people behind a code, a combination of the totals shows one person's
    row, whatever the weights: there are fewer of them than of people.
    """
    ranks: tuple[int, ...] = ()
    ranks = file.take("evidence.ranks", wholes(1), ranks)
    usual = min(EvidenceSettings.resamples, cell - 1)
    resamples = file.take("evidence.resamples", whole(0, MOST_RESAMPLES), usual)
    if resamples >= cell:
        file.fault(
            "evidence.resamples",
            f"evidence.resamples {resamples}: fewer than thresholds.min_cell_count ({cell}), or "
            "their totals show single people",
        )
    return EvidenceSettings(
        resamples, ranks, file.take("evidence.subgroups", truth, EvidenceSettings.subgroups)
    )


def _lists(file: SettingsFile, rule: CountingRule, alignment: str) -> tuple[CodeList, ...]:
    """[alignment.lists]: mode → a file beside this one, one code a line."""
    named = file.below("alignment.lists", text)
    found = []
    for mode, name in named.items():
        path = f"alignment.lists.{mode}"
        source = file.folder / name
        if mode not in rule.modes:
            file.fault(path, f"{path}: the study has no such mode")
        elif not source.is_file():
            file.fault(path, f"{path}: no file {name} beside {file.name}")
        else:
            lines = source.read_text(encoding="utf-8").splitlines()
            codes = tuple(line.strip() for line in lines if line.strip())
            if len(set(codes)) != len(codes) or not codes:
                file.fault(path, f"{path}: the list is empty, or a code stands twice")
            found.append(CodeList(mode, name, codes))
    if alignment == "vocabulary":
        for mode in rule.modes:
            if mode not in named:
                file.fault("alignment", f"alignment.lists.{mode} is missing")
    return tuple(found)


def _members(file: SettingsFile) -> tuple[AgreedMember, ...]:
    members = tuple(
        AgreedMember(
            file.need(f"members[{k}].name", plain_name, f"member {k + 1}"),
            file.need(f"members[{k}].fingerprint", fingerprint_text, f"{k:064x}"),
            file.take(f"members[{k}].institution", text, ""),
        )
        for k in range(file.count("members"))
    )
    for name in ("name", "fingerprint"):
        values = [getattr(member, name) for member in members]
        for k, value in enumerate(values):
            if value in values[:k]:
                file.fault(f"members[{k}].{name}", f"two members have this {name}")
    return members
