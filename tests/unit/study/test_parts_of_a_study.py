"""Parts of a study that hospitals take together, each asked by itself."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tripheno.errors import Insecure, InsecureRefused, MissingExtra, NothingLeft
from tripheno.exchange.communicator import in_clear
from tripheno.exchange.keys import from_seed
from tripheno.records.drugs import CARRIER
from tripheno.solver.guides import Guide
from tripheno.solver.settings import SolverSettings
from tripheno.study.guides import resolved
from tripheno.study.ray_shards import RayActor, RayShards
from tripheno.study.set_aside import Lacking, lacks_in_words, without_carriers
from tripheno.study.sharding import shards_of
from tripheno.study.tokens import by_tokens
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.shard_messages import packed, unpacked
from tripheno.vocabulary.axis import Axis
from tripheno.vocabulary.polynomial import PolynomialAligner
from tripheno.vocabulary.secret_tokens import CURVE, AllKnown

MODES = ("medication", "diagnosis")


def hospital(drugs, diseases):
    """A patient for each drug, who has it with every disease."""
    cells = [(i, i, k) for i in range(len(drugs)) for k in range(len(diseases))]
    axes = (Axis(MODES[0], len(drugs), drugs), Axis(MODES[1], len(diseases), diseases))
    return CountTensor.from_cells(np.array(cells), np.ones(len(cells), dtype=int), axes=axes)


def test_a_guide_is_found_where_any_hospital_knows_its_code():
    shared = {"tokens": ("t0", "t1", "t2")}
    axes = {
        "north": [Axis("medication", 3, ("insulin", None, "heparin"), **shared)],
        "south": [Axis("medication", 3, (None, "digoxin", "heparin"), **shared)],
    }
    settings = SolverSettings(2, guides=(Guide("heart", {"medication": ("digoxin", "heparin")}),))
    (guide,) = resolved(in_clear(axes), axes, settings).guides
    assert guide.codes == {"medication": ("t1", "t2")}
    assert resolved(in_clear(axes), axes, SolverSettings(2)).guides == ()


def test_tokens_put_every_code_in_one_place_and_show_no_name():
    tensors = {
        "north": hospital(("a", "b"), ("x",)),
        "south": hospital(("b", "c"), ("x", "y")),
    }
    federation, secret = in_clear(tensors), from_seed(0, "tokens")
    found = by_tokens(federation, tensors, b"study", secret, secret)
    north, south = found["north"].axes, found["south"].axes
    assert north[0].tokens == south[0].tokens
    place = {code: n for n, code in enumerate(south[0].codes) if code}
    assert north[0].codes[place["b"]] == "b"
    assert north[0].codes[place["c"]] is None
    assert found["north"].nonzeros == tensors["north"].nonzeros


def test_a_process_that_knows_all_exponents_makes_the_same_tokens():
    tensors = {
        "north": hospital(("a", "b"), ("x",)),
        "south": hospital(("b", "c"), ("x", "y")),
        "west": hospital(("a", "c", "d"), ("y",)),
    }
    secret = from_seed(3, "tokens")
    ways = [
        by_tokens(in_clear(tensors), tensors, b"study", secret, secret, curve=curve)
        for curve in (CURVE, AllKnown())
    ]
    for name in tensors:
        (plain, fast) = (found[name] for found in ways)
        assert plain.axes == fast.axes
        for one, other in zip(plain.coordinates(), fast.coordinates(), strict=True):
            assert np.array_equal(one, other)


def test_polynomials_align_and_say_that_they_are_insecure():
    people = {
        "north": {"medication": {"a": 1, "b": 2}},
        "south": {"medication": {"b": 3, "c": 1}},
    }
    with pytest.raises(InsecureRefused):
        PolynomialAligner()
    with pytest.warns(Insecure):
        places = PolynomialAligner(insecure=True).align(people)
    assert {one.sizes["medication"] for one in places.values()} == {3}
    at = {
        name: dict(zip(people[name]["medication"], one.positions["medication"], strict=True))
        for name, one in places.items()
    }
    assert at["north"]["b"] == at["south"]["b"]
    assert len({at["north"]["a"], at["north"]["b"], at["south"]["c"]}) == 3


def test_carriers_are_set_aside_and_a_mode_of_nothing_else_is_refused():
    saline = f"{CARRIER}saline"
    kept, aside = without_carriers({"north": hospital((saline, "insulin"), ("x",))})
    assert kept["north"].axes[0].codes == ("insulin",)
    assert [one.name for one in aside] == [saline]
    with pytest.raises(NothingLeft, match="carrier"):
        without_carriers({"north": hospital((saline,), ("x",))})
    said = lacks_in_words({"north": (Lacking("medication", "insulin", 0.66666),)})
    assert said == {"north": [{"mode": "medication", "name": "insulin", "share": 0.667}]}


def test_one_shard_of_this_machine_is_no_shard():
    with shards_of(1) as shards:
        assert shards is None
    with shards_of(2) as shards:
        assert shards.place(hospital(("a", "b", "c"), ("x",))).patients == 3


def test_a_cluster_needs_its_extra_and_its_actors_answer_as_shards_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"tripheno\[ray\]"):
        RayShards(2)
    assert unpacked(RayActor().answer(packed({"call": "pass"}))) is None
