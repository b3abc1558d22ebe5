"""A model card: data, settings, evidence and limits of a run on one page of Markdown."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tripheno.files import write_text
from tripheno.report.exports.chosen import Source
from tripheno.report.page import fewest_of, reached
from tripheno.report.run_folder import status_of
from tripheno.report.summary import sentences


def write_card(source: Source, out: Path) -> list[Path]:
    """``MODEL_CARD.md``."""
    write_text(out / "MODEL_CARD.md", model_card(source))
    return [out / "MODEL_CARD.md"]


def model_card(source: Source) -> str:
    """What a reader must know before using these phenotypes."""
    title = f"Model card: phenotypes of run {source.report.annotations.run}"
    parts = {
        "": _plain(title, *sentences(source.report)),
        "Data": _data(source),
        "Settings": _settings(source),
        "Evidence": _evidence(source),
        "Privacy": _privacy(source),
        "Use and limits": _plain(
            "Meant for finding and describing groups of codes that occur together, and for "
            "building cohorts that people then check. Not meant for decisions about a patient.",
            "Codes are what was recorded and billed, not what was true. Unstable phenotypes are "
            "no findings.",
        ),
    }  # fmt: skip
    return "\n".join(
        (f"## {title}\n\n{text}" if title else f"# {text}") for title, text in parts.items()
    )


def _plain(*lines: str) -> str:
    return "\n\n".join(line.replace("<", "&lt;") for line in lines) + "\n"


def _table(rows: list[list[str]]) -> str:
    """A Markdown table; a bar in a cell would end it."""
    heading, *body = [[c.replace("|", "\\|").replace("\n", " ") for c in row] for row in rows]
    lines = [heading, ["---"] * len(heading), *body]
    return _plain("\n".join(f"| {' | '.join(line)} |" for line in lines))


def _data(source: Source) -> str:
    run = source.run
    sizes = " × ".join(f"{n:,} {m}" for n, m in zip(run["shape"], run["modes"], strict=True))
    rows = [["hospital", "patients"]]
    rows += [
        [h["name"], "not known here" if h["patients"] is None else f"{h['patients']:,}"]
        for h in run["hospitals"]
    ]
    inputs = [[name, f"sha256 {key[:16]}"] for name, key in run["provenance"]["inputs"].items()]
    parts = [_plain(f"{sizes}, {run['nonzeros']:,} counts."), _table(rows)]
    parts += [_table([["input", "fingerprint"], *inputs])] if inputs else []
    parts += [_plain(*missing)] if (missing := _missing(run)) else []
    return "\n".join(parts)


def _missing(run: dict[str, Any]) -> list[str]:
    """Codes and hospitals that took no part, and why."""
    said = [f"{name} took no part: {why}." for name, why in run.get("left_out", {}).items()]
    for name, codes in run.get("lacking", {}).items():
        listed = ", ".join(one["name"] or "a code known to others" for one in codes)
        said.append(f"{name} has none of these, which the others use often: {listed}.")
    aside = [f"{one['name'] or 'a code of another hospital'} ({one['mode']}): {one['why']}"
             for one in run.get("set_aside", ())]  # fmt: skip
    said += [f"Codes set aside: {'; '.join(aside)}."] if aside else []
    fewer = [f"{count:,} of {mode}" for mode, count in run.get("codes_removed", {}).items()]
    return said + ([f"Codes that too few people have, left out: {', '.join(fewer)}."] * bool(fewer))


def _settings(source: Source) -> str:
    run, made = source.run, source.run["provenance"]
    rows = [["setting", "value"]]
    chosen = made["settings"].items()
    rows += [[name, "follows the data" if v is None else str(v)] for name, v in chosen]
    rows += [["tripheno", run["tripheno"]], ["made", made["created"]],
             ["settings_sha256", made["settings_sha256"]]]  # fmt: skip
    ended = f"{run['iterations']} iterations, {run['stopped_because']}."
    return (
        _plain(f"Method {run['method']}, {run['rank']} phenotypes; {ended}") + "\n" + _table(rows)
    )


def _evidence(source: Source) -> str:
    rows = [["", "phenotype", "how sure", "other starts", "resamples", "patients", "people say"]]
    for p in source.report.phenotypes:
        total = p.prevalence.total if p.prevalence else None
        verdicts = Counter(p.review.verdicts.values())
        said = [f"{count} × {verdict}" for verdict, count in verdicts.items()]
        shown = [reached(v) if v is not None else "–" for v in (p.stability, p.stability_resamples)]
        rows.append(
            [str(p.number), p.title[:200], p.grade or "not examined", *shown,
             "withheld" if total is None else f"{total:,}",
             ", ".join(filter(None, [status_of(p), *said])) or "–"]
        )  # fmt: skip
    error = f"RMSE over nonzero counts {source.run['rmse']['nonzeros']:.4f}."
    return _plain(error) + "\n" + _table(rows)


def _privacy(source: Source) -> str:
    run = source.run
    noise = run.get("privacy") or {}
    said = (
        f"Differential privacy: ε = {noise['epsilon']}, δ = {noise['delta']}."
        if "epsilon" in noise
        else "No differential privacy: nothing was made noisy, so there is no ε."
    )
    return _plain(
        f"Sums: {run.get('sums', 'plain')}; alignment: {run.get('align', '–')}. Patients' rows "
        "stayed at their hospitals. Counts of 1 to "
        f"{fewest_of(source.report.phenotypes) - 1} people are withheld.",
        said,
    )
