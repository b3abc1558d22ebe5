"""Which codes take no part, and which a hospital lacks that the others use often."""

from dataclasses import replace

import numpy as np
import pytest

from tripheno.errors import EmptyTensor, NothingLeft
from tripheno.exchange.communicator import in_clear
from tripheno.lab.synthetic.network import SyntheticSettings, synthetic_network
from tripheno.lab.synthetic.presets import planted_hard_settings
from tripheno.protocol.agreed import SetAside, StudyProtocol, protocol_hash
from tripheno.records.events import CountingRule, write_events
from tripheno.report.simulated import run_simulation
from tripheno.report.sites import read_sites
from tripheno.solver.settings import SolverSettings
from tripheno.study.alignment import align
from tripheno.study.phenotyper import Phenotyper
from tripheno.study.simulation import Simulation, assemble
from tripheno.tensor.count_tensor import CountTensor
from tripheno.vocabulary.axis import Axis

SALINE = "carrier:sodium chloride"


def hospital(drugs, patients=40):
    """Every patient has one diagnosis of two, and drugs: name → which patients have it."""
    cells = [
        (i, j, i % 2) for j, has in enumerate(drugs.values()) for i in range(patients) if has(i)
    ]
    axes = (Axis("medication", len(drugs), tuple(drugs)), Axis("diagnosis", 2, ("a", "b")))
    tensor = CountTensor.from_cells(
        np.array(cells), np.ones(len(cells)), shape=(patients, len(drugs), 2)
    )
    return CountTensor(axes, tensor.cells)


def network():
    """Two with saline and heparin, which everybody has; one whose half have digoxin, two none."""
    usual = {
        SALINE: lambda i: i % 3 == 0,
        "heparin": lambda _i: True,
        "insulin": lambda i: i % 4 == 0,
        "rare": lambda i: i == 0,
    }
    return {
        "north": hospital({**usual, "digoxin": lambda i: i % 2 == 0}),
        "south": hospital({**usual, "digoxin": lambda i: i % 4 == 1}),
        "west": hospital({name: has for name, has in usual.items() if name != "rare"}),
    }


@pytest.mark.parametrize("kind", ["tokens", "vocabulary"])
def test_carriers_and_codes_of_nearly_everybody_take_no_part_and_are_listed(kind):
    federation = assemble(network(), kind, rule=SetAside())
    assert set(federation.axes[0].known.values()) == {"insulin", "digoxin", "rare"}
    assert [one.why for one in federation.aside] == [
        "only carries a drug",
        "100% of patients have it",
    ]
    assert [one.name for one in federation.aside] == [SALINE, "heparin"]


def test_every_code_takes_part_where_the_rule_says_so():
    kept = assemble(network(), rule=SetAside(carriers=False, common=1.0))
    assert kept.axes[0].size == 5
    assert kept.aside == ()


def test_a_hospital_that_lacks_what_others_use_often_is_named_and_no_other():
    federation = assemble(network(), rule=SetAside())
    ((hospital_name, codes),) = federation.lacks.items()
    assert hospital_name == "west"
    assert [(one.mode, one.name) for one in codes] == [("medication", "digoxin")]
    assert codes[0].share == pytest.approx(30 / 80)  # `rare` is lacked too, and not often used


def contributed(tensors):
    """What every hospital contributes to the sum of common codes, on the way to axes."""
    heard = {}

    class Listening:
        def __init__(self, federation):
            self._federation = federation

        def __getattr__(self, name):
            return getattr(self._federation, name)

        def sum(self, step, contribute, **more):
            if step == "common":
                heard.update({name: contribute(name) for name in self._federation.hospitals})
            return self._federation.sum(step, contribute, **more)

    align(Listening(in_clear(tensors)), tensors, "vocabulary", fewest=11, rule=SetAside())
    return {name: np.concatenate(one.people) for name, one in heard.items()}


def test_people_are_counted_in_coarse_steps_and_rare_codes_not_at_all():
    heard = contributed(network())
    assert {len(people) for people in heard.values()} == {4}  # `rare` and `digoxin` went before
    assert all((people % 11 == 0).all() for people in heard.values())
    assert heard["south"][:2].tolist() == [33.0, 0.0]  # 40 and 10 people
    rare = {"heparin": lambda _i: True, "rare": lambda i: i < 115, "often": lambda i: i < 345}
    heard = contributed({name: hospital(rare, 1_200) for name in network()})
    assert sorted(heard["south"][:3]) == [0.0, 336.0, 1_200.0]  # 115, 345; steps of 24


def test_the_parts_of_a_total_of_common_codes_are_not_told_apart_by_their_steps():
    """At three hospitals a peer sees the sum of two; each in steps of its own is read off it."""
    codes = {f"drug-{n}": lambda i, n=n: i % 20 < n for n in range(3, 20)}
    sizes = {"small": 700, "middle": 950, "large": 1_200}
    heard = contributed({name: hospital(codes, size) for name, size in sizes.items()})
    step = -(-sum(sizes.values()) // 150)
    for people in heard.values():
        assert (people % step == 0).all()
    # the peer's own attack: of how many pairs of multiples can each total be made?
    theirs = heard["middle"] + heard["large"]
    ways = [
        sum(1 for a in range(0, 951, step) if (t - a) % step == 0 and 0 <= t - a <= 1_200)
        for t in theirs[theirs > 0]
    ]
    assert min(ways) > 5


def test_few_patients_and_codes_without_names_keep_everything():
    everybody = {"heparin": lambda _i: True, "insulin": lambda i: i % 2 == 0}
    few = {"one": hospital(everybody, 20), "two": hospital(everybody, 20)}
    assert assemble(few, rule=SetAside()).aside == ()
    nameless = CountTensor.from_cells(
        np.column_stack([np.repeat(np.arange(60), 2), np.tile([0, 1], 60), np.tile([0, 1], 60)]),
        np.ones(120),
    )
    assert assemble({"one": nameless}, rule=SetAside()).aside == ()


def test_a_hospital_with_carriers_alone_is_refused_by_name():
    only = {"north": hospital({SALINE: lambda _i: True})}
    with pytest.raises(NothingLeft, match="every code is a carrier · north, medication"):
        assemble(only, rule=SetAside())


def test_the_rule_is_part_of_what_hospitals_agree_on():
    agreed = StudyProtocol("study", CountingRule(), SolverSettings())
    other = StudyProtocol("study", CountingRule(), SolverSettings(), set_aside=SetAside(common=0.8))
    assert protocol_hash(agreed) != protocol_hash(other)


@pytest.mark.filterwarnings("ignore::tripheno.errors.NotConverged")
def test_a_phenotyper_sets_aside_by_default_and_says_what():
    fitted = Phenotyper(2, starts=1, max_iter=5, tol=1e-3).fit(list(network().values()))
    assert [one.name for one in fitted.set_aside_] == [SALINE, "heparin"]
    assert "heparin" not in fitted.get_feature_names_out("medication")


def test_the_hard_network_names_the_hospital_that_records_less():
    made = synthetic_network(planted_hard_settings())
    tensors = {one.name: CountTensor.from_events(one.events) for one in made.hospitals}
    lacks = assemble(tensors, rule=SetAside()).lacks
    assert "Furosemide" in {one.name for one in lacks["lakeside"]}
    assert "Furosemide" not in {one.name for name in ("northfield",) for one in lacks[name]}


@pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")
def test_a_hospital_without_a_mode_is_left_out_by_name_and_the_page_says_so(tmp_path):
    made = synthetic_network(
        SyntheticSettings(
            (60, 60, 60), {"medication": 30, "diagnosis": 24},
            unrecorded={"hospital-2": ("diagnosis",)},
        )
    )  # fmt: skip
    for one in made.hospitals:
        (tmp_path / one.name).mkdir()
        write_events(one.events, tmp_path / one.name / "events.parquet", CountingRule())
    found = read_sites(sorted(tmp_path.glob("hospital-*")), None, None, 0)
    assert found.left_out == {"hospital-2": "No events of mode diagnosis"}
    assert list(found.tensors) == ["hospital-1", "hospital-3"]
    with pytest.raises(EmptyTensor, match="mode diagnosis"):
        read_sites([tmp_path / "hospital-2"], None, None, 0)
    federation = replace(assemble(network(), rule=SetAside()), left_out=found.left_out)
    settings = SolverSettings(2, starts=1, max_iter=30, tol=1e-3)
    run_simulation(Simulation(federation, settings, {}, beside=(), resamples=0), tmp_path / "r", 0)
    page = (tmp_path / "r" / "report.html").read_text()
    assert "<b>hospital-2</b> took no part: No events of mode diagnosis" in page
    assert "<b>west</b>: digoxin (medication, 38 % elsewhere)" in " ".join(page.split())
    assert "heparin (medication): 100% of patients have it" in page
