"""Records, events, cells and tensors: exit 3, TRIP-E3xx."""

from __future__ import annotations

from tripheno.errors.base import TriphenoError


class DataError(TriphenoError):
    """The data cannot be read or used as it stands."""

    code, exit_code = "TRIP-E300", 3


class NoSuchFile(DataError):
    """A file or folder named on the command line does not exist or cannot be read."""

    code = "TRIP-E301"


class BadEvents(DataError):
    """An event table breaks its schema.

    It needs the columns patient (whole number ≥ 0), mode and code (text), and window (whole
    number) or time (timestamp), or both; label is optional. All faults are listed together.
    """

    code = "TRIP-E302"


class BadCells(DataError):
    """Tensor cells are malformed.

    Indices must be whole numbers inside the shape, values whole numbers > 0: a cell is a count.
    """

    code = "TRIP-E303"


class EmptyTensor(DataError):
    """No cell is left: no patient has codes of every mode in one window.

    Check the modes and the window rule; a wider window (person instead of visit) gives more cells.
    """

    code = "TRIP-E304"


class BadShape(DataError):
    """Tensors or factors that belong together have different shapes, modes or codes."""

    code = "TRIP-E305"


class UnknownFormat(DataError):
    """The file is none of: events or cells (.parquet, .csv), FROSTT (.tns, .tns.gz)."""

    code = "TRIP-E306"


class TooManyHospitals(DataError):
    """Patients were to be divided among more hospitals than there are patients."""

    code = "TRIP-E307"


class MissingTable(DataError):
    """A table that this source needs was not found. The message says what was found instead."""

    code = "TRIP-E310"


class MissingColumn(DataError):
    """A table lacks columns that this source needs. The message says which it has instead.

    A table that seems to have one long column was written with another delimiter.
    """

    code = "TRIP-E311"


class UnreadableTable(DataError):
    """A table's file is damaged, foreign, or not in the encoding it is read in.

    The message names the file and the line, never the line's content. Nothing of it was used.
    """

    code = "TRIP-E312"


class EmptyMode(DataError):
    """A mode came out empty: every row of its tables was dropped.

    The message counts the rows by the reason they were dropped for. A wider window (person), other
    modes, or one of the options named in the message usually helps.
    """

    code = "TRIP-E313"


class UnknownRecords(DataError):
    """The folder or database does not look like the source it was said to be."""

    code = "TRIP-E314"


class BadReferenceRanges(DataError):
    """A file of reference ranges cannot be used.

    It needs a column with the test (code, concept_id, itemid, lab or label) and the columns low
    and high; an empty bound is open.
    """

    code = "TRIP-E315"


class BadGrouping(DataError):
    """A file that rolls codes up into groups cannot be used.

    It needs the columns code and group, and may have label; or the phecode catalogue's own headers.
    """

    code = "TRIP-E316"


class DoubtfulTable(DataError):
    """A table was found twice, and only its owner knows which one is meant.

    Parts of one table (2020/ and 2021/, orders_1.csv and orders_2.csv) are read together when they
    are numbered alike and have the same columns. Copies and backups are not guessed at.
    """

    code = "TRIP-E317"


class ContradictoryKeys(DataError):
    """Two rows of a table have the same key and say different things.

    A stay that belongs to two patients would count its records twice. Rows that repeat each other
    word by word are harmless: they are counted in the report and used once.
    """

    code = "TRIP-E318"


class PoorQuality(DataError):
    """The records were read, but --strict asks for better ones.

    The message lists what the data-quality gate found. Without --strict the same stands in the
    coverage report, under warnings, and the events are written.
    """

    code = "TRIP-E319"


class UnknownCodes(DataError):
    """No code of a mode is known to the phenotypes, so no patient can be scored on them.

    Phenotypes are lists of codes: new patients must be coded in the system of the run, rolled up
    in the same way. Single unknown codes are only counted and left out.
    """

    code = "TRIP-E320"


class DisjointCodes(DataError):
    """A hospital shares no code of a mode with the others, so nothing can be found together.

    Most often one site codes in another system (ICD-9 beside ICD-10, local drug names beside
    ingredients). Map or roll up both to one system before a study.
    """

    code = "TRIP-E323"


class NoConceptIds(DataError):
    """OHDSI's tools need OMOP concept ids, and this run's codes are of another kind.

    Codes of an OMOP source are concept ids already. For other codes name a concept table (Athena's
    CONCEPT.csv): `ICD9CM:038.9` is looked up there by its vocabulary and code.
    """

    code = "TRIP-E321"


class BadSheet(DataError):
    """A reviewer's sheet cannot be read back in; nothing of it was taken.

    It is the sheet that `tripheno export --as xlsx|csv` made of this very run, with verdicts,
    names, comments or decisions filled in, and a reviewer in every such row.
    """

    code = "TRIP-E322"
