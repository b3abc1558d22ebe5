"""A hospital whose only way out is an HTTP proxy that asks for a password, and breaks down once."""

import asyncio
import base64
import json
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from kit.engine_federation import free_port
from kit.fault_stage import EARLY, Stage, federation_for_faults, undisturbed_factors
from kit.federation_processes import ended, kill
from tripheno.errors import CoordinatorUnreachable
from tripheno.federation.preflight import try_connection
from tripheno.federation.provisioning import Address, Machine

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


def test_a_hospital_behind_a_proxy_with_a_password_takes_part_and_a_lost_proxy_costs_no_factor(
    tmp_path, record_property
):
    port, log = free_port(), tmp_path / "proxy.log"
    way = f"http://{USER}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}"
    before = {"harbour": ["env", f"https_proxy={way}"]}
    federation = federation_for_faults(tmp_path, host="grpc://localhost", before=before)
    with ExitStack() as stack, log.open("w") as said:

        def proxy():
            words = [sys.executable, __file__, str(port)]
            process = subprocess.Popen(words, stdout=said, start_new_session=True)
            stack.enter_context(ended(process))
            return process

        first = proxy()
        stage = Stage(federation, tmp_path / "run", stack)
        stage.wait_for(EARLY)
        began = time.monotonic()
        kill(first)
        first.wait()
        stage.go_on()
        time.sleep(10)
        proxy()
        found = stage.finish()
        record_property("seconds to the end", round(time.monotonic() - began, 1))
        kit = Machine(federation.site("harbour") / "state" / "engine").kit("harbour")
        text = (federation.coordinator / "federation.toml").read_text()
        address = Address.of(text.partition('address = "')[2].partition('"')[0])
        with pytest.raises(CoordinatorUnreachable, match="it answered 407"):
            try_connection(kit, address, f"http://127.0.0.1:{port}")
    assert log.read_text().count(f"CONNECT localhost:{address.port} let through") > 2
    assert found == undisturbed_factors(federation, tmp_path / "undisturbed")
    told = (federation.site("harbour") / "state" / "log.jsonl").read_text().splitlines()
    lines = [one for one in map(json.loads, told) if one["event"] == "line"]
    assert [one["connected"] for one in lines] == [1, 0, 1]


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
