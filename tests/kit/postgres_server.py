"""A real PostgreSQL server for the length of a test, in a folder of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kit.requirements import require, tool

_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/bin")
PASSWORD = "a pass-word/with@signs"


def _unprivileged() -> str | None:
    """PostgreSQL refuses to run as root: another user to run it as, or nobody's needed."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = next((name for name in ("postgres", "nobody") if name in names), None)
    require(user, "PostgreSQL refuses root and there is no user to run it as")
    return user


def _run(words: Sequence[str | Path], user: str | None, folder: Path) -> None:
    command = [str(word) for word in words]
    if user is not None:
        command = ["runuser", "-u", user, "--", *command]
    subprocess.run(command, check=True, cwd=folder, capture_output=True, timeout=120)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def postgres_server() -> Iterator[str]:
    """Start a server, yield its address (with password), stop it and remove its files."""
    initdb, control = tool("initdb", *_PLACES), tool("pg_ctl", *_PLACES)
    user = _unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="tripheno-pg-"))
    try:
        secret = folder / "secret"
        secret.write_text(PASSWORD)
        if user is not None:
            entry = pwd.getpwnam(user)
            for path in (folder, secret):
                os.chown(path, entry.pw_uid, entry.pw_gid)
        data, port = folder / "data", _free_port()
        _run(
            [initdb, "-D", data, "-U", "ward", "-A", "scram-sha-256", "--pwfile", secret, "-E",
             "UTF8", "--no-sync"],
            user, folder,
        )  # fmt: skip
        options = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder} -c fsync=off"
        _run(
            [control, "-D", data, "-o", options, "-l", folder / "log", "-w", "start"], user, folder
        )
        try:
            yield f"postgresql://ward:a%20pass-word%2Fwith%40signs@127.0.0.1:{port}/postgres"
        finally:
            _run([control, "-D", data, "-m", "immediate", "-w", "stop"], user, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
