"""`tripheno ingest`: EHR tables → a hospital's folder with events and an account of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tripheno.records.events import CountingRule

if TYPE_CHECKING:
    from tripheno.records.coverage import TensorFacts
    from tripheno.records.source import RecordSource

SOURCES = ("omop", "mimic", "eicu", "fhir", "flat")


def ingest(  # noqa: PLR0917 - an option each
    source: Annotated[str, typer.Argument(help="omop, mimic, eicu, fhir or flat")],
    path: Annotated[str, typer.Argument(help="folder, file, DuckDB file or postgresql:// address")],
    out: Annotated[Path, typer.Option("--out", help="the hospital's folder, made new")],
    modes: Annotated[
        str, typer.Option(help="two or more, comma-separated")
    ] = "medication,diagnosis",
    window: Annotated[
        str, typer.Option(help="visit, person, same-day; sliding: 3h, 6h, 1d, 7d")
    ] = "visit",
    anchor: Annotated[
        str, typer.Option(help="an order counts at its start, or over its interval")
    ] = "start",
    cap: Annotated[int | None, typer.Option(help="largest count of a cell")] = None,
    rollup: Annotated[
        list[str] | None, typer.Option(help="ccs, ccsr, or MODE=FILE.csv; may be repeated")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="one folder per hospital: hospitalid or region (eicu)")
    ] = None,
    drug_names: Annotated[str, typer.Option(help="folded (trimmed, lower case) or raw")] = "folded",
    strip_strength: Annotated[
        bool, typer.Option("--strip-strength", help="leave the strength out of drug names")
    ] = False,
    infer_visit: Annotated[
        bool, typer.Option("--infer-visit", help="mimic: labs take the admission of their time")
    ] = False,
    without_visit: Annotated[
        str, typer.Option(help="records without a visit: drop, or date (their day is the visit)")
    ] = "drop",
    timezone: Annotated[
        str | None, typer.Option(help="read times with an offset in this zone, e.g. Europe/Berlin")
    ] = None,
    reference_ranges: Annotated[
        Path | None,
        typer.Option(help="CSV with code, low, high; else reference_ranges.csv in PATH"),
    ] = None,
    settings: Annotated[Path | None, typer.Option(help="flat: site.toml with the columns")] = None,
    schema: Annotated[str | None, typer.Option(help="PostgreSQL schema")] = None,
    memory: Annotated[str, typer.Option(help="what the reading may take")] = "2GB",
    format: Annotated[str, typer.Option(help="text or json")] = "text",  # noqa: A002
) -> None:
    """Turn EHR tables into events, and say what was read, what was dropped and why."""
    from tripheno.records.ingest import ingest as run
    from tripheno.records.source import IngestSettings
    from tripheno.vocabulary.icd import ICDTitles
    from tripheno.vocabulary.rollup import parse_rollup

    names = tuple(mode.strip() for mode in modes.split(",") if mode.strip())
    chosen = IngestSettings(
        rule=CountingRule(names, window, cap),
        anchor=anchor,
        drug_names=drug_names,
        strip_strength=strip_strength,
        infer_visit=infer_visit,
        without_visit=without_visit,
        by=by,
        timezone=timezone,
        reference_ranges=reference_ranges,
        mapping=settings,
        schema=schema,
        memory=memory,
        groupings=tuple(parse_rollup(words, names) for words in rollup or ()),
    )
    result = run(source_named(source), path, out, chosen, measure=tensor_facts, titles=ICDTitles())
    as_json = format == "json"
    typer.echo(json.dumps(result.to_json(), indent=2) if as_json else result.to_text())


def source_named(name: str) -> RecordSource:
    """The record source of that name."""
    from tripheno.errors import SettingsError
    from tripheno.records.eicu import EICU
    from tripheno.records.fhir import FHIR
    from tripheno.records.flat import Flat
    from tripheno.records.mimic import Mimic
    from tripheno.records.omop import OMOP

    sources: dict[str, RecordSource] = {
        source.name: source for source in (OMOP(), Mimic(), EICU(), FHIR(), Flat())
    }
    if name not in sources:
        raise SettingsError(f"No source '{name}'", fix="one of " + ", ".join(SOURCES))
    return sources[name]


def tensor_facts(events: Path, rule: CountingRule) -> TensorFacts:
    """The tensor that a file of events gives: patients and codes that take part in a cell."""
    import numpy as np

    from tripheno.records.coverage import TensorFacts
    from tripheno.records.events import read_events
    from tripheno.tensor import CountTensor

    cells = CountTensor.from_events(read_events(events), rule=rule).cells
    patients = int(np.count_nonzero(np.diff(cells.starts)))
    codes = (len(np.unique(cells.indices[:, n])) for n in range(cells.indices.shape[1]))
    return TensorFacts((patients, *codes), cells.nonzeros)
