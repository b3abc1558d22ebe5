"""Real kills in the middle of a study, and refusals at a real server.

A study goes on after the one and ends with the same factors; who must not take part is told so,
with a code, and soon.
"""

import datetime
import json
import shutil
from contextlib import ExitStack
from datetime import UTC, timedelta
from pathlib import Path

import psutil
import pytest

from kit.certificates import let_run_out
from kit.fault_stage import (
    EARLY,
    EVIDENCE,
    WORKER,
    Stage,
    federation_for_faults,
    undisturbed_factors,
)
from kit.federation_processes import command, ended, factors, kill, wait_until
from tripheno.errors import BadCertificate
from tripheno.federation.preflight import try_connection
from tripheno.federation.provisioning import Address, Kit, Machine
from tripheno.privacy.approval import approve
from tripheno.privacy.manifest import read_manifest
from tripheno.protocol.key_files import read_identity

SECONDS = 300.0


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    return federation_for_faults(tmp_path_factory.mktemp("faults"))


@pytest.fixture
def stage(federation, tmp_path):
    with ExitStack() as stack:
        yield Stage(federation, tmp_path / "run", stack)


def test_a_killed_worker_and_a_killed_hospital_cost_no_factor(stage, tmp_path):
    federation = stage.federation
    stage.wait_for(EARLY)
    kill(stage.part(stage.hospitals["harbour"], WORKER))
    stage.wait_for(EVIDENCE)  # it has noticed, and gone on
    lost = stage.hospitals["lakeside"]
    started_by_it = stage.family(lost)[1:]
    assert len(started_by_it) >= 2  # the agent and a worker
    kill(lost)
    lost.wait()
    stage.enter(federation.join("lakeside"))
    _, orphans = psutil.wait_procs(started_by_it, timeout=SECONDS)
    assert orphans == []
    assert stage.finish() == undisturbed_factors(federation, tmp_path / "undisturbed")
    assert "going on under new keys" in federation.said("run")
    assert "going on from sum" in federation.said("harbour")
    assert (stage.out / "report.html").stat().st_size > 10_000
    name = json.loads((stage.out / "run.json").read_text())["run"]
    for hospital in federation.names:
        log = federation.site(hospital) / "state" / "runs" / name
        wait_until("the last head", (log / "audit.head.json").exists, SECONDS)
        assert command("audit", "verify", log)["ok"]
        own = federation.site(hospital) / "runs" / name
        assert factors(own) == factors(stage.out)


# ── refusals ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def serving(federation):
    """The engine's own server, and one hospital that takes part."""
    with ended(federation.serve(), federation.join("harbour")):
        wait_until("the hospital", lambda: "takes part" in federation.said("harbour"), SECONDS)
        yield federation


def startup(site: Path) -> Path:
    return next(site.rglob("startup/fed_client.json")).parent


def address_of(federation) -> Address:
    text = (federation.coordinator / "federation.toml").read_text()
    return Address.of(text.partition('address = "')[2].partition('"')[0])


def take_another_authority(federation, site):
    """The same name, certified by somebody else."""
    address = address_of(federation)
    other, machine = Machine(site / "other"), Machine(site / "machine")
    fingerprint = other.found_authority(address)
    request = machine.request("lakeside", "client", address)
    signed = other.approve(request, site / "lakeside.signed.zip", ("lakeside",))
    kit, own = machine.install(signed, "lakeside", fingerprint), startup(site / "state")
    for name in ("client.crt", "client.key", "rootCA.pem"):
        shutil.copy(kit.startup / name, own / name)


def let_the_certificate_run_out(federation, site):
    let_run_out(startup(site) / "client.crt", federation.coordinator / "state" / "engine")


def take_another_name(_federation, site):
    text = (site / "site.toml").read_text()
    (site / "site.toml").write_text(text.replace('"lakeside"', '"stranger"', 1))


def lose_the_approval(_federation, site):
    (site / "approved" / "approval.json").unlink()


def let_the_approval_run_out(_federation, site):
    officer = read_identity(site / "keys" / "officer.key")
    yesterday = datetime.datetime.now(UTC).date() - timedelta(days=1)
    manifest = read_manifest(site / "approved")
    (site / "approved" / "approval.json").write_text(approve(manifest, officer, yesterday))


CASES = {
    take_another_authority: (5, "TRIP-E512"),
    let_the_certificate_run_out: (5, "TRIP-E513"),
    take_another_name: (4, "TRIP-E412"),
    lose_the_approval: (4, "TRIP-E414"),
    let_the_approval_run_out: (4, "TRIP-E414"),
}


def test_whoever_must_not_take_part_is_refused_with_its_code(serving):
    with ExitStack() as stack:
        asked = {}
        for spoil, wanted in CASES.items():
            site = serving.site(spoil.__name__)
            shutil.copytree(serving.site("lakeside"), site)
            spoil(serving, site)
            asked[site.name] = serving.join(site.name), *wanted
            stack.enter_context(ended(asked[site.name][0]))
        again = serving.join("harbour")  # from the same home, while the first one is at work
        stack.enter_context(ended(again))
        asked["harbour"] = again, 5, "TRIP-E516"
        for name, (process, code, words) in asked.items():
            assert process.wait(timeout=SECONDS) == code, (name, serving.said(name))
            assert words in serving.said(name), name
    kit = Kit(startup(serving.site(let_the_certificate_run_out.__name__)).parent)
    with pytest.raises(BadCertificate, match="refused"):  # by the server too
        try_connection(kit, address_of(serving))


@pytest.mark.verify
def test_a_process_from_a_copied_kit_is_refused_while_the_first_one_lives(serving):
    shutil.copytree(serving.site("harbour"), serving.site("copy"))
    copied = serving.join("copy")
    with ended(copied):
        assert copied.wait(timeout=SECONDS) == 5
    assert "TRIP-E516" in serving.said("copy")
    assert "left" not in serving.said("harbour")
