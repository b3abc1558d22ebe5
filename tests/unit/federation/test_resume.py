"""Whoever is lost, and whenever: the run goes on from the last checkpoint to the same end."""

import errno
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from kit.small_study import protocol
from tripheno.errors import DiskFailed, OlderBackup, PeerLost, ThresholdTooLow

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.NotConverged")


def same(found, wanted):
    """Factors to the bit; what speaks for them to a billionth: patients are fitted again."""
    factors = zip(found.solution.factors, wanted.solution.factors, strict=True)
    grades = zip(found.weighed.grades, wanted.weighed.grades, strict=True)
    return all(np.array_equal(a, b) for a, b in factors) and all(
        ours.grade == theirs.grade
        and ours.resamples == pytest.approx(theirs.resamples, rel=1e-9)
        and ours.effective_patients == pytest.approx(theirs.effective_patients, rel=1e-9)
        for ours, theirs in grades
    )


@pytest.fixture
def disturbed(table, tmp_path_factory):
    """An undisturbed study's findings, and the same study to be disturbed."""

    def begin(**settings):
        around = table(**settings)
        wanted = around.run().findings
        around.folder = tmp_path_factory.mktemp("disturbed")
        around.steps.clear()
        for name in around.protocol.names:
            around.sit(name)
        return around, wanted

    return begin


def at(around, step, then, name=None):
    """Once, when hospitals have sent their part of a step."""
    happened = []

    def before(who, _number):
        if around.steps[-1:] == [step] and not happened and name in (None, who):
            happened.append(step)
            then()

    around.before = before
    return happened


STEPS = ["announce", "people/0", "fit/2/0/0", "fit/5/1/0", "fit/7/0/0", "factors",
         "measures", "carriers", "resamples/4/1/0", "likeness", "end", "result", "labels",
         "audit-head/last"]  # fmt: skip


@pytest.mark.parametrize("when", STEPS)
def test_a_hospital_that_was_started_again_resumes_to_the_same_result(disturbed, when):
    around, wanted = disturbed(alignment="vocabulary")
    victim = around.protocol.names[1]
    happened = at(around, when, lambda: around.sit(victim), victim)
    result = around.run()
    assert happened
    assert result.attempts == 2
    assert same(result.findings, wanted)


def test_a_hospital_lost_in_the_tournament_resumes_without_the_rows_of_before(disturbed):
    asked = replace(protocol().solver, starts=2)
    around, wanted = disturbed(alignment="vocabulary", solver=asked)
    victim = around.protocol.names[1]
    happened = at(around, "starts/5/1/0", lambda: around.sit(victim), victim)
    result = around.run()
    assert happened
    assert result.attempts == 2
    assert same(result.findings, wanted)


def test_trip_and_tokens_resume_to_the_same_result_too(disturbed):
    around, wanted = disturbed(method="trip", alignment="tokens", accept_division_leak=True)
    victim = around.protocol.names[0]
    assert not at(around, "fit/8/0/0", lambda: around.sit(victim), victim)
    assert same(around.run().findings, wanted)


def cut():
    raise PeerLost("the line is cut")


def test_a_coordinator_that_was_started_again_resumes_to_the_same_result(disturbed):
    around, wanted = disturbed(alignment="vocabulary")
    at(around, "fit/8/0/0", cut)
    with pytest.raises(PeerLost):
        around.run()
    result = around.run()
    assert same(result.findings, wanted)
    kept = [line[:5] for line in result.findings.solution.history]
    assert kept == [line[:5] for line in wanted.solution.history]
    assert "fit/8/0/0" in around.steps
    assert around.steps.count("fit/5/0/0") == 1  # gone on from the checkpoint before iteration 7


def test_everybody_starting_again_from_disk_resumes_to_the_same_result(disturbed):
    around, wanted = disturbed(alignment="tokens")
    at(around, "fit/5/1/0", cut)
    with pytest.raises(PeerLost):
        around.run()
    for name in around.protocol.names:
        around.sit(name)
    assert same(around.run().findings, wanted)
    assert around.steps.count("people/0") == 1


@pytest.mark.parametrize("file", ["newest", "every", "axes"])
def test_a_flipped_byte_in_what_was_kept_is_seen_and_the_result_is_the_same(disturbed, file):
    around, wanted = disturbed(alignment="vocabulary")
    at(around, "fit/8/0/0", cut)
    with pytest.raises(PeerLost):
        around.run()
    folder = around.folder / around.protocol.names[0] / "run-1"
    states = sorted(path for path in folder.glob("*.state") if path.stem.isdigit())
    assert len(states) == 2
    chosen = {"newest": states[-1:], "every": states, "axes": [folder / "axes.state"]}[file]
    for path in chosen:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    for name in around.protocol.names:
        around.sit(name)
    assert same(around.run().findings, wanted)
    assert around.steps.count("fit/1/0/0") == (1 if file == "newest" else 2)


def test_a_hospital_that_became_stricter_does_not_go_on_with_the_old_axes(table):
    around = table(alignment="vocabulary")
    victim = around.protocol.names[1]
    stricter = {"min_cell_count": 20}
    at(around, "fit/5/1/0", lambda: around.sit(victim, thresholds=stricter), victim)
    with pytest.raises(ThresholdTooLow, match="became stricter"):
        around.run()


def test_a_full_disk_at_a_checkpoint_is_a_clear_error_and_the_run_goes_on_later(
    disturbed, monkeypatch
):
    around, wanted = disturbed(alignment="vocabulary")
    real = os.fsync

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    at(around, "fit/5/1/0", lambda: monkeypatch.setattr(os, "fsync", full))
    with pytest.raises(DiskFailed, match="No space left"):
        around.run()
    assert not list(around.folder.rglob("*.part"))
    monkeypatch.setattr(os, "fsync", real)
    assert same(around.run().findings, wanted)


# ── older backups ─────────────────────────────────────────────────────────────────────────────


def put_back(backup, place):
    shutil.rmtree(place)
    shutil.copytree(backup, place)


def test_an_older_backup_of_the_coordinator_is_named_and_counted_on_from(disturbed, tmp_path):
    around, wanted = disturbed(alignment="vocabulary")
    for _attempt in (1, 2):
        around.steps.clear()
        at(around, "fit/8/0/0", cut)
        with pytest.raises(PeerLost):
            around.run()
        if not (tmp_path / "backup").exists():
            shutil.copytree(around.folder / "coordinator", tmp_path / "backup")
    put_back(tmp_path / "backup", around.folder / "coordinator")
    result = around.run()
    assert result.attempts == 3
    assert same(result.findings, wanted)
    assert any("made attempt 2 before" in text and "older backup" in text for text in around.said)


def test_a_very_old_backup_of_the_coordinator_ends_with_its_name_and_the_way_out(disturbed):
    around, wanted = disturbed(alignment="vocabulary")
    around.local_hospitals[around.protocol.names[2]].file.store("run-1").take_attempt(30)
    with pytest.raises(OlderBackup) as refused:
        around.run()
    assert "tripheno run" in refused.value.fix
    result = around.run()  # the way out
    assert result.attempts == 31
    assert same(result.findings, wanted)


def test_an_older_backup_of_a_hospital_is_named_and_the_run_begins_anew(disturbed, tmp_path):
    around, wanted = disturbed(alignment="vocabulary")
    names = around.protocol.names
    for name in names:
        around.sit(name, say=around.said.append)
    place = around.folder / names[1] / "run-1"
    for step in ("people/0", "fit/8/0/0"):
        at(around, step, cut)
        with pytest.raises(PeerLost):
            around.run()
        if step == "people/0":
            shutil.copytree(place, tmp_path / "backup")
    put_back(tmp_path / "backup", place)
    assert same(around.run().findings, wanted)
    told = [text for text in around.said if "older backup" in text]
    assert len(told) == len(names)
    assert all(names[1] in text and names[0] not in text for text in told)
