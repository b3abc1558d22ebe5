"""What an installation compiles is all that the first command needs."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tripheno.study.warm_up import prepare

PROGRAM = """
import sys
from numba.core.dispatcher import Dispatcher
from tripheno.cli.main import app
from tripheno.study.warm_up import prepare

def compiled():
    modules = [module for name, module in sys.modules.items() if name.startswith("tripheno")]
    return {
        (loop.py_func.__module__, loop.py_func.__name__, str(types))
        for module in modules for loop in vars(module).values() if isinstance(loop, Dispatcher)
        for types in loop.signatures
    }

prepare()
before = compiled()
app(sys.argv[1:], standalone_mode=False)
assert before
assert compiled() == before, compiled() - before
"""


def test_after_an_installation_a_whole_simulation_compiles_nothing(tmp_path):
    rng, files = np.random.default_rng(0), []
    for n in range(3):
        rows = 900
        visit = rng.integers(0, 80, rows)
        mode = rng.choice(["medication", "diagnosis"], rows)
        code = [f"{kind[0]}{(who % 3) * 8 + k}" for kind, who, k in
                zip(mode, visit, rng.integers(0, 8, rows), strict=True)]  # fmt: skip
        columns = {"patient": visit, "window": visit, "mode": mode, "code": code}
        pq.write_table(pa.table(columns), tmp_path / f"{n}.parquet")
        files.append(str(tmp_path / f"{n}.parquet"))
    words = ["simulate", *files, "--rank", "3", "--resamples", "2", "--out", str(tmp_path / "run")]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "run" / "report.html").exists()


def test_it_is_silent(capsys):
    prepare()
    assert capsys.readouterr() == ("", "")
