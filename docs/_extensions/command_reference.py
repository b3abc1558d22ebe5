"""A directive that writes down every command as Typer knows it, when the site is built."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal, get_args, get_origin

import typer.main
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from tripheno.cli.main import app


def commands() -> list[tuple[str, Any]]:
    """Every command with its full name, sub-commands in place of their group."""
    found = []

    def walk(name: str, command: Any) -> None:
        children = getattr(command, "commands", None)
        if not children:
            found.append((name, command))
            return
        for child, below in children.items():
            walk(f"{name} {child}", below)

    walk("tripheno", typer.main.get_command(app))
    return found


def markdown(name: str, command: Any) -> list[str]:
    """One command: what it does, how it is called, its options."""
    words, rows = [], []
    for parameter in command.params:
        if parameter.name == "help" or parameter.hidden:
            continue
        if parameter.param_type_name == "argument":
            shown = str(parameter.name).upper()
            words.append(shown if parameter.required else f"[{shown}]")
        else:
            shown = ", ".join(parameter.opts)
        bare = parameter.type_descriptor.annotation
        kind = " · ".join(_choices(bare))
        value = getattr(parameter.default, "value", parameter.default)
        shown_default = value is not None and not callable(value) and not parameter.required
        default = f"`{value}`" if shown_default and value not in ((), "") else ""
        text = (getattr(parameter, "help", "") or "").replace("|", "\\|")
        rows.append(f"| `{shown}` | {text} | {kind} | {default} |")
    lines = [f"## {name}", "", *(command.help or "").strip().splitlines(), ""]
    lines += ["```text", " ".join([name, *words, "[OPTIONS]" if rows else ""]).strip(), "```", ""]
    if rows:
        lines += ["| option | meaning | one of | default |", "|---|---|---|---|", *rows, ""]
    return lines


def _choices(kind: Any) -> list[str]:
    """The words an option takes, where it takes only some."""
    if get_origin(kind) is Literal:
        return [str(word) for word in get_args(kind)]
    enum = isinstance(kind, type) and issubclass(kind, Enum)
    return [str(choice.value) for choice in kind] if enum else []


class CommandReference(SphinxDirective):
    """``{command-reference}``: all commands, in the order of the help text."""

    def run(self) -> list[nodes.Node]:
        """The nodes of every command's section."""
        lines = [line for pair in commands() for line in markdown(*pair)]
        holder = nodes.Element()
        self.state.nested_parse(StringList(lines, source="commands"), 0, holder, match_titles=True)
        return list(holder.children)


def setup(app: Any) -> dict[str, bool]:
    """Make the directive known to Sphinx."""
    app.add_directive("command-reference", CommandReference)
    return {"parallel_read_safe": True}
