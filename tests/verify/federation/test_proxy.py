"""A hospital whose only way out is an HTTP proxy that asks for a password."""

import asyncio
import base64
import subprocess
import sys
from contextlib import ExitStack

import pytest

from tripheno.errors import CoordinatorUnreachable
from tripheno.federation.preflight import try_connection
from tripheno.federation.provisioning import Address, Machine
from tripheno.testing.engine_federation import free_port
from tripheno.testing.federation_processes import FederationOnDisk, ended, factors

pytestmark = pytest.mark.verify

USER, PASSWORD = "harbour", "let me out"
LOGIN = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


async def pass_on(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def connect(reader, writer):
    """One CONNECT; anything else, and anybody without the password, is refused."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    verb, target, _ = head.split(" ", 2)
    allowed = f"authorization: {LOGIN}".lower() in head.lower()
    sys.stdout.write(f"{verb} {target} {'let through' if allowed else 'refused'}\n")
    sys.stdout.flush()
    if verb != "CONNECT" or not allowed:
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
        writer.close()
        return
    host, _, port = target.rpartition(":")
    there, back = await asyncio.open_connection(host, int(port))
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    await asyncio.gather(pass_on(reader, back), pass_on(there, writer), return_exceptions=True)


async def serve(port):
    async with await asyncio.start_server(connect, "127.0.0.1", port) as server:
        await server.serve_forever()


def test_a_hospital_behind_a_proxy_with_a_password_takes_part(tmp_path):
    port, log = free_port(), tmp_path / "proxy.log"
    way = f"http://{USER}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}"
    before = {"harbour": ["env", f"https_proxy={way}"]}
    settings = {"rank": "3", "max_iter": "3", "starts": "1"}
    federation = FederationOnDisk(tmp_path, settings, host="grpc://localhost", before=before)
    federation.prepare()
    with ExitStack() as stack, log.open("w") as said:
        words = [sys.executable, __file__, str(port)]
        stack.enter_context(ended(subprocess.Popen(words, stdout=said, start_new_session=True)))
        stack.enter_context(ended(federation.serve()))
        for name in federation.names:
            stack.enter_context(ended(federation.join(name, "--once")))
        run = federation.run(tmp_path / "run")
        stack.enter_context(ended(run))
        code = run.wait(timeout=240)
        assert code == 0, federation.said("run") + federation.said("harbour")
        kit = Machine(federation.site("harbour") / "state" / "engine").kit("harbour")
        text = (federation.coordinator / "federation.toml").read_text()
        address = Address.of(text.partition('address = "')[2].partition('"')[0])
        with pytest.raises(CoordinatorUnreachable, match="it answered 407"):
            try_connection(kit, address, f"http://127.0.0.1:{port}")
    assert f"CONNECT localhost:{address.port} let through" in log.read_text()
    federation.simulate(tmp_path / "simulated", tmp_path / "sites")
    assert factors(tmp_path / "run") == factors(tmp_path / "simulated")


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
