"""What users wait for: ``python -m benchmarks.commands [--quick] [--busy]``.

CPU seconds of whole commands, the least of some runs taken in turn, so that ratios come from one
run; beside them those of the version before this work, installed from the history of the
repository. A machine that is busy with other things is refused, unless ``--busy`` says that ratios
of CPU time are enough.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
from io import BytesIO
from pathlib import Path

MOST_LOAD = 0.5  # processes waiting for a core, for each core, before the run
SCALE = 0.062  # of the seed paper's day windows: 0.93M cells
BEFORE = "a123ba9"  # the version that ratios are against
ONE_START = ("--starts", "1", "--resamples", "0", "--influence", "none")
Row = tuple[str, float]


def refuse_when_busy(words: list[str]) -> float:
    """The machine's load; ends the program where it would spoil the figures."""
    load = os.getloadavg()[0]
    if load > MOST_LOAD * (os.cpu_count() or 1) and "--busy" not in words:
        sys.exit(f"load {load:.1f}: the machine is busy; --busy measures CPU ratios all the same")
    return load


def installed_beside(folder: Path) -> str | None:
    """The interpreter of the version before, with our own libraries; None without the history."""
    git = shutil.which("git")
    if git is None:
        return None
    done = subprocess.run([git, "archive", BEFORE, "src"], capture_output=True, check=False)
    if done.returncode != 0:
        return None
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    venv.create(folder / "env", with_pip=False)
    ours = {"base": str(folder / "env"), "platbase": str(folder / "env")}
    site = Path(sysconfig.get_path("purelib", vars=ours))
    paths = (folder / "src", *(one for one in sys.path if Path(one).name == "site-packages"))
    (site / "shared.pth").write_text("".join(f"{path}\n" for path in paths), "utf-8")
    return str(folder / "env" / "bin" / "python")


def cpu_seconds(command: list[str], **environment: str) -> float:
    """User and system time of a command and of all it started."""
    # imports are read as they were compiled, as by a user: that alone is 1.8 of 2.8 CPU seconds
    given = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | environment
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=given
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def events_file(path: Path) -> None:
    """Events of one hospital that make 0.93M cells."""
    import pyarrow.parquet as pq

    from tripheno.lab.benchmark import BenchmarkPlan, case_events

    case = next(case for case in BenchmarkPlan().cases if case.name == "t15")
    pq.write_table(case_events(case, SCALE), path)


def start_up(python: str) -> list[Row]:
    words = ("--help", "ingest --help", "check --help")
    return [(f"`{w}`", min(cpu_seconds(_tripheno(python, *w.split())) for _ in range(3)))
            for w in words]  # fmt: skip


def demos(python: str, folder: Path) -> list[Row]:
    """The demo on a machine that never compiled, after it, and after an installation's warm-up."""
    demo = _tripheno(python, "demo", "--out", str(folder / "demo"), "--force")
    cold, warm = str(folder / "cold"), str(folder / "warm")
    return [
        ("`demo`, nothing compiled", cpu_seconds(demo, NUMBA_CACHE_DIR=cold)),
        ("`demo`, the second", cpu_seconds(demo, NUMBA_CACHE_DIR=cold)),
        ("compiling at installation",
         cpu_seconds([python, "-m", "tripheno.study.warm_up"], NUMBA_CACHE_DIR=warm)),
        ("`demo`, the first after it", cpu_seconds(demo, NUMBA_CACHE_DIR=warm)),
    ]  # fmt: skip


def simulations(pythons: dict[str, str], folder: Path, repeats: int = 2) -> list[Row]:
    """A whole `simulate` of three hospitals; each version once before, so that all is compiled."""
    events = folder / "events.parquet"
    events_file(events)
    found: dict[str, list[float]] = {}
    for n in range(repeats + 1):
        for version, python in pythons.items():
            kinds = {"": ()} if version != "this" else {"": (), ", one start": ONE_START}
            for kind, words in kinds.items():
                out = str(folder / f"{version}{kind} {n}")
                sites = ("simulate", str(events), "--hospitals", "3", "--out", out)
                seconds = cpu_seconds(_tripheno(python, *sites, "--method", "exact", *words))
                if n > 0:
                    name = f"`simulate`, 0.93M cells{kind} ({version})"
                    found.setdefault(name, []).append(seconds)
    return [(name, min(seconds)) for name, seconds in found.items()]


def report(words: list[str]) -> str:
    """The table, with the load it was measured under."""
    load = refuse_when_busy(words)
    with tempfile.TemporaryDirectory() as name:
        rows, beside = start_up(sys.executable), Path(name) / "before"
        if "--quick" not in words:
            before = installed_beside(beside)
            pythons = {"this": sys.executable} | ({BEFORE: before} if before else {})
            rows += demos(sys.executable, Path(name)) + simulations(pythons, Path(name))
    lines = [f"| whole commands, load {load:.1f} before | CPU s |", "|---|---:|"]
    return "\n".join([*lines, *(f"| {what} | {seconds:.2f} |" for what, seconds in rows)])


def _tripheno(python: str, *words: str) -> list[str]:
    return [python, "-P", "-c", "from tripheno.cli.main import main; main()", *words]


if __name__ == "__main__":
    print(report(sys.argv[1:]))
