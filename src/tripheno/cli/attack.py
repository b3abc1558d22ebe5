"""``tripheno audit attack``: what a coordinator or a hospital gets out of a run."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from tripheno.cli.console import (
    Format,
    FormatOption,
    Progress,
    out,
    print_json,
    table,
)
from tripheno.cli.simulate import AlignName, MethodName, SumsName
from tripheno.errors import TriphenoWarning

if TYPE_CHECKING:
    from tripheno.lab.attacks.finding import Finding
    from tripheno.lab.self_attack import Question


def attack(
    target: Annotated[
        Path | None,
        typer.Argument(help="A run folder, or a federation.toml; the defaults if not given."),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(help="Attack these sites' data instead of synthetic hospitals; repeat it."),
    ] = None,
    method: Annotated[MethodName | None, typer.Option(help="Another method.")] = None,
    sums: Annotated[SumsName | None, typer.Option(help="Another way of adding up.")] = None,
    align: Annotated[AlignName | None, typer.Option(help="Another alignment.")] = None,
    hospitals: Annotated[int | None, typer.Option(help="Another number.", min=2)] = None,
    seed: Annotated[int, typer.Option(help="Seed of hospitals and attacks.", min=0)] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Without the network of 38,000 patients.")
    ] = False,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Folder for attack.json and attack.svg.")
    ] = None,
    form: FormatOption = Format.text,
) -> None:
    """Attack such a run as coordinator and as hospital; exit 1 if more is found than is said."""
    from tripheno.lab.attacks.hospitals import against_hospitals
    from tripheno.lab.attacks.peers import attack_as_peer
    from tripheno.lab.attacks.suite import attack as run
    from tripheno.lab.attacks.tracing import SIZES
    from tripheno.lab.self_attack import arena_of, network_of, synthetic_hospitals

    question = _changed(_question(target), method, sums, align, hospitals, seed)
    setup = question.configuration
    with Progress() as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", TriphenoWarning)  # a few rounds are not meant to converge
        if data:
            from tripheno.report.sites import read_sites

            dealt = None if len(data) > 1 else question.hospitals
            tensors = read_sites(data, dealt, None, seed).tensors
            described = "the sites given"
        else:
            tensors = synthetic_hospitals(question.hospitals, seed)
            described = "synthetic hospitals"
        arena = arena_of(tensors, seed, min_cell=question.min_cell, described=described)
        progress.say(arena.described)
        findings = run(setup, arena, progress.say)
        progress.say("lies to real hospital code")
        findings.append(against_hospitals(seed))
        findings += attack_as_peer(
            arena.inside,
            lambda size: network_of(size, seed),
            seed,
            progress.say,
            SIZES[:-1] if quick else SIZES,
        )
    result = _result(question, arena.described, findings)
    if out_dir is not None:
        _write(out_dir, result, findings)
    if form is Format.json:
        print_json(result)
    else:
        _show(result, findings, out_dir)
    if not result["ok"]:
        raise SystemExit(1)


def _question(target: Path | None) -> Question:
    from tripheno.cli.layers import layers_over
    from tripheno.lab.self_attack import (
        question_of_protocol,
        question_of_run,
        shipped_question,
    )
    from tripheno.protocol.agreed import read_protocol
    from tripheno.report.run_folder import read_report

    if target is None:
        return shipped_question()
    if target.suffix == ".toml":
        return question_of_protocol(read_protocol(target, layers_over("federation")))
    return question_of_run(read_report(target).run)


def _changed(
    question: Question,
    method: MethodName | None,
    sums: SumsName | None,
    align: AlignName | None,
    hospitals: int | None,
    seed: int,
) -> Question:
    setup = question.configuration
    settings = replace(setup.settings, seed=seed)
    if method is not None:
        settings = replace(settings, method=method)
    count = hospitals or question.hospitals
    chosen = sums if sums is not None else setup.sums
    if count < 3 and sums is None:
        chosen = "plain"
    setup = replace(setup, settings=settings, sums=chosen, align=align or setup.align)
    return replace(question, configuration=setup, hospitals=count)


def _result(question: Question, described: str, findings: list[Finding]) -> dict[str, Any]:
    from tripheno.lab.attacks.suite import site_level

    setup = question.configuration
    recovered = site_level(findings, setup.name)
    return {
        "ok": not recovered,
        "under_test": {
            "method": setup.settings.method, "variant": setup.settings.variant,
            "rank": setup.settings.n_components, "sums": setup.sums, "align": setup.align,
            "hospitals": question.hospitals, "min_cell": question.min_cell,
        },
        "data": described,
        "recovered": [one.attack for one in recovered],
        "findings": [one.to_dict() for one in findings],
    }  # fmt: skip


def _write(folder: Path, result: dict[str, Any], findings: list[Finding]) -> None:
    from tripheno.files import write_text
    from tripheno.lab.attack_chart import attack_chart
    from tripheno.lab.attacks.finding import FIRST_VERSION
    from tripheno.lab.attacks.suite import PAPER
    from tripheno.report.charts import as_svg

    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "attack.json", json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    chart = attack_chart(findings, "under test")
    label = f"What attacks recover from {PAPER}, {FIRST_VERSION}, and the configuration under test."
    write_text(folder / "attack.svg", as_svg(chart, label, standalone=True))


def _show(result: dict[str, Any], findings: list[Finding], folder: Path | None) -> None:
    console = out()
    said = ", ".join(f"{key} {value}" for key, value in result["under_test"].items())
    console.print(f"Under test: {said}", style="bold")
    console.print(f"On {result['data']}\n")
    headings = {"Attack": False, "By": False, "On": False, "Result": True, "": False}
    shown = table("", {**headings, "Recovered": False})
    for one in findings:
        shown.add_row(
            one.attack, one.by, one.setup, _in_words(one),
            " · ".join(filter(None, (one.note, one.expect and f"expected: {one.expect}"))),
            Text("as said" if one.said else "YES", style="red") if one.succeeded else "no",
        )  # fmt: skip
    console.print(shown)
    if result["ok"]:
        console.print(
            "\nNothing was recovered in the configuration under test beyond what is said."
        )
    else:
        console.print(
            Text("\nRecovered in the configuration under test:", style="red"),
            "; ".join(result["recovered"]),
        )
    if folder is not None:
        console.print(f"Figure and numbers: {folder / 'attack.svg'}, {folder / 'attack.json'}")


def _in_words(one: Finding) -> str:
    if one.unit == "error":
        null = "" if one.null_control is None else f", null {one.null_control:.1e}"
        return f"error {one.value:.1e}{null}"
    span = "" if one.low is None else f" ({one.low:.2f} to {one.high:.2f})"
    if one.unit == "AUC":
        return f"AUC {one.value:.2f}{span}, null {one.null_control:.2f}"
    beside = "" if one.chance is None else f", chance {100 * one.chance:.0f} %"
    null = "" if one.null_control is None else f", null {100 * one.null_control:.0f} %"
    return f"{100 * one.value:.0f} %{span}{beside}{null}"
