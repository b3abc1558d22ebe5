"""The hospitals that `audit attack` attacks: synthetic ones, or files on this machine.

An attack must know the truth to say how far it came. No place in a federation knows it, so what is
attacked is the configuration of a run or a study, on hospitals whose data lie here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tripheno.evaluation.comparison import share_out
from tripheno.exchange.roster import FEWEST
from tripheno.lab.attacks.records import one_visit_each
from tripheno.lab.attacks.suite import Arena, Configuration
from tripheno.lab.synthetic.network import synthetic_network
from tripheno.lab.synthetic.presets import demo_settings
from tripheno.protocol.agreed import StudyProtocol
from tripheno.solver.settings import SolverSettings
from tripheno.study.simulation import assemble
from tripheno.tensor.count_tensor import CountTensor, pooled

UNDER_TEST = "under test"
HELD_OUT = 0.25  # of every hospital's patients take no part
TINY = 8  # patients of a hospital small enough to be read record by record


def synthetic_hospitals(hospitals: int, seed: int) -> dict[str, CountTensor]:
    """The demo's three hospitals; another number of them shares the same patients out."""
    network = synthetic_network(demo_settings(seed))
    tensors = {h.name: CountTensor.from_events(h.events) for h in network.hospitals}
    if hospitals == len(tensors):
        return tensors
    together = pooled(list(assemble(tensors, seed=seed).tensors.values()))
    return share_out(together, hospitals, None, np.random.default_rng(seed))


def network_of(patients: int, seed: int) -> dict[str, CountTensor]:
    """The demo's hospitals with so many patients together, on common axes."""
    settings = demo_settings(seed)
    now = sum(settings.patients_per_hospital)
    sizes = tuple(round(n * patients / now) for n in settings.patients_per_hospital)
    network = synthetic_network(replace(settings, patients_per_hospital=sizes))
    tensors = {h.name: CountTensor.from_events(h.events) for h in network.hospitals}
    return assemble(tensors, "vocabulary", seed=seed).tensors


def arena_of(
    tensors: Mapping[str, CountTensor],
    seed: int,
    *,
    min_cell: int | None = None,
    described: str = "synthetic hospitals",
) -> Arena:
    """Hospitals on common axes, a quarter of their patients held out, and a tiny one beside."""
    federation = assemble(tensors, seed=seed, min_cell=min_cell)
    rng = np.random.default_rng(seed)
    inside, outside = {}, {}
    for name, tensor in federation.tensors.items():
        order = rng.permutation(tensor.patients)
        cut = round(HELD_OUT * tensor.patients)
        outside[name] = tensor.select_patients(order[:cut])
        inside[name] = tensor.select_patients(order[cut:])
    own = {name: tensor.drop_unused().axes for name, tensor in tensors.items()}
    lists = {
        name: {
            axis.mode: tuple(axis.known.values()) or tuple(map(str, range(axis.size)))
            for axis in axes
        }
        for name, axes in own.items()
    }
    people = sum(tensor.patients for tensor in inside.values())
    summary = f"{described}: {len(inside)} hospitals, {people:,} patients"
    return Arena(inside, outside, lists, _with_a_tiny_one(inside), summary)


def _with_a_tiny_one(inside: Mapping[str, CountTensor]) -> dict[str, CountTensor] | None:
    """The first hospital with eight of its patients only, each with one visit and other codes."""
    first, *others = inside.items()
    name, tensor = first
    rows = _different(tensor, one_visit_each(tensor))
    if len(tensor.axes) != 2 or len(rows) < TINY:
        return None
    return {name: tensor.select_patients(rows), **dict(others)}


def _different(tensor: CountTensor, rows: np.ndarray) -> np.ndarray:
    """Patients, up to eight, none of whose code lists is made of the others'."""
    chosen: list[int] = []
    for row in rows:
        one = tensor.select_patients(np.array([*chosen, row]))
        indices, _ = one.coordinates()
        ranks = []
        for n, axis in enumerate(one.axes):
            has = np.zeros((one.patients, axis.size))
            has[indices[:, 0], indices[:, n + 1]] = 1.0
            ranks.append(np.linalg.matrix_rank(has))
        if min(ranks) == one.patients:
            chosen.append(int(row))
        if len(chosen) == TINY:
            break
    return np.array(chosen, dtype=np.int64)


@dataclass(frozen=True)
class Question:
    """A configuration, and how many hospitals of which threshold it is for."""

    configuration: Configuration
    hospitals: int
    min_cell: int | None


def question_of_run(summary: Mapping[str, Any]) -> Question:
    """What a run folder's ``run.json`` says was run."""
    given = summary.get("provenance", {}).get("settings", {})
    known = {name: given[name] for name in asdict(SolverSettings()) if name in given}
    settings = SolverSettings(**known)
    return Question(
        Configuration(UNDER_TEST, settings, summary["sums"], summary["align"]),
        len(summary["hospitals"]),
        None,
    )


def question_of_protocol(protocol: StudyProtocol) -> Question:
    """What a `federation.toml` says will be run."""
    hospitals = len(protocol.members) or FEWEST
    return Question(
        Configuration(
            UNDER_TEST, protocol.solver, "blind" if hospitals >= FEWEST else "plain",
            protocol.alignment,
        ),
        hospitals,
        protocol.thresholds.min_cell_count,
    )  # fmt: skip


def shipped_question() -> Question:
    """What tripheno does when nobody says anything else."""
    return Question(Configuration(UNDER_TEST, SolverSettings(), "blind", "tokens"), FEWEST, None)
