"""The seed paper's experiments: rows that can be trusted, resumed and read."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from kit.planted import planted
from tripheno.errors import OutputExists, SettingsError
from tripheno.evaluation.comparison import share_out
from tripheno.lab.paper import plan
from tripheno.lab.paper.dealing import share_out_by_phenotype, strongest_phenotype
from tripheno.lab.paper.ledger import COLUMNS, Row, RowFile, append_lines, read_rows
from tripheno.lab.paper.measuring import ReferenceModel, alignment_seconds, used_axes
from tripheno.lab.paper.plan import ESSENTIAL, PaperSettings, points_of, tasks_of
from tripheno.lab.paper.running import Grids
from tripheno.lab.paper.seed_figures import SEED_TENSORS, SEED_UCSD, SEED_WORST_GAP
from tripheno.lab.paper.shares import FOLDER, at_work, deal, gather, jobs_for
from tripheno.lab.paper.tensors import Tensors
from tripheno.lab.paper_charts import over_repeats, time_chart, x_label
from tripheno.lab.paper_page import verdicts, write_page
from tripheno.solver.fit import fit
from tripheno.solver.settings import SolverSettings
from tripheno.tensor.count_tensor import pooled

ROW = Row(3.0, "trip", "corrected", 0, 1.5, 0.0001, 0.99, 2.0, 0.5, 0.1, 1_000, 2_000)
SMALL = PaperSettings(scale=0.002, repeats=1, rank=3, max_iter=8)


def silent(_text):
    """Progress that nobody reads."""


def test_the_columns_are_those_of_the_interface():
    assert COLUMNS == (
        "x", "method", "variant", "repeat", "rmse_nonzeros", "rmse_gap", "fms", "seconds_compute",
        "seconds_communication", "seconds_alignment", "bytes_up", "bytes_down",
    )  # fmt: skip


def test_a_row_comes_back_from_disk_as_it_went(tmp_path):
    ledger = RowFile(tmp_path, "skew", {"rank": 3})
    rows = [ROW, replace(ROW, x="eicu", rmse_gap=None, fms=None), replace(ROW, x=1 / 3)]
    for row in rows:
        ledger.add(row, {"iterations": 7})
    back = read_rows(tmp_path / "skew.csv")
    assert back[:2] == rows[:2]
    assert back[2].x == pytest.approx(1 / 3, abs=1e-9)
    again = RowFile(tmp_path, "skew", {"rank": 3})
    assert all(again.has(row.x, row.method, row.variant, row.repeat) for row in rows)
    assert not again.has(0.5, "trip", "corrected", 0)


def test_a_run_without_a_result_is_a_row_too(tmp_path):
    nothing = float("nan")
    lost = replace(ROW, rmse_nonzeros=nothing, rmse_gap=None, fms=None, seconds_compute=nothing)
    RowFile(tmp_path, "skew", {"rank": 3}).add(lost, {"stopped_because": "it diverged"})
    (back,) = read_rows(tmp_path / "skew.csv")
    assert np.isnan(back.rmse_nonzeros)
    assert back.key == lost.key
    assert over_repeats([back], "rmse_nonzeros") == {}
    assert verdicts({"skew": [back]})["corrected"] is None


def test_a_line_cut_off_by_a_crash_is_measured_again(tmp_path):
    ledger = RowFile(tmp_path, "skew", {"rank": 3})
    ledger.add(ROW, {})
    with (tmp_path / "skew.csv").open("a") as stream:
        stream.write("0.5,trip,correc")
    after = RowFile(tmp_path, "skew", {"rank": 3})
    assert list(after.rows.values()) == [ROW]
    after.add(replace(ROW, x=0.5), {})
    assert [row.x for row in read_rows(tmp_path / "skew.csv")] == [3.0, 0.5]


def test_rows_of_other_settings_are_not_mixed(tmp_path):
    RowFile(tmp_path, "skew", {"rank": 3}).add(ROW, {})
    with pytest.raises(OutputExists):
        RowFile(tmp_path, "skew", {"rank": 4})


def test_a_csv_of_somebody_else_is_left_alone(tmp_path):
    append_lines(tmp_path / "skew.csv", ("a",), [{"a": 1}])
    with pytest.raises(OutputExists):
        RowFile(tmp_path, "skew", {"rank": 4})


def test_the_grids_are_the_papers_and_beyond():
    assert [p.window for p in points_of("nonzeros")] == ["3h", "6h", "1d", "7d"]
    assert [p.x for p in points_of("hospitals")] == [1, 2, 3, 4, 5, 10, 20, 50]
    assert [p.skew for p in points_of("skew")] == [1 / 3, 0.5, 0.7, 0.9, 0.99]
    assert {p.sums for p in points_of("hospitals") if p.hospitals < 3} == {"plain"}
    with pytest.raises(SettingsError):
        points_of("colours")


def test_sums_are_masked_wherever_there_are_three_hospitals_or_more():
    for experiment in ("nonzeros", "hospitals", "skew", "case-mix"):
        for point in points_of(experiment):
            assert point.sums == ("blind" if point.hospitals >= 3 else "plain")
    assert max(p.hospitals for p in points_of("sums-blind")) == 50


def test_the_same_run_is_measured_once_and_stands_in_every_experiment(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "SKEWS", (1 / 3,))
    monkeypatch.setattr(plan, "SUMS_COMPARED", (3,))
    quick = replace(SMALL, max_iter=2)
    grids = Grids(tmp_path, quick, silent)
    assert grids.run(("skew", "sums-blind")) == 8
    skew, sums = (read_rows(tmp_path / f"{name}.csv") for name in ("skew", "sums-blind"))
    same = {(r.method, r.variant): r for r in skew}
    assert [replace(same[r.method, r.variant], x=3.0) for r in sums] == sums
    notes = grids.ledgers["sums-blind"].notes["runs"]["3 trip corrected 0"]
    assert notes["measured_as"].startswith("skew")


def test_hospitals_that_differ_have_every_patient_once_and_another_case_mix():
    hospitals = planted(0).hospitals
    whole = pooled(list(hospitals.values()))
    factors = fit(
        {"all": whole}, SolverSettings(3, method="central", max_iter=20, starts=1)
    ).factors
    dealt = share_out_by_phenotype(whole, 3, factors, np.random.default_rng(0))
    assert sum(t.patients for t in dealt.values()) == whole.patients
    assert sum(t.squared_norm for t in dealt.values()) == pytest.approx(whole.squared_norm)
    mixes = [
        np.bincount(strongest_phenotype(t, factors), minlength=3) / t.patients
        for t in dealt.values()
    ]
    assert max(np.abs(a - b).max() for a in mixes for b in mixes) > 0.3


def test_every_hospital_has_a_patient_even_where_there_are_few():
    whole = pooled(list(planted(0).hospitals.values())).select_patients(np.arange(12))
    factors = [np.eye(axis.size)[:, :3] for axis in whole.axes]
    dealt = share_out_by_phenotype(whole, 12, factors, np.random.default_rng(1))
    assert [t.patients for t in dealt.values()] == [1] * 12


def test_what_says_most_is_measured_first():
    tasks = tasks_of(("nonzeros", "skew"), range(2))
    first = tasks[: len(ESSENTIAL) * (4 + 5)]
    assert {task.contender for task in first} == set(ESSENTIAL)
    assert {task.repeat for task in first} == {0}
    assert first[0].experiment == "nonzeros"
    assert len(set(tasks)) == len(tasks) == 2 * 5 * (4 + 5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"data": "mimic"},
        {"scale": 0.0},
        {"scale": 1.5},
        {"repeats": 0},
        {"data": "paper"},
        {"share": (2, 2)},
    ],
)
def test_settings_that_cannot_be_used_are_refused(wrong):
    with pytest.raises(SettingsError):
        PaperSettings(**wrong)


def test_a_reference_is_kept_without_patients(tmp_path):
    rng = np.random.default_rng(0)
    factors = (rng.random((5, 3)), rng.random((4, 3)))
    kept = ReferenceModel(factors, 1.25, 3.5, 40, 1_000, 2)
    kept.save(tmp_path / "central" / "3h-0.npz")
    back = ReferenceModel.load(tmp_path / "central" / "3h-0.npz")
    assert (back.rmse, back.seconds, back.iterations, back.nonzeros) == (1.25, 3.5, 40, 1_000)
    assert all(np.array_equal(a, b) for a, b in zip(back.factors, factors, strict=True))
    assert back.pooling_bytes() == 1_000 * 16


def test_alignment_is_timed_on_the_codes_each_hospital_uses():
    tensors = planted(0).hospitals
    few = {name: tensor.select_patients(np.arange(5)) for name, tensor in tensors.items()}
    for tensor in few.values():
        for n, axis in enumerate(used_axes(tensor)):
            assert axis.size == len(np.unique(tensor.cells.indices[:, n])) < tensor.axes[n].size
    assert alignment_seconds(few, 0) > 0.0


@pytest.fixture(scope="module")
def skew_run(tmp_path_factory):
    """The skew experiment, small: three places on the axis, every method."""
    folder = tmp_path_factory.mktemp("paper")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "SKEWS", (0.5, 0.9))
        said: list[str] = []
        assert Grids(folder, SMALL, said.append).run(("skew",)) == 10
        yield folder, said


def test_exact_is_central_and_trip_is_near_it(skew_run):
    rows = read_rows(skew_run[0] / "skew.csv")
    found = verdicts({"skew": rows})
    assert found["exact"] <= 1e-9
    assert found["corrected"] <= SEED_WORST_GAP
    assert found["local_least_by_lot"] > 0.0
    assert found["local_least"] is None
    assert all(row.seconds_compute > 0 and row.bytes_up > 0 for row in rows)


def test_a_finished_run_measures_nothing_again(skew_run):
    folder, _ = skew_run
    before = (folder / "skew.csv").read_bytes()
    assert Grids(folder, SMALL, silent).run(("skew",)) == 0
    assert (folder / "skew.csv").read_bytes() == before


def test_a_row_that_was_lost_is_the_only_one_measured_again(skew_run):
    folder, _ = skew_run
    lines = (folder / "skew.csv").read_text().splitlines(keepends=True)
    (folder / "skew.csv").write_text("".join(lines[:-1]))
    assert Grids(folder, SMALL, silent).run(("skew",)) == 1
    again = (folder / "skew.csv").read_text().splitlines(keepends=True)
    same = slice(0, 7)  # all but seconds and bytes
    assert again[-1].split(",")[same] == lines[-1].split(",")[same]


def test_shares_of_the_repeats_are_gathered_to_what_one_process_measures(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "SKEWS", (0.5,))
    whole, shared = tmp_path / "whole", tmp_path / "shared"
    three = replace(SMALL, repeats=3, max_iter=2)
    Grids(whole, three, silent).run(("skew",))
    Grids(shared, replace(three, repeats=1), silent).run(("skew",))
    known = read_rows(shared / "skew.csv")
    deal(shared, three, 2)
    missing = [
        Grids(shared / FOLDER / str(n), replace(three, share=(n, 2)), silent).run(("skew",))
        for n in range(2)
    ]
    assert missing == [5, 5]  # repeat 0 was known, 2 was the first share's, 1 the second's
    gather(shared, three)
    rows = read_rows(shared / "skew.csv")
    assert rows[: len(known)] == known
    assert {r.key: r.rmse_nonzeros for r in rows} == {
        r.key: r.rmse_nonzeros for r in read_rows(whole / "skew.csv")
    }
    notes = json.loads((shared / "skew.json").read_text())["runs"]
    assert notes["0.5 trip corrected 1"]["processes"] == 2
    assert "processes" not in notes["0.5 trip corrected 0"]
    assert not (shared / FOLDER).exists()
    assert Grids(shared, three, silent).run(("skew",)) == 0


def test_what_shares_leave_behind_is_gathered_whatever_is_asked_for_next(tmp_path):
    share = tmp_path / FOLDER / "1"
    RowFile(share, "skew", SMALL.to_dict()).add(replace(ROW, repeat=7), {"iterations": 3})
    for name in ("central/3h-7.npz", "phenotypes-7.json", "iterations.csv"):
        (share / name).parent.mkdir(exist_ok=True)
        (share / name).write_text("longer")
    (tmp_path / "iterations.csv").write_text("long")
    for name in ("2.gathered/skew.csv", "mine/notes.txt"):  # half removed; somebody else's
        (tmp_path / FOLDER / name).parent.mkdir()
        (tmp_path / FOLDER / name).write_text("x")
    gather(tmp_path, SMALL)
    assert [row.repeat for row in read_rows(tmp_path / "skew.csv")] == [7]
    for name in ("central/3h-7.npz", "phenotypes-7.json", "iterations.csv"):
        assert (tmp_path / name).read_text() == "longer"
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["mine"]


def test_shares_of_other_settings_are_refused_and_kept(tmp_path):
    RowFile(tmp_path / FOLDER / "0", "skew", SMALL.to_dict()).add(ROW, {})
    RowFile(tmp_path, "skew", replace(SMALL, rank=4).to_dict()).add(ROW, {})
    with pytest.raises(OutputExists):
        gather(tmp_path, replace(SMALL, rank=4))
    assert (tmp_path / FOLDER / "0" / "skew.csv").is_file()


def test_two_commands_do_not_measure_in_one_folder(tmp_path):
    twice = at_work(tmp_path, SMALL)
    with at_work(tmp_path, SMALL), pytest.raises(OutputExists, match="another process"):
        twice.__enter__()
    with at_work(tmp_path, SMALL):
        assert (tmp_path / ".lock").is_file()


def test_small_scales_use_every_core_and_large_ones_leave_seconds_alone(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert jobs_for(replace(SMALL, repeats=9), 0) == 4
    assert jobs_for(replace(SMALL, repeats=3), 0) == 3
    assert jobs_for(replace(SMALL, scale=1.0, repeats=9), 0) == 1
    assert jobs_for(replace(SMALL, scale=1.0, repeats=9), 2) == 2


def test_progress_names_the_row_and_what_is_left(skew_run):
    lines = [text for text in skew_run[1] if text.startswith("[")]
    assert lines[0].startswith("[1/10] skew x=0.5 central, repeat 0: RMSE ")
    assert lines[-1].endswith("about 0 s left")


def test_settings_seeds_versions_and_machine_stand_beside_the_rows(skew_run):
    notes = json.loads((skew_run[0] / "skew.json").read_text())
    assert notes["settings"]["scale"] == SMALL.scale
    assert notes["settings"]["seed"] == 0
    assert {"numpy", "numba"} <= set(notes["libraries"])
    assert notes["machine"]["cores"] >= 1
    assert notes["runs"]["0.5 trip corrected 0"]["sums"] == "blind"


def test_the_page_holds_the_rows_and_the_papers_numbers(skew_run):
    page = write_page(skew_run[0]).read_text()
    assert "Share of patients at the first hospital" in page
    assert page.count("<svg") == 2
    assert "http" not in page.split("</style>")[1]
    assert (skew_run[0] / "figures" / "skew-error.svg").is_file()


def test_means_and_spreads_are_over_repeats():
    rows = [replace(ROW, repeat=r, rmse_nonzeros=1.0 + r) for r in range(3)]
    mean = over_repeats(rows, "rmse_nonzeros")[3.0, "trip corrected"]
    assert (mean.mean, mean.spread, mean.repeats) == (2.0, 1.0, 3)


def test_places_on_the_axis_are_spelt_for_readers():
    assert x_label(15_300_000.0, "nonzeros") == "15.3M"
    assert x_label(1 / 3, "skew") == "0.33"
    assert x_label(50.0, "hospitals") == "50"


def test_the_papers_gaps_follow_from_its_own_numbers():
    gaps = [abs(t.rmse_trip / t.rmse_central - 1) for t in SEED_TENSORS]
    assert round(max(gaps), 4) == SEED_WORST_GAP
    assert SEED_UCSD[0].communication == 15.1196


def test_the_windows_of_one_population_make_the_papers_four_sizes():
    tensors = Tensors(PaperSettings(scale=0.01), silent)
    found = [tensors[p.window].nonzeros / 0.01 for p in points_of("nonzeros")]
    wanted = [tensor.nonzeros for tensor in SEED_TENSORS]
    # the list of medications shrinks with the scale, so cells fall together a little
    assert found == sorted(found)
    for ours, papers in zip(found, wanted, strict=True):
        assert ours == pytest.approx(papers, rel=0.2)


def test_dealing_out_is_the_same_for_every_method():
    whole = Tensors(SMALL, silent)["3h"]
    one, other = (share_out(whole, 3, 0.5, np.random.default_rng([0, 1])) for _ in range(2))
    assert [t.nonzeros for t in one.values()] == [t.nonzeros for t in other.values()]


def test_the_csv_is_plain_csv(skew_run):
    with (skew_run[0] / "skew.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 10
    assert {row["variant"] for row in rows if row["method"] == "trip"} == {"corrected", "released"}


def test_times_stand_in_the_order_of_the_numbers_of_hospitals():
    rows = [replace(ROW, x=float(hospitals)) for hospitals in (50, 2, 10, 1)]
    drawn = time_chart(rows, "hospitals", "Number of hospitals").to_dict()
    assert drawn["encoding"]["column"]["sort"] == ["1", "2", "10", "50"]
