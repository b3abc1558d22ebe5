"""How a federation stands, for a program that watches many: OpenMetrics on this machine alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tripheno.errors import PortTaken, TriphenoError

HERE = "127.0.0.1"
KIND = "application/openmetrics-text; version=1.0.0; charset=utf-8"
GAUGES = {
    "at work": ("at_work", "Whether `run` is at work here."),
    "joined": ("joined", "Whether `join` is at work here."),
    "connected": ("connected", "Whether this hospital's line to the coordinator stands."),
    "attempt": ("attempt", "How often the run was begun or gone on with."),
    "iteration": ("iteration", "Iteration of the phase."),
    "rounds": ("rounds", "Round trips of the phase."),
    "bytes of the phase": ("phase_bytes", "Sent in the phase, up and down, all hospitals."),
    "seconds": ("run_seconds", "Since `run` was started."),
    "seconds waited": ("waited_seconds", "How long somebody has been awaited."),
    "approval days": ("approval_days", "Days until this hospital's approval runs out."),
    "certificate days": ("certificate_days", "Days until this machine's certificate runs out."),
}
Found = Mapping[str, Any]


def openmetrics(found: Found) -> str:
    """What ``tripheno status`` found, as gauges; words are labels of ``tripheno_phase``."""
    lines = []
    for name, (short, words) in GAUGES.items():
        if name in found:
            lines += [f"# TYPE tripheno_{short} gauge", f"# HELP tripheno_{short} {words}"]
            lines.append(f"tripheno_{short} {float(found[name]):g}")
    state, phase = (_quoted(found.get(name, "")) for name in ("state", "phase"))
    lines += ["# TYPE tripheno_phase gauge", "# HELP tripheno_phase Where the run is."]
    lines.append(f'tripheno_phase{{state="{state}",phase="{phase}"}} 1')
    if found.get("awaited"):
        lines += ["# TYPE tripheno_awaited gauge", "# HELP tripheno_awaited Who is awaited."]
        lines += [f'tripheno_awaited{{hospital="{_quoted(n)}"}} 1' for n in found["awaited"]]
    return "\n".join([*lines, "# EOF", ""])


def _quoted(text: object) -> str:
    return str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@contextmanager
def metrics_server(look: Callable[[], Found], port: int) -> Iterator[int]:
    """Serve ``/metrics`` on the loopback address, looked up at every request; yields the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                text, code = openmetrics(look()), 200 if self.path == "/metrics" else 404
            except TriphenoError as fault:
                text, code = f"{fault.code}\n", 503
            body = text.encode() if code != 404 else b""
            self.send_response(code)
            self.send_header("Content-Type", KIND)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            """Who asks is nobody's business."""

    try:
        server = ThreadingHTTPServer((HERE, port), Handler)
    except OSError as fault:
        raise PortTaken(
            f"port {port} cannot be taken", where=HERE, why=fault.strerror or "",
            fix="name another port",
        ) from None  # fmt: skip
    Thread(target=server.serve_forever, name="tripheno-metrics", daemon=True).start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
