"""Where time goes: ``python -m benchmarks.profile [CASE ...]``, ``simulate [OPTION ...]``, or
``quality DATA NAME``.

Of whole fits: loops over the data run inside `in_chunks`; all the rest is Python, linear algebra of
small matrices, masks and messages; wall seconds by share. Of a whole `simulate` of 0.93M cells with
the options given: CPU seconds of the main thread by module, what a module calls in compiled code
being its own; so too of the fit that `benchmarks.quality` makes of the data NAME in DATA.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

KERNELS = ("threads.py", "in_chunks")
RUNS = (("central", 1), ("exact", 3), ("trip", 3))
ITERATIONS = 100
SHOWN = 16  # modules


def main(words: list[str]) -> None:
    if words[:1] == ["simulate"]:
        simulation(words[1:])
    elif words[:1] == ["quality"]:
        small_fit(Path(words[1]), words[2])
    else:
        whole_fits(words)


def simulation(options: list[str]) -> None:
    """The command in this process, its imports included."""
    profile = cProfile.Profile(timer=time.thread_time)
    with tempfile.TemporaryDirectory() as name:
        from benchmarks.commands import events_file

        events = Path(name) / "events.parquet"
        events_file(events)
        command = ["simulate", str(events), "--hospitals", "3", "--out", f"{name}/run", *options]
        profile.runcall(_command, command)
    _by_module(f"simulate {' '.join(options)}", profile)


def small_fit(root: Path, name: str) -> None:
    """Sixteen starts on all patients of one data set, once everything is compiled."""
    from benchmarks.evidence import patients_of
    from benchmarks.quality import RANK, STARTS
    from tripheno.solver.fit import fit
    from tripheno.solver.settings import SolverSettings

    tensor = patients_of(name, root)
    settings = SolverSettings(RANK, method="central", starts=STARTS, influence="none")
    fit({"all": tensor}, settings)
    profile = cProfile.Profile(timer=time.thread_time)
    profile.runcall(fit, {"all": tensor}, settings)
    _by_module(f"quality {name}", profile)


def _by_module(title: str, profile: cProfile.Profile) -> None:
    """The modules with the largest shares."""
    stats, by_module = pstats.Stats(profile), Counter[str]()
    for (path, _, _), (_, _, own, _, callers) in stats.stats.items():
        if path != "~":
            by_module[_module(path)] += own
        for (caller, _, _), (*_, spent, _) in callers.items() if path == "~" else ():
            by_module[_module(caller)] += spent
    print(f"| `{title}` | {stats.total_tt:.1f} CPU s |\n|---|---:|")
    for module, seconds in by_module.most_common(SHOWN):
        print(f"| {module} | {100 * seconds / stats.total_tt:.0f} % |")


def _command(words: list[str]) -> None:
    from tripheno.cli.main import app

    app(words, standalone_mode=False)


def _module(path: str) -> str:
    """A module of ours by its path, another by the name of its package."""
    parts = Path(path).parts
    for root in ("tripheno", "site-packages"):
        if root in parts[:-1]:
            inside = parts[len(parts) - parts[::-1].index(root) :]
            return "/".join(inside) if root == "tripheno" else inside[0]
    return "imports" if "importlib" in path else "Python itself"


def whole_fits(words: list[str]) -> None:
    """Every method for the same number of iterations."""
    from tripheno.errors import TriphenoWarning
    from tripheno.lab.benchmark import RANK, RULE, BenchmarkPlan, case_events
    from tripheno.lab.benchmark_fits import TimedFit, fits
    from tripheno.tensor.count_tensor import CountTensor
    from tripheno.tensor.warm_up import warm_up

    warnings.simplefilter("ignore", TriphenoWarning)
    warm_up(RANK)
    cases = {case.name: case for case in BenchmarkPlan().cases}
    print(f"| {ITERATIONS} iterations | hospitals | s | loops over the data | the next largest |")
    print("|---|---:|---:|---:|---|")
    for name in words or ["t15", "v50"]:
        tensor = CountTensor.from_events(case_events(cases[name], 1.0), rule=RULE)
        for method, hospitals in RUNS:
            profile = cProfile.Profile()
            profile.runcall(
                fits, tensor, (TimedFit(method, hospitals),), RANK, ITERATIONS, lambda _: None
            )
            print(f"| {name} {method} | {hospitals} | {_row(pstats.Stats(profile))} |", flush=True)


def _row(stats: pstats.Stats) -> str:
    """Seconds, the kernels' share, and the three functions outside with the largest own time."""
    total, kernels, others = stats.total_tt, 0.0, []
    for (path, _, function), (_, _, own, cumulative, _) in stats.stats.items():
        if (Path(path).name, function) == KERNELS:
            kernels = cumulative
        elif "acquire" not in function:  # waiting for the kernels
            others.append((own / total, f"{Path(path).stem}.{function}".strip("~.")))
    largest = ", ".join(f"{100 * share:.0f} % `{who}`" for share, who in sorted(others)[:-4:-1])
    return f"{total:.1f} | {100 * kernels / total:.0f} % | {largest}"


if __name__ == "__main__":
    main(sys.argv[1:])
