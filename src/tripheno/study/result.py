"""What a study releases: network-wide sums and the phenotypes, nothing of one hospital.

Every hospital sends it to the coordinator once, who compares: the same program gave the same
result, or somebody's machine is not to be trusted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from tripheno.errors import BadMessage, DriftedApart
from tripheno.evaluation.grades import Graded
from tripheno.evaluation.intervals import Interval
from tripheno.evaluation.rank import RankChoice, RankEvidence, Recommendation
from tripheno.exchange.keys import SIGNATURE_BYTES
from tripheno.exchange.messages import pack, unpack
from tripheno.exchange.registry import Declaration, MessagePlan, register
from tripheno.privacy.labels import Named, Positions, shown_positions
from tripheno.privacy.subgroups import Group
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Costs, Iteration, Rmse, Solution
from tripheno.study.evidence import Weighed
from tripheno.study.set_aside import CARRIES, Aside, Lacks
from tripheno.vocabulary.axis import Axis

APART = 1e-9
WORDS_BYTES = 1 << 20  # history, notes


def _result_bytes(plan: MessagePlan, codes: Mapping[str, int]) -> int:
    numbers = 3 * sum(codes.values()) * (max(plan.ranks) + 1)  # factors and intervals
    return 8 * numbers + WORDS_BYTES + SIGNATURE_BYTES


RESULT = register(
    Declaration(
        "result", "release",
        "the final phenotypes, how they were found, how many patients have each; IN CLEAR", (),
        lambda plan: int(plan.machines), _result_bytes,
    )
)  # fmt: skip


@dataclass(frozen=True)
class Findings:
    """What a study found, as the process that ran it holds it."""

    solution: Solution
    weighed: Weighed
    codes_removed: dict[str, int]
    alignment_seconds: float
    named: Named = field(default_factory=dict)
    ranks: RankChoice | None = None
    aside: tuple[Aside, ...] = ()
    lacks: Lacks = field(default_factory=dict)  # of the hospitals here: it is not released
    fewest: int = 1  # people behind a code and a count that is shown: the strictest threshold

    @property
    def shown(self) -> Positions:
        """Where codes stand that may be named: of phenotypes that enough patients carry."""
        carried = [r for r, n in enumerate(self.weighed.effective) if n >= self.fewest]
        return shown_positions(self.solution.axes, self.solution.factors, carried)


def released(found: Findings) -> bytes:
    """The findings as they leave: counts of fewer than ``fewest`` people are not told."""
    solution, weighed, fewest = found.solution, found.weighed, found.fewest
    bias = solution.bias or ()
    words = {
        "axes": [[axis.mode, axis.size] for axis in solution.axes],
        "objective": solution.objective,
        "rmse": solution.rmse._asdict(),
        "history": [line._asdict() for line in solution.history],
        "converged": solution.converged,
        "stopped_because": solution.stopped_because,
        "notes": list(solution.notes),
        "patients": solution.patients,
        "nonzeros": solution.nonzeros,
        "null_loss": solution.null_loss,
        "costs": solution.costs._asdict(),
        "carriers": [_shown(count, fewest) for count in weighed.carriers],
        "fewest": fewest,
        "without": _shown(weighed.without, fewest),
        "effective": list(weighed.effective),
        "grades": [one._asdict() for one in weighed.grades],
        "groups": [asdict(one) for one in weighed.groups],
        "guided": list(solution.guided),
        "restart_match": list(solution.restart_match),
        "component_match": list(solution.component_match),
        "codes_removed": found.codes_removed,
        "aside": [[one.mode, one.why] for one in found.aside if one.why != CARRIES],
        "alignment_seconds": found.alignment_seconds,
        "ranks": None if found.ranks is None else asdict(found.ranks),
    }
    arrays = {f"factor.{n}": np.ascontiguousarray(f) for n, f in enumerate(solution.factors)}
    arrays |= {f"bias.{n}": np.ascontiguousarray(f) for n, f in enumerate(bias)}
    arrays["weights"] = solution.weights
    for n, (low, high) in enumerate(weighed.intervals):
        arrays |= {f"low.{n}": np.ascontiguousarray(low), f"high.{n}": np.ascontiguousarray(high)}
    if weighed.prevalence is not None:
        arrays["prevalence"] = np.stack(weighed.prevalence)
    arrays["words"] = np.frombuffer(json.dumps(words).encode(), dtype=np.uint8)
    return pack(arrays)


def read_result(data: bytes, settings: SolverSettings, where: str) -> Findings:
    """The findings that a hospital released, checked."""
    arrays = unpack(data, where=where)
    try:
        saved = json.loads(arrays["words"].tobytes())
        modes = range(len(saved["axes"]))
        solution = Solution(
            settings=settings,
            axes=tuple(Axis(str(mode), int(size)) for mode, size in saved["axes"]),
            factors=tuple(arrays[f"factor.{n}"] for n in modes),
            weights=arrays["weights"],
            bias=tuple(arrays[f"bias.{n}"] for n in modes) if settings.bias else None,
            objective=float(saved["objective"]),
            rmse=Rmse(**saved["rmse"]),
            history=tuple(Iteration(**line) for line in saved["history"]),
            converged=bool(saved["converged"]),
            stopped_because=str(saved["stopped_because"]),
            costs=Costs(**saved["costs"]),
            patients=int(saved["patients"]),
            nonzeros=int(saved["nonzeros"]),
            null_loss=float(saved["null_loss"]),
            guided=tuple(saved["guided"]),
            notes=tuple(map(str, saved["notes"])),
            restart_match=tuple(saved["restart_match"]),
            component_match=tuple(saved["component_match"]),
        )
        weighed = Weighed(
            tuple(saved["carriers"]), saved["without"], tuple(map(float, saved["effective"])),
            tuple(Graded(**one) for one in saved["grades"]),
            tuple(Interval(arrays[f"low.{n}"], arrays[f"high.{n}"])
                  for n in modes if f"low.{n}" in arrays),
            Interval(*arrays["prevalence"]) if "prevalence" in arrays else None,
            groups=tuple(
                Group(**{**one, "having": tuple(one["having"])}) for one in saved["groups"]
            ),
        )  # fmt: skip
        ranks = None if saved["ranks"] is None else _choice(saved["ranks"])
        removed = {str(mode): int(n) for mode, n in saved["codes_removed"].items()}
        aside = tuple(Aside(str(mode), "", str(why)) for mode, why in saved["aside"])
        seconds, fewest = float(saved["alignment_seconds"]), int(saved["fewest"])
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        raise BadMessage("a result that cannot be read", where=where) from None
    return Findings(solution, weighed, removed, seconds, {}, ranks, aside, fewest=fewest)


def _shown(count: int | None, fewest: int) -> int | None:
    return count if count is not None and count >= fewest else None


def _choice(saved: dict[str, Any]) -> RankChoice:
    evidence = tuple(
        RankEvidence(**{**one, "held_out_folds": tuple(one["held_out_folds"])})
        for one in saved["evidence"]
    )
    given = saved["recommendation"]
    return RankChoice(
        evidence, Recommendation(given["rank"], given["sure"], tuple(given["reasons"]))
    )


def compared(results: Mapping[str, Findings]) -> Findings:
    """One of the results, if they are one: in every count, and to a billionth in every factor.

    It has the seconds of all hospitals.
    """
    (first, found), *others = sorted(results.items())
    for name, other in others:
        pairs = zip(found.solution.factors, other.solution.factors, strict=True)
        alike = all(a.shape == b.shape and np.allclose(a, b, rtol=APART, atol=APART)
                    for a, b in pairs)  # fmt: skip
        if not alike or _counts(found) != _counts(other):
            raise DriftedApart(f"{first} and {name} released different phenotypes", where="result")
    own = [one.solution.costs.seconds_all_hospitals for one in results.values()]
    costs = found.solution.costs._replace(
        seconds_slowest_hospital=max(own), seconds_all_hospitals=sum(own)
    )
    return replace(found, solution=replace(found.solution, costs=costs))


def _counts(found: Findings) -> tuple[object, ...]:
    """Whole numbers out of totals: the same at every hospital, whatever machine it has."""
    solution, weighed = found.solution, found.weighed
    return (
        solution.axes, solution.patients, solution.nonzeros, weighed.carriers, weighed.without,
        found.codes_removed, found.fewest,
    )  # fmt: skip
