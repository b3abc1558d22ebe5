"""Every attack on a configuration, beside the same on the paper's protocol and the first version.

A coordinator adds and must read nothing. A hospital reads totals, and takes its own part off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tripheno.lab.attacks import people, records
from tripheno.lab.attacks.code_lists import Lists, attack_alignment
from tripheno.lab.attacks.equations import recover, relative_error, truth
from tripheno.lab.attacks.finding import (
    COORDINATOR,
    FIRST_VERSION,
    PEER,
    RECOVERED,
    SHIPPED,
    Finding,
)
from tripheno.lab.attacks.obedient import asked
from tripheno.lab.attacks.view import Sums, View, watched_run
from tripheno.solver.settings import SolverSettings
from tripheno.tensor.count_tensor import CountTensor
from tripheno.vocabulary.alignment import AlignKind

FOUND = 0.01  # share of codes or records above which a list counts as found
SURE = 3.29 / 1.96  # intervals are widened by this before a guess counts as better than chance
TARGETS = 100  # people of each hospital whose membership is guessed
ROUNDS = {"trip": 2, "exact": 24, "local": 2, "central": 2}

LESS_OWN = "the sum less one's own"
PAPER = "the paper's protocol, in clear"

Tensors = Mapping[str, CountTensor]


@dataclass(frozen=True)
class Configuration:
    """What is attacked."""

    name: str
    settings: SolverSettings
    sums: Sums
    align: AlignKind

    def short(self) -> SolverSettings:
        """The settings for as many iterations as the attacks look at."""
        return replace(
            self.settings, max_iter=ROUNDS[self.settings.method], starts=1, influence="none"
        )


def paper_in_clear(settings: SolverSettings) -> Configuration:
    """The seed paper's protocol: its released variant, contributions in clear, polynomials."""
    released = SolverSettings(
        settings.n_components, "trip", variant="released", constraint=settings.constraint,
        seed=settings.seed, starts=1, influence="none",
    )  # fmt: skip
    return Configuration(PAPER, released, "plain", "polynomial")


def first_version(settings: SolverSettings) -> Configuration:
    """Pairwise masks, and a server that asks, names scales and reads sums: our own baseline."""
    return Configuration(FIRST_VERSION, settings, "masked", "tokens")


@dataclass(frozen=True)
class Arena:
    """Hospitals to attack, and people like theirs who took no part."""

    inside: Tensors
    outside: Tensors
    lists: Lists  # each hospital's own codes
    tiny: Tensors | None  # the same federation with a first hospital of a few patients
    described: str


def attack(
    under_test: Configuration, arena: Arena, say: Callable[[str], None] = lambda _: None
) -> list[Finding]:
    """All findings: the paper's protocol, the first version, then the configuration under test."""
    found: list[Finding] = []
    kinds: tuple[AlignKind, ...] = ("polynomial", "tokens", "vocabulary")
    say("code lists")
    for kind in kinds:
        found += _code_lists(kind, arena, under_test)
    settings = under_test.settings
    say("questions to the first version's hospitals")
    found += asked(arena.inside, settings.seed)
    for setup in (paper_in_clear(settings), first_version(settings), under_test):
        say(f"messages of {setup.name}")
        found += attack_messages(setup, arena)
    return found


def site_level(findings: list[Finding], under_test: str) -> list[Finding]:
    """What shows more of one hospital, in the configuration under test, than is said to."""
    ours = (under_test, SHIPPED)
    return [one for one in findings if one.setup in ours and one.succeeded and not one.said]


def _code_lists(kind: AlignKind, arena: Arena, under_test: Configuration) -> Iterator[Finding]:
    seed = under_test.settings.seed
    server, peer = attack_alignment(kind, arena.lists, seed)
    setup = under_test.name if kind == under_test.align else f"alignment by {kind}"
    if kind == "polynomial" and kind != under_test.align:
        setup = paper_in_clear(under_test.settings).name
    tricks = {"polynomial": "subtraction", "tokens": "positions", "vocabulary": "counts"}
    for claims, by, how in ((server, COORDINATOR, "dictionary"), (peer, PEER, tricks[kind])):
        yield Finding(
            f"code lists ({kind}), {how}", by, setup, "share", claims.share,
            claims.share > FOUND, note=f"{claims.right:,} of {claims.of:,}, {claims.wrong:,} wrong",
            said=how == "counts",
        )  # fmt: skip


def attack_messages(setup: Configuration, arena: Arena) -> Iterator[Finding]:
    """What the messages of one set-up give away."""
    view = _run(setup, arena.inside)
    if setup.settings.method == "local":
        yield Finding(
            "own factors", COORDINATOR, setup.name, "share", 1.0, True, note="`local` releases them"
        )
        return
    found = {name: recover(view, name, _absent(arena.inside[name])) for name in view.hospitals}
    nonnegative = setup.settings.constraint != "none"
    features = next(iter(found.values())).features
    true = {n: truth(t, features, nonnegative=nonnegative) for n, t in arena.inside.items()}
    seen = {name: one.mttkrp for name, one in found.items()}
    yield _read_total(setup, view)
    if setup.sums == "masked":
        yield _steered(setup, view)
    for what, errors in (
        ("MTTKRP", [relative_error(seen[name], true[name][0]) for name in seen]),
        ("Gram matrix", [relative_error(found[name].gram, true[name][1]) for name in seen]),
    ):
        # every hospital counts: one that is recovered is one too many
        worst, least = max(errors), min(errors)
        note = f"relative error {least:.1e} to {worst:.1e}"
        yield Finding(f"{what} of a hospital", COORDINATOR, setup.name, "error", worst,
                      least < RECOVERED, note=note)  # fmt: skip
    yield _less_ones_own(setup, {name: pair[0] for name, pair in true.items()})
    yield from _records(setup, arena)
    yield from _people(setup, arena, view, seen, {n: pair[0] for n, pair in true.items()})


def _run(setup: Configuration, tensors: Tensors) -> View:
    return watched_run(tensors, setup.short(), setup.sums)


def _product(setup: Configuration) -> str:
    return "proposal" if setup.settings.method == "trip" else "mttkrp"


def _read_total(setup: Configuration, view: View) -> Finding:
    """Whether the coordinator can read what it adds up."""
    step, key = view.snapshots[-1].step, _product(setup)
    error = relative_error(view.total(step)[key], view.tap.totals[step][key])
    return Finding("a total", COORDINATOR, setup.name, "error", error, error < RECOVERED)


def _steered(setup: Configuration, view: View) -> Finding:
    """A coordinator that tells hospitals different things, to tell them apart.

    The real ones are lied to in `hospitals.py`.
    """
    step, key = view.snapshots[-1].step, _product(setup)
    parts = view.tap.contributed[step]
    errors = [
        relative_error(view.before.separated(step, parts, one)[key], parts[one][key])
        for one in parts
    ]
    return Finding(
        "a hospital's contribution, by steering", COORDINATOR, setup.name, "error", max(errors),
        min(errors) < RECOVERED, note="other scales to each hospital",
    )  # fmt: skip


def _absent(tensor: CountTensor) -> list[np.ndarray]:
    """Positions no patient of a hospital has: token lists and counts tell the server as much."""
    columns = zip(tensor.cells.indices.T, tensor.axes, strict=True)
    return [np.flatnonzero(np.bincount(c, minlength=axis.size) == 0) for c, axis in columns]


def _less_ones_own(setup: Configuration, true: Mapping[str, np.ndarray]) -> Finding:
    """A hospital takes its own part off the sum that all of them read."""
    total = np.sum(list(true.values()), axis=0)
    errors = [
        relative_error(total - true[own], true[other])
        for own in true
        for other in true
        if own != other
    ]
    least = min(errors, default=0.0)
    return Finding(
        LESS_OWN, PEER, setup.name, "error", least,
        least < RECOVERED, note=f"relative error {least:.1e} against one other hospital",
    )  # fmt: skip


def _records(setup: Configuration, arena: Arena) -> Iterator[Finding]:
    if arena.tiny is None:
        return
    view = _run(setup, arena.tiny)
    name, tensor = next(iter(arena.tiny.items()))
    first, second = (recover(view, name, _absent(tensor), mode) for mode in (0, 1))
    made, true = records.reconstruct(first, second), records.records_of(tensor)
    right = len(set(made.records) & set(true)) / len(true)
    of = f"of a hospital with {tensor.patients} patients"
    yield Finding(f"whole records {of}", COORDINATOR, setup.name, "share", right, right > FOUND)
    singles = [_singles(tensor, n) for n in range(2)]
    hits = sum(len(a & b) for a, b in zip(made.single, singles, strict=True))
    wrong = sum(len(a - b) for a, b in zip(made.single, singles, strict=True))
    share = hits / max(sum(map(len, singles)), 1)
    yield Finding(
        f"codes that a single patient has, {of}", COORDINATOR, setup.name, "share", share,
        share > FOUND and wrong < hits, note=f"{hits} right, {wrong} wrong",
    )  # fmt: skip
    guess = _Guesses(setup, replace(arena, inside=arena.tiny), first.features)
    found = _areas([guess.scores([name], first.mttkrp)])
    yield _membership(f"membership {of}", setup, found)


def _singles(tensor: CountTensor, mode: int) -> set[int]:
    pairs = np.unique(
        np.column_stack([tensor.patient_of_cell, tensor.cells.indices[:, mode]]), axis=0
    )
    return set(np.flatnonzero(np.bincount(pairs[:, 1]) == 1).tolist())


def _people(
    setup: Configuration,
    arena: Arena,
    view: View,
    seen: Mapping[str, np.ndarray],
    true: Mapping[str, np.ndarray],
) -> Iterator[Finding]:
    guess = _Guesses(setup, arena, _features(view))
    yield _membership("membership at a hospital", setup, guess.at_hospitals(seen))
    # `exact` shows every hospital this very sum; `trip` shows it less
    everybody = guess.in_network(np.sum(list(true.values()), axis=0))
    yield replace(_membership("membership in the network", setup, everybody), by=PEER)
    share = guess.attribution(_rounds_seen(view, seen))
    beyond = share.value - SURE * (share.value - share.low) > share.chance
    yield Finding(
        "attribution of a member to a hospital", COORDINATOR, setup.name, "share", share.value,
        beyond, share.low, share.high, share.chance,
    )  # fmt: skip


def _membership(name: str, setup: Configuration, found: tuple[people.Area, people.Area]) -> Finding:
    area, null = found
    return Finding(
        name,
        COORDINATOR,
        setup.name,
        "AUC",
        area.value,
        False,
        area.low,
        area.high,
        0.5,
        null.value,
    )


def _features(view: View) -> tuple[np.ndarray, ...]:
    return next(snapshot.factors for snapshot in view.snapshots if snapshot.iteration == 2)


def _rounds_seen(view: View, recovered: Mapping[str, np.ndarray]) -> list[Mapping[str, np.ndarray]]:
    """In clear, what was recovered; under masks, each round on the first mode as it was read.

    One round of masked numbers is one random direction for all targets: only many of them show what
    chance gives.
    """
    if view.sums == "plain":
        return [recovered]
    field = "proposal" if view.settings.method == "trip" else "mttkrp"
    steps = [snapshot.step for snapshot in view.snapshots if snapshot.mode == 0]
    return [{name: view.reading(s, name)[field] for name in view.hospitals} for s in steps]


class _Guesses:
    """Guesses about people from what was seen: members, people like them, and a reference."""

    def __init__(
        self, setup: Configuration, arena: Arena, features: tuple[np.ndarray, ...]
    ) -> None:
        def adds(tensor: CountTensor) -> np.ndarray:
            return people.additions(
                tensor, features, nonnegative=setup.settings.constraint != "none"
            )

        self.size = {name: tensor.patients for name, tensor in arena.inside.items()}
        self.members = {
            name: adds(tensor.select_patients(np.arange(min(TARGETS, tensor.patients))))
            for name, tensor in arena.inside.items()
        }
        self.others, known = {}, []
        for name, tensor in arena.outside.items():
            found = adds(tensor)
            half = len(found) // 2
            known.append(found[:half])
            self.others[name] = found[half:]
        self.reference = people.Reference.of(np.concatenate(known))

    def at_hospitals(self, seen: Mapping[str, np.ndarray]) -> tuple[people.Area, people.Area]:
        """Each hospital's members against people like them, from what was seen of it alone."""
        return _areas([self.scores([name], seen[name]) for name in seen])

    def in_network(self, seen: np.ndarray) -> tuple[people.Area, people.Area]:
        """All members against people like them, from the sum."""
        return _areas([self.scores(list(self.members), seen)])

    def scores(self, names: list[str], seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores of members and of others, in units of the others' spread."""
        size = sum(self.size[name] for name in names)
        inside, outside = (
            self.reference.scores(seen, size, np.concatenate([group[n] for n in names]))
            for group in (self.members, self.others)
        )
        middle, spread = outside.mean(), outside.std() + 1e-300
        return (inside - middle) / spread, (outside - middle) / spread

    def attribution(self, rounds: list[Mapping[str, np.ndarray]]) -> people.Share:
        """Which hospital a member is at; over several rounds, the mean of them."""
        names = list(self.members)
        guesses = [
            people.attribute(
                [seen[name] for name in names], [self.size[name] for name in names],
                [self.members[name] for name in names], self.reference,
            )
            for seen in rounds
        ]  # fmt: skip
        return guesses[0] if len(guesses) == 1 else people.mean_share(guesses)


def _areas(scores: list[tuple[np.ndarray, np.ndarray]]) -> tuple[people.Area, people.Area]:
    """Members against others, and the null control: others against each other."""
    inside, outside = (np.concatenate(part) for part in zip(*scores, strict=True))
    null = people.area_under_curve(outside[::2], outside[1::2])
    return people.area_under_curve(inside, outside), null
