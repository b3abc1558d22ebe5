"""What a run leaves behind, file by file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tripheno import __version__
from tripheno.errors import OutputExists, RunNotFound
from tripheno.evaluation.communication import seconds_at_15_mbps
from tripheno.evaluation.comparison import Comparison
from tripheno.files import csv_text, owners_folder, whole_file, write_text
from tripheno.privacy.subgroups import Group
from tripheno.progress import HISTORY, STATUS
from tripheno.provenance import fingerprint
from tripheno.report.annotations import Annotations, reviewed
from tripheno.report.phenotypes import Phenotype, from_plain, to_plain
from tripheno.solver.settings import Method
from tripheno.solver.solution import Solution
from tripheno.study.set_aside import lacks_in_words
from tripheno.study.simulation import Federation
from tripheno.vocabulary.axis import Axis

SHOWN: Method = "exact"  # of several methods, the one whose page stands on top
GROUPS = "subgroups.json"


@dataclass(frozen=True)
class Run:
    """A solution with everything that belongs into its folder."""

    solution: Solution
    federation: Federation
    phenotypes: list[Phenotype]
    provenance: dict[str, Any]
    wall_seconds: float
    compare: Mapping[str, Comparison] = field(default_factory=dict)
    sums: str = "plain"
    comparison: Mapping[str, Any] = field(default_factory=dict)  # methods and models side by side
    members: tuple[str, ...] = ()  # of a real federation, where their own counts are not known
    evidence: Mapping[str, Any] = field(default_factory=dict)  # how sure, as a whole
    groups: Mapping[str, tuple[Group, ...]] = field(default_factory=dict)  # of whom → the groups
    own_groups: Mapping[str, tuple[Group, ...]] = field(default_factory=dict)  # never handed on
    extra: Mapping[str, Any] = field(default_factory=dict)  # more for ``run.json``

    def summary(self) -> dict[str, Any]:
        """The content of ``run.json``."""
        solution, costs = self.solution, self.solution.costs
        settings = solution.settings
        return {
            "tripheno": __version__,
            "method": settings.method,
            "variant": settings.variant if settings.method == "trip" else None,
            "rank": settings.n_components,
            "constraint": settings.constraint,
            "loss": settings.loss,
            "seed": settings.seed,
            "starts": settings.starts,
            "influence": settings.influence,
            "evidence": dict(self.evidence),
            "sums": self.sums,
            "align": self.federation.align,
            "codes_removed": self.federation.codes_removed,
            "set_aside": [one._asdict() for one in self.federation.aside],
            "lacking": lacks_in_words(self.federation.lacks),
            "left_out": dict(self.federation.left_out),
            "hospitals": self._hospitals(),
            "modes": ["patient", *(axis.mode for axis in solution.axes)],
            "shape": list(solution.shape),
            "nonzeros": solution.nonzeros,
            "iterations": solution.iterations,
            "converged": solution.converged,
            "stopped_because": solution.stopped_because,
            "notes": list(solution.notes),
            "objective": solution.objective,
            "weights": solution.weights.tolist(),
            "rmse": solution.rmse._asdict(),
            "restart_match": list(solution.restart_match),
            "component_match": list(solution.component_match),
            "seconds": {
                "alignment": self.federation.alignment_seconds,
                "compute_max_hospital": costs.seconds_slowest_hospital,
                "compute_total": costs.seconds_all_hospitals + costs.seconds_shared,
                "communication_at_15MBps": seconds_at_15_mbps(costs.bytes_total),
                "wall": self.wall_seconds,
            },
            "bytes": {
                "up_per_hospital": costs.bytes_up_per_hospital,
                "down_per_hospital": costs.bytes_down_per_hospital,
                "total": costs.bytes_total,
                "rounds": costs.rounds,
            },
            "compare": {name: pair._asdict() for name, pair in self.compare.items()},
            "provenance": self.provenance,
            **self.extra,
        }

    def _hospitals(self) -> list[dict[str, Any]]:
        """Each with its own counts, where this machine knows them."""
        tensors = self.federation.tensors
        known = {
            name: {"patients": tensor.patients, "nonzeros": tensor.nonzeros}
            for name, tensor in tensors.items()
        }
        unknown = {"patients": None, "nonzeros": None}
        return [{"name": n, **known.get(n, unknown)} for n in self.members or tuple(tensors)]


def check_folder(folder: Path, *, replace: bool = True) -> None:
    """Refuse a folder that holds something else, and a finished run that is not to be replaced.

    An unfinished run is always replaced, file by file.
    """
    if folder.exists() and not folder.is_dir():
        raise OutputExists(f"{folder} is a file", fix="name another folder with --out")
    ours = any((folder / name).is_file() for name in ("run.json", STATUS, HISTORY))
    if folder.is_dir() and any(folder.iterdir()) and not ours:
        raise OutputExists(f"{folder} is not empty and is no run", fix="name another --out")
    if not replace and (folder / "run.json").is_file():
        raise OutputExists(
            f"{folder} holds a finished run", fix="add --force to replace it, or name another --out"
        )


def write_run(folder: Path, run: Run) -> None:
    """Every file of a run; ``run.json`` last, so that a folder with one is complete."""
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").unlink(missing_ok=True)
    factors = folder / "factors"
    factors.mkdir(exist_ok=True)
    solution = run.solution
    for n, (axis, factor) in enumerate(zip(solution.axes, solution.factors, strict=True)):
        bias = None if solution.bias is None else solution.bias[n]
        _write_parquet(factors / f"{axis.mode}.parquet", _factor_table(axis, factor, bias))
    write_text(folder / "phenotypes.json", _json([to_plain(p) for p in run.phenotypes]))
    write_text(folder / "phenotypes.csv", csv_text(phenotype_rows(run.phenotypes)))
    write_text(folder / "comparison.json", _json(dict(run.comparison)))
    write_text(folder / GROUPS, _groups_text(run.groups))
    lines = [json.dumps(line._asdict()) for line in solution.history]
    write_text(folder / HISTORY, "\n".join(lines) + "\n")
    _write_patients(folder / "local", solution)
    (folder / "local" / GROUPS).unlink(missing_ok=True)
    if run.own_groups:
        write_text(folder / "local" / GROUPS, _groups_text(run.own_groups), private=True)
    write_text(folder / "run.json", _json(run.summary()))


@dataclass(frozen=True)
class Report:
    """What a page shows of a run: no patient's row is in it."""

    run: dict[str, Any]
    phenotypes: list[Phenotype]
    history: list[dict[str, Any]]
    comparison: dict[str, Any]
    annotations: Annotations
    groups: dict[str, tuple[Group, ...]] = field(default_factory=dict)  # of whom → the groups


def run_id(summary: Mapping[str, Any]) -> str:
    """What names and verdicts are bound to: the run's own id, else a digest of what was found."""
    made = summary["provenance"]
    found = [made["settings_sha256"], made["inputs"], summary["shape"], summary["weights"]]
    return str(summary.get("run") or fingerprint(found)[:16])


def shown_folder(folder: Path) -> Path:
    """Of several methods in one folder, that of the method that is shown."""
    return folder / SHOWN if read_summary(folder)["method"] == "all" else folder


def read_report(folder: Path) -> Report:
    """A run folder's results, with the names and decisions that people gave to this very run."""
    folder = shown_folder(folder)
    summary = read_summary(folder)
    try:
        phenotypes = json.loads((folder / "phenotypes.json").read_text(encoding="utf-8"))
        lines = (folder / HISTORY).read_text(encoding="utf-8").splitlines()
        comparison = folder / "comparison.json"
        beside = json.loads(comparison.read_text(encoding="utf-8")) if comparison.exists() else {}
        annotations = Annotations(folder / "annotations.jsonl", run_id(summary))
        return Report(
            summary,
            reviewed([from_plain(plain) for plain in phenotypes], annotations.said()),
            [json.loads(line) for line in lines if line.strip()],
            beside,
            annotations,
            _read_groups(folder / GROUPS),
        )
    except (ValueError, KeyError, TypeError, OSError) as fault:
        raise RunNotFound(
            f"{folder} is no complete run folder", why=type(fault).__name__, fix="run it again"
        ) from None


def read_own_groups(folder: Path) -> dict[str, tuple[Group, ...]]:
    """Hospital → the groups of its own patients, which a simulation keeps in ``local/``.

    Each table is safe at its own hospital; beside the others' and their sum it is not.
    """
    return _read_groups(folder / "local" / GROUPS)


def _groups_text(groups: Mapping[str, tuple[Group, ...]]) -> str:
    return _json({name: [asdict(one) for one in found] for name, found in groups.items()})


def _read_groups(path: Path) -> dict[str, tuple[Group, ...]]:
    """Of whom → the groups; none in runs that did not count them."""
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {
        name: tuple(Group(**{**one, "having": tuple(one["having"])}) for one in groups)
        for name, groups in found.items()
    }


def read_summary(folder: Path) -> dict[str, Any]:
    """The ``run.json`` of a run folder."""
    path = folder / "run.json"
    if not path.is_file():
        raise RunNotFound(
            f"{folder} is no run folder",
            why="it has no run.json",
            fix="name the folder that was given as --out to simulate, demo or run",
        )
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise RunNotFound(f"{path} cannot be read", fix="run it again") from None
    return dict(summary)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _write_parquet(path: Path, table: pa.Table, *, private: bool = False) -> None:
    with whole_file(path, private=private) as stream:
        pq.write_table(table, stream)


def _factor_table(axis: Axis, factor: np.ndarray, bias: np.ndarray | None) -> pa.Table:
    """position, code and label where known, one column per component, the bias last."""
    columns: dict[str, Any] = {"position": np.arange(axis.size)}
    if axis.codes is not None:
        columns["code"] = list(axis.codes)
        labels = [axis.labels.get(code or "") for code in axis.codes]
        columns["label"] = pa.array(labels, pa.string())
    for r in range(factor.shape[1]):
        columns[f"component_{r + 1}"] = factor[:, r]
    if bias is not None:
        columns["bias"] = bias
    return pa.table(columns)


def phenotype_rows(phenotypes: Sequence[Phenotype]) -> list[list[Any]]:
    """Every shown code of every phenotype as a table with a heading."""
    heading = ["phenotype", "title", "mode", "rank", "code", "label", "weight", "share"]
    rows = [
        [
            p.number, p.title, mode, place,
            code.position if code.code is None else code.code, code.name,
            float(f"{code.weight:.6g}"), round(code.share, 4), round(code.specificity, 4),
            p.grade or "", status_of(p),
        ]
        for p in phenotypes
        for mode, ranked in p.shown.items()
        for place, code in enumerate(ranked, start=1)
    ]  # fmt: skip
    return [[*heading, "specificity", "grade", "status"], *rows]


def status_of(phenotype: Phenotype) -> str:
    """What people decided, in the words of an annotation."""
    review = phenotype.review
    if review.rejected_by:
        return "rejected"
    return f"merged into {review.merged_into}" if review.merged_into else ""


def _write_patients(folder: Path, solution: Solution) -> None:
    """Memberships per hospital, in a folder only its owner may open: these never leave."""
    owners_folder(folder)
    for name, factor in solution.patient_factors.items():
        columns = {"patient": np.arange(len(factor))}
        columns.update({f"component_{r + 1}": factor[:, r] for r in range(factor.shape[1])})
        _write_parquet(folder / f"{name}.parquet", pa.table(columns), private=True)
