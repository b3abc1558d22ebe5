"""The command ``tripheno``."""

from __future__ import annotations

import functools
import json
import signal
import sys
import traceback
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from tripheno import __version__
from tripheno.cli import audit, cert
from tripheno.cli.approve import approve
from tripheno.cli.attack import attack
from tripheno.cli.bench import bench
from tripheno.cli.check import check
from tripheno.cli.compare import compare
from tripheno.cli.demo import demo
from tripheno.cli.explain import explain
from tripheno.cli.export import export
from tripheno.cli.ingest import ingest
from tripheno.cli.init import init
from tripheno.cli.join import join
from tripheno.cli.paper import paper
from tripheno.cli.preview import preview
from tripheno.cli.rank import rank
from tripheno.cli.report import report
from tripheno.cli.review import review
from tripheno.cli.run import run
from tripheno.cli.serve import serve
from tripheno.cli.simulate import simulate
from tripheno.cli.status import status
from tripheno.cli.transform import transform
from tripheno.cli.ui import ui
from tripheno.cli.withdraw import withdraw
from tripheno.errors import (
    MissingExtra,
    RunFailed,
    SettingsError,
    TriphenoError,
    of_the_system,
)

app = typer.Typer(
    name="tripheno",
    help="Phenotypes from the combined patients of several hospitals; patient rows stay at home.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _guarded(command: Callable[..., None]) -> Callable[..., None]:
    """The command with its errors as one line on stderr and an exit code."""

    @functools.wraps(command)
    def run(*words: Any, **options: Any) -> None:
        try:
            command(*words, **options)
        except (Exception, KeyboardInterrupt) as fault:
            if "--debug" in sys.argv:
                raise
            ours = in_our_shape(fault)
            said = "interrupted" if isinstance(fault, KeyboardInterrupt) else str(ours)
            typer.echo(_as_json(ours) if _json_wanted() else said, err=True)
            raise SystemExit(ours.exit_code) from None

    return run


def in_our_shape(fault: BaseException) -> TriphenoError:
    """The same fault with a code; of an unexpected one the place only, never its words."""
    if isinstance(fault, TriphenoError):
        return fault
    if isinstance(fault, OSError):
        return of_the_system(fault, where=str(fault.filename or ""))
    if isinstance(fault, KeyboardInterrupt):
        ours = RunFailed("interrupted")
        ours.exit_code = 130
        return ours
    if isinstance(fault, ModuleNotFoundError) and not str(fault.name).startswith("tripheno"):
        return MissingExtra(
            f"'{fault.name}' is not installed",
            why="a machine that only ingests can do without it, this command cannot",
            fix="pip install tripheno",
        )
    frames = traceback.extract_tb(fault.__traceback__)
    *_, last = [frame for frame in frames if "tripheno" in Path(frame.filename).parts]
    return RunFailed(
        f"an unexpected {type(fault).__name__}",
        where=f"{Path(last.filename).name}, line {last.lineno}",
        why="a fault of tripheno",
        fix="please report it; --debug shows all, perhaps with patients' values",
    )


def _json_wanted() -> bool:
    """Whether the user asked for JSON, also where the words cannot be understood otherwise."""
    words = sys.argv[1:]
    return "--format=json" in words or ("--format", "json") in pairwise(words)


def _as_json(fault: TriphenoError) -> str:
    """An error for another program: one object on one line."""
    fields = {name: getattr(fault, name) for name in ("code", "what", "where", "why", "fix")}
    return json.dumps({"error": {**fields, "exit_code": fault.exit_code}}, ensure_ascii=False)


for _command in (
    demo, ingest, simulate, rank, transform, report, compare, export, review, ui, init, check,
    preview, approve, withdraw, serve, join, run, status, paper, bench, explain,
):  # fmt: skip
    app.command()(_guarded(_command))

audit_app = typer.Typer(help="What left, and whether the record of it holds.", no_args_is_help=True)
audit_app.command("verify")(_guarded(audit.verify))
audit_app.command("show")(_guarded(audit.show))
audit_app.command("attack")(_guarded(attack))
app.add_typer(audit_app, name="audit")

cert_app = typer.Typer(help="Certificates of machines: request, approve, install, renew.",
                       no_args_is_help=True)  # fmt: skip
for _name in ("request", "approve", "install", "renew"):
    cert_app.command(_name)(_guarded(getattr(cert, _name)))
app.add_typer(cert_app, name="cert")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"tripheno {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show Python's traceback when something fails.")
    ] = False,
) -> None:
    """Options of every command."""
    del version, debug


def main() -> None:
    """Run the command."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts background jobs so
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not _json_wanted():
        app()
        return
    try:
        raise SystemExit(app(standalone_mode=False) or 0)
    except Exception as fault:
        if not hasattr(fault, "format_message"):  # not a word that was misspelt
            raise
        typer.echo(_as_json(SettingsError(fault.format_message())), err=True)
        raise SystemExit(SettingsError.exit_code) from None
