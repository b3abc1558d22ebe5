"""What every record source must do, whatever its tables look like.

A source's test inherits :class:`RecordSourceContract` and says how the same small records are
written down in its format. The contract then checks the events, the account and the folder against
a plain count of the records.
"""

from __future__ import annotations

import json
import random
import stat
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tripheno.errors import EmptyMode, MissingTable, OutputExists, SettingsError
from tripheno.records.events import CountingRule, read_events
from tripheno.records.ingest import Ingested, ingest
from tripheno.records.source import IngestSettings, RecordSource

FIRST_PATIENT = 900_000_001
BEGIN = datetime(2020, 3, 1)
Cell = tuple[int, str, str]


@dataclass(frozen=True)
class ClinicalRecord:
    """One thing that happened: a patient, a visit, a moment, a mode, the number of a code."""

    patient: int
    visit: int
    time: datetime
    mode: str
    code: int


def record(patient: int, visit: int, minutes: int, mode: str, code: int) -> ClinicalRecord:
    """A record in the visit's first three days; a patient's visits are ten days apart."""
    begins = BEGIN + timedelta(days=10 * visit)
    number = FIRST_PATIENT + patient
    return ClinicalRecord(
        number, number * 10 + visit, begins + timedelta(minutes=minutes), mode, code
    )


def records(modes: Sequence[str]) -> st.SearchStrategy[list[ClinicalRecord]]:
    """A few records of a few patients, with at least one of every mode."""
    one = st.builds(
        record,
        st.integers(0, 3),
        st.integers(0, 2),
        st.integers(0, 3 * 24 * 60 - 1),
        st.sampled_from(modes),
        st.integers(0, 4),
    )
    return st.lists(one, max_size=25).map(
        lambda some: [record(0, 0, 60, modes[0], 0), record(0, 0, 90, modes[1], 1), *some]
    )


class RecordSourceContract(ABC):
    """The contract. ``modes`` are two modes that the source can read with times."""

    source: RecordSource
    modes: tuple[str, str] = ("medication", "diagnosis")
    needed_table: str
    """A table that the first mode cannot do without."""

    @abstractmethod
    def write(self, folder: Path, records: Sequence[ClinicalRecord]) -> None:
        """Write the records down in the source's own format."""

    @abstractmethod
    def spelling(self, mode: str, code: int) -> str:
        """How the event table spells the code of that number."""

    def remove_needed_table(self, folder: Path) -> None:
        """Take away the table that the first mode cannot do without."""
        for path in folder.rglob(f"{self.needed_table}*"):
            path.unlink()

    def settings(self, folder: Path, window: str = "visit", **more: object) -> IngestSettings:
        """Settings for a contract run; a source that needs a mapping adds it here."""
        del folder
        return replace(IngestSettings(rule=CountingRule(self.modes, window)), **more)  # type: ignore[arg-type]

    @contextmanager
    def ingested(
        self, records: Sequence[ClinicalRecord], window: str = "visit"
    ) -> Iterator[tuple[Path, Ingested]]:
        """Write the records, ingest them, and hand over the site's folder."""
        with tempfile.TemporaryDirectory() as name:
            tables, site = Path(name) / "tables", Path(name) / "site"
            tables.mkdir()
            self.write(tables, records)
            yield site, ingest(self.source, str(tables), site, self.settings(tables, window))

    def expected(self, records: Sequence[ClinicalRecord], window: str) -> Counter[Cell]:
        """The cells that the records give, counted plainly: windows in which two codes meet."""
        first, second = self.modes
        held: dict[tuple[int, object], tuple[set[str], set[str]]] = {}
        for r in records:
            place: object = {"visit": r.visit, "person": 0, "same-day": r.time.date()}[window]
            sets = held.setdefault((r.patient, place), (set(), set()))
            sets[(first, second).index(r.mode)].add(self.spelling(r.mode, r.code))
        return Counter(
            (patient, a, b)
            for (patient, _), (ones, others) in held.items()
            for a in ones
            for b in others
        )

    def counted(self, site: Path, window: str) -> Counter[Cell]:
        """The cells that the site's events give, with the patients' own numbers put back."""
        table = read_events(site / "events.parquet")
        map_table = pq.read_table(site / "local" / "patients.parquet")
        keys = dict(
            zip(map_table["patient"].to_pylist(), map_table["key"].to_pylist(), strict=True)
        )
        held: dict[tuple[str, object], tuple[set[str], set[str]]] = {}
        for row in table.to_pylist():
            place = row["time"].date() if window == "same-day" else row["window"]
            sets = held.setdefault((keys[row["patient"]], place), (set(), set()))
            sets[self.modes.index(row["mode"])].add(row["code"])
        return Counter(
            (int(key), a, b)
            for (key, _), (ones, others) in held.items()
            for a in ones
            for b in others
        )

    @pytest.mark.parametrize("window", ["visit", "person", "same-day"])
    def test_the_events_give_the_cells_of_the_records(self, window: str) -> None:
        @given(records(self.modes))
        @settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
        def check(some: list[ClinicalRecord]) -> None:
            with self.ingested(some, window) as (site, _):
                assert self.counted(site, window) == self.expected(some, window)

        check()

    def test_patients_are_numbered_without_gaps_and_the_map_stays_private(self) -> None:
        some = [record(p, 0, 5 * p, m, p % 3) for p in range(5) for m in self.modes]
        with self.ingested(some) as (site, _):
            table = read_events(site / "events.parquet")
            assert sorted(set(table["patient"].to_pylist())) == list(range(5))
            assert stat.S_IMODE((site / "local").stat().st_mode) == 0o700
            for path in (site / "events.parquet", *(site / "local").iterdir()):
                assert stat.S_IMODE(path.stat().st_mode) == 0o600
            shared = (site / "coverage.json").read_text() + str(table.to_pylist())
            assert str(FIRST_PATIENT) not in shared

    def test_every_row_read_is_used_or_dropped_for_a_reason(self) -> None:
        some = [record(p, 0, p, m, 1) for p in range(3) for m in self.modes]
        with self.ingested(some) as (_, result):
            for table in result.sites[0].tables:
                assert table.read == table.used + sum(table.dropped.values())
            assert sum(t.read for t in result.sites[0].tables) >= len(some)

    def test_a_row_written_twice_counts_once(self) -> None:
        some = [record(0, 0, 7, m, 2) for m in self.modes]
        with self.ingested(some) as (once, _), self.ingested(some * 3) as (thrice, result):
            assert _plain(once) == _plain(thrice)
            assert all(mode.repeated >= 2 for mode in result.sites[0].modes)

    def test_the_order_of_the_rows_does_not_matter(self) -> None:
        some = [record(p, v, 11 * p, m, p) for p in range(4) for v in range(2) for m in self.modes]
        mixed = random.Random(0).sample(some, len(some))
        with self.ingested(some) as (one, _), self.ingested(mixed) as (other, _):
            assert _plain(one) == _plain(other)

    def test_a_mode_without_any_row_is_an_error_not_an_empty_tensor(self) -> None:
        with pytest.raises(EmptyMode, match=self.modes[1]) as caught:  # noqa: SIM117
            with self.ingested([record(0, 0, 1, self.modes[0], 0)]):
                pass
        assert caught.value.exit_code == 3

    def test_a_missing_table_is_named_with_what_was_found_instead(self, tmp_path: Path) -> None:
        self.write(tmp_path, [record(0, 0, 1, m, 0) for m in self.modes])
        self.remove_needed_table(tmp_path)
        with pytest.raises(MissingTable, match=rf"(?i){self.needed_table}.*found instead"):
            ingest(self.source, str(tmp_path), tmp_path / "site", self.settings(tmp_path))

    def test_a_mode_it_does_not_have_is_refused(self, tmp_path: Path) -> None:
        self.write(tmp_path, [record(0, 0, 1, m, 0) for m in self.modes])
        rule = CountingRule((self.modes[0], "horoscope"))
        wrong = replace(self.settings(tmp_path), rule=rule)
        with pytest.raises(SettingsError, match="horoscope"):
            ingest(self.source, str(tmp_path), tmp_path / "site", wrong)

    def test_a_folder_that_holds_something_else_is_not_touched(self, tmp_path: Path) -> None:
        self.write(tmp_path, [record(0, 0, 1, m, 0) for m in self.modes])
        other = tmp_path / "thesis"
        other.mkdir()
        (other / "chapter.txt").write_text("mine")
        with pytest.raises(OutputExists):
            ingest(self.source, str(tmp_path), other, self.settings(tmp_path))
        assert [path.name for path in other.iterdir()] == ["chapter.txt"]

    def test_the_account_on_disk_is_the_one_returned(self) -> None:
        some = [record(p, 0, p, m, 1) for p in range(3) for m in self.modes]
        with self.ingested(some) as (site, result):
            assert json.loads((site / "coverage.json").read_text()) == json.loads(
                json.dumps(result.to_json())
            )


def _plain(site: Path) -> list[dict[str, object]]:
    table: pa.Table = read_events(site / "events.parquet")
    rows: list[dict[str, object]] = table.to_pylist()
    return rows
