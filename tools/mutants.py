"""How many small faults the tests notice: ``python -m tools.mutants [--sample N --seed S]``.

A sample of faults is put, one at a time, into a copy of the package; the tests that call the
changed function run against the copy, the quickest first. A fault that no test notices is listed.
``tools/mutants.toml`` names those that change nothing a user could see, each with its reason.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tools.mutations import Mutation, mutations

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("exchange", "privacy", "study", "solver")
TESTS = [*(f"tests/unit/{name}" for name in (*FOLDERS, "protocol", "vocabulary", "evaluation",
         "federation")), "tests/contract", "tests/property"]  # fmt: skip
SLOW = 15.0  # seconds: slower tests are for the whole suite
BUDGET = 90.0  # seconds of tests tried on one fault
PATIENCE = 300.0  # a fault that makes a test hang was noticed
PYTEST = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "not verify"]

Call = tuple[str, float, list[str]]  # a test, its seconds, the functions it calls


def recorded(kept: Path) -> list[Call]:
    """Which test calls what; measured once and kept until the file is removed."""
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        partial = kept.with_suffix(".part")
        partial.unlink(missing_ok=True)
        words = [*PYTEST, "-p", "tools.calls", *TESTS]
        environment = {**os.environ, "CALLS": str(partial)}
        subprocess.run(words, cwd=ROOT, env=environment, check=True)
        partial.rename(kept)
    return [tuple(json.loads(line)) for line in kept.read_text().splitlines()]


def sampled(number: int, seed: int) -> list[Mutation]:
    """So many faults, the same for the same seed and sources."""
    package = ROOT / "src" / "tripheno"
    found = [
        one
        for folder in FOLDERS
        for path in sorted((package / folder).rglob("*.py"))
        for one in mutations(str(path.relative_to(package)), path.read_text(encoding="utf-8"))
    ]
    return random.Random(seed).sample(found, min(number, len(found)))


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


def survives(one: Mutation, tests: list[str], copy: Path) -> bool:
    """Whether all of these tests pass with the fault in place."""
    path = copy / "tripheno" / one.path
    good = path.read_bytes()
    path.write_text(one.source, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": f"{copy}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        words = [*PYTEST, "-x", "--tb=no", *tests]
        done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True,
                              timeout=PATIENCE, check=False)  # fmt: skip
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        path.write_bytes(good)


def main() -> None:
    """Try a sample of faults and list the survivors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--part", default="1/1", help="such as 2/4: the second quarter of the sample"
    )
    parser.add_argument("--only", help="faults whose name has these words")
    asked = parser.parse_args()
    judged = tomllib.loads((ROOT / "tools/mutants.toml").read_text(encoding="utf-8"))
    calls = recorded(ROOT / ".mutants" / "calls.jsonl")
    chosen = sampled(10**9 if asked.only else asked.sample, asked.seed)
    chosen = [one for one in chosen if not asked.only or asked.only in one.name]
    part, parts = map(int, asked.part.split("/"))
    chosen = chosen[part - 1 :: parts]
    survivors, alike = [], 0
    with tempfile.TemporaryDirectory(prefix="tripheno-mutants-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy)  # with times, so that compiled loops stay good
        for number, one in enumerate(chosen, start=1):
            tests = fitting(one, calls)
            alive = not tests or survives(one, tests, copy)
            same = alive and one.name in judged
            alike += same
            word = "the same" if same else f"SURVIVES {len(tests)} tests" if alive else "noticed"
            fault = f"{one.path}:{one.line}  {one.before} → {one.after}"
            _say(f"[{number}/{len(chosen)}] {word}  {fault}")
            if alive and not same:
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
