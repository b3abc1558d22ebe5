"""The whole protocol around a table: the same factors as a simulation, and what is refused."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from tripheno.errors import (
    NotConverged,
    OtherProtocol,
    PolicyError,
    SettingsError,
    UnknownMember,
    WrongStep,
)
from tripheno.evaluation.simulation import assemble, drop_small_cells
from tripheno.exchange.keys import Identity, from_seed
from tripheno.exchange.simulated import SecureSums
from tripheno.federation.axes import known_codes
from tripheno.federation.doorkeeper import Doorkeeper
from tripheno.federation.messages import Hello
from tripheno.privacy.labels import answer_labels
from tripheno.protocol.agreed import protocol_hash
from tripheno.solver.federated import solve_federated
from tripheno.tensor.factors import leading_positions
from tripheno.testing.small_study import tensors

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.NotConverged")


def simulated(protocol):
    seed = protocol.solver.seed
    federation = assemble(tensors(), protocol.alignment, seed=seed, by_code=False)
    fewest = protocol.thresholds.min_cell_count
    federation = drop_small_cells(federation, fewest, SecureSums(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        return solve_federated(federation.tensors, protocol.solver, sums=SecureSums(seed))


@pytest.mark.parametrize("alignment", ["tokens", "vocabulary"])
@pytest.mark.parametrize("method", ["trip", "exact"])
def test_a_study_finds_bit_for_bit_what_a_simulation_finds(table, method, alignment):
    around = table(method=method, alignment=alignment)
    result = around.run()
    expected = simulated(around.protocol)
    for found, wanted in zip(result.solution.factors, expected.factors, strict=True):
        assert np.array_equal(found, wanted)
    assert result.solution.objective == expected.objective
    assert result.solution.patients == expected.patients
    for name, end in around.ends.items():
        assert np.array_equal(end.patients, expected.patient_factors[name])


def test_every_hospital_knows_its_own_codes_by_name_and_no_others(table):
    around = table()
    around.run()
    for name, end in around.ends.items():
        own = {axis.mode: set(axis.codes) for axis in tensors()[name].axes}
        for axis in end.tensor.axes:
            named = {code for code in axis.codes if code.strip()}
            assert named <= own[axis.mode]
            assert len(named) >= 0.5 * axis.size


def test_the_coordinator_counts_carriers_over_the_whole_network(table):
    around = table()
    result = around.run()
    counted = result.solution.carriers
    assert len(counted) == 4
    assert 0 < max(counted) <= result.solution.patients
    summaries = [end.summary for end in around.ends.values()]
    assert summaries[0]["carriers"] == summaries[1]["carriers"] == summaries[2]["carriers"]


def test_keys_of_the_operating_system_give_the_same_kind_of_result(table):
    around = table()
    around.protocol = replace(around.protocol, test=False)
    for name in around.protocol.names:
        around.sit(name)
    assert around.run().solution.iterations == 9


def test_a_hospital_with_another_protocol_is_refused(table):
    around = table()
    name = around.protocol.names[1]
    other = replace(around.protocol, study="another")
    around.sit(name, protocol=other)
    with pytest.raises(OtherProtocol, match=f"federation.toml.*{name}") as refused:
        around.run()
    assert refused.value.exit_code == 4


def test_a_hospital_with_another_version_is_refused(table):
    around = table()
    name = around.protocol.names[2]
    hello = Hello("run-1", 1, "", version="9.9.9")
    desk = around.desks[name]
    told = replace(hello, protocol=protocol_hash(around.protocol))
    with pytest.raises(OtherProtocol, match=r"9\.9\.9 there"):
        desk.respond("1:hello", told.pack())


def test_a_hospital_with_another_key_than_agreed_on_is_refused(table):
    around = table()
    name = around.protocol.names[0]
    around.sit(name, identity=Identity.from_bytes(from_seed(1, "thief")("ed25519")))
    with pytest.raises(UnknownMember, match=name):
        around.run()


def test_a_hospital_that_may_send_nothing_sends_nothing(table):
    class Closed(Doorkeeper):
        def check(self):
            raise PolicyError("not approved")

    around = table()
    around.sit(around.protocol.names[0], door=Closed())
    with pytest.raises(PolicyError, match="not approved"):
        around.run()


def test_an_attempt_is_never_made_twice(table):
    around = table()
    around.run()
    again = Hello("run-1", 1, protocol_hash(around.protocol)).pack()
    with pytest.raises(WrongStep, match="made before"):
        around.desks[around.protocol.names[0]].respond("1:hello", again)


@pytest.mark.parametrize(
    "changes", [{"method": "local"}, {"restarts": 3}], ids=["local", "restarts"]
)
def test_what_separate_machines_do_not_do_is_refused_before_anything_is_asked(table, changes):
    around = table()
    solver = replace(around.protocol.solver, **changes)
    around.protocol = replace(around.protocol, solver=solver)
    asked = []
    around.before = lambda name, step: asked.append(step)
    with pytest.raises(SettingsError):
        around.run()
    assert not asked


class NamingDoor(Doorkeeper):
    """A hospital whose officer approved that the codes of final phenotypes are named."""

    def names(self, question, axes):
        class Approved:
            labels, hospital = True, "here"

        return answer_labels(question, known_codes(axes), axes, Approved)


def test_without_approval_nobody_names_a_code(table):
    around = table()
    result = around.run()
    assert all(places == {} for places in result.named.values())
    assert all(axis.codes is None for axis in result.solution.axes)


def test_codes_of_the_final_phenotypes_are_named_by_hospitals_that_approved_it(table):
    around = table()
    around.sit(around.protocol.names[0], door=NamingDoor())
    result = around.run()
    own = {axis.mode: set(axis.codes) for axis in tensors()[around.protocol.names[0]].axes}
    for axis, factor in zip(result.solution.axes, result.solution.factors, strict=True):
        shown = {int(n) for column in factor.T for n in leading_positions(column)}
        named = result.named[axis.mode]
        assert named
        assert set(named) <= shown
        assert {code for code, _ in named.values()} <= own[axis.mode]
        assert all(axis.codes[place] == code for place, (code, _) in named.items())
    other = around.ends[around.protocol.names[1]].summary["names"]
    assert {mode: len(places) for mode, places in other.items()} == {
        mode: len(places) for mode, places in result.named.items()
    }
