"""A study inside an NVFLARE network that is there already, made with the engine's own tool."""

import json
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kit.engine_federation import free_port
from kit.federation_processes import FederationOnDisk, ended, factors
from tripheno.cli.main import app
from tripheno.federation.hardening import ALLOWED

pytestmark = pytest.mark.verify

LEAD = "lead@network.org"
PROJECT = """api_version: 3
name: plain
participants:
  - {{name: localhost, type: server, org: network, fed_learn_port: {port}, admin_port: {port}}}
{clients}
  - {{name: {lead}, type: admin, org: network, role: lead}}
builders:
  - path: nvflare.lighter.impl.workspace.WorkspaceBuilder
    args: {{template_file: master_template.yml}}
  - path: nvflare.lighter.impl.static_file.StaticFileBuilder
    args:
      config_folder: config
      overseer_agent:
        path: nvflare.ha.dummy_overseer_agent.DummyOverseerAgent
        overseer_exists: false
        args: {{sp_end_point: "localhost:{port}:{port}"}}
  - path: nvflare.lighter.impl.cert.CertBuilder
  - path: nvflare.lighter.impl.signature.SignatureBuilder
"""


def provisioned(folder, names):
    """The network's kits, as its own people make them."""
    clients = "\n".join(f"  - {{name: {n}, type: client, org: network}}" for n in names)
    folder.mkdir()
    text = PROJECT.format(port=free_port(), clients=clients, lead=LEAD)
    (folder / "project.yml").write_text(text)
    tool = Path(sys.executable).with_name("nvflare")
    words = [tool, "provision", "-p", folder / "project.yml", "-w", folder / "ws"]
    subprocess.run(words, check=True, capture_output=True)
    return folder / "ws" / "plain" / "prod_00"


def let_in(workspace):
    """What docs/howto/network.md asks the owner of a workspace to write."""
    local = workspace / "local"
    resources = json.loads((local / "resources.json.default").read_text())
    resources["class_allow_list"] += ALLOWED
    if "client" in resources:
        resources["allow_log_streaming"] = False
    store = str(workspace / "store")
    (local / "resources.json").write_text(json.dumps(resources).replace("/tmp/nvflare", store))
    (workspace / "comm_config.json").write_text('{"streaming_retry_wait": 30.0}')


def engine(workspace, side, *values):
    """The engine as the network's start script runs it."""
    module = f"nvflare.private.fed.app.{side}.{side}_train"
    said = ["--set", "secure_train=true", "org=network", "config_folder=", *values]
    log = (workspace / "said.log").open("ab")
    words = [sys.executable, "-m", module, "-m", str(workspace), "-s", f"fed_{side}.json", *said]
    with log:
        return subprocess.Popen(
            words, stdout=log, stderr=log, cwd=workspace, start_new_session=True
        )


def test_a_study_runs_inside_a_network_that_is_there_already(tmp_path):
    federation = FederationOnDisk(tmp_path, {"rank": "3", "max_iter": "3", "starts": "4"})
    federation.write_settings()
    federation.ingest()
    federation.write_lists()
    federation.approve()
    kits = provisioned(tmp_path / "network", federation.names)
    site = federation.site("harbour")
    files = ["--site", site / "site.toml", "--federation", site / "federation.toml"]
    words = ["join", *files, "--workspace", kits / "harbour", "--no-agent"]
    shut = CliRunner().invoke(app, list(map(str, words)))
    assert shut.exit_code == 2
    assert "resources.json" in shut.stderr
    for name in ("localhost", *federation.names):
        let_in(kits / name)
    with ExitStack() as stack:
        stack.enter_context(ended(engine(kits / "localhost", "server")))
        for name in federation.names:
            stack.enter_context(ended(engine(kits / name, "client", f"uid={name}")))
            here = ("--workspace", str(kits / name), "--no-agent", "--once")
            stack.enter_context(ended(federation.join(name, *here)))
        there = ("--workspace", str(kits / "localhost"), "--admin-kit", str(kits / LEAD))
        run = federation.run(tmp_path / "run", *there)
        with ended(run):
            code = run.wait(timeout=600)
            assert code == 0, federation.said("run") + federation.said("harbour")
    federation.simulate(tmp_path / "simulated", tmp_path / "sites")
    assert factors(tmp_path / "run") == factors(tmp_path / "simulated")
    shutil.rmtree(kits)
