"""Whatever a CSV writer can write, the reader reads back."""

import csv
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tripheno.records.delimited import csv_relation
from tripheno.records.duck import Workbench

TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00\r", exclude_categories=["Cs"]),
    max_size=12,
).filter(lambda text: text != "")


@given(
    rows=st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=8),
    delimiter=st.sampled_from([",", ";", "|"]),
    end=st.sampled_from(["\n", "\r\n"]),
    mark=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_quotes_delimiters_and_line_breaks_inside_a_field_survive(rows, delimiter, end, mark):
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "table.csv"
        encoding = "utf-8-sig" if mark else "utf-8"
        with path.open("w", newline="", encoding=encoding) as stream:
            writer = csv.writer(
                stream, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL
            )
            writer.writerow(["first", "Second", "THIRD"])
            writer.writerows(rows)
        with Workbench(Path(name)) as bench:
            read = bench.rows(f'SELECT "first", "Second", "THIRD" FROM {csv_relation(bench, path)}')
    assert sorted(read) == sorted(rows)
