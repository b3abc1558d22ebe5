"""Who may open the files we write, and what a spreadsheet makes of them."""

import csv
import os
import re
from pathlib import Path

import numpy as np
import pytest

import tripheno
from tripheno.exchange.keys import Identity
from tripheno.federation.audit_file import AuditFile
from tripheno.federation.journal import Journal
from tripheno.federation.ledger import Entry, RunLedger
from tripheno.files import as_it_was, defused, write_text
from tripheno.lab.paper.ledger import append_lines, read_lines
from tripheno.protocol.key_files import make_identity
from tripheno.study.store import RunStore, write_arrays

SOURCE = Path(tripheno.__file__).parent
INPUTS_OF_OURS = {"lab/paper/outcomes.py"}  # read by `ingest`


@pytest.fixture
def lax():
    """Nothing is held back by the umask."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_hospitals_state_is_its_owners_alone_under_a_lax_umask(lax, tmp_path):
    state = tmp_path / "state"
    keeper = Identity.from_bytes(bytes(32))
    RunLedger(state).enter(Entry("study", "snapshot", ["a", "b", "c"], False), "run", 1)
    AuditFile(state / "run" / "audit.jsonl", "run", keeper, keeper.public)
    Journal(state / "run").note("began", "the run began")
    write_arrays(RunStore(state / "run").folder / "own", {"factor": np.ones((2, 2))})
    make_identity(state / "keys" / "hospital.key")
    found = [path for path in state.rglob("*") if path.is_file() and path.suffix != ".pub"]
    assert len(found) == 5
    assert [path.name for path in found if path.stat().st_mode & 0o077] == []
    assert state.stat().st_mode & 0o777 == (state / "run").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_what_a_killed_write_left_open_to_others_is_closed(lax, tmp_path):
    (tmp_path / "cohort.csv.part").write_text("half")
    write_text(tmp_path / "cohort.csv", "whole\n", private=True)
    assert (tmp_path / "cohort.csv").stat().st_mode & 0o777 == 0o600


def test_every_part_that_writes_csv_defuses_its_cells():
    writers = re.compile(r"csv\.(writer|DictWriter)\(|\.write_csv\(|\.to_csv\(|FORMAT csv", re.I)
    found = {
        path.relative_to(SOURCE).as_posix(): path.read_text("utf-8")
        for path in (*SOURCE.rglob("*.py"), *SOURCE.rglob("*.sql"))
    }
    wild = {name for name, text in found.items() if writers.search(text) and "defused(" not in text}
    assert wild == INPUTS_OF_OURS


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff20", "'"])
def test_a_text_that_a_spreadsheet_runs_gets_an_apostrophe_which_can_be_taken_off(first):
    text = f"{first}1+1"
    assert defused(text) == f"'{text}"
    assert as_it_was(defused(text)) == text
    assert [defused(plain) for plain in ("I10", "a=b", -0.5, None)] == ["I10", "a=b", -0.5, None]


def test_an_experiments_texts_are_defused_and_its_numbers_are_not(tmp_path):
    line = {"variant": "=1+1", "gain": -0.5, "note": "'quoted"}
    for _ in range(2):
        append_lines(tmp_path / "rows.csv", tuple(line), [line])
    with (tmp_path / "rows.csv").open(encoding="utf-8") as stream:
        assert list(csv.reader(stream))[1:] == [["'=1+1", "-0.5", "''quoted"]] * 2
    assert read_lines(tmp_path / "rows.csv") == [{**line, "gain": "-0.5"}] * 2
