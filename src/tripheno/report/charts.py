"""Charts: every function gives an Altair chart; ``as_svg`` makes one part of a page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import altair as alt

from tripheno.evaluation.rank import RankChoice

INK, SOFT, BLUE, ORANGE, GREEN, PURPLE, GRID = (  # style.css has another of each for the dark
    "#1d2733", "#566270", "#2f6fa8", "#b3541e", "#2e7d4f", "#7a3fa0", "#e3e8ee",
)  # fmt: skip
C = TypeVar("C", alt.Chart, alt.ConcatChart, alt.HConcatChart)

RANK_PANELS: dict[str, tuple[str, list[float] | None]] = {
    "held_out_error": ("Held-out error (lower is better)", None),
    "stability": ("Stability over halves (factor match)", [0.0, 1.0]),
    "core_consistency": ("Core consistency", [0.0, 100.0]),
    "fit": ("Share of the data explained", [0.0, 1.0]),
}


def rank_chart(choice: RankChoice) -> alt.ConcatChart:
    """The four kinds of evidence against the number of phenotypes, the recommendation marked."""
    rows = [{**asdict(one), "held_out_folds": None} for one in choice.evidence]
    for row in rows:
        row["core_consistency"] = max(float(row["core_consistency"]), 0.0)
    best = choice.recommendation.rank
    mark = alt.Chart(_data([] if best is None else [{"rank": best}])).mark_rule(
        color=ORANGE, strokeDash=[5, 3], strokeWidth=2
    ).encode(x="rank:Q")  # fmt: skip
    panels = []
    for field, (title, ends) in RANK_PANELS.items():
        scale = alt.Scale(zero=False) if ends is None else alt.Scale(domain=ends)
        line = alt.Chart(_data(rows)).mark_line(point=True, color=BLUE).encode(
            x=alt.X("rank:Q", title="Phenotypes", axis=alt.Axis(tickMinStep=1, format="d")),
            y=alt.Y(f"{field}:Q", title=None, scale=scale),
        )  # fmt: skip
        panels.append((line + mark).properties(width=300, height=170, title=title))
    return _styled(alt.concat(*panels, columns=2))


def convergence_chart(history: Sequence[Mapping[str, Any]]) -> alt.Chart:
    """RMSE over nonzeros by iteration, or the objective where RMSE was not followed."""
    field, title = "rmse", "RMSE over nonzeros"
    if any(line["rmse"] is None for line in history):
        field, title = "objective", "Objective Ψ"
    rows = [{"iteration": line["iteration"], "value": line[field]} for line in history]
    chart: alt.Chart = alt.Chart(_data(rows)).mark_line(color=BLUE, point=len(rows) < 40).encode(
        x=alt.X("iteration:Q", title="Iteration", axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=False)),
    )  # fmt: skip
    return _styled(chart.properties(width=330, height=190))


def residual_chart(history: Sequence[Mapping[str, Any]]) -> alt.Chart | None:
    """Primal and dual residuals by iteration, or nothing for a method that has none."""
    rows = [
        {"iteration": line["iteration"], "residual": name, "value": line[name]}
        for line in history
        for name in ("primal", "dual")
        if line.get(name)
    ]
    if not rows:
        return None
    chart: alt.Chart = alt.Chart(_data(rows)).mark_line(point=len(rows) < 80).encode(
        x=alt.X("iteration:Q", title="Iteration", axis=alt.Axis(tickMinStep=1)),
        y=alt.Y(
            "value:Q", title="Residual", scale=alt.Scale(type="log"),
            axis=alt.Axis(tickCount=5, format=".0e"),
        ),
        color=alt.Color("residual:N", title=None, scale=alt.Scale(range=[ORANGE, BLUE])),
        strokeDash=alt.StrokeDash("residual:N", title=None),
    )  # fmt: skip
    return _styled(chart.properties(width=330, height=190))


def prevalence_chart(rows: Sequence[Mapping[str, Any]]) -> alt.Chart:
    """Share of each hospital's patients who have each phenotype; withheld shares are not drawn.

    ``rows`` have ``phenotype``, ``hospital`` and ``share``.
    """
    shown = [dict(row) for row in rows if row["share"] is not None]
    percents = alt.Axis(format="%", tickCount=6, labelFlush=False)
    order = list(dict.fromkeys(row["hospital"] for row in rows))
    chart: alt.Chart = alt.Chart(_data(shown)).mark_point(size=80, filled=True, opacity=0.9).encode(
        x=alt.X("share:Q", title="Share of the hospital’s patients", axis=percents),
        y=alt.Y("phenotype:N", title=None, sort=None, axis=alt.Axis(labelLimit=400)),
        color=alt.Color(
            "hospital:N", title=None, legend=alt.Legend(columnPadding=26),  # letters differ
            scale=alt.Scale(domain=order, range=[BLUE, ORANGE, GREEN, PURPLE, SOFT]),
        ),
        shape=alt.Shape("hospital:N", title=None, scale=alt.Scale(domain=order)),
    )  # fmt: skip
    return _styled(chart.properties(width=430))


def code_chart(rows: Sequence[Mapping[str, Any]], title: str) -> alt.Chart:
    """The codes of one phenotype: ``rows`` have ``code``, ``label``, ``mode`` and ``share``."""
    heard = Counter(row["label"] for row in rows)  # two bars of one name would be one
    named = [
        {**row, "label": row["label"] if heard[row["label"]] == 1
         else f"{row['label']} ({row['mode']} {row['code']})"}
        for row in rows
    ]  # fmt: skip
    chart: alt.Chart = alt.Chart(_data(named), title=title).mark_bar().encode(
        x=alt.X("share:Q", title="Share of the phenotype", axis=alt.Axis(format="%")),
        y=alt.Y("label:N", title=None, sort=None, axis=alt.Axis(labelLimit=340)),
        color=alt.Color("mode:N", title=None, scale=alt.Scale(range=[BLUE, ORANGE, GREEN, PURPLE])),
    )  # fmt: skip
    return _styled(chart.properties(width=330))


def overview_chart(
    codes: Sequence[str],
    cells: Sequence[Mapping[str, Any]],
    shares: Sequence[Mapping[str, Any]],
    order: Sequence[str],
) -> alt.HConcatChart:
    """Phenotypes × telling codes on one scale, and beside it how common each is at each hospital.

    ``cells`` have ``phenotype``, ``code`` and ``share``; ``shares`` are as for the prevalence;
    ``order`` is that of all phenotypes, also of those without any share to show.
    """
    legend: dict[str, Any] = {  # squares: a gradient would need a name of its own on the page
        "type": "symbol", "symbolType": "square", "symbolStrokeWidth": 0, "format": "%",
        "orient": "bottom", "direction": "horizontal",
    }  # fmt: skip
    fade = alt.Scale(domainMin=0, range=[0.06, 1])  # of one colour, into any ground
    turned = alt.Axis(labelAngle=-55, labelLimit=220, labelFontSize=12, orient="top")
    heat: alt.Chart = alt.Chart(_data([dict(cell) for cell in cells])).mark_rect(fill=BLUE).encode(
        x=alt.X("code:N", title=None, sort=list(codes), axis=turned),
        y=alt.Y(
            "phenotype:N", title=None, scale=alt.Scale(domain=list(order)),
            axis=alt.Axis(labelLimit=380, labelFontSize=12),
        ),
        opacity=alt.Opacity(
            "share:Q", title="share of the phenotype", scale=fade,
            legend=alt.Legend(**legend, symbolFillColor=BLUE),
        ),
    )  # fmt: skip
    panels = [heat.properties(width=alt.Step(24), height=alt.Step(24))]
    shown = [dict(one) for one in shares if one["share"] is not None]
    if any(one["share"] for one in shown):
        places = list(dict.fromkeys(one["hospital"] for one in shares))  # also if all is withheld
        common: alt.Chart = alt.Chart(_data(shown)).mark_rect(fill=ORANGE).encode(
            x=alt.X("hospital:N", title=None, scale=alt.Scale(domain=places), axis=turned),
            y=alt.Y("phenotype:N", scale=alt.Scale(domain=list(order)), axis=None),
            opacity=alt.Opacity(
                "share:Q", title="share of patients", scale=fade,
                legend=alt.Legend(**legend, symbolFillColor=ORANGE, tickCount=3),  # a narrow panel
            ),
        )  # fmt: skip
        panels.append(common.properties(width=alt.Step(26), height=alt.Step(24)))
    beside: alt.HConcatChart = alt.hconcat(*panels, spacing=12).resolve_scale(opacity="independent")
    room = {"left": 45, "right": 90, "top": 30, "bottom": 5}  # turned labels reach out
    return _styled(beside, room)


def as_svg(chart: Any, label: str, *, standalone: bool = False) -> str:
    """A chart as SVG with a name for those who cannot see it; no script.

    Inline SVG needs no namespace, so a page can be free of addresses; a file of its own needs it.
    """
    import vl_convert  # noqa: PLC0415  it loads a drawing engine of its own

    svg = vl_convert.vegalite_to_svg(chart.to_json())
    if not standalone:
        svg = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)
    title = label.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return svg.replace("<svg", f'<svg role="img" aria-label="{title}"', 1)


def _data(rows: list[dict[str, Any]]) -> alt.Data:
    return alt.Data(values=rows)  # type: ignore[no-untyped-call]


def _styled(chart: C, room: dict[str, int] | None = None) -> C:
    room = room or {"left": 45, "right": 12, "top": 5, "bottom": 5}  # fonts differ in width
    styled: C = (
        chart.configure(font="sans-serif", background="transparent", padding=room)
        .configure_axis(
            labelColor=INK, titleColor=INK, gridColor=GRID, domainColor=SOFT, tickColor=SOFT,
            titleFontWeight="normal", labelFontSize=11, titleFontSize=11, titlePadding=14,
        )
        .configure_title(color=INK, fontSize=12, anchor="start")
        .configure_legend(orient="top", labelColor=INK, titleColor=INK)
        .configure_view(stroke=None)
    )  # fmt: skip
    return styled
