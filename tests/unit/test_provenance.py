"""The stamp on every artefact."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tripheno
from kit.requirements import require
from tripheno import provenance as module
from tripheno.provenance import canonical_json, file_fingerprint, fingerprint, provenance

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=6,
)  # fmt: skip


@pytest.fixture
def stamped(monkeypatch):
    """A stamp, also where the sources run without being installed."""
    try:
        version("tripheno")
    except PackageNotFoundError:
        monkeypatch.setattr(
            module, "version", lambda name: "uninstalled" if name == "tripheno" else version(name)
        )
    return provenance({"rank": 10, "seed": 3}, {"events.parquet": "ab12"})


def test_canonical_json_has_one_spelling():
    assert canonical_json({"b": [1, 2.5], "a": None}) == '{"a":null,"b":[1,2.5]}'


@given(value=values)
@settings(max_examples=50, deadline=None)
def test_canonical_json_loses_nothing(value):
    assert json.loads(canonical_json(value)) == value


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_json_cannot_say_is_refused(number):
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json({"error": number})


def test_the_order_of_settings_does_not_change_their_fingerprint():
    assert fingerprint({"rank": 10, "seed": 3}) == fingerprint({"seed": 3, "rank": 10})
    assert fingerprint({"rank": 10}) == hashlib.sha256(b'{"rank":10}').hexdigest()


@pytest.mark.parametrize("other", [{"rank": 11}, {"rank": "10"}, {"rank": 10.5}, {"Rank": 10}, {}])
def test_other_settings_have_another_fingerprint(other):
    assert fingerprint({"rank": 10}) != fingerprint(other)


def test_a_file_is_known_by_its_bytes_not_its_name(tmp_path):
    for name, content in (("a", b"events"), ("b", b"events"), ("c", b"events\n")):
        (tmp_path / name).write_bytes(content)
    assert file_fingerprint(tmp_path / "a") == hashlib.sha256(b"events").hexdigest()
    assert file_fingerprint(tmp_path / "a") == file_fingerprint(tmp_path / "b")
    assert file_fingerprint(tmp_path / "a") != file_fingerprint(tmp_path / "c")


def test_a_stamp_says_what_ran_on_what_and_when(stamped):
    assert stamped["settings"] == {"rank": 10, "seed": 3}
    assert stamped["settings_sha256"] == fingerprint({"seed": 3, "rank": 10})
    assert stamped["inputs"] == {"events.parquet": "ab12"}
    assert stamped["libraries"].keys() == {"numpy", "scipy", "numba", "pyarrow"}
    assert stamped["machine"]["cores"] >= 1
    created = datetime.fromisoformat(stamped["created"])
    assert abs(datetime.now(UTC) - created) < timedelta(minutes=1)


def test_a_stamp_can_be_written_as_json(stamped):
    assert json.loads(canonical_json(stamped)) == stamped


def test_a_stamp_does_not_change_with_the_settings_it_was_made_from(monkeypatch):
    monkeypatch.setattr(module, "version", lambda name: "any")
    mutable = {"rank": 10}
    stamp = provenance(mutable, {})
    mutable["rank"] = 99
    assert stamp["settings"] == {"rank": 10}
    assert stamp["settings_sha256"] == fingerprint({"rank": 10})


def test_the_stamp_carries_the_version_of_the_sources(stamped):
    installed = stamped["tripheno"] != "uninstalled"
    require(installed, "tripheno runs from its sources here and is not installed")
    assert stamped["tripheno"] == tripheno.__version__
