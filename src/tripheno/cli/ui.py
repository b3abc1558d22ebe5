"""``tripheno ui``: the dashboard on this machine."""

from __future__ import annotations

import secrets
import socket
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from tripheno.cli.console import err, out
from tripheno.errors import SettingsError


def ui(
    folder: Annotated[Path, typer.Argument(help="Run folder, study folder, or folder of runs.")],
    port: Annotated[
        int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.", min=0, max=65535)
    ] = 0,
    site: Annotated[
        Path | None,
        typer.Option(help="This hospital's own folder: adds a page with its patients' timelines."),
    ] = None,
    browse: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open", help="Open the browser.", show_default="where a person looks on"
        ),
    ] = None,
) -> None:
    """Look at a run, name and judge its phenotypes, in a browser on this machine."""
    try:
        import uvicorn

        from tripheno.dashboard.app import make_app
    except ImportError:
        raise SettingsError(
            "The dashboard is not installed", fix="pip install 'tripheno[ui]'"
        ) from None
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            raise SettingsError(f"port {port} is taken", fix="name another, or no --port") from None
        number = listener.getsockname()[1]
        token = secrets.token_urlsafe(24)
        app = make_app(folder, token, [f"127.0.0.1:{number}", f"localhost:{number}"], site)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        app.state.ending = lambda: server.should_exit
        listener.listen()  # a browser quicker than the server waits, not refused
        address = f"http://127.0.0.1:{number}/?token={token}"
        out().print(address)
        err().print("Open this address in a browser on this machine. Ctrl-C stops the dashboard.")
        if sys.stdout.isatty() if browse is None else browse:
            webbrowser.open(address)
        server.run(sockets=[listener])
