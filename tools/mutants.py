"""How many small faults the tests notice: ``python -m tools.mutants [--sample N --seed S]``.

A sample of faults is put, one at a time, into a copy of the package. First the test files run that
import the changed module, for a dozen seconds at most; then, unless ``--nearest``, the tests that
call the changed function, the quickest first. A fault that no test notices is listed.
``tools/mutants.toml`` names those that change nothing a user could see, each with its reason.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import numba  # noqa: F401 (loaded once, for all the tests that are run)
import pyarrow  # noqa: F401
import pytest
import scipy  # noqa: F401

from tools.mutations import Mutation, mutations

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("exchange", "privacy", "study", "solver")
TESTS = [*(f"tests/unit/{name}" for name in (*FOLDERS, "protocol", "vocabulary", "evaluation",
         "federation")), "tests/contract", "tests/property"]  # fmt: skip
SLOW = 15.0  # seconds: slower tests are for the whole suite
BUDGET = 90.0  # seconds of tests tried on one fault
SHORT = 12.0  # seconds of the nearest tests
HANGS = 120, 1800  # seconds of computing, and of waiting: a test that hangs has noticed
PYTEST = ["-q", "-n", "0", "-m", "not verify"]
CONTRACTS = sorted((ROOT / "tests/contract").glob("test_*.py"))

Call = tuple[str, float, list[str]]  # a test, its seconds, the functions it calls


def recorded(kept: Path) -> list[Call]:
    """Which test calls what; measured once and kept until the file is removed."""
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        partial = kept.with_suffix(".part")
        partial.unlink(missing_ok=True)
        words = [sys.executable, "-m", "pytest", *PYTEST, "-p", "tools.calls", *TESTS]
        environment = {**os.environ, "CALLS": str(partial)}
        subprocess.run(words, cwd=ROOT, env=environment, check=True)
        partial.rename(kept)
    return [tuple(json.loads(line)) for line in kept.read_text().splitlines()]


def sampled(number: int, seed: int) -> list[Mutation]:
    """So many faults, the same for the same seed; a change elsewhere moves none of them."""
    package = ROOT / "src" / "tripheno"
    found = [
        one
        for folder in FOLDERS
        for path in sorted((package / folder).rglob("*.py"))
        for one in mutations(str(path.relative_to(package)), path.read_text(encoding="utf-8"))
    ]
    return sorted(found, key=lambda one: sha256(f"{seed} {one.name}".encode()).digest())[:number]


def fitting(one: Mutation, calls: Sequence[Call]) -> list[str]:
    """The tests to try: those that call the function, or else anything of its file."""
    names = [f"{one.path}:{line}" for line in one.functions] or [f"{one.path}:1"]
    chosen = [call for call in calls if names[0] in call[2]]
    chosen = chosen or [c for c in calls if any(n.startswith(f"{one.path}:") for n in c[2])]
    chosen = chosen or [c for c in calls if f"unit/{one.path.split('/')[0]}/" in c[0]]
    tests, left = [], BUDGET
    for test, seconds, _ in sorted(chosen, key=lambda call: call[1]):
        left -= seconds
        if seconds > SLOW or left < 0:
            break
        tests.append(test)
    return tests


def nearest(one: Mutation) -> list[str]:
    """Test files that import the changed module: of its own folder first, the narrowest first."""
    module = "tripheno." + one.path.removesuffix(".py").replace("/", ".")
    folder, found = one.path.split("/")[0], []
    for path in sorted((ROOT / "tests").glob("unit/*/test_*.py")) + CONTRACTS:
        names = imported(path)
        if module in names:
            found.append((path.parent.name != folder, len(names), str(path.relative_to(ROOT))))
    return [name for _, _, name in sorted(found)]


def imported(path: Path) -> set[str]:
    """Modules of the package that a file imports, and names in them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return {name for name in found if name.startswith("tripheno.")}


class _Deadline:
    """Ends the tests, as if they had passed, when their time is over."""

    def __init__(self, seconds: float) -> None:
        self.over = time.process_time() + seconds

    def pytest_runtest_setup(self) -> None:
        if time.process_time() > self.over:
            pytest.exit("no time left", returncode=0)


def noticed_by(one: Mutation, tests: list[str], copy: Path, seconds: float) -> str:
    """The first of these tests that fails with the fault in place; empty if none does."""
    path, said = copy / "tripheno" / one.path, copy / "said.txt"
    good, times = path.read_bytes(), path.stat()
    path.write_text(one.source, encoding="utf-8")
    try:
        child = os.fork()  # what libraries take to load is paid once
        if not child:
            signal.setitimer(signal.ITIMER_PROF, HANGS[0])
            signal.alarm(HANGS[1])
            os.environ["PYTHONPATH"] = f"{copy}{os.pathsep}{ROOT}"
            sys.path[:0] = [str(copy), str(ROOT)]
            sys.dont_write_bytecode = True
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
            os.dup2(1, 2)
            os._exit(pytest.main([*PYTEST, "-x", "--tb=no", *tests], [_Deadline(seconds)]))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        failed = re.search(
            r"^(?:FAILED|ERROR) (\S+)", said.read_text(errors="replace"), re.MULTILINE
        )
        return "" if code == 0 else failed[1] if failed else f"exit code {code}"
    finally:
        path.write_bytes(good)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # compiled loops stay good


def tried(one: Mutation, copy: Path, *, nearest_only: bool) -> str:
    """The test that notices a fault, empty if none does: the nearest, then those that call it."""
    near = nearest(one)
    if near and (found := noticed_by(one, near, copy, SHORT)):
        return found
    tests = [] if nearest_only else fitting(one, recorded(ROOT / ".mutants" / "calls.jsonl"))
    return noticed_by(one, tests, copy, BUDGET) if tests else ""


def main() -> None:
    """Try a sample of faults and list the survivors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--part", default="1/1", help="such as 2/4: the second quarter of the sample"
    )
    parser.add_argument("--only", help="faults whose name has these words")
    parser.add_argument("--nearest", action="store_true", help="no other tests than the nearest")
    asked = parser.parse_args()
    judged = tomllib.loads((ROOT / "tools/mutants.toml").read_text(encoding="utf-8"))
    chosen = sampled(10**9 if asked.only else asked.sample, asked.seed)
    chosen = [one for one in chosen if not asked.only or asked.only in one.name]
    part, parts = map(int, asked.part.split("/"))
    chosen = chosen[part - 1 :: parts]
    survivors, alike = [], 0
    with tempfile.TemporaryDirectory(prefix="tripheno-mutants-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy)  # with times, so that compiled loops stay good
        for number, one in enumerate(chosen, start=1):
            same = one.name in judged
            by = "" if same else tried(one, copy, nearest_only=asked.nearest)
            alike += same
            word = "the same" if same else f"noticed by {by}" if by else "SURVIVES"
            fault = f"{one.path}:{one.line}  {one.before} → {one.after}"
            _say(f"[{number}/{len(chosen)}] {fault}  {word}")
            if not by and not same:
                survivors.append(fault)
    changing = len(chosen) - alike
    noticed = f"{changing - len(survivors)} of {changing} faults noticed"
    said = f"{noticed}, {alike} change nothing; unnoticed:"
    _say(f"{datetime.now(UTC):%Y-%m-%d}, seed {asked.seed}: {said}")
    _say("\n".join(survivors) or "none")
    raise SystemExit(bool(changing) and len(survivors) > 0.05 * changing)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
