"""`tripheno ingest`: EHR tables → a hospital's folder with events and an account of them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tripheno.cli.console import Format, FormatOption, Progress, print_json
from tripheno.errors import SettingsError
from tripheno.records.events import CountingRule

if TYPE_CHECKING:
    from tripheno.records.coverage import TensorFacts
    from tripheno.records.source import RecordSource

SourceName = Literal["omop", "mimic", "eicu", "fhir", "meds", "flat"]
AnchorName = Literal["start", "interval"]
DrugNames = Literal["ingredient", "folded", "raw"]
WithoutVisit = Literal["drop", "date"]


def ingest(
    source: Annotated[SourceName, typer.Argument(help="What the tables are.")],
    path: Annotated[
        str, typer.Argument(help="Folder, file, DuckDB file or postgresql:// address.")
    ],
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for the hospital's events.")],
    modes: Annotated[
        str, typer.Option(help="Two or more modes, comma-separated.")
    ] = "medication,diagnosis",
    window: Annotated[
        str, typer.Option(help="visit, person, same-day; sliding: 3h, 6h, 1d, 7d.")
    ] = "visit",
    anchor: Annotated[
        AnchorName, typer.Option(help="An order counts at its start, or on every day it covers.")
    ] = "start",
    cap: Annotated[int | None, typer.Option(help="Largest count of a cell.")] = None,
    rollup: Annotated[
        list[str] | None, typer.Option(help="ccs, ccsr, or MODE=FILE.csv; may be repeated.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="One folder per hospital: hospitalid, region (eicu), site (meds), hospital (flat)."
        ),
    ] = None,
    drug_names: Annotated[
        DrugNames, typer.Option(help="As ingredients, case-folded, or as written.")
    ] = "ingredient",
    drug_table: Annotated[
        Path | None, typer.Option(help="CSV that names drugs: code, NDC, HICL or name; ingredient.")
    ] = None,
    strip_strength: Annotated[
        bool, typer.Option("--strip-strength", help="Leave strengths out of drug names.")
    ] = False,
    infer_visit: Annotated[
        bool, typer.Option("--infer-visit", help="mimic: labs take the admission of their time.")
    ] = False,
    without_visit: Annotated[
        WithoutVisit, typer.Option(help="Drop records without a visit, or join by day.")
    ] = "drop",
    timezone: Annotated[
        str | None, typer.Option(help="Read times with an offset in this zone (Europe/Berlin).")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Of text files without byte-order mark, e.g. latin-1.")
    ] = None,
    missing: Annotated[
        list[str] | None, typer.Option(help="One more word that means nothing; may be repeated.")
    ] = None,
    date_order: Annotated[
        str | None, typer.Option(help="What 03/04/2020 means: dmy or mdy.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse what the data-quality gate finds.")
    ] = False,
    synthetic: Annotated[
        bool, typer.Option("--synthetic", help="The records are nobody's: for `test = true`.")
    ] = False,
    reference_ranges: Annotated[
        Path | None, typer.Option(help="CSV: code, low, high. Else reference_ranges.csv in PATH.")
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(help="flat: the site.toml that maps the columns.")
    ] = None,
    schema: Annotated[str | None, typer.Option(help="Of a server or a DuckDB file.")] = None,
    prefix: Annotated[
        list[str] | None, typer.Option(help="meds: MODE=PREFIX of its codes; may be repeated.")
    ] = None,
    memory: Annotated[str, typer.Option(help="Memory that the reading may take.")] = "700MB",
    form: FormatOption = Format.text,
) -> None:
    """Turn EHR tables into events, and say what was read, what was dropped and why."""
    from tripheno.records.ingest import ingest as run
    from tripheno.records.source import IngestSettings
    from tripheno.records.textfile import MISSING
    from tripheno.vocabulary.icd import ICDTitles
    from tripheno.vocabulary.rollup import parse_rollup

    names = tuple(mode.strip() for mode in modes.split(",") if mode.strip())
    chosen = IngestSettings(
        rule=CountingRule(names, window, cap),
        anchor=anchor,
        drug_names=drug_names,
        drug_table=drug_table,
        strip_strength=strip_strength,
        infer_visit=infer_visit,
        without_visit=without_visit,
        by=by,
        timezone=timezone,
        encoding=encoding,
        missing=(*MISSING, *(missing or ())),
        date_order=date_order,
        strict=strict,
        synthetic=synthetic,
        reference_ranges=reference_ranges,
        mapping=settings,
        schema=schema,
        prefixes=_prefixes(prefix or ()),
        memory=memory,
        groupings=tuple(parse_rollup(words, names) for words in rollup or ()),
    )
    with Progress() as progress:
        result = run(
            source_named(source),
            path,
            out_dir,
            chosen,
            measure=tensor_facts if find_spec("numba") else None,  # a machine that only reads
            titles=ICDTitles(),
            announce=progress.say,
        )
    if form is Format.json:
        print_json(result.to_json())
    else:
        typer.echo(result.to_text())


def _prefixes(given: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """MODE=PREFIX words by mode."""
    found: dict[str, tuple[str, ...]] = {}
    for words in given:
        mode, _, begins = words.partition("=")
        if not begins:
            raise SettingsError(f"--prefix {words} is not understood", fix="write MODE=PREFIX")
        found[mode] = (*found.get(mode, ()), begins)
    return found


def source_named(name: str) -> RecordSource:
    """The record source of that name."""
    from tripheno.records.eicu import EICU
    from tripheno.records.fhir import FHIR
    from tripheno.records.flat import Flat
    from tripheno.records.meds import MEDS
    from tripheno.records.mimic import Mimic
    from tripheno.records.omop import OMOP

    sources: tuple[RecordSource, ...] = (OMOP(), Mimic(), EICU(), FHIR(), MEDS(), Flat())
    return next(source for source in sources if source.name == name)


def tensor_facts(events: Path, rule: CountingRule) -> TensorFacts:
    """The tensor that a file of events gives: patients and codes that take part in a cell."""
    import numpy as np

    from tripheno.records.coverage import TensorFacts
    from tripheno.tensor.large import count_file

    tensor = count_file(events, rule)
    patients = int(np.count_nonzero(np.diff(tensor.cells.starts)))
    codes = (int(np.count_nonzero(people)) for people in tensor.people_at_positions())
    return TensorFacts((patients, *codes), tensor.nonzeros)
