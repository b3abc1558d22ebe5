"""The synthetic hospitals: reproducible, different, and true to what was planted in them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow.compute as pc
import pytest

from tripheno.errors import SettingsError
from tripheno.lab.synthetic.catalogue import (
    CATALOGUE_MODES,
    PHENOTYPE_NAMES,
    PlantedPhenotype,
    catalogue_weights,
    common_codes,
    label_of,
)
from tripheno.lab.synthetic.network import SyntheticSettings, synthetic_network
from tripheno.lab.synthetic.presets import (
    DEMO_RANK,
    demo_settings,
    planted_hard_settings,
    seed_paper_settings,
    ucsd_settings,
)
from tripheno.records.events import EVENT_SCHEMA, modes_of

SICKLE_CELL = "Sickle cell / chronic pain crisis"
CYSTIC_FIBROSIS = "Cystic fibrosis with pancreatic involvement"


@pytest.fixture(scope="module")
def demo():
    return synthetic_network(demo_settings(seed=0))


def codes_of(hospital, mode):
    chosen = hospital.events.filter(pc.equal(hospital.events["mode"], mode))
    return set(chosen["code"].to_pylist())


def one_phenotype(prevalence=(0.5,)):
    weights = {"medication": {"aspirin": 0.9}, "diagnosis": {"414.01": 0.9}}
    return PlantedPhenotype("Coronary artery disease", weights, prevalence)


def test_the_same_seed_gives_the_same_tables():
    first, second = (synthetic_network(demo_settings(seed=3)) for _ in range(2))
    for one, other in zip(first.hospitals, second.hospitals, strict=True):
        assert one.events.equals(other.events)
        assert np.array_equal(one.memberships, other.memberships)


def test_another_seed_gives_other_tables(demo):
    other = synthetic_network(demo_settings(seed=1))
    assert not demo.hospitals[0].events.equals(other.hospitals[0].events)


def test_a_hospital_does_not_change_when_another_grows():
    small = SyntheticSettings(patients_per_hospital=(50, 50))
    grown = dataclasses.replace(small, patients_per_hospital=(50, 500))
    first, second = synthetic_network(small), synthetic_network(grown)
    assert first.hospitals[0].events.equals(second.hospitals[0].events)


def test_asking_for_times_changes_nothing_else():
    plain, timed = (
        synthetic_network(SyntheticSettings(with_times=wanted)).hospitals[0].events
        for wanted in (False, True)
    )
    assert plain["time"].null_count == plain.num_rows
    assert timed["time"].null_count == 0
    assert timed.drop_columns("time").equals(plain.drop_columns("time"))


def test_events_lie_within_their_visit_and_visits_follow_each_other():
    events = synthetic_network(SyntheticSettings((60,), with_times=True)).hospitals[0].events
    time = events["time"].to_numpy().astype("datetime64[m]").astype(np.int64)
    window, patient = events["window"].to_numpy(), events["patient"].to_numpy()
    starts = np.flatnonzero(np.r_[True, window[1:] != window[:-1]])
    earliest, latest = np.minimum.reduceat(time, starts), np.maximum.reduceat(time, starts)
    same_patient = patient[starts][1:] == patient[starts][:-1]
    assert same_patient.any()
    assert np.all(earliest[1:][same_patient] >= latest[:-1][same_patient])
    assert 1 < np.median(latest - earliest) / 60 < 100  # hours: sliding windows cut visits


def test_tables_have_the_event_schema_and_every_patient_in_every_mode(demo):
    for hospital, patients in zip(demo.hospitals, (1_100, 1_000, 900), strict=True):
        assert hospital.events.schema.equals(EVENT_SCHEMA)
        for mode in ("medication", "diagnosis"):
            chosen = hospital.events.filter(pc.equal(hospital.events["mode"], mode))
            assert pc.unique(chosen["patient"]).to_pylist() == list(range(patients))


def test_a_visit_belongs_to_one_patient_and_records_a_code_once(demo):
    events = demo.hospitals[0].events
    visits = events.group_by(["window", "patient"]).aggregate([])
    assert visits.num_rows == pc.count_distinct(events["window"]).as_py()
    distinct = events.group_by(["window", "mode", "code"]).aggregate([])
    assert distinct.num_rows == events.num_rows


def test_hospitals_use_partly_different_codes(demo):
    for mode, count in (("medication", 120), ("diagnosis", 96)):
        lists = [codes_of(hospital, mode) for hospital in demo.hospitals]
        assert len(set.union(*lists)) == count
        assert 0.5 * count < len(set.intersection(*lists)) < count


def test_full_overlap_lets_every_hospital_use_every_code():
    settings = SyntheticSettings(
        (400, 400), {"medication": 30, "diagnosis": 20}, noise_per_visit=5, code_overlap=1.0
    )
    first, second = synthetic_network(settings).hospitals
    assert codes_of(first, "medication") == codes_of(second, "medication")


def test_planted_prevalence_holds_in_memberships_and_in_records():
    settings = SyntheticSettings(
        (4_000, 4_000),
        {"medication": 40, "diagnosis": 40},
        (one_phenotype((0.05, 0.4)),),
        noise_per_visit=0.0,
    )
    for hospital, share in zip(synthetic_network(settings).hospitals, (0.05, 0.4), strict=True):
        assert hospital.memberships.mean() == pytest.approx(share, abs=0.025)
        having = set(np.flatnonzero(hospital.memberships[:, 0]))
        chosen = hospital.events.filter(pc.equal(hospital.events["code"], "414.01"))
        assert len(having & set(chosen["patient"].to_pylist())) > 0.98 * len(having)


def test_codes_of_a_phenotype_come_as_often_as_their_weights_say(demo):
    """Among visits of patients with this phenotype only, the share with a code is its weight."""
    hospital = demo.hospitals[2]
    p = [one.name for one in demo.planted].index(CYSTIC_FIBROSIS)
    alone = hospital.memberships[:, p] & (hospital.memberships.sum(axis=1) == 1)
    events = hospital.events.filter(
        np.isin(hospital.events["patient"].to_numpy(), np.flatnonzero(alone))
    )
    visits = pc.count_distinct(events["window"]).as_py()
    for code, weight in demo.planted[p].weights["medication"].items():
        seen = pc.sum(pc.equal(events["code"], code)).as_py()
        assert seen / visits == pytest.approx(weight, abs=0.09)


def test_the_background_follows_a_power_law():
    settings = SyntheticSettings(
        (4_000,),
        {"medication": 200, "diagnosis": 200},
        (),
        noise_per_visit=2.0,
        noise_habit=0.0,
        popularity_exponent=1.0,
    )
    codes = synthetic_network(settings).hospitals[0].events.filter(pc.field("mode") == "diagnosis")
    counts = np.sort(pc.value_counts(codes["code"]).field("counts").to_numpy())[::-1]
    ranks = np.arange(1, len(counts) + 1)
    slope = np.polyfit(np.log(ranks[2:100]), np.log(counts[2:100]), 1)[0]
    assert slope == pytest.approx(-1.0, abs=0.12)


def test_habits_make_counts_repeat():
    def repeats(habit):
        settings = SyntheticSettings(
            (300,), {"medication": 500, "diagnosis": 500}, (), noise_per_visit=5, noise_habit=habit
        )
        events = synthetic_network(settings).hospitals[0].events
        distinct = events.group_by(["patient", "mode", "code"]).aggregate([])
        return events.num_rows / distinct.num_rows

    assert repeats(0.9) > 1.4 * repeats(0.0)


def test_labels_can_be_read(demo):
    events = demo.hospitals[0].events
    pairs = dict(zip(events["code"].to_pylist(), events["label"].to_pylist(), strict=True))
    assert pairs["250.00"] == "Diabetes mellitus type 2, uncomplicated"
    assert pairs["insulin-glargine"] == "Insulin glargine"
    assert pairs["282.62"] == "Hb-SS disease with crisis"
    assert all(label.strip() for label in pairs.values())
    assert label_of("medication", "medication-0412") == "medication 0412"


def test_four_and_more_modes_are_made():
    counts = {"medication": 110, "diagnosis": 90, "lab": 70, "procedure": 50}
    network = synthetic_network(SyntheticSettings((200, 100), counts))
    assert len(network.planted) == len(PHENOTYPE_NAMES)
    for hospital in network.hospitals:
        assert modes_of(hospital.events) == tuple(counts)
    columns = network.truth("procedure", ["39.95", "unknown"])
    assert columns.shape == (2, len(network.planted))
    assert columns[0].max() == 0.8
    assert not columns[1].any()


def test_a_mode_outside_the_catalogue_takes_your_own_phenotypes():
    weights = {"gene": {"hbb": 0.8}, "image": {"mri": 0.5}}
    planted = (PlantedPhenotype("Own", weights, (0.9,)),)
    network = synthetic_network(SyntheticSettings((50,), {"gene": 3, "image": 2}, planted))
    assert codes_of(network.hospitals[0], "gene") == {"hbb", "gene-0001", "gene-0002"}


def test_small_code_lists_take_the_phenotypes_that_fit():
    settings = SyntheticSettings(codes_per_mode={"medication": 20, "diagnosis": 15})
    assert 1 <= len(settings.planted) < len(PHENOTYPE_NAMES)
    assert len(synthetic_network(settings).hospitals) == 3


def test_the_smallest_network_works():
    settings = SyntheticSettings(
        (1,), {"a": 1, "b": 1}, (), visits_per_patient=1, noise_per_visit=0
    )
    assert synthetic_network(settings).hospitals[0].events.num_rows == 2


def test_all_faults_in_the_settings_are_listed_at_once():
    with pytest.raises(SettingsError) as caught:
        SyntheticSettings(
            patients_per_hospital=(10, 0),
            codes_per_mode={"patient": 0},
            hospital_names=("a", "a"),
            visits_per_patient=0.5,
            noise_per_visit=float("nan"),
            code_overlap=1.5,
            seed=-1,
        )
    parts = (
        "needs a patient",
        "two or more modes",
        "'patient'",
        "needs a code",
        "different hospital",
    )
    named = ("visits_per_patient", "noise_per_visit", "code_overlap", "seed")
    assert [part for part in (*parts, *named) if part not in caught.value.what] == []


def test_all_faults_in_the_phenotypes_are_listed_at_once():
    bad = PlantedPhenotype("Bad", {"medication": {"a": 1.5, "b": 0.2}}, (0.1, 2.0))
    with pytest.raises(SettingsError) as caught:
        SyntheticSettings((10,), {"medication": 1, "diagnosis": 5}, (bad, bad))
    faults = (
        "same name",
        "2 prevalences for 1",
        "prevalence outside",
        "no diagnosis",
        "weight outside",
    )
    assert [part for part in faults if part not in caught.value.what] == []
    assert "2 medication codes and only 1" in caught.value.what


def test_every_catalogue_phenotype_has_codes_in_every_mode():
    assert len(PHENOTYPE_NAMES) >= 12
    for name in PHENOTYPE_NAMES:
        weights = catalogue_weights(name, CATALOGUE_MODES)
        assert set(weights) == set(CATALOGUE_MODES)
        assert all(0 < w <= 1 for codes in weights.values() for w in codes.values())


def test_common_codes_belong_to_no_phenotype():
    for mode in CATALOGUE_MODES:
        planted = {c for name in PHENOTYPE_NAMES for c in catalogue_weights(name, [mode])[mode]}
        common = common_codes(mode)
        assert len(common) > 10
        assert len(set(common)) == len(common)
        assert not planted & set(common)


def test_sickle_cell_is_outside_the_rank_of_each_hospital_and_inside_that_of_all():
    settings = demo_settings()
    sizes = np.array(settings.patients_per_hospital)
    names = [one.name for one in settings.planted]
    per_patient = np.array(
        [
            np.prod([sum(w * w for w in codes.values()) for codes in one.weights.values()])
            for one in settings.planted
        ]
    )
    expected = (
        sizes[:, None] * np.array([one.prevalence for one in settings.planted]).T * per_patient
    )
    place = names.index(SICKLE_CELL)
    ranks = (expected > expected[:, [place]]).sum(axis=1) + 1
    pooled = (expected.sum(axis=0) > expected.sum(axis=0)[place]).sum() + 1
    assert (ranks > DEMO_RANK).all()
    assert pooled <= DEMO_RANK


def strength_of(network):
    """How much of each hospital's tensor a phenotype explains: its patients · Π_n ‖w⁽ⁿ⁾‖²."""
    norms = [
        np.prod([sum(w * w for w in weights.values()) for weights in one.weights.values()])
        for one in network.planted
    ]
    return np.array([hospital.memberships.sum(axis=0) for hospital in network.hospitals]) * norms


def test_cystic_fibrosis_leads_one_hospital_only(demo):
    strength, names = strength_of(demo), [one.name for one in demo.planted]
    place = names.index(CYSTIC_FIBROSIS)
    assert strength[:, place].tolist()[:2] == [0.0, 0.0]
    assert strength[2].argmax() == place


def test_presets_have_the_sizes_of_the_seed_paper():
    ucsd, paper = ucsd_settings(), seed_paper_settings(50_000_000)
    assert ucsd.patients_per_hospital == (4_703, 3_319)
    assert ucsd.codes_per_mode == {"medication": 748, "diagnosis": 299}
    assert sum(paper.patients_per_hospital) == 38_035
    assert paper.codes_per_mode == {"medication": 3_229, "lab": 304}
    assert sum(seed_paper_settings(hospitals=5, scale=0.1).patients_per_hospital) == 3_804


def test_a_hundredth_of_the_paper_has_a_hundredth_of_its_cells():
    network = synthetic_network(seed_paper_settings(25_000_000, hospitals=1, scale=0.01))
    events = network.hospitals[0].events
    keys = ["patient", "window"]
    drugs = events.filter(pc.field("mode") == "medication").select([*keys, "code"])
    labs = events.filter(pc.field("mode") == "lab").select([*keys, "code"])
    drugs = drugs.set_column(2, "drug", pc.cast(drugs["code"], "string"))
    labs = labs.set_column(2, "lab", pc.cast(labs["code"], "string"))
    pairs = drugs.join(labs, keys, join_type="inner")
    cells = pairs.group_by(["patient", "drug", "lab"]).aggregate([]).num_rows
    assert cells == pytest.approx(250_000, rel=0.08)


def test_a_size_that_cannot_be_made_is_refused():
    with pytest.raises(SettingsError) as caught:
        seed_paper_settings(5, hospitals=0, scale=2.0)
    assert caught.value.what.count(";") == 2


def small_hard(**knobs):
    codes = {"medication": 60, "diagnosis": 48}
    return SyntheticSettings(patients_per_hospital=(300, 300), codes_per_mode=codes, **knobs)


def test_overlapping_phenotypes_share_codes_and_the_truth_says_so():
    apart, alike = small_hard().planted, small_hard(phenotype_overlap=0.4).planted
    first, after = alike[0].weights["diagnosis"], apart[1].weights["diagnosis"]
    shared = set(after) & set(first) - set(apart[0].weights["diagnosis"])
    assert len(shared) >= len(after) // 2
    assert all(first[code] == pytest.approx(0.4 * after[code]) for code in shared)


def test_a_heavy_tail_gives_a_few_patients_most_visits():
    def largest(spread):
        (hospital, _) = synthetic_network(small_hard(heavy_tail=spread)).hospitals
        visits = np.unique(
            np.column_stack([hospital.events["patient"], hospital.events["window"]]), axis=0
        )
        counts = np.sort(np.bincount(visits[:, 0].astype(int)))[::-1]
        return counts[:15].sum() / counts.sum()

    assert largest(1.5) > 2 * largest(0.0)


def test_mislabelled_events_carry_codes_that_the_hospital_uses():
    plain, wrong = (
        synthetic_network(small_hard(noise_per_visit=0.1, mislabelled=share)).hospitals[0]
        for share in (0.0, 0.3)
    )
    pairs = [
        set(zip(h.events["window"].to_pylist(), h.events["code"].to_pylist(), strict=True))
        for h in (plain, wrong)
    ]
    assert 0.2 < len(pairs[1] - pairs[0]) / len(pairs[1]) < 0.35
    assert (plain.memberships == wrong.memberships).all()


def test_what_a_hospital_does_not_record_is_in_no_event_of_it():
    hard = synthetic_network(planted_hard_settings(outpost=True))
    lakeside, outpost = hard.hospitals[2:]
    codes = set(lakeside.events["code"].to_pylist())
    assert not codes & {"furosemide", "401.9", "metformin", "428.0"}
    assert "furosemide" in set(hard.hospitals[0].events["code"].to_pylist())
    assert set(outpost.events["mode"].to_pylist()) == {"medication"}


def test_what_names_no_hospital_is_a_fault():
    with pytest.raises(SettingsError, match="unrecorded names no hospital"):
        small_hard(unrecorded={"nowhere": ("diagnosis",)})
