"""Run the grids: one row after the other, each on disk before the next begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from tripheno.evaluation.comparison import share_out
from tripheno.lab.paper.dealing import share_out_by_phenotype
from tripheno.lab.paper.ledger import Row, RowFile, append_lines, read_lines
from tripheno.lab.paper.measuring import (
    CurvePoint,
    ReferenceModel,
    alignment_seconds,
    central_reference,
    central_row,
    curve,
    method_row,
)
from tripheno.lab.paper.plan import (
    CENTRAL,
    CURVES,
    LOCAL,
    PaperSettings,
    Point,
    Task,
    contenders_of,
    points_of,
    tasks_of,
)
from tripheno.lab.paper.tensors import Tensors
from tripheno.study.makers import Maker
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.warm_up import warm_up

Say = Callable[[str], None]
ITERATIONS = "iterations.csv"  # the error after every iteration
GRIDS = ("nonzeros", "hospitals", "skew", "case-mix", "sums-plain", "sums-blind")
CURVE_COLUMNS = tuple(field.name for field in fields(CurvePoint))


class Grids:
    """The experiments on one population, and what their rows share: tensors, splits, central."""

    def __init__(self, folder: Path, settings: PaperSettings, say: Say) -> None:
        self.folder, self.settings, self.say = folder, settings, say
        self.tensors = Tensors(settings, say)
        self.ledgers = {name: RowFile(folder, name, settings.to_dict()) for name in GRIDS}
        self._references: dict[tuple[str, int], ReferenceModel] = {}
        self._split: tuple[tuple[object, ...], dict[str, CountTensor], float] | None = None

    def run(self, experiments: tuple[str, ...]) -> int:
        """Measure every row that is missing; say how many there were to measure."""
        tasks = [t for t in tasks_of(experiments, self.settings.own_repeats) if not self._has(t)]
        if tasks:
            warm_up(self.settings.rank, self.say)
        started = time.perf_counter()
        for done, task in enumerate(tasks):
            row = self._measure(task)
            self.say(_progress(done + 1, len(tasks), task, row, time.perf_counter() - started))
        if "nonzeros" in experiments and 0 in self.settings.own_repeats:
            self._curves()
        return len(tasks)

    def _has(self, task: Task) -> bool:
        x = self._x(task.experiment, task.point, build=False)
        names = (task.contender.method, task.contender.variant or "", task.repeat)
        return x is not None and self.ledgers[task.experiment].has(x, *names)

    def _x(self, experiment: str, point: Point, *, build: bool) -> float | None:
        """Where the point lies on the x axis; a tensor's nonzeros are noted once counted."""
        if point.x is not None:
            return point.x
        notes = self.ledgers[experiment].notes.setdefault("tensors", {})
        if point.window not in notes and build:
            tensor = self.tensors[point.window]
            notes[point.window] = {"shape": list(tensor.shape), "nonzeros": tensor.nonzeros}
        return float(notes[point.window]["nonzeros"]) if point.window in notes else None

    def _measure(self, task: Task) -> Row:
        x = self._x(task.experiment, task.point, build=True)
        assert x is not None
        row, about = self._twin(task) or self._fit(x, task)
        row = replace(row, x=x)
        self.ledgers[task.experiment].add(row, {**about, **self.settings.company})
        return row

    def _fit(self, x: float, task: Task) -> tuple[Row, dict[str, object]]:
        point, repeat = task.point, task.repeat
        reference = self._reference(point.window, repeat)
        if task.contender == CENTRAL:
            row = central_row(x, repeat, reference, pooled=point.hospitals > 1)
            return row, {"iterations": reference.iterations}
        tensors, alignment = self._hospitals(point, repeat)
        sums = Maker(point.sums, self.settings.seed + repeat)
        row, about = method_row(
            x, task.contender, repeat, tensors, self.settings.solver(repeat),
            reference=reference, sums=sums, alignment=alignment,
        )  # fmt: skip
        return row, {**about, "sums": point.sums}

    def _twin(self, task: Task) -> tuple[Row, dict[str, object]] | None:
        """The same run in another experiment: three equal hospitals stand in four of them."""
        names = (task.contender.method, task.contender.variant or "", task.repeat)
        for experiment, ledger in self.ledgers.items():
            if experiment == task.experiment:
                continue
            for point in points_of(experiment):
                x = self._x(experiment, point, build=False)
                same = point.federation == task.point.federation
                if same and x is not None and ledger.has(x, *names):
                    row = ledger.get(x, *names)
                    return row, {**ledger.about(row), "measured_as": f"{experiment} x={row.x:.6g}"}
        return None

    def _reference(self, window: str, repeat: int) -> ReferenceModel:
        """The central model, made once for all experiments on the tensor and kept on disk."""
        key, path = (window, repeat), self.folder / "central" / f"{window}-{repeat}.npz"
        if key not in self._references:
            if not path.is_file():
                self.say(f"central model of window {window}, repeat {repeat}")
                central_reference(self.tensors[window], self.settings.solver(repeat)).save(path)
            self._references[key] = ReferenceModel.load(path)
        return self._references[key]

    def _hospitals(self, point: Point, repeat: int) -> tuple[Mapping[str, CountTensor], float]:
        """The patients dealt out, the same way for every method; and the time to align."""
        key = (point.window, point.hospitals, point.skew, point.dealing, repeat)
        if self._split is None or self._split[0] != key:
            self._split = None  # let go of the last one first: a tensor may be large
            parts = self._dealt_out(point, repeat)
            seconds = alignment_seconds(parts, self.settings.seed) if len(parts) > 1 else 0.0
            self._split = (key, parts, seconds)
        return self._split[1], self._split[2]

    def _dealt_out(self, point: Point, repeat: int) -> dict[str, CountTensor]:
        rng = np.random.default_rng([self.settings.seed, repeat])
        tensor = self.tensors[point.window]
        if point.dealing == "by phenotype":
            factors = self._reference(point.window, repeat).factors
            return share_out_by_phenotype(tensor, point.hospitals, factors, rng)
        return share_out(tensor, point.hospitals, point.skew, rng)

    def _curves(self) -> None:
        """The error over iterations and over bytes, for the first repeat."""
        path = self.folder / ITERATIONS
        present = {(line["x"], line["method"], line["variant"]) for line in read_lines(path)}
        for point in (p for p in points_of("nonzeros") if p.window in CURVES):
            x = self._x("nonzeros", point, build=True)
            for contender in contenders_of("nonzeros"):
                key = (str(int(x or 0)), contender.method, contender.variant or "")
                if contender == LOCAL or key in present:
                    continue
                self.say(f"error over iterations: window {point.window}, {contender.words}")
                tensors, _ = self._hospitals(point, 0)
                lines = curve(x or 0.0, contender, tensors, self.settings.solver(0))
                append_lines(path, CURVE_COLUMNS, lines)


def _progress(done: int, total: int, task: Task, row: Row, elapsed: float) -> str:
    """One line: what was measured, and how long the rest may take."""
    gap = "" if row.rmse_gap is None else f", gap {100 * row.rmse_gap:+.4f} %, FMS {row.fms:.3f}"
    left = elapsed / done * (total - done)
    rest = f"{left / 60:.0f} min" if left > 90 else f"{left:.0f} s"
    return (
        f"[{done}/{total}] {task.experiment} x={row.x:.6g} {task.contender.words}, "
        f"repeat {task.repeat}: RMSE {row.rmse_nonzeros:.4f}{gap}, "
        f"{row.seconds_compute:.1f} s; about {rest} left"
    )
