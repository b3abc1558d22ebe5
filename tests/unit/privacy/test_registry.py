"""A message is declared in one place and found in all: manifest, gate, preview, report, docs."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import tripheno
from tripheno.errors import GateRefused
from tripheno.exchange.communicator import Traffic
from tripheno.exchange.messages import Contribution, pack
from tripheno.exchange.registry import (
    CODES,
    REGISTRY,
    MessagePlan,
    declaration_of,
    declared,
    shaped,
)
from tripheno.lab.attacks.hospitals import approved_hospitals
from tripheno.privacy.audit import AuditBuffer
from tripheno.privacy.gate import Gate
from tripheno.privacy.manifest import listed, read_manifest
from tripheno.report.messages import messages_table, what_left
from tripheno.solver.messages import NormalEquations
from tripheno.solver.settings import SolverSettings
from tripheno.study import program
from tripheno.study.message_plan import plan_of

CODES_OF = {"m": 7, "d": 5}
PLAN = MessagePlan(("m", "d"), 3, blind=False)
RUN = {"method": "exact", "rank": 3, "modes": ["patient", "m", "d"], "hospitals": ["a", "b", "c"]}
PAGE = Path(__file__).parents[3] / "docs" / "messages.md"


@pytest.fixture
def added():
    """One more message, declared beside the step that would send it."""

    @declared("tried-out", "codes of one mode: whatever", lambda plan: plan.fits)
    @dataclass(frozen=True)
    class TriedOut(Contribution):
        numbers: np.ndarray = shaped(CODES, 2)

    yield TriedOut
    del REGISTRY["tried-out"]


def gate():
    return Gate("a", PLAN, CODES_OF, AuditBuffer(), most_rounds=9, most_bytes=9_999)


def test_a_message_declared_in_one_place_is_found_in_all(added):
    message = pack({"numbers": np.zeros((7, 2))})
    told = declaration_of(added)
    assert gate().pass_out("tried-out", told, message, {"numbers": (7, 2)}) == message
    with pytest.raises(GateRefused):
        gate().pass_out("tried-out", told, message, {"numbers": (7, 3)})
    (shown,) = (one for one in listed(PLAN, CODES_OF) if one.name == "tried-out")
    assert (shown.rows, shown.most_times) == ("codes of one mode: whatever", 1)
    assert len(message) <= shown.most_bytes
    assert "tried-out" in {row["name"] for row in what_left(RUN)}
    assert any("`tried-out`" in line and "codes × 2" in line for line in messages_table())


def test_a_message_that_the_program_sends_is_in_the_rehearsal_and_its_manifest(
    added, monkeypatch, tmp_path
):
    """Declared and sent in one place; nobody else is told."""
    real = program.resolved

    def also_sent(federation, axes, settings):
        step, made = "tried-out/0", {n: added(np.zeros((a[0].size, 2))) for n, a in axes.items()}
        federation.sum(step, made.__getitem__)
        return real(federation, axes, settings)

    monkeypatch.setattr(program, "resolved", also_sent)
    hospitals = approved_hospitals(tmp_path, 0)
    manifest = read_manifest(hospitals.site("harbour").approval)
    assert "tried-out" in {one.name for one in manifest.messages}
    (sample,) = (one for one in manifest.round_one if one.message == "tried-out")
    assert sample.step == "tried-out/0"
    assert "`tried-out`" in "".join(messages_table())


def test_a_message_that_nobody_declared_passes_no_gate(added):
    told = declaration_of(added)
    del REGISTRY["tried-out"]
    gatekeeper = gate()
    REGISTRY["tried-out"] = told
    with pytest.raises(GateRefused, match="no such message"):
        gatekeeper.pass_out(
            "tried-out", told, pack({"numbers": np.zeros((7, 2))}), {"numbers": (7, 2)}
        )


def test_two_messages_of_one_name_are_refused(added):
    with pytest.raises(ValueError, match="two messages"):

        @declared("tried-out", "something else", lambda plan: 1)
        @dataclass(frozen=True)
        class Other(Contribution):
            other: np.ndarray = shaped(3)


def test_the_documentation_lists_every_message():
    table = [line for line in messages_table() if not line.startswith("| `contract`")]  # a test's
    assert "\n".join(table) in PAGE.read_text(encoding="utf-8"), "write the table anew"


def test_the_program_declares_all_there_is():
    """Whatever any module declares is there when the study's program is, in any process."""
    words = "from tripheno.study.message_plan import declare_all as d; d(); "
    words += "from tripheno.exchange.registry import REGISTRY; print(*REGISTRY)"
    known = subprocess.check_output([sys.executable, "-c", words], text=True).split()
    for folder in ("exchange", "vocabulary", "solver", "privacy", "study", "federation"):
        package = importlib.import_module(f"{tripheno.__name__}.{folder}")
        for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    assert set(REGISTRY) - {"contract"} == set(known)  # one is a test's


def test_a_run_that_wrote_its_messages_down_is_told_by_them():
    assert [row["name"] for row in what_left({**RUN, "messages": ["totals"]})] == ["totals"]
    (pooled,) = what_left({**RUN, "method": "central"})
    assert pooled["name"] == "every cell"


@pytest.mark.parametrize(
    "penalty", [{"distinctness": 1.0}, {"relative_distinctness": 0.1}, {"constraint": "sparse"}]
)
def test_a_study_may_ask_as_often_as_a_penalty_needs_it_and_not_without(penalty):
    modes = ("medication", "diagnosis")
    assert plan_of(SolverSettings(3), modes, 3).choices == 0
    assert plan_of(SolverSettings(3, **penalty), modes, 3).choices == len(modes) + 1


def test_the_normal_equations_may_go_twice_more_than_there_are_iterations():
    plan = plan_of(SolverSettings(2, "exact", max_iter=5), ("m", "d"), 3)
    assert declaration_of(NormalEquations).times(plan) == (5 + 2) * 2


def test_nothing_is_counted_before_anything_is_sent():
    assert Traffic() == Traffic(bytes_down=0, bytes_up=0, seconds=0.0, rounds=0)
