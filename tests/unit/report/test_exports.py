"""Every export is opened by the library or the schema of those who use it."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tripheno.errors import BadSheet, NoConceptIds, NothingToExport, OutputExists, SettingsError
from tripheno.lab.synthetic.network import SyntheticSettings, synthetic_network
from tripheno.records.events import CountingRule, write_events
from tripheno.report.annotations import latest
from tripheno.report.cohorts import score, write_scored
from tripheno.report.exports.chosen import Wanted
from tripheno.report.exports.slides import fitting, names_on, share_of
from tripheno.report.exports.write import FORMATS, export_run
from tripheno.report.phenotypes import Phenotype, RankedCode
from tripheno.report.run_folder import read_report
from tripheno.report.sheet import take_sheet
from tripheno.report.simulated import run_simulation
from tripheno.solver.settings import SolverSettings
from tripheno.study.simulation import Simulation, assemble
from tripheno.tensor.count_tensor import CountTensor

EVERY = Wanted(unstable=True)
CONCEPTS = 4_000_000


def with_concept_ids(events):
    """The same events with whole numbers for codes, as an OMOP source has them."""
    codes = events["code"].cast(pa.string()).to_pylist()
    number = {code: str(CONCEPTS + n) for n, code in enumerate(sorted(set(codes)))}
    return with_codes(events, number.__getitem__)


def with_codes(events, other):
    codes = events["code"].cast(pa.string()).to_pylist()
    at = events.column_names.index("code")
    changed = events.set_column(at, "code", pa.array([other(code) for code in codes]))
    return changed.set_column(
        changed.column_names.index("mode"), "mode", changed["mode"].cast(pa.string())
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A run on concept ids, one on other codes, and scored patients of the first."""
    home = tmp_path_factory.mktemp("exports")
    settings = SyntheticSettings(patients_per_hospital=(300, 100, 60), with_times=True)
    hospitals = synthetic_network(settings).hospitals
    omop = with_concept_ids(pa.concat_tables(h.events for h in hospitals[:1]))
    write_events(omop, home / "events.parquet", CountingRule())
    solver = SolverSettings(4, "exact", tol=1e-3, starts=1)
    others = {
        h.name: CountTensor.from_events(with_codes(h.events, "ICD9CM:{}".format)) for h in hospitals
    }
    for name, tensors in {
        "omop": {"a": CountTensor.from_events(omop)}, "other": others,
    }.items():  # fmt: skip
        run_simulation(
            Simulation(assemble(tensors), solver, {}, beside=(), resamples=0), home / name, 0.0
        )
    write_scored(home / "scored", score(home / "omop", home / "events.parquet"), home / "omop")
    return home


@pytest.fixture
def run(home):
    (home / "omop" / "annotations.jsonl").unlink(missing_ok=True)
    return home / "omop"


def say(run, number, field, value, who="Ada"):
    read_report(run).annotations.add(number, who, field, value)


class TestAtlas:
    def test_circe_reads_every_cohort_and_makes_its_query(self, run, tmp_path):
        from circe import build_cohort_query, cohort_expression_from_json
        from circe.cohortdefinition import BuildExpressionQueryOptions

        say(run, 1, "name", "Heart failure")
        written = export_run(run, "atlas", tmp_path / "out", EVERY)
        cohorts = [path for path in written if path.parent.name == "cohorts"]
        assert len(cohorts) == 4
        for path in cohorts:
            expression = cohort_expression_from_json(path.read_text())
            assert len(expression.concept_sets) == 2
            options = BuildExpressionQueryOptions()
            options.cohort_id, options.cdm_schema = 1, "cdm"
            query = build_cohort_query(expression, options)
            ids = [item.concept.concept_id for item in expression.concept_sets[0].expression.items]
            assert ids
            assert all(str(number) in query for number in ids)
        assert (
            cohort_expression_from_json(cohorts[0].read_text())
            .concept_sets[0]
            .name.startswith("Heart failure: ")
        )
        with (tmp_path / "out" / "Cohorts.csv").open() as stream:
            assert next(csv.DictReader(stream))["cohortName"] == "Heart failure"

    def test_other_codes_need_a_concept_table(self, home, tmp_path):
        with pytest.raises(NoConceptIds):
            export_run(home / "other", "atlas", tmp_path / "one", EVERY)
        first = read_report(home / "other").phenotypes[0].codes["diagnosis"][0].code
        vocabulary, _, code = first.rpartition(":")
        rows = f"concept_id\tconcept_code\tvocabulary_id\n77\t{code}\t{vocabulary}\n"
        (tmp_path / "CONCEPT.csv").write_text(rows)
        wanted = Wanted(unstable=True, concepts=tmp_path / "CONCEPT.csv")
        export_run(home / "other", "atlas", tmp_path / "two", wanted)
        sets = json.loads((tmp_path / "two" / "conceptsets" / "001.json").read_text())
        (items,) = (one["items"] for one in sets.values())
        assert [item["concept"]["CONCEPT_ID"] for item in items] == [77]


def test_value_sets_are_valid_fhir(home, tmp_path):
    from fhir.resources.valueset import ValueSet

    for path in export_run(home / "other", "valueset", tmp_path / "out", EVERY):
        found = ValueSet.model_validate_json(path.read_text())
        assert found.status == "draft"
        assert sum(len(part.concept) for part in found.compose.include) > 3


def test_anndata_opens_with_phenotypes_and_with_patients(run, home, tmp_path):
    import anndata

    say(run, 2, "name", "Asthma")
    wanted = Wanted(scored=home / "scored")
    export_run(run, "anndata", tmp_path / "out", wanted)
    made = anndata.read_h5ad(tmp_path / "out" / "phenotypes.h5ad")
    table = pq.read_table(run / "factors" / "medication.parquet")
    assert made.obs["title"].iloc[1] == "Asthma"
    assert made.shape == (4, sum(read_report(run).run["shape"][1:]))
    assert made.X[2, 0] == table["component_3"][0].as_py()
    patients = anndata.read_h5ad(tmp_path / "out" / "patients.h5ad")
    assert patients.shape[1] == 4
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "out" / "patients.h5ad").stat().st_mode & 0o777 == 0o600


def test_meds_tables_follow_the_schemas(run, home, tmp_path):
    from meds import CodeMetadataSchema, DataSchema, DatasetMetadataSchema

    export_run(run, "meds", tmp_path / "out", Wanted(unstable=True, scored=home / "scored"))
    events = pq.read_table(tmp_path / "out" / "data" / "0.parquet")
    DataSchema.validate(events)
    codes = pq.read_table(tmp_path / "out" / "metadata" / "codes.parquet")
    CodeMetadataSchema.validate(codes)
    about = json.loads((tmp_path / "out" / "metadata" / "dataset.json").read_text())
    DatasetMetadataSchema.validate(about)
    assert set(events["code"].to_pylist()) <= set(codes["code"].to_pylist())
    with (home / "scored" / "cohort.csv").open() as stream:
        assert events.num_rows == sum(1 for _ in stream) - 1


def test_the_model_card_says_data_settings_evidence_and_that_there_is_no_epsilon(run, tmp_path):
    say(run, 1, "name", "a | b <script>")
    export_run(run, "card", tmp_path / "out")
    text = (tmp_path / "out" / "MODEL_CARD.md").read_text()
    for title in ("Data", "Settings", "Evidence", "Privacy", "Use and limits"):
        assert f"\n## {title}\n" in text
    assert "no ε" in text
    assert "a \\| b &lt;script>" in text


@pytest.mark.parametrize("kind", ["xlsx", "csv"])
def test_a_filled_in_sheet_keeps_every_verdict_and_comes_back_once(run, tmp_path, kind):
    openpyxl = pytest.importorskip("openpyxl")
    say(run, 1, "verdict", "meaningful")
    say(run, 1, "name", "=HYPERLINK(1)")
    export_run(run, kind, tmp_path / "out")
    filled = {2: ("Bo", "not meaningful", "'quoted"), 3: ("Bo", "meaningful", "-1 it says")}
    path = tmp_path / "out" / ("phenotypes.xlsx" if kind == "xlsx" else "review.csv")
    if kind == "xlsx":
        book = openpyxl.load_workbook(path)
        page = book["review"]
        assert all(c.data_type != "f" for row in page.iter_rows() for c in row)
        heading = [cell.value for cell in page[1]]
        for row in page.iter_rows(min_row=2):
            cells = dict(zip(heading, row, strict=True))
            if cells["phenotype"].value in filled and not cells["reviewer"].value:
                who, verdict, comment = filled[cells["phenotype"].value]
                cells["reviewer"].value, cells["verdict"].value = who, verdict
                cells["comment"].value = "'" + comment
        book.save(path)
    else:
        with path.open(newline="") as stream:
            heading, *rows = list(csv.reader(stream))
        for row in rows:
            if int(row[1]) in filled and not row[5]:
                row[5], row[7], row[8] = (*filled[int(row[1])][:2], "'" + filled[int(row[1])][2])
        with path.open("w", newline="") as stream:
            csv.writer(stream).writerows([heading, *rows])
    assert take_sheet(read_report(run), path) == {"added": 4, "phenotypes": 2}
    assert take_sheet(read_report(run), path) == {"added": 0, "phenotypes": 0}
    state = latest(read_report(run).annotations.said())
    assert state[1, "Ada"] == {"verdict": "meaningful", "name": "=HYPERLINK(1)"}
    assert state[2, "Bo"] == {"verdict": "not meaningful", "comment": "'quoted"}
    assert state[3, "Bo"] == {"verdict": "meaningful", "comment": "-1 it says"}


def test_a_sheet_of_another_run_or_without_a_reviewer_adds_nothing(run, home, tmp_path):
    export_run(run, "csv", tmp_path / "out")
    path = tmp_path / "out" / "review.csv"
    path.write_text(path.read_text().replace(",,,,", ",,,meaningful,", 1))
    with pytest.raises(BadSheet, match="no reviewer"):
        take_sheet(read_report(run), path)
    with pytest.raises(BadSheet, match="about run"):
        take_sheet(read_report(home / "other"), path, "Ada")
    (tmp_path / "fake.xlsx").write_bytes(b"no workbook")
    with pytest.raises(BadSheet):
        take_sheet(read_report(run), tmp_path / "fake.xlsx")
    assert read_report(run).annotations.said() == []
    assert take_sheet(read_report(run), path, "Ada") == {"added": 1, "phenotypes": 1}


def rows_of(path):
    with path.open(newline="", encoding="utf-8-sig") as stream:
        return list(csv.DictReader(stream))


def write_rows(path, rows, encoding="utf-8"):
    with path.open("w", newline="", encoding=encoding) as stream:
        writer = csv.DictWriter(stream, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def test_an_old_sheet_does_not_take_back_what_was_said_since(run, tmp_path):
    say(run, 1, "verdict", "meaningful")
    export_run(run, "csv", tmp_path / "out")
    path = tmp_path / "out" / "review.csv"
    say(run, 1, "verdict", "not meaningful")
    rows = rows_of(path)
    rows[0]["comment"] = "typical"
    write_rows(path, rows)
    assert take_sheet(read_report(run), path) == {"added": 1, "phenotypes": 1}
    state = latest(read_report(run).annotations.said())
    assert state[1, "Ada"] == {"verdict": "not meaningful", "comment": "typical"}


def test_a_sheet_saved_by_excel_in_its_own_letters_is_read(run, tmp_path):
    export_run(run, "csv", tmp_path / "out")
    path = tmp_path / "out" / "review.csv"
    assert path.read_bytes().startswith("\ufeff".encode())  # by which Excel knows UTF-8
    rows = rows_of(path)
    rows[1] |= {"reviewer": "Zoë", "verdict": "Meaningful", "comment": "fièvre – élevée"}
    write_rows(path, rows, "cp1252")
    assert take_sheet(read_report(run), path)["added"] == 2
    state = latest(read_report(run).annotations.said())
    assert state[2, "Zoë"] == {"verdict": "meaningful", "comment": "fièvre – élevée"}
    rows[1]["verdict"] = "splendid"
    write_rows(path, rows, "cp1252")
    with pytest.raises(BadSheet, match="row 3: a verdict is meaningful, possibly"):
        take_sheet(read_report(run), path)
    head, body = path.read_text("cp1252").split("\n", 1)
    path.write_text(f"{head}\n\n{body}", "cp1252", newline="")  # as spreadsheets count rows
    with pytest.raises(BadSheet, match="row 4: a verdict"):
        take_sheet(read_report(run), path)


def test_a_sheet_saved_as_unicode_text_with_tabs_is_read(run, tmp_path):
    export_run(run, "csv", tmp_path / "out")
    rows = rows_of(tmp_path / "out" / "review.csv")
    rows[1] |= {"reviewer": "渡辺", "verdict": "meaningful", "decision": "Merged into 1"}
    with (tmp_path / "review.txt").open("w", newline="", encoding="utf-16") as stream:
        writer = csv.DictWriter(stream, rows[0].keys(), delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)
    assert take_sheet(read_report(run), tmp_path / "review.txt")["added"] == 2
    assert read_report(run).phenotypes[1].review.merged_into == 1


def test_phenotypes_are_not_merged_in_a_ring(run, tmp_path):
    say(run, 1, "decision", "merged into 2")
    say(run, 2, "decision", "merged into 3")
    for number, into in ((2, 1), (3, 1), (3, 2)):
        with pytest.raises(SettingsError, match=f"phenotype {into} is merged into {number}"):
            say(run, number, "decision", f"merged into {into}")
    export_run(run, "csv", tmp_path / "out")
    rows = rows_of(tmp_path / "out" / "review.csv")
    for row in rows:
        row |= {"reviewer": "Bo", "decision": {"3": "merged into 4", "4": "merged into 1"}.get(
            row["phenotype"], "")}  # fmt: skip
    write_rows(tmp_path / "ring.csv", rows)
    with pytest.raises(BadSheet, match="phenotype 1 is merged into 4 already"):
        take_sheet(read_report(run), tmp_path / "ring.csv")
    assert [p.review.merged_into for p in read_report(run).phenotypes] == [2, 3, None, None]


def test_merged_ones_bring_their_codes_and_rejected_ones_stay_away(run, home, tmp_path):
    say(run, 2, "decision", "merged into 1")
    say(run, 3, "decision", "rejected")
    export_run(run, "valueset", tmp_path / "out", EVERY)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["phenotype-001.json", "phenotype-004.json"]
    one, two = read_report(run).phenotypes[:2]
    text = (tmp_path / "out" / "phenotype-001.json").read_text()
    for phenotype in (one, two):
        for codes in phenotype.codes.values():
            assert all(f'"{code.code}"' in text for code in codes)
    scored = score(run, home / "events.parquet")
    summary = write_scored(tmp_path / "cohorts", scored, run)
    assert [row["phenotype"] for row in summary["phenotypes"]] == [1, 4]
    both = scored.has[:, [0, 1]].any(axis=1).sum()
    assert summary["phenotypes"][0]["patients"] == both


def test_all_rejected_is_said_and_no_folder_is_overwritten(run, tmp_path):
    for number in (1, 2, 3, 4):
        say(run, number, "decision", "rejected")
    with pytest.raises(NothingToExport):
        export_run(run, "valueset", tmp_path / "out", EVERY)
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputExists):
        export_run(run, "csv", tmp_path)


@pytest.mark.parametrize("wanted", [{"scored": "here"}, {"only": (1,)}, {"concepts": "C.csv"}])
def test_an_option_that_a_format_would_not_follow_is_refused(run, tmp_path, wanted):
    with pytest.raises(SettingsError, match="with --as csv"):
        export_run(run, "csv", tmp_path / "out", Wanted(**wanted))
    assert not (tmp_path / "out").exists()


def test_the_library_lists_the_cohorts_that_have_a_definition(run, tmp_path):
    own = tmp_path / "run"
    shutil.copytree(run, own)
    plain = json.loads((own / "phenotypes.json").read_text())
    for codes in plain[1]["codes"].values():
        for code in codes:
            code["code"] = None  # known at another hospital only
    (own / "phenotypes.json").write_text(json.dumps(plain))
    written = export_run(own, "atlas", tmp_path / "out", EVERY)
    listed = {int(row["cohortId"]) for row in rows_of(tmp_path / "out" / "Cohorts.csv")}
    assert listed == {int(p.stem) for p in written if p.parent.name == "cohorts"} == {1, 3, 4}


def test_codes_that_would_point_at_few_patients_are_in_no_export(run, tmp_path):
    own = tmp_path / "run"
    shutil.copytree(run, own)
    plain = json.loads((own / "phenotypes.json").read_text())
    plain[1]["named"] = False
    (own / "phenotypes.json").write_text(json.dumps(plain))
    hidden = {c["code"] for codes in plain[1]["codes"].values() for c in codes}
    hidden -= {c["code"] for n in (0, 2, 3) for cs in plain[n]["codes"].values() for c in cs}
    say(own, 2, "name", "Known to me")
    say(own, 2, "decision", "merged into 1")
    for kind in ("valueset", "atlas", "csv", "meds"):
        for path in export_run(own, kind, tmp_path / kind, EVERY):
            assert not any(code.encode() in path.read_bytes() for code in hidden), path.name
    with pytest.raises(NothingToExport):
        export_run(own, "slides", tmp_path / "slides", Wanted(unstable=True, only=(2,)))
    assert not (tmp_path / "slides").exists()


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_every_format_writes_what_it_says(run, tmp_path, kind):
    written = export_run(run, kind, tmp_path / "out", EVERY)
    assert written
    assert all(path.stat().st_size > 0 for path in written)


def test_slides_of_chosen_phenotypes_open_in_powerpoints_own_form(run, tmp_path):
    from pptx import Presentation

    (path,) = export_run(run, "slides", tmp_path / "out", Wanted(unstable=True, only=(2,)))
    summary, slide = Presentation(str(path)).slides
    phenotype = read_report(run).phenotypes[1]
    words = [shape.text_frame.text for shape in slide.shapes if shape.has_text_frame]
    assert words[0] == f"2. {phenotype.title}"
    assert any(text.startswith("How sure: ") for text in words)
    tables = [shape.table for shape in slide.shapes if shape.has_table]
    assert len(tables) == len(phenotype.codes)
    first = next(iter(phenotype.codes.values()))[0]
    assert tables[0].cell(1, 0).text == first.name
    assert any("Next: " in s.text_frame.text for s in summary.shapes if s.has_text_frame)


def test_a_phenotype_that_is_not_there_is_not_exported(run, tmp_path):
    with pytest.raises(SettingsError, match="no phenotype 99"):
        export_run(run, "slides", tmp_path / "out", Wanted(only=(99,)))


def test_a_slide_gives_no_interval_of_an_unstable_phenotype_and_says_whose_a_share_is():
    code = RankedCode(3, "x", "fever", 0.5, 0.004, 0.1, (0.0, 0.012))
    stable = Phenotype(1, 1.0, 0.5, {"diagnosis": (code,)}, grade="stable")
    assert share_of(code, stable) == "< 1 % (0–1)"
    assert share_of(code, replace(stable, grade="unstable")) == "< 1 %"
    assert share_of(replace(code, position=4), stable) == "< 1 % (merged)"


def test_words_on_a_slide_stay_in_their_box():
    assert fitting(["short"], 12.1, 5.0, 20) == 20
    many = ["a sentence of sixty letters, more or less, as reports have"] * 30
    size = fitting(many, 12.1, 5.0, 20)
    assert 8 < size < 20
    assert 30 * 1.2 * size / 72 <= 5.0
    assert fitting(["語" * 50], 12.1, 0.9, 28) < fitting(["l" * 50], 12.1, 0.9, 28) == 28


def test_two_strengths_of_a_drug_have_two_names_on_a_slide():
    codes = [RankedCode(n, str(n), name, 0.5, 0.3) for n, name in enumerate(
        ("acetaminophen 325 MG Oral Tablet", "acetaminophen 160 MG Oral Tablet",
         "digoxin 0.125 MG Oral Tablet", ""))]  # fmt: skip
    first, second = (code.name for code in codes[:2])
    assert names_on(codes) == [first, second, "digoxin", "(not known here)"]
