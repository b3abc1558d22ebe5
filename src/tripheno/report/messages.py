"""What left, as the page and the documentation tell it: both follow from the registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tripheno.exchange.registry import REGISTRY, Declaration, messages_of
from tripheno.privacy.manifest import LEAVES, holds
from tripheno.solver.settings import SolverSettings
from tripheno.study.message_plan import COUNTS, declare_all, plan_of


def what_left(run: dict[str, Any]) -> list[dict[str, str]]:
    """The messages of a run: name, rows, fields.

    They are those that the run wrote down, else those that its method and alignment have.
    """
    if run["method"] == "central":
        pooled = "all patients’ counts: the pooled model is what a federation avoids"
        return [{"name": "every cell", "holds": pooled, "size": "cells × modes"}]
    declare_all()
    names = run.get("messages")
    found = _planned(run) if names is None else [REGISTRY[name] for name in names]
    return [
        {
            "name": one.name,
            "holds": one.rows.removeprefix("none: "),
            "size": holds(one.fields).replace("` ", ": ").replace("`", ""),
        }
        for one in found
    ]


def _planned(run: dict[str, Any]) -> Iterable[Declaration]:
    plan = plan_of(
        SolverSettings(
            run["rank"], run["method"], loss=run.get("loss", "squared"),
            starts=run.get("starts", 1), influence=run.get("influence", "none"),
        ),
        run["modes"][1:], len(run["hospitals"]),
        resamples=run.get("evidence", {}).get("resamples", 0), alignment=run.get("align"),
        counts=COUNTS, blind=run.get("sums") == "blind",
    )  # fmt: skip
    return messages_of(plan)


def messages_table() -> Iterator[str]:
    """Every message there is, as a table in Markdown."""
    declare_all()
    yield "| message | leaves | rows are | fields |"
    yield "|---|---|---|---|"
    for one in sorted(REGISTRY.values(), key=lambda one: one.name):
        yield f"| `{one.name}` | {LEAVES[one.how]} | {one.rows} | {holds(one.fields)} |"
