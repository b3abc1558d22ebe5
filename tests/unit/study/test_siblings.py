"""Hospitals of one institution see few people of the others as one, and object as one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kit.sessions import identity_of
from kit.small_study import protocol, seated
from tripheno.errors import BadSignature
from tripheno.exchange.blind import BlindSession
from tripheno.exchange.communicator import (
    Communicator,
    InProcess,
    LocalHospital,
    OpenGatekeeper,
    bundle,
    unbundled,
)
from tripheno.exchange.keys import from_seed
from tripheno.exchange.roster import Member, Roster
from tripheno.study.axes import kept_positions
from tripheno.study.keys import agree_on_keys
from tripheno.study.siblings import of_institutions
from tripheno.tensor.count_tensor import CountTensor
from tripheno.vocabulary.axis import Axis

OWNERS = {"harbour": "Trust", "lakeside": " trust", "northfield": "Other", "westend": "Third"}
NAMES = tuple(OWNERS)
FEWEST = 11


class Carrying(InProcess):
    """Keeps what was on the line, and may hand on something else in one step."""

    def __init__(self, changed=lambda _step, answer: answer):
        super().__init__()
        self.steps, self.changed = {}, changed

    def exchange(self, how, step, parts):
        self.steps[step] = dict(parts)
        return self.changed(step, super().exchange(how, step, parts))


def federation(carrier, owners=OWNERS):
    members = tuple(Member(n, owner, identity_of(n).public) for n, owner in owners.items())
    roster = Roster(members, b"c" * 32, b"p" * 32, "0")
    local = {
        n: LocalHospital(
            BlindSession(n, identity_of(n), roster, "run", 1, from_seed(0, n)), OpenGatekeeper()
        )
        for n in owners
    }
    made = Communicator(NAMES, local, carrier)
    agree_on_keys(made)
    return made


def tensors(people):
    """Codes × hospitals: how many people of each have a code."""
    axes = (Axis("m", len(people), tuple(f"m{n}" for n in range(len(people)))),
            Axis("d", 1, ("d",)))  # fmt: skip
    found = {}
    for k, name in enumerate(NAMES):
        cells = [(i, code, 0) for code, row in enumerate(people) for i in range(row[k])]
        cells += [(i, 0, 0) for i in range(50, 80)]  # the other mode has many
        found[name] = CountTensor.from_cells(
            np.unique(cells, axis=0), np.ones(len(set(cells))), axes=axes
        )
    return found


CODES = [
    (30, 30, 30, 30),  # enough everywhere
    (30, 30, 3, 0),  # the institution sees three of another; each of its hospitals sees more
    (30, 3, 0, 0),  # nobody outside, but one of them sees three of the other
    (6, 6, 20, 0),  # many outside
    (2, 2, 30, 30),  # a few of theirs, hidden among the others' many
]


def test_an_institution_objects_to_a_few_people_of_the_others():
    carrier = Carrying()
    stays, _ = kept_positions(federation(carrier), tensors(CODES), FEWEST, "people/0")
    assert stays.tolist() == [True, False, False, True, True]
    sent = carrier.steps["institution/people/0"]
    assert {name: bool(data) for name, data in sent.items()} == {
        "harbour": True, "lakeside": True, "northfield": False, "westend": False,
    }  # fmt: skip
    counts = np.full(len(CODES), FEWEST, "<u4")
    counts[3:] = (6, 2)
    assert counts.tobytes() not in b"".join(sent.values())


def test_each_hospital_knows_the_people_of_its_whole_institution():
    own = {name: [np.array([k, 2]), np.array([5 * k])] for k, name in enumerate(NAMES)}
    found = of_institutions(federation(Carrying()), own, "institution/people/0")
    told = {name: [counts.tolist() for counts in some] for name, some in found.items()}
    both = [[1, 4], [5]]
    assert told == {
        "harbour": both, "lakeside": both, "northfield": [[2, 2], [10]], "westend": [[3, 2], [15]],
    }  # fmt: skip


def test_hospitals_that_are_each_an_institution_send_nothing_more():
    carrier = Carrying()
    alone = {name: name for name in NAMES}
    stays, _ = kept_positions(federation(carrier, alone), tensors(CODES), FEWEST, "people/0")
    assert stays[1]
    assert not any(step.startswith("institution") for step in carrier.steps)


def _swapped(parts):
    return {**parts, "harbour": parts["lakeside"], "lakeside": parts["harbour"]}


def _cut(parts):
    return {**parts, "harbour": parts["harbour"][:-1]}


@pytest.mark.parametrize("change", [_swapped, _cut])
def test_what_was_changed_on_its_way_inside_an_institution_is_refused(change):
    def changed(step, answer):
        if not step.startswith("institution"):
            return answer
        return bundle(change(unbundled(answer, NAMES, step)))

    with pytest.raises(BadSignature):
        kept_positions(federation(Carrying(changed)), tensors(CODES), FEWEST, "people/0")


@pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")
def test_a_whole_study_leaves_out_what_an_institution_of_two_hospitals_would_see(tmp_path):
    owners = {"harbour": "Trust", "lakeside": "trust"}
    members = tuple(replace(m, institution=owners.get(m.name, "")) for m in protocol().members)
    around, alone = (
        seated(tmp_path / "two", members=members, allow_two=True), seated(tmp_path / "alone"),
    )  # fmt: skip
    found, before = around.run().findings, alone.run().findings
    assert "institution/people/few/0" in around.steps
    assert not any(step.startswith("institution") for step in alone.steps)
    for mode, removed in before.codes_removed.items():
        assert found.codes_removed[mode] >= removed
    assert sum(found.codes_removed.values()) > sum(before.codes_removed.values())
