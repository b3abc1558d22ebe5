"""Every error a user can meet has a code, an exit code, and words."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
import re
import warnings

import pytest

import tripheno
from tripheno import errors
from tripheno.errors import (
    BadMessage,
    DataError,
    NetworkError,
    PeerLost,
    PolicyError,
    RunFailed,
    SettingsError,
    TriphenoError,
    TriphenoWarning,
    base,
    catalogue,
    data,
    network,
    policy,
    run,
    settings,
)

TREES = {
    RunFailed: 1,
    SettingsError: 2,
    DataError: 3,
    PolicyError: 4,
    NetworkError: 5,
    PeerLost: 6,
}


def descendants(kind):
    return [kind, *(below for child in kind.__subclasses__() for below in descendants(child))]


EVERY = descendants(TriphenoError)[1:]
every_error = pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)


def test_no_two_errors_share_a_code():
    codes = [kind.code for kind in EVERY]
    assert sorted(codes) == sorted(set(codes))
    assert all("code" in vars(kind) for kind in EVERY)


@every_error
def test_an_error_explains_itself(kind):
    assert kind.__doc__ is not None
    assert len(kind.__doc__.split()) >= 5
    assert vars(kind).get("__doc__") == kind.__doc__


@every_error
def test_the_exit_code_follows_from_the_tree_and_shows_in_the_code(kind):
    roots = [root for root in TREES if issubclass(kind, root)]
    assert len(roots) == 1
    assert kind.exit_code == TREES[roots[0]]
    assert re.fullmatch(rf"TRIP-E{kind.exit_code}\d\d", kind.code)


def test_the_tree_drawn_in_the_docstring_is_the_tree():
    drawn = re.findall(r"[├└]── (\w+) +exit (\d)", errors.__doc__ or "")
    assert {name: int(code) for name, code in drawn} == {
        kind.__name__: code for kind, code in TREES.items()
    }


def test_the_catalogue_holds_every_error_in_order():
    found = catalogue()
    assert set(found.values()) == set(EVERY)
    assert list(found) == sorted(found)
    assert all(found[code].code == code for code in found)


@every_error
def test_an_error_stands_with_its_family_and_is_a_name_of_the_package(kind):
    files = {1: run, 2: settings, 3: data, 4: policy, 5: network, 6: network}
    assert kind.__module__ == files[kind.exit_code].__name__
    assert getattr(errors, kind.__name__) is kind


@every_error
def test_a_message_reads_what_where_why_and_what_to_do(kind):
    error = kind("no table", where="a.duckdb", why="it is empty", fix="ingest first")
    assert str(error) == f"{kind.code} no table · a.duckdb · it is empty · ingest first"


def test_parts_that_are_not_known_leave_no_gap():
    assert str(BadMessage("cut short")) == "TRIP-E501 cut short"
    assert str(BadMessage("cut short", fix="send again")) == "TRIP-E501 cut short · send again"


@every_error
def test_an_error_survives_the_way_between_processes(kind):
    error = kind("what", where="where", why="why", fix="fix")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert str(again) == str(error)
        assert (again.what, again.where, again.why, again.fix) == ("what", "where", "why", "fix")


@pytest.mark.parametrize("kind", descendants(TriphenoWarning), ids=lambda kind: kind.__name__)
def test_a_warning_explains_itself_and_can_be_silenced(kind):
    assert kind.__module__ == base.__name__
    assert len((vars(kind)["__doc__"] or "").split()) >= 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TriphenoWarning)
        warnings.warn("second look", kind, stacklevel=1)


def test_no_module_of_the_mathematics_raises_a_bare_error_class_of_its_own():
    """Whatever package is imported, the catalogue stays the one of `tripheno.errors`."""
    before = set(catalogue())
    for name in ("exchange", "records", "vocabulary", "tensor", "solver"):
        package = importlib.import_module(f"tripheno.{name}")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"tripheno.{name}.{module.name}")
    assert set(catalogue()) == before
    assert tripheno.__version__
