"""The whole study around a table: the same result as a simulation, and what is refused."""

import warnings
from dataclasses import astuple, replace

import numpy as np
import pytest

from kit.small_study import tensors
from tripheno.errors import (
    BrokenSum,
    NotConverged,
    OlderBackup,
    OtherProtocol,
    PolicyError,
    ThresholdTooLow,
    UnknownMember,
)
from tripheno.exchange.keys import Identity, from_seed
from tripheno.federation.wire import Asked, Hello
from tripheno.protocol.agreed import EvidenceSettings, protocol_hash
from tripheno.solver.guides import Guide
from tripheno.study.evidence import choose_rank, seeded_generators
from tripheno.study.makers import Maker
from tripheno.study.simulation import assemble, run_method
from tripheno.tensor.factors import leading_positions

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.NotConverged")


def simulated(protocol):
    seed, fewest = protocol.solver.seed, protocol.thresholds.min_cell_count
    federation = assemble(tensors(), protocol.alignment, seed=seed, min_cell=fewest)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        maker, resamples = Maker("blind", 7), protocol.evidence.resamples
        if protocol.solver.method == "local":
            resamples = 0
        return federation, *run_method(federation, protocol.solver, maker, resamples=resamples)


def equal(found, wanted):
    return all(np.array_equal(a, b) for a, b in zip(found.factors, wanted.factors, strict=True))


def test_the_strictest_threshold_that_a_hospital_announces_holds_for_all(table):
    around = table(alignment="vocabulary")
    strict = replace(around.protocol.thresholds, min_cell_count=20)
    around.sit("harbour", thresholds={"min_cell_count": 20})
    found = around.run().findings
    federation, expected, weighed = simulated(replace(around.protocol, thresholds=strict))
    assert equal(found.solution, expected)
    assert found.codes_removed == dict(federation.codes_removed)
    assert found.codes_removed != simulated(around.protocol)[0].codes_removed
    assert {end.fewest for end in around.ends.values()} == {found.fewest} == {20}
    assert list(found.weighed.carriers) == [n if n >= 20 else None for n in weighed.carriers]


def test_a_hospital_that_asks_for_far_fuller_counts_ends_the_study(table):
    around = table(alignment="vocabulary")
    around.sit("harbour", thresholds={"min_cell_count": 111})
    with pytest.raises(ThresholdTooLow):
        around.run()
    assert not [step for step in around.steps if step.startswith("people")]


@pytest.mark.parametrize("method", ["exact", "trip", "local"])
def test_a_study_finds_bit_for_bit_what_a_simulation_finds(table, method):
    around = table(method=method, alignment="vocabulary", accept_division_leak=True)
    found = around.run().findings
    _, expected, weighed = simulated(around.protocol)
    assert equal(found.solution, expected)
    assert found.solution.objective == expected.objective
    assert found.solution.patients == expected.patients
    assert found.weighed.grades == weighed.grades
    told = [count if count >= 11 else None for count in weighed.carriers]
    assert list(found.weighed.carriers) == told
    for name, end in around.ends.items():
        own = end.solution.patient_factors
        assert list(own) == [name]
        assert np.array_equal(own[name], expected.patient_factors[name])


def test_the_costs_hold_every_sum_of_the_study_and_every_hospital_s_own_seconds(table):
    around = table(alignment="vocabulary", evidence=EvidenceSettings(3, (2, 3)))
    costs = around.run().findings.solution.costs
    before = around.steps[: around.steps.index("result")]
    assert costs.rounds == len([step for step in before if not step.startswith("audit-head")])
    own = [end.solution.costs.seconds_all_hospitals for end in around.ends.values()]
    assert costs.seconds_all_hospitals == sum(own)
    assert costs.seconds_slowest_hospital == max(own) < sum(own)


@pytest.mark.parametrize("case", ["plain", "guided", "poisson"])
def test_tournament_guides_evidence_and_ranks_are_those_of_a_simulation(table, case):
    around = table(alignment="vocabulary")
    guide = Guide("first", {"diagnosis": (tensors()["harbour"].axes[1].codes[0],)})
    solver = replace(
        around.protocol.solver, starts=8, guides=(guide,) if case == "guided" else (),
        loss="poisson" if case == "poisson" else "squared",
    )  # fmt: skip
    around.protocol = replace(around.protocol, solver=solver, evidence=EvidenceSettings(3, (2, 3)))
    for name in around.protocol.names:
        around.sit(name)
    found = around.run().findings
    federation, expected, weighed = simulated(around.protocol)
    assert equal(found.solution, expected)
    assert found.solution.restart_match == expected.restart_match
    assert found.weighed.grades == weighed.grades
    assert len(weighed.grades) == solver.n_components
    for ours, theirs in zip(found.weighed.intervals, weighed.intervals, strict=True):
        assert np.array_equal(ours, theirs)
    plain, generators = replace(solver, guides=(), starts=1), seeded_generators(solver.seed)
    names = tuple(federation.tensors)
    fewest = around.protocol.thresholds.min_cell_count
    ranks = choose_rank(
        federation.tensors,
        (2, 3),
        plain,
        Maker("blind")(names),
        generators=generators,
        fewest=fewest,
    )
    for ours, theirs in zip(found.ranks.evidence, ranks.evidence, strict=True):
        # scales that were learnt before differ, so the last bits may
        assert np.hstack(astuple(ours)) == pytest.approx(np.hstack(astuple(theirs)), rel=1e-9)
    assert found.ranks.recommendation == ranks.recommendation


@pytest.mark.parametrize("alignment", ["vocabulary", "tokens"])
def test_two_runs_of_one_study_give_one_result_whatever_the_order(table, alignment):
    around = table(alignment=alignment, test=False)  # keys of the operating system
    first = around.run().findings.solution
    swapped = tuple(reversed(around.protocol.members))
    lists = tuple(replace(one, codes=one.codes[::-1]) for one in around.protocol.lists)
    if alignment == "vocabulary":  # tokens hang on the roster, so on what was agreed on
        around.protocol = replace(around.protocol, members=swapped, lists=lists)
    for name in around.protocol.names:
        around.sit(name, store=lambda run, name=name: around.another(name, run))
    second = around.run(store=around.another("coordinator", "run-2")).findings.solution
    if alignment == "vocabulary":
        assert equal(second, first)
    for ours, theirs in zip(second.factors, first.factors, strict=True):
        assert np.allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_every_hospital_knows_its_own_codes_by_name_and_no_others(table):
    around = table(alignment="tokens")
    around.run()
    for name, end in around.ends.items():
        own = {axis.mode: set(axis.known.values()) for axis in tensors()[name].axes}
        for axis in end.solution.axes:
            named = set(axis.known.values())
            assert named <= own[axis.mode]
            assert len(named) >= 0.5 * axis.size
            assert None in axis.codes or len(named) == axis.size


def test_the_coordinator_reads_no_total_before_the_release(table):
    around = table(alignment="vocabulary")
    seen = []
    channel = around.channel()
    channel._listen = lambda step, name, down, up: seen.append((name, Asked.unpack(up, name)))
    found = around.run(channel).findings
    sums = [asked for _, asked in seen if asked.how == "sum"]
    assert len(sums) > 60
    for asked in sums:  # words of a field, evenly spread: nothing small, nothing equal
        words = np.frombuffer(asked.data[-8 * 4 :], dtype="<u8")
        assert len(set(words.tolist())) == len(words)
    before = b"".join(asked.data for _, asked in seen if asked.how != "release")
    for factor in found.solution.factors:
        for value in factor.ravel()[np.abs(factor.ravel()) > 1e-3]:
            assert np.float64(value).tobytes() not in before


@pytest.mark.parametrize("step", ["people/0", "fit/3/1/0", "carriers"])
def test_a_total_that_was_changed_ends_the_attempt_at_every_hospital(table, step):
    around = table(alignment="vocabulary")
    refused = []

    def change(data):
        return data[:-5] + bytes([data[-5] ^ 4]) + data[-4:]

    for name in around.protocol.names:
        respond = around.local_hospitals[name].respond

        def lie(number, data, name=name, respond=respond):
            try:
                return respond(number, change(data) if around.steps[-1:] == [step] else data)
            except BrokenSum as fault:
                refused.append(name)
                raise fault

        around.local_hospitals[name].respond = lie
    channel = around.channel()
    with pytest.raises(BrokenSum):
        around.run(channel)
    assert refused


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
    hello = Hello("run-1", 1, protocol_hash(around.protocol), version="9.9.9")
    with pytest.raises(OtherProtocol, match=r"9\.9\.9 there"):
        around.local_hospitals[name].respond("1:0", hello.pack())


def test_a_hospital_with_another_key_than_agreed_on_is_refused(table):
    around = table()
    name = around.protocol.names[0]
    around.sit(name, identity=Identity.from_bytes(from_seed(1, "thief")("ed25519")))
    with pytest.raises(UnknownMember, match=name):
        around.run()


def test_a_hospital_that_may_send_nothing_sends_nothing(table):
    def closed(_run, _coordinator):
        raise PolicyError("not approved")

    around = table()
    around.sit(around.protocol.names[0], gatekeeper=closed)
    with pytest.raises(PolicyError, match="not approved"):
        around.run()


def test_an_attempt_is_never_made_twice(table):
    around = table()
    around.run()
    again = Hello("run-1", 1, protocol_hash(around.protocol)).pack()
    with pytest.raises(OlderBackup, match="made before"):
        around.local_hospitals[around.protocol.names[0]].respond("1:0", again)


def test_without_approval_nobody_names_a_code(table):
    around = table()
    found = around.run().findings
    assert all(places == {} for places in found.named.values())
    assert all(axis.codes is None for axis in found.solution.axes)


def test_codes_of_the_final_phenotypes_are_named_by_hospitals_that_approved_it(table):
    around = table()
    around.sit(around.protocol.names[0], labels=lambda: True)
    found = around.run().findings
    own = {axis.mode: set(axis.known.values()) for axis in tensors()[around.protocol.names[0]].axes}
    for axis, factor in zip(found.solution.axes, found.solution.factors, strict=True):
        shown = {int(n) for column in factor.T for n in leading_positions(column)}
        named = found.named[axis.mode]
        assert named
        assert set(named) <= shown
        assert {code for code, _ in named.values()} <= own[axis.mode]
    assert around.ends[around.protocol.names[1]].named == found.named
