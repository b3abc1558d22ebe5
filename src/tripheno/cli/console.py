"""How the command line speaks: results on stdout, progress and logs on stderr."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tripheno.errors import TriphenoWarning

if TYPE_CHECKING:
    from tripheno.solver.solution import Iteration

SECONDS_BETWEEN_LINES = 2.0


class Format(StrEnum):
    """How a result is printed."""

    text = "text"
    json = "json"


FormatOption = Annotated[
    Format, typer.Option("--format", help="Print the result as text or as JSON.")
]


def out() -> Console:
    """Where results go. Colours follow the terminal; brackets and ``:AB:`` are only themselves."""
    return Console(soft_wrap=True, highlight=False, markup=False, emoji=False)


def err() -> Console:
    """Where everything else goes."""
    return Console(stderr=True, soft_wrap=True, highlight=False, markup=False, emoji=False)


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """A result for another program, at once; without an indent, one line."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def show_event(form: Format) -> Callable[[dict[str, Any], bool], None]:
    """How a command that stays up speaks: sentences, or a JSON object a line.

    What it was called for goes to stdout, the rest of its log to stderr; sentences all to stderr.
    """

    def show(line: dict[str, Any], result: bool) -> None:
        if form is Format.text:
            err().print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line['text']}", markup=False)
            return
        stream = sys.stdout if result else sys.stderr
        stream.write(json.dumps(line, ensure_ascii=False) + "\n")
        stream.flush()

    return show


def table(title: str, columns: dict[str, bool]) -> Table:
    """An empty table; ``columns`` maps each heading to whether it holds numbers."""
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for heading, numeric in columns.items():
        made.add_column(heading, justify="right" if numeric else "left")
    return made


class Progress:
    """Long work made visible: one moving line on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self._console = err()
        self._status = self._console.status("") if self._console.is_terminal else None
        self._said = 0.0

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_ending: object) -> None:
        if self._status is not None:
            self._status.stop()

    def say(self, text: str) -> None:
        """A stage begins or ends."""
        self._console.print(text)

    def iteration(self, method: str, line: Iteration) -> None:
        """One iteration of a method is done."""
        rmse = "" if line.rmse is None else f", RMSE {line.rmse:.4f}"
        self.move(f"{method}: iteration {line.iteration}, objective {line.objective:.6g}{rmse}")

    def move(self, text: str) -> None:
        """The moving line says something else; where there is none, a line every few seconds."""
        if self._status is not None:
            self._status.update(text)
        elif time.monotonic() - self._said > SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            self._console.print(text)


def note(text: str) -> None:
    """What a reader should know about a result, beside it."""
    err().print(Text("note", style="yellow"), text)


@contextmanager
def spoken_warnings() -> Iterator[None]:
    """Say our warnings on stderr when they come, in one line each, each once."""
    said: set[str] = set()

    def say(message: Warning | str, *_where: Any, **_more: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            note(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", TriphenoWarning)
        warnings.showwarning = say
        yield
