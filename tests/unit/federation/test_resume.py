"""Whoever is lost, and whenever: the run goes on from the last common iteration to the same end."""

import errno

import numpy as np
import pytest

from tripheno.errors import DiskFailed, PeerLost
from tripheno.federation import checkpoints

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.NotConverged")


def same(found, wanted):
    return all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("method", ["trip", "exact"])
@pytest.mark.parametrize("when", ["iterate/2/0/0", "iterate/5/1/0", "iterate/7/0/0", "release"])
def test_a_hospital_that_was_started_again_resumes_to_the_same_factors(
    table, tmp_path_factory, method, when
):
    around = table(method=method)
    wanted = around.run().solution.factors
    around.folder = tmp_path_factory.mktemp("disturbed")
    for name in around.protocol.names:
        around.sit(name)
    victim, killed = around.protocol.names[1], []

    def kill_once(name, step):
        if name == victim and step.endswith(":" + when) and not killed:
            killed.append(step)
            around.sit(victim)

    around.before = kill_once
    result = around.run()
    assert killed
    assert result.attempts == 2
    assert same(result.solution.factors, wanted)


def test_a_coordinator_that_was_started_again_resumes_to_the_same_factors(table, tmp_path_factory):
    around = table()
    wanted = around.run().solution
    around.folder = tmp_path_factory.mktemp("disturbed")

    def cut(name, step):
        if ":iterate/8/" in step:
            raise PeerLost("the line is cut")

    around.before = cut
    with pytest.raises(PeerLost):
        around.run()
    around.before = lambda _name, _step: None
    result = around.run()
    assert any("going on from iteration 7" in text for text in around.said)
    assert same(result.solution.factors, wanted.factors)
    kept = [line[:5] for line in result.solution.history]
    assert kept == [line[:5] for line in wanted.history]


def test_everybody_starting_again_from_disk_resumes_to_the_same_factors(table, tmp_path_factory):
    around = table()
    wanted = around.run().solution.factors
    around.folder = tmp_path_factory.mktemp("disturbed")

    def cut(name, step):
        if ":iterate/5/1/" in step:
            raise PeerLost("the power is cut")

    around.before = cut
    with pytest.raises(PeerLost):
        around.run()
    around.before = lambda _name, _step: None
    for name in around.protocol.names:
        around.sit(name)
    assert same(around.run().solution.factors, wanted)


def test_members_one_checkpoint_apart_go_on_from_the_older_one(table, tmp_path_factory):
    around = table()
    wanted = around.run().solution.factors
    around.folder = tmp_path_factory.mktemp("disturbed")
    last = around.protocol.names[-1]

    def cut(name, step):  # the others have kept iteration 7, the last one has not
        if name == last and ":iterate/7/0/0" in step:
            raise PeerLost("the line is cut")

    around.before = cut
    with pytest.raises(PeerLost):
        around.run()
    around.before = lambda _name, _step: None
    for name in around.protocol.names:
        around.sit(name)
    assert same(around.run().solution.factors, wanted)
    assert any("going on from iteration 4" in text for text in around.said)


def test_a_full_disk_at_a_checkpoint_is_a_clear_error_and_the_run_goes_on_later(
    table, tmp_path_factory, monkeypatch
):
    around = table()
    wanted = around.run().solution.factors
    around.folder = tmp_path_factory.mktemp("disturbed")
    real = checkpoints.os.fsync

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    def fill(name, step):
        if ":iterate/7/0/0" in step:
            monkeypatch.setattr(checkpoints.os, "fsync", full)

    around.before = fill
    with pytest.raises(DiskFailed, match="No space left"):
        around.run()
    assert not list(around.folder.rglob("*.part"))
    monkeypatch.setattr(checkpoints.os, "fsync", real)
    around.before = lambda _name, _step: None
    assert same(around.run().solution.factors, wanted)
