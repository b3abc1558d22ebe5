"""The seed paper's figures, drawn from our rows: error and time against size, hospitals, skew."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

import altair as alt

from tripheno.lab.paper.ledger import Row
from tripheno.report.charts import BLUE, GREEN, INK, ORANGE, PURPLE, SOFT, _data, _styled

COLOURS = {
    "central": INK,
    "trip corrected": BLUE,
    "exact": GREEN,
    "local": ORANGE,
    "trip released": PURPLE,
}
PARTS = {"compute": BLUE, "communication": ORANGE, "alignment": SOFT}


class Mean(NamedTuple):
    """A number over repeats: its mean, its standard deviation and how many there were."""

    mean: float
    spread: float
    repeats: int


def words_of(row: Row) -> str:
    """A row's method as a reader calls it."""
    return f"{row.method} {row.variant}".strip()


def over_repeats(rows: Iterable[Row], name: str) -> dict[tuple[float | str, str], Mean]:
    """(x, method) → mean and spread of a column; rows without a number are left out."""
    found: dict[tuple[float | str, str], list[float]] = defaultdict(list)
    for row in rows:
        value = getattr(row, name)
        if value is not None and math.isfinite(value):
            found[row.x, words_of(row)].append(float(value))
    return {
        key: Mean(fmean(values), stdev(values) if len(values) > 1 else 0.0, len(values))
        for key, values in found.items()
    }


def x_label(x: float | str, experiment: str) -> str:
    """A place on the x axis in words."""
    if isinstance(x, str):
        return x
    if experiment == "nonzeros":
        return f"{x / 1e6:.1f}M" if x >= 1e6 else f"{x / 1e3:.0f}k"
    return f"{x:.2f}".rstrip("0").rstrip(".") if x < 1 else f"{x:.0f}"


def error_chart(rows: Sequence[Row], experiment: str, title: str) -> alt.Chart:
    """RMSE over nonzeros of every method, mean and standard deviation over repeats."""
    means = over_repeats(rows, "rmse_nonzeros")
    lines = [
        {
            "x": x_label(x, experiment), "method": method, "rmse": mean.mean,
            "low": mean.mean - mean.spread, "high": mean.mean + mean.spread,
        }
        for (x, method), mean in sorted(means.items(), key=lambda pair: _order(pair[0]))
    ]  # fmt: skip
    base = alt.Chart(_data(lines)).encode(
        x=alt.X("x:N", title=title, sort=None, axis=alt.Axis(labelAngle=0)),
        color=_colour(),
    )
    y = alt.Y("rmse:Q", title="RMSE over nonzeros", scale=alt.Scale(zero=False))
    drawn: Any = (
        base.mark_line().encode(y=y, strokeDash=_dash())
        + base.mark_point(filled=True, size=45).encode(y=y, shape=_shape())
        + base.mark_rule(strokeWidth=1.5).encode(
            y=alt.Y("low:Q", title="RMSE over nonzeros"), y2="high:Q"
        )
    )
    made: alt.Chart = _styled(drawn.properties(width=380, height=230))
    return made


def time_chart(rows: Sequence[Row], experiment: str, title: str) -> alt.Chart:
    """Seconds of every method, stacked: compute, communication at 15 MB/s, alignment."""
    lines = []
    for part in PARTS:
        means = over_repeats(rows, f"seconds_{part}")
        for (x, method), mean in sorted(means.items(), key=lambda pair: _order(pair[0])):
            place = x_label(x, experiment)
            lines.append({"x": place, "method": method, "part": part, "seconds": mean.mean})
    places = list(dict.fromkeys(str(line["x"]) for line in lines))
    shown = alt.Chart(_data(lines)).mark_bar().encode(
        x=alt.X("method:N", title=None, sort=list(COLOURS), axis=alt.Axis(labelAngle=-60)),
        y=alt.Y("seconds:Q", title="Seconds", stack="zero"),
        color=alt.Color(
            "part:N", title=None,
            scale=alt.Scale(domain=list(PARTS), range=list(PARTS.values())),
        ),
        column=alt.Column(
            "x:N", title=title, sort=places,
            header=alt.Header(titleOrient="bottom", labelOrient="bottom"), spacing=6,
        ),
    )  # fmt: skip
    made: alt.Chart = _styled(shown.properties(width=70, height=210))
    return made


def curve_chart(lines: Sequence[dict[str, Any]], against: str, title: str) -> alt.Chart:
    """The error after every iteration, against iterations or against bytes sent."""
    log = against == "megabytes"
    chart: alt.Chart = alt.Chart(_data(list(lines))).mark_line(point=log).encode(
        x=alt.X(
            f"{against}:Q", title=title,
            scale=alt.Scale(type="log" if log else "linear", nice=not log),
        ),
        y=alt.Y("rmse:Q", title="RMSE over nonzeros", scale=alt.Scale(zero=False)),
        color=_colour(),
        strokeDash=_dash(),
    )  # fmt: skip
    return _styled(chart.properties(width=380, height=230))


def _order(key: tuple[float | str, str]) -> tuple[Any, ...]:
    x, method = key
    return (isinstance(x, str), x, list(COLOURS).index(method) if method in COLOURS else 99)


def _colour() -> alt.Color:
    scale = alt.Scale(domain=list(COLOURS), range=list(COLOURS.values()))
    return alt.Color("method:N", title=None, scale=scale)


def _dash() -> alt.StrokeDash:
    scale = alt.Scale(domain=list(COLOURS), range=[[1, 0], [1, 0], [6, 3], [1, 0], [2, 2]])
    return alt.StrokeDash("method:N", title=None, scale=scale)


def _shape() -> alt.Shape:
    shapes = ["circle", "square", "diamond", "triangle-up", "cross"]
    return alt.Shape("method:N", title=None, scale=alt.Scale(domain=list(COLOURS), range=shapes))
