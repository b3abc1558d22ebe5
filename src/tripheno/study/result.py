"""What a study releases: network-wide sums and the phenotypes, nothing of one hospital.

Every hospital sends it to the coordinator once, who compares: the same program gave the same
result, or somebody's machine is not to be trusted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
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
from tripheno.privacy.prevalence import left_over
from tripheno.privacy.subgroups import Group
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Costs, Iteration, Rmse, Solution
from tripheno.study.evidence import Weighed
from tripheno.study.set_aside import CARRIES, Aside, Lacks
from tripheno.vocabulary.axis import Axis

APART = 1e-9  # of phenotypes
ROUGHLY = 1e-6  # of what is worked out from them: quantiles and cores lose digits
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
    """The findings as they leave: nothing that tells a count of fewer than ``fewest`` people.

    Nor, of those counts, the complement, the interval around it, or what is left over: patients
    with a phenotype less those whose phenotype is told.
    """
    solution, weighed, fewest = found.solution, found.weighed, found.fewest
    bias = solution.bias or ()
    carriers, without = _shown(weighed, solution.patients, fewest)
    effective = [n if n >= fewest else 0.0 for n in weighed.effective]  # one alone would be 1.0
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
        "carriers": carriers,
        "fewest": fewest,
        "without": without,
        "effective": effective,
        "grades": [
            one._replace(effective_patients=n)._asdict()
            for one, n in zip(weighed.grades, effective, strict=False)
        ],
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
        hidden = [count is None for count in carriers]
        low, high = weighed.prevalence
        arrays["prevalence"] = np.stack([np.where(hidden, 0.0, low), np.where(hidden, 1.0, high)])
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


def _shown(weighed: Weighed, patients: int, fewest: int) -> tuple[list[int | None], int | None]:
    """Carriers of each phenotype and patients without one, where neither tells of a few people."""

    def shown(count: int | None) -> int | None:
        few = count is None or count < fewest or 0 < patients - count < fewest
        return None if few else count

    carriers, without = [shown(count) for count in weighed.carriers], shown(weighed.without)
    if left_over(carriers, without, patients):
        return carriers, None
    return carriers, without


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
    """One of the results, if they are one: in every word and count, and in every number.

    It has the seconds of all hospitals.
    """
    (first, found), *others = sorted(results.items())
    for name, other in others:
        alike = _alike(_compared(found), _compared(other)) and all(
            np.allclose(a, b, rtol=APART, atol=APART)
            for a, b in zip(found.solution.factors, other.solution.factors, strict=True)
        )
        if not alike:
            raise DriftedApart(f"{first} and {name} released different results", where="result")
    own = [one.solution.costs.seconds_all_hospitals for one in results.values()]
    costs = found.solution.costs._replace(
        seconds_slowest_hospital=max(own), seconds_all_hospitals=sum(own)
    )
    return replace(found, solution=replace(found.solution, costs=costs))


def _compared(found: Findings) -> tuple[object, ...]:
    """All that was released but who it is, how long it took and the bytes of its messages."""
    solution = {
        field.name: getattr(found.solution, field.name)
        for field in fields(found.solution)
        if field.name not in {"settings", "costs", "history", "patient_factors", "own"}
    }
    history = [line._replace(seconds=0.0, bytes=0) for line in found.solution.history]
    return (
        solution, history, found.weighed, found.ranks, found.codes_removed, found.aside,
        found.fewest,
    )  # fmt: skip


def _alike(a: Any, b: Any) -> bool:
    """The same words and whole numbers; others to a millionth, for machines differ there."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray | float):
        same = np.shape(a) == np.shape(b)
        return same and bool(np.allclose(a, b, rtol=ROUGHLY, atol=ROUGHLY, equal_nan=True))
    if is_dataclass(a):
        return _alike(vars(a), vars(b))
    if isinstance(a, dict):
        return set(a) == set(b) and all(_alike(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(_alike, a, b))
    return bool(a == b)
