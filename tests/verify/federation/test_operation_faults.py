"""What befalls operators in the middle of a study: seconds to a clear error, no factor lost."""

import socket
import time
from contextlib import ExitStack

import pytest

from kit.certificates import let_run_out
from kit.fault_stage import (
    EARLY,
    SECONDS_TO_FINISH,
    SERVER,
    Stage,
    federation_for_faults,
    undisturbed_factors,
)
from kit.federation_processes import command, kill
from tripheno.federation.provisioning import Address, Machine

pytestmark = pytest.mark.verify

ANOTHER_VERSION = "import tripheno\ntripheno.__version__ = '0.0.9'\n"


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    return federation_for_faults(tmp_path_factory.mktemp("operation"))


@pytest.fixture(scope="module")
def undisturbed(federation, tmp_path_factory):
    return undisturbed_factors(federation, tmp_path_factory.mktemp("undisturbed"))


@pytest.fixture
def stage(federation, tmp_path):
    with ExitStack() as stack:
        made = Stage(federation, tmp_path / "run", stack)
        made.wait_for(EARLY)
        yield made


@pytest.fixture
def refused(federation, record_property):
    """``refused(process, log, exit code, error's code)``, and in how many seconds."""

    def judge(process, log, code, word):
        began = time.monotonic()
        assert process.wait(timeout=SECONDS_TO_FINISH) == code, federation.said(log)
        assert word in federation.said(log)
        record_property(f"seconds to {word}", round(time.monotonic() - began, 1))

    return judge


@pytest.fixture
def finished(undisturbed, record_property):
    """The study ends as if nothing had been, and in how many seconds."""

    def judge(stage):
        began = time.monotonic()
        assert stage.finish() == undisturbed
        record_property("seconds to the end", round(time.monotonic() - began, 1))

    return judge


def address(federation):
    text = (federation.coordinator / "federation.toml").read_text()
    return Address.of(text.partition('address = "')[2].partition('"')[0])


def lose(process):
    kill(process)
    process.wait()


def test_a_port_that_was_taken_meanwhile_is_named_and_costs_no_factor(stage, refused, finished):
    federation = stage.federation
    port, own = address(federation).port, stage.part(stage.server, SERVER)
    lose(stage.server)
    own.wait(SECONDS_TO_FINISH)  # the engine's server follows its parent
    with socket.create_server(("", port)):
        refused(stage.enter(federation.serve()), "serve", 5, "TRIP-E519")
    stage.server = stage.enter(federation.serve())
    finished(stage)


def test_a_hospital_whose_certificate_ran_out_renews_it_and_costs_no_factor(
    stage, refused, finished
):
    federation = stage.federation
    lose(stage.hospitals["lakeside"])
    kit = Machine(federation.site("lakeside") / "state" / "engine").kit("lakeside")
    let_run_out(kit.startup / "client.crt", federation.coordinator / "state" / "engine")
    refused(stage.enter(federation.join("lakeside")), "lakeside", 5, "TRIP-E513")
    federation.certify_one("lakeside", again=True)
    stage.enter(federation.join("lakeside"))
    finished(stage)


def test_a_server_whose_certificate_ran_out_renews_it_and_costs_no_factor(stage, finished):
    federation = stage.federation
    lose(stage.server)
    engine = federation.coordinator / "state" / "engine"
    kit = Machine(engine).kit(address(federation).host)
    let_run_out(kit.startup / "server.crt", engine)
    file = federation.coordinator / "federation.toml"
    left = command("cert", "renew", "--federation", file, "--site", federation.folder / "none")
    assert left["server"] > 1_000  # the unit does so before it serves
    stage.server = stage.enter(federation.serve())
    finished(stage)


def test_a_withdrawn_approval_ends_the_run_at_once_and_a_new_one_goes_on(
    stage, federation, refused, finished
):
    site = federation.site("harbour")
    files = ("--site", site / "site.toml", "--federation", site / "federation.toml")
    command("withdraw", *files)
    stage.go_on()
    refused(stage.running, "run", 4, "TRIP-E416")
    assert "harbour" in federation.said("run").rpartition("TRIP-E416")[2]
    logged = (site / "state" / "log.jsonl").read_text()
    assert logged.count('"event": "withdrawn"') == 2  # the command, and the message it stopped
    assert command("status", "--folder", site)["phase"] == "withdrawn"
    federation.approve()
    stage.run()
    finished(stage)


@pytest.mark.parametrize("whose", ["run", "lakeside"])
def test_another_version_is_refused_clearly_and_the_right_one_goes_on(
    stage, federation, refused, finished, tmp_path, whose
):
    (tmp_path / "sitecustomize.py").write_text(ANOTHER_VERSION)
    usual = federation.before
    lose(stage.running if whose == "run" else stage.hospitals[whose])
    federation.before = {**usual, whose: ["env", f"PYTHONPATH={tmp_path}"]}
    if whose == "run":
        stage.run()
        refused(stage.running, whose, 4, "TRIP-E421")
    else:  # what it approved, it approved for the version before
        refused(stage.enter(federation.join(whose)), whose, 4, "TRIP-E414")
        assert "tripheno is 0.0.9, not" in federation.said(whose)
    federation.before = usual
    if whose == "run":
        stage.run()
    else:
        stage.enter(federation.join(whose))
    finished(stage)
