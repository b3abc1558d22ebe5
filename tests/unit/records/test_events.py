"""The event table and its check at the border."""

from __future__ import annotations

from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tripheno.errors import BadEvents, NoSuchFile, SettingsError
from tripheno.records.events import (
    EVENT_SCHEMA,
    CountingRule,
    check_events,
    counting_rule,
    events_from_columns,
    modes_of,
    read_events,
    write_events,
)


def columns(**changes):
    good = {
        "patient": [0, 0, 1],
        "window": [0, 0, 1],
        "mode": ["medication", "diagnosis", "medication"],
        "code": ["aspirin", "414.01", "metformin"],
    }
    good.update(changes)
    return {name: value for name, value in good.items() if value is not None}


def fault_of(**changes):
    with pytest.raises(BadEvents) as caught:
        check_events(columns(**changes))
    return caught.value.what


def test_plain_columns_become_the_canonical_schema():
    table = check_events(columns())
    assert table.schema.equals(EVENT_SCHEMA)
    assert table["code"].to_pylist() == ["aspirin", "414.01", "metformin"]
    assert table["label"].null_count == 3
    assert table["time"].null_count == 3


def test_checking_twice_changes_nothing():
    once = check_events(columns(label=["Aspirin", None, "Metformin"]))
    assert check_events(once).equals(once)


@pytest.mark.parametrize("name", ["patient", "mode", "code"])
def test_a_missing_column_is_named(name):
    assert fault_of(**{name: None}) == f"no column '{name}'"


def test_a_table_needs_a_window_or_a_time():
    assert "neither a column 'window' nor 'time'" in fault_of(window=None)
    timed = check_events(columns(window=None, time=[datetime(2020, 1, 1)] * 3))
    assert timed["window"].null_count == 3


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("patient", ["a", "b", "c"]),
        ("patient", ["1", "2", "3"]),
        ("patient", [0.5, 1.0, 2.0]),
        ("patient", [True, False, True]),
        ("patient", np.array([0.0, np.nan, 1.0])),
        ("window", ["v1", "v2", "v3"]),
        ("time", [1, 2, 3]),
        ("time", ["2020-01-01"] * 3),
        ("mode", [1, 2, 3]),
        ("code", [250.0, 401.9, 414.01]),
        ("label", [1, 2, 3]),
    ],
)
def test_a_column_of_the_wrong_type_is_refused(name, values):
    assert fault_of(**{name: values}).startswith(f"'{name}' is ")


@pytest.mark.parametrize("name", ["patient", "mode", "code"])
def test_missing_values_are_counted(name):
    values = [*columns()[name][:2], None]
    assert fault_of(**{name: values}) == f"'{name}' is missing in 1 rows"


def test_negative_patients_are_refused():
    assert fault_of(patient=[0, -1, 2]) == "'patient' has negative numbers"


@pytest.mark.parametrize("name", ["mode", "code"])
def test_blank_text_is_refused(name):
    assert fault_of(**{name: ["", "x", " \t"]}) == f"'{name}' is blank in 2 rows"


def test_a_table_without_rows_is_refused():
    empty = pa.table({name: pa.array([], kind.type) for name, kind in _fields()})
    with pytest.raises(BadEvents, match="there are no rows"):
        check_events(empty)


def _fields():
    return [(field.name, field) for field in EVENT_SCHEMA]


def test_all_faults_are_listed_at_once():
    fault = fault_of(patient=["x", "y", "z"], code=None, window=None, mode=["a", None, "b"])
    for part in ("no column 'code'", "neither a column", "'patient' is", "'mode' is missing in 1"):
        assert part in fault


def test_the_message_never_holds_a_patients_value():
    with pytest.raises(BadEvents) as caught:
        check_events(columns(patient=["John Smith"] * 3))
    assert "Smith" not in str(caught.value)
    assert str(caught.value).startswith("TRIP-E302 ")


@pytest.mark.parametrize("thing", [42, "events", [1, 2], {"patient": [1], "code": ["a", "b"]}])
def test_what_is_not_a_table_is_refused(thing):
    with pytest.raises(BadEvents):
        check_events(thing)


def test_whole_numbers_in_floats_and_dates_are_welcome():
    table = check_events(columns(patient=[0.0, 1.0, 2.0], time=[date(2020, 1, 2)] * 3))
    assert table["patient"].to_pylist() == [0, 1, 2]
    assert table["time"].to_pylist()[0] == datetime(2020, 1, 2)


def test_dictionary_and_large_text_columns_are_welcome():
    large = pa.array(["medication", "diagnosis", "lab"], pa.large_string())
    table = check_events(columns(mode=large, code=pa.array(["a", "b", "a"]).dictionary_encode()))
    assert table.schema.equals(EVENT_SCHEMA)
    assert table["code"].to_pylist() == ["a", "b", "a"]


def test_a_file_remembers_its_rule_and_its_rows(tmp_path):
    table = check_events(columns(time=[datetime(2020, 1, 1, 5)] * 3, label=["A", None, "M"]))
    rule = CountingRule(("medication", "diagnosis"), "6h", 3)
    write_events(table, tmp_path / "events.parquet", rule)
    again = read_events(tmp_path / "events.parquet")
    assert again.equals(table)
    assert counting_rule(again) == rule
    assert [path.name for path in tmp_path.iterdir()] == ["events.parquet"]


def test_a_table_without_a_rule_is_counted_by_visit_over_its_modes():
    table = check_events(columns(mode=["procedure", "diagnosis", "medication"]))
    assert counting_rule(table) == CountingRule(("medication", "diagnosis", "procedure"), "visit")


def test_modes_come_in_the_house_order_then_by_name():
    table = check_events(columns(mode=["zoster", "lab", "allergy"]))
    assert modes_of(table) == ("lab", "allergy", "zoster")


def test_a_garbage_file_is_refused_with_its_name(tmp_path):
    path = tmp_path / "events.parquet"
    path.write_bytes(b"PAR1 this is not parquet PAR1")
    with pytest.raises(BadEvents, match="cannot be read as Parquet") as caught:
        read_events(path)
    assert str(path) in str(caught.value)


def test_a_parquet_file_of_something_else_is_refused(tmp_path):
    pq.write_table(pa.table({"colour": ["red"]}), tmp_path / "x.parquet")
    with pytest.raises(BadEvents, match="no column 'patient'"):
        read_events(tmp_path / "x.parquet")


def test_a_missing_file_is_not_bad_data(tmp_path):
    with pytest.raises(NoSuchFile):
        read_events(tmp_path / "nowhere.parquet")


def test_plain_columns_take_labels_and_times():
    time = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[us]")
    table = events_from_columns(
        np.array([0, 1]), np.array([0, 1]), ["lab", "lab"], ["a", "b"], label=["A", "B"], time=time
    )
    assert table["label"].to_pylist() == ["A", "B"]
    assert table["time"].to_pylist()[1] == datetime(2020, 1, 2)


HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("window", "sliding", "calendar"),
    [
        ("visit", None, None),
        ("person", None, None),
        ("same-day", None, 24 * HOUR),
        ("3h", 3 * HOUR, None),
        ("90m", 1.5 * HOUR, None),
        ("7d", 168 * HOUR, None),
        ("every-6h", None, 6 * HOUR),
        ("every-7d", None, 168 * HOUR),
    ],
)
def test_a_window_is_read_as_sliding_or_calendar(window, sliding, calendar):
    rule = CountingRule(window=window)
    assert rule.sliding_width == sliding
    assert rule.calendar_width == calendar


@pytest.mark.parametrize("window", ["", "6", "h", "6 h", "-6h", "6w", "every-", "Visit", "1.5h"])
def test_an_unknown_window_is_refused(window):
    with pytest.raises(SettingsError, match="unknown window"):
        CountingRule(window=window)


def test_a_calendar_window_without_width_is_refused():
    with pytest.raises(SettingsError, match="no width"):
        CountingRule(window="every-0d")


def test_all_faults_of_a_rule_are_listed_at_once():
    with pytest.raises(SettingsError) as caught:
        CountingRule(modes=("patient",), window="often", cap=0)
    for part in ("two or more", "'patient' is always", "unknown window", "cap must be"):
        assert part in caught.value.what


def test_a_sliding_window_pairs_exactly_two_modes():
    with pytest.raises(SettingsError, match="exactly two"):
        CountingRule(("medication", "diagnosis", "lab"), "6h")
    assert CountingRule(("medication", "diagnosis", "lab"), "every-6h").sliding_width is None
