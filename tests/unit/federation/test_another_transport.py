"""A study over a transport of another make, by hospitals whose machines compute differently.

`SocketChannel` and `attend` are an example of all that a
:class:`~tripheno.federation.transport.Channel` owes, and pass its contract: hospitals call out over
plain sockets under a shared key. For a real network the socket would be TLS, as the engine's is.
"""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Client, Listener
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from kit.small_study import NAMES, seated
from tripheno.errors import PeerLost
from tripheno.federation.relay import Broken, frame, opened_answer, read_frame, sealed_answer
from tripheno.federation.transport import Channel, Outbox
from tripheno.protocol.agreed import EvidenceSettings
from tripheno.solver.settings import SolverSettings
from tripheno.tensor import reference
from tripheno.tensor import rows as tensor_rows
from tripheno.tensor.cells import Cells
from tripheno.testing.channel_contract import ChannelContract


class SocketChannel(Channel):
    """The coordinator's side: it listens, and every hospital calls."""

    def __init__(self, hospitals, key, seconds=60.0):
        self._names, self._seconds = tuple(hospitals), seconds
        self._listener = Listener(("127.0.0.1", 0), authkey=key)
        self._lines = {}
        self._pool = ThreadPoolExecutor(len(self._names))
        super().__init__()

    @property
    def hospitals(self):
        """The members, in the order agreed on."""
        return self._names

    @property
    def address(self):
        """Where hospitals call."""
        host, port = self._listener.address
        return str(host), int(port)

    def gather(self):
        """Wait until every hospital has called; who calls again replaces their old line."""
        while set(self._lines) != set(self._names):
            line = self._listener.accept()
            self._lines[line.recv_bytes().decode()] = line

    def round(self, step, broadcast):
        """All are asked at once. Either everybody answers, or the round raises."""
        self.gather()
        asked = {n: self._pool.submit(self._ask, n, step, broadcast) for n in self._names}
        sealed = {name: answer.result() for name, answer in asked.items()}
        return {name: opened_answer(name, answer) for name, answer in sealed.items()}

    def _ask(self, name, step, broadcast):
        began, line, traffic = time.perf_counter(), self._lines[name], self.traffic[name]
        try:
            line.send_bytes(frame(step, broadcast))
            if not line.poll(self._seconds):
                raise EOFError
            answer = line.recv_bytes()
        except Broken:
            del self._lines[name]
            raise PeerLost("the line is lost", where=name) from None
        traffic.bytes_down += len(broadcast)
        traffic.bytes_up += len(answer) - 1  # one byte says whether it went well
        traffic.seconds += time.perf_counter() - began
        traffic.note_answer(time.perf_counter() - began)
        return answer

    def close(self):
        """Hang up: hospitals see the end of their line."""
        for line in self._lines.values():
            line.close()
        self._listener.close()
        self._pool.shutdown()


def attend(name, respond, address, key):
    """A hospital's side: call, answer every step, a repeated one with the same bytes."""
    outbox = Outbox(respond)
    try:
        with Client(address, authkey=key) as line:
            line.send_bytes(name.encode())
            while True:
                step, data = read_frame(line.recv_bytes())
                line.send_bytes(sealed_answer(outbox.answer, step, data))
    except Broken:
        return  # hung up


def called(responders, key):
    """A channel to hospitals that are threads of this process: for the contract's tests."""
    channel = SocketChannel(tuple(responders), key)
    for name, respond in responders.items():
        Thread(target=attend, args=(name, respond, channel.address, key), daemon=True).start()
    return channel


KEY = b"a key that both sides were given"
MACHINES = {
    "harbour": {"OPENBLAS_CORETYPE": "Prescott"},  # the first by name: its starts are everybody's
    "northfield": {"OPENBLAS_NUM_THREADS": "1", "OPENBLAS_CORETYPE": "Nehalem"},
    "lakeside": {"OPENBLAS_CORETYPE": "Sandybridge"},
}  # other processors and threads than the simulation's
PLAIN = "lakeside"  # the hospital without compiled kernels
ALONE = "northfield"  # the hospital whose loops have one thread


class TestSocketChannel(ChannelContract):
    @pytest.fixture(autouse=True)
    def hang_up(self):
        self.channels = []
        yield
        for channel in self.channels:
            channel.close()

    def make_channel(self, responders):
        self.channels.append(called(responders, KEY))
        return self.channels[-1]


def study(folder, starts):
    solver = SolverSettings(n_components=6, max_iter=40, seed=1, tol=1e-9, starts=starts)
    return seated(folder, alignment="vocabulary", solver=solver, evidence=EvidenceSettings(3))


def use_plain_kernels():
    """The twins that say what the compiled loops compute."""

    def dense(cells):
        found = np.zeros((cells.patients, *cells.sizes))
        patients = np.repeat(np.arange(cells.patients), np.diff(cells.starts))
        np.add.at(found, (patients, *cells.indices.T), cells.values)
        return found

    def rows(rhs, gram, first, last, out):
        out[first:last] = reference.nonnegative_rows(rhs[first:last], gram)

    Cells.patient_product = lambda cells, features: reference.mttkrp(
        dense(cells), [np.empty(0), *features], 0
    )
    Cells.feature_product = lambda cells, features, patients, n: reference.mttkrp(
        dense(cells), [cells.weighted(patients), *features], n + 1
    )
    tensor_rows.nonnegative_rows = rows


def one_hospital(folder, name, port, starts):
    """What each of the processes below runs."""
    if name == PLAIN:
        use_plain_kernels()
    if name == ALONE:
        os.cpu_count = lambda: 1
    attend(name, study(Path(folder), int(starts)).local_hospitals[name].respond,
           ("127.0.0.1", int(port)), KEY)  # fmt: skip


@pytest.mark.filterwarnings("ignore::tripheno.errors.NotConverged")
@pytest.mark.parametrize("starts", [4, pytest.param(16, marks=pytest.mark.verify)])
def test_machines_that_compute_differently_stay_in_step_to_the_end(tmp_path, starts):
    channel = SocketChannel(NAMES, KEY, seconds=300)
    port, words = channel.address[1], [sys.executable, __file__]
    machines = [
        subprocess.Popen(
            [*words, tmp_path / name, name, str(port), str(starts)],
            env={**os.environ, **env, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for name, env in MACHINES.items()
    ]
    try:
        around = study(tmp_path, starts)
        found = around.run(channel).findings  # compared to a billionth, or refused
    finally:
        channel.close()
        for machine in machines:
            machine.kill()
            machine.wait()
    alone = study(tmp_path / "alone", starts).run().findings
    apart = [
        float(np.abs(ours - theirs).max())
        for ours, theirs in zip(found.solution.factors, alone.solution.factors, strict=True)
    ]
    assert max(apart) < 1e-9
    assert [one.grade for one in found.weighed.grades] == [o.grade for o in alone.weighed.grades]


if __name__ == "__main__":
    one_hospital(*sys.argv[1:])
