"""What the attacks recovered, drawn: the paper's protocol and the first version beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import altair as alt

from tripheno.lab.attacks.finding import FIRST_VERSION, SHIPPED, Finding
from tripheno.lab.attacks.suite import LESS_OWN, PAPER
from tripheno.report.charts import BLUE, INK, ORANGE, SOFT, _data, _styled

GROUPS = ("polynomial", "tokens", "vocabulary")


def attack_chart(findings: Sequence[Finding], under_test: str) -> alt.Chart:
    """One line an attack: how much it recovered, from nothing (0) to everything (1).

    A matrix is recovered by as much as is left of it after its relative error. Grey ticks are what
    guessing gives, thin lines 95 % intervals.
    """
    colours = {PAPER: ORANGE, FIRST_VERSION: SOFT, under_test: BLUE}
    findings = [replace(one, setup=under_test) if one.setup == SHIPPED else one for one in findings]
    rows = [row for one in findings if (row := _row(one, colours)) is not None]
    order = list(dict.fromkeys(row["attack"] for row in rows))
    x = alt.X("recovered:Q", title="Recovered", scale=alt.Scale(domain=[0, 1]))
    y = alt.Y("attack:N", title=None, sort=order, axis=alt.Axis(labelLimit=420))
    colour = alt.Color(
        "setup:N", title=None, sort=list(colours),
        scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        legend=alt.Legend(labelLimit=420),
    )  # fmt: skip
    shape = alt.Shape("setup:N", legend=None, sort=list(colours))
    base = alt.Chart(_data(rows))
    spans = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=2, opacity=0.6)
    ticks = base.transform_filter("isValid(datum.chance)").mark_tick(color=SOFT, thickness=2)
    dots = base.mark_point(size=90, filled=True, opacity=0.95, stroke=INK, strokeWidth=0.4)
    layered: Any = alt.layer(
        ticks.encode(x=alt.X("chance:Q"), y=y),
        spans.encode(x=alt.X("low:Q"), x2="high:Q", y=y, color=colour),
        dots.encode(x=x, y=y, color=colour, shape=shape),
    )  # fmt: skip
    chart: alt.Chart = _styled(layered.properties(width=430, height=22 * len(order)))
    return chart


def _row(one: Finding, colours: dict[str, str]) -> dict[str, Any] | None:
    """A finding of one of the set-ups; what is no share of a thing stands in the table."""
    if one.setup not in colours or one.attack == LESS_OWN:
        return None
    recovered = max(0.0, 1.0 - one.value) if one.unit == "error" else one.value
    name = one.attack
    for kind in GROUPS:  # the same question to both, whatever the alignment
        name = name.replace(f" ({kind})", "").replace("subtraction", "by another hospital")
    name = name.replace("positions", "by another hospital").replace("counts", "by another hospital")
    name = name.replace("dictionary", "by the coordinator")
    return {
        "attack": name + (" (AUC)" if one.unit == "AUC" else ""),
        "setup": one.setup, "recovered": recovered, "low": one.low, "high": one.high,
        "chance": one.chance,
    }  # fmt: skip
