"""A finished run in Python: tables, plots, names, exports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import altair as alt
import pyarrow as pa
import pyarrow.parquet as pq

from tripheno.errors import MissingExtra, RunNotFound, SettingsError
from tripheno.report.annotations import annotation_rows
from tripheno.report.charts import code_chart, convergence_chart, prevalence_chart
from tripheno.report.exports.chosen import Wanted
from tripheno.report.exports.tables import arrow_of, evidence_rows, history_table
from tripheno.report.exports.write import FORMATS, export_run
from tripheno.report.page import overview_of, prevalence_rows, write_page
from tripheno.report.phenotypes import Phenotype
from tripheno.report.run_folder import Report, phenotype_rows, read_report, shown_folder
from tripheno.report.runs_compared import RunsCompared, compare_runs
from tripheno.report.summary import how_many


@dataclass(frozen=True)
class LoadedRun:
    """A run folder as tables (Arrow; pandas and polars on request), plots and exports.

    Tables are named ``codes`` (every shown code), ``evidence`` (a row per phenotype), ``history``
    (a row per iteration), ``annotations`` (what reviewers said), ``prevalence`` (phenotype ×
    hospital) and ``factors/<mode>`` (every code's weight in every phenotype).
    """

    folder: Path

    @property
    def report(self) -> Report:
        """What the page shows, read now: names given since are in it."""
        return read_report(self.folder)

    @property
    def id(self) -> str:
        """What names and verdicts are bound to."""
        return self.report.annotations.run

    @property
    def summary(self) -> dict[str, Any]:
        """The content of ``run.json``."""
        return self.report.run

    @property
    def phenotypes(self) -> list[Phenotype]:
        """The phenotypes with the names people gave them."""
        return self.report.phenotypes

    @property
    def codes(self) -> pa.Table:
        """Every shown code of every phenotype."""
        return arrow_of(phenotype_rows(self.phenotypes))

    @property
    def evidence(self) -> pa.Table:
        """A row for each phenotype: how sure, who has it, what people say."""
        return arrow_of(evidence_rows(self.phenotypes))

    @property
    def history(self) -> pa.Table:
        """A row for each iteration."""
        return history_table(self.report)

    @property
    def annotations(self) -> pa.Table:
        """What each reviewer says about each phenotype now."""
        heading, *rows = annotation_rows(self.report.annotations.said())
        kinds = [(name, pa.int64() if name == "phenotype" else pa.string()) for name in heading]
        named = [dict(zip(heading, row, strict=True)) for row in rows]
        return pa.Table.from_pylist(named, schema=pa.schema(kinds))

    @property
    def prevalence(self) -> pa.Table:
        """The share of each hospital's patients; withheld ones are empty."""
        return pa.Table.from_pylist(prevalence_rows(self.report))

    @cached_property
    def factors(self) -> Mapping[str, pa.Table]:
        """Mode → every code's weight in every phenotype."""
        folder = shown_folder(self.folder) / "factors"
        try:
            return {
                mode: pq.read_table(folder / f"{mode}.parquet")
                for mode in self.summary["modes"][1:]
            }
        except OSError:
            raise RunNotFound(f"{folder} cannot be read", fix="is the folder complete?") from None

    def table(self, name: str) -> pa.Table:
        """One of the tables by name."""
        if name.startswith("factors/") and name[8:] in self.factors:
            return self.factors[name[8:]]
        plain = ("codes", "evidence", "history", "annotations", "prevalence")
        if name in plain:
            return getattr(self, name)
        known = ", ".join([*plain, *(f"factors/{mode}" for mode in self.factors)])
        raise SettingsError(f"no table '{name[:40]}'", fix=f"one of {known}")

    def to_pandas(self, name: str) -> Any:
        """A table as a pandas DataFrame."""
        try:
            return self.table(name).to_pandas()
        except ModuleNotFoundError:
            raise MissingExtra("pandas is not installed", fix="pip install pandas") from None

    def to_polars(self, name: str) -> Any:
        """A table as a polars DataFrame."""
        try:
            import polars  # noqa: PLC0415  only on request
        except ImportError:
            raise MissingExtra("polars is not installed", fix="pip install polars") from None
        return polars.from_arrow(self.table(name))

    def plot_phenotypes(self) -> alt.HConcatChart:
        """Phenotypes × their telling codes on one scale, hospitals' shares beside them."""
        chart: alt.HConcatChart = overview_of(self.report)
        return chart

    def plot_phenotype(self, number: int) -> alt.Chart:
        """The shown codes of one phenotype by their share."""
        chosen = [p for p in self.phenotypes if p.number == number]
        if not chosen:
            raise SettingsError(f"no phenotype {number}")
        if not chosen[0].named:
            raise SettingsError(f"phenotype {number} rests on too few patients to show its codes")
        return code_chart(arrow_of(phenotype_rows(chosen)).to_pylist(), chosen[0].title)

    def plot_convergence(self) -> alt.Chart:
        """Error, or the objective, by iteration."""
        return convergence_chart(self.report.history)

    def plot_prevalence(self) -> alt.Chart:
        """Share of each hospital's patients who have each phenotype."""
        return prevalence_chart(prevalence_rows(self.report))

    def annotate(self, number: int, reviewer: str, **said: str) -> None:
        """Say something about a phenotype: ``name``, ``verdict``, ``comment`` or ``decision``.

        An empty text takes back. The run's page and tables are made again.
        """
        report = self.report
        known = {p.number for p in report.phenotypes}
        for field, value in said.items():
            if not isinstance(value, str):
                raise SettingsError(f"{field} is a text", fix="an empty one takes back")
            report.annotations.add(number, reviewer, field, value, known)
        write_page(self.folder)

    def export(
        self, form: str, out: Path | str, *, unstable: bool = False,
        concepts: Path | str | None = None, scored: Path | str | None = None,
        only: Sequence[int] = (),
    ) -> list[Path]:  # fmt: skip
        """Write a format of ``tripheno export`` into a new folder; the files written."""
        if form not in FORMATS:
            raise SettingsError(f"no format '{form[:20]}'", fix=f"one of {', '.join(FORMATS)}")
        table, patients = (None if one is None else Path(one) for one in (concepts, scored))
        return export_run(
            self.folder, form, Path(out), Wanted(unstable, table, patients, tuple(only))
        )

    def compare(self, other: LoadedRun | Path | str) -> RunsCompared:
        """What stayed, appeared and vanished in another run, seen from this one."""
        return compare_runs(
            self.folder, other.folder if isinstance(other, LoadedRun) else Path(other)
        )

    def __repr__(self) -> str:
        run = self.summary
        return (
            f"<LoadedRun {self.id}: {run['rank']} phenotypes of {run['shape'][0]:,} patients, "
            f"{how_many(run)}, {run['method']}>"
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{p.number}</td><td>{escape(p.grade or 'not examined')}</td>"
            f"<td>{escape(p.title)}</td><td>{escape(p.words)}</td></tr>"
            for p in self.phenotypes
        )
        return (
            f"<p>{escape(repr(self))}</p><table><thead><tr><th></th><th>how sure</th>"
            f"<th>phenotype</th><th>leading codes</th></tr></thead><tbody>{rows}</tbody></table>"
        )


def load_run(path: Path | str) -> LoadedRun:
    """A run folder (of ``simulate``, ``demo`` or ``run``) as tables, plots and exports."""
    loaded = LoadedRun(Path(path))
    loaded.report  # noqa: B018  a folder that is no run is refused here
    return loaded
