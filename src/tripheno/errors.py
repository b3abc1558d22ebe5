"""Every error a user can meet.

Each has a code, an exit code for the command line, and a docstring that ``tripheno explain`` shows.

::

    TriphenoError
    ├── RunFailed            exit 1   TRIP-E1xx
    ├── SettingsError        exit 2   TRIP-E2xx   usage, options, settings files
    ├── DataError            exit 3   TRIP-E3xx   records, events, cells, tensors
    ├── PolicyError          exit 4   TRIP-E4xx   thresholds, approvals
    ├── NetworkError         exit 5   TRIP-E5xx   connections, TLS, malformed messages
    └── PeerLost             exit 6   TRIP-E6xx   time-outs, hospitals that left

An error reads ``TRIP-E204 what · where · why · what to do`` and never holds a patient's value.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator


class TriphenoError(Exception):
    """Something a user can mend. The message says what, where, why and what to do."""

    code = "TRIP-E000"
    exit_code = 1

    def __init__(self, what: str, *, where: str = "", why: str = "", fix: str = "") -> None:
        self.what, self.where, self.why, self.fix = what, where, why, fix
        super().__init__(what)

    def __str__(self) -> str:
        parts = [part for part in (self.what, self.where, self.why, self.fix) if part]
        return f"{self.code} " + " · ".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.where, self.why, self.fix)


def _rebuild(kind: type[TriphenoError], what: str, where: str, why: str, fix: str) -> TriphenoError:
    return kind(what, where=where, why=why, fix=fix)


class TriphenoWarning(UserWarning):
    """A result is usable but deserves a second look."""


class NotConverged(TriphenoWarning):
    """The iteration limit came before the stopping rule; the factors may still move."""


class SingularGram(TriphenoWarning):
    """Two components coincide, so a small ridge was added to keep the equations solvable."""


class EmptyComponent(TriphenoWarning):
    """A component has no weight left: the rank is larger than the data supports."""


class PaperVariant(TriphenoWarning):
    """A variant of the seed paper with known faults was asked for, to study it."""


# ── exit 1: the run failed ────────────────────────────────────────────────────────────────────


class RunFailed(TriphenoError):
    """The run started and could not be finished."""

    code, exit_code = "TRIP-E100", 1


class Diverged(RunFailed):
    """The factors grew without bound.

    Penalties that do not fit the data do this, and so do the equations as the paper printed them.
    Use the `corrected` variant, whose penalties follow the data, or a larger consensus penalty.
    """

    code = "TRIP-E101"


class DriftedApart(RunFailed):
    """Hospitals that ran the same study no longer hold the same factors.

    Every sum compares them to a billionth. Processors and threads differ by less, so a hospital has
    another version, or its memory failed. The run goes on from the last checkpoint, beginning with
    the first hospital's state for all.
    """

    code = "TRIP-E103"


class DiskFailed(RunFailed):
    """A file could not be written: the disk is full, or the folder not writable.

    Nothing was half-written. Free some space, and start the same command again: a run of a
    federation goes on from the last checkpoint, others begin anew.
    """

    code = "TRIP-E102"


def of_the_system(fault: OSError, *, where: str = "") -> RunFailed:
    """What the operating system reports, in the shape of ours."""
    no_room = fault.errno in (errno.ENOSPC, errno.EDQUOT)
    what = fault.strerror or type(fault).__name__
    if no_room:
        return DiskFailed(what, where=where, fix="free some space, and start the command again")
    return RunFailed(what, where=where)


# ── exit 2: settings ──────────────────────────────────────────────────────────────────────────


class SettingsError(TriphenoError):
    """A setting or option cannot be used as it stands. All faults found are listed together."""

    code, exit_code = "TRIP-E200", 2


class UnknownErrorCode(SettingsError):
    """There is no error with that code. `tripheno explain` without a code lists them all."""

    code = "TRIP-E201"


class NotFittedError(SettingsError, ValueError, AttributeError):
    """A model was asked before it had seen data. Call `fit` first."""

    code = "TRIP-E205"


class OutputExists(SettingsError):
    """The output folder already holds something: a finished run, or what is no run at all.

    Nothing is overwritten. Name another folder with --out; --force replaces a run.
    """

    code = "TRIP-E202"


class RunNotFound(SettingsError):
    """The folder named is not a run folder: it has no `run.json`."""

    code = "TRIP-E203"


class NothingToExport(SettingsError):
    """No phenotype of the run can be handed on: all are unstable, or reviewers rejected them.

    `tripheno export --unstable` hands them on nevertheless, marked as what they are.
    """

    code = "TRIP-E204"


class BadSiteSettings(SettingsError):
    """A hospital's settings file (`site.toml`) cannot be used. All faults are listed together."""

    code = "TRIP-E231"


class MissingExtra(SettingsError):
    """An optional part of tripheno is needed and not installed. The message says how to add it."""

    code = "TRIP-E232"


class BadProtocol(SettingsError):
    """The shared settings of a study (`federation.toml`) cannot be used. All faults are listed."""

    code = "TRIP-E241"


class BadKeyFile(SettingsError):
    """A key file is missing, is no Ed25519 key in PEM, or can be read by others on this machine."""

    code = "TRIP-E242"


class BadGuide(SettingsError):
    """A guided phenotype cannot be used.

    A guide file has one table per phenotype, `["Heart failure"]`, with codes or labels by mode:
    `diagnosis = ["I50.9"]`. At least one of a guide's codes must be in the data.
    """

    code = "TRIP-E250"


# ── exit 3: data ──────────────────────────────────────────────────────────────────────────────


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
    """A split asks for more hospitals than there are patients to share out."""

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
    """A table is there in two ways, and only its owner knows which one is meant.

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
    """OHDSI's tools know OMOP concept ids, and the codes of this run are others.

    Codes of an OMOP source are concept ids. For others name a concept table (Athena's CONCEPT.csv)
    that has their vocabulary and code: `ICD9CM:038.9` is looked up as vocabulary and code.
    """

    code = "TRIP-E321"


class BadSheet(DataError):
    """A reviewer's sheet cannot be read back in; nothing of it was taken.

    It is the sheet that `tripheno export --as xlsx|csv` made of this very run, with verdicts,
    names, comments or decisions filled in, and a reviewer in every such row.
    """

    code = "TRIP-E322"


# ── exit 4: policy ────────────────────────────────────────────────────────────────────────────


class PolicyError(TriphenoError):
    """A threshold or a missing approval forbids this."""

    code, exit_code = "TRIP-E400", 4


class TooFewHospitals(PolicyError):
    """Secure sums need three hospitals: with two, each sees the other's contribution.

    Subtracting one's own part from the sum of two leaves the other's. Find a third hospital, or
    say `allow_two` and accept that the two see each other's contribution.
    """

    code = "TRIP-E401"


class MaskReuse(PolicyError):
    """A step was asked for twice with different content. Two contributions under one mask would
    show their difference, so the second was refused.
    """

    code = "TRIP-E402"


class NothingLeft(PolicyError):
    """Every code of a mode is below the smallest count that may be used, network-wide.

    Lower --min-cell where that is allowed, roll codes up to broader ones, or add hospitals.
    """

    code = "TRIP-E403"


class BrokenChain(PolicyError):
    """An audit log was changed, cut or put together from parts: a line does not follow its past.

    The message names the first line that does not hold. What stands before it does.
    """

    code = "TRIP-E404"


class InsecureRefused(PolicyError):
    """A protocol known to be insecure was asked for without saying that this is accepted.

    `--align polynomial` is the seed paper's protocol: the server can read every hospital's code
    list. It is for synthetic data and for study; say `--insecure` if that is what you have.
    """

    code = "TRIP-E405"


class ThresholdTooLow(PolicyError):
    """A hospital's threshold for small cells is too far above the study's, or rose during a run.

    The strictest threshold that a hospital announces holds for all, up to ten times the study's:
    people are counted up to it, so a higher one would show more. Agree on a higher one for all.
    """

    code = "TRIP-E411"


class UnknownMember(PolicyError):
    """A hospital is not one of those that the study's members agreed on, or shows another key.

    The fingerprints in `federation.toml` are compared out of band: ask the hospital to read its own
    to you before you change one.
    """

    code = "TRIP-E412"


class GateRefused(PolicyError):
    """A message was stopped at the hospital's door: it is not one that the manifest allows.

    Its kind, its fields, its shape or the bytes and rounds left did not fit. Nothing of it was
    sent, and the audit log has a line about it. Look at `tripheno preview`, and approve again only
    if you want this to leave.
    """

    code = "TRIP-E413"


class NotApproved(PolicyError):
    """What this hospital would send was not approved, or has changed since.

    The message says what differs: the manifest, the protocol, the version, the data, the officer's
    key, or the date. Run `tripheno preview`, read it, and `tripheno approve` again.
    """

    code = "TRIP-E414"


class SiteTooSmall(PolicyError):
    """A hospital has fewer patients than the study asks for.

    Sums say more about few patients than about many. The hospital may lower `min_site_patients` in
    its own `site.toml` if its privacy officer agrees.
    """

    code = "TRIP-E415"


class Withdrawn(PolicyError):
    """The approval of this hospital was taken back with `tripheno withdraw`: nothing leaves.

    What left before cannot be called back. Run `tripheno preview` and `tripheno approve` to take
    part again.
    """

    code = "TRIP-E416"


class RealDataInTest(PolicyError):
    """A study with `test = true` makes all keys from its seed: it is for made-up records only.

    Whoever has `federation.toml` can read every sum of such a study. Take `test` out of it; or, if
    the records are nobody's, ingest them again with `--synthetic`.
    """

    code = "TRIP-E417"


class OtherProtocol(PolicyError):
    """A member holds another `federation.toml`, or another version of tripheno, than the rest.

    Hashes are compared before anything else happens. Send everyone the same file; install the same
    version everywhere; approve again.
    """

    code = "TRIP-E421"


# ── exit 5: network and messages ──────────────────────────────────────────────────────────────


class NetworkError(TriphenoError):
    """A connection failed or a message was refused."""

    code, exit_code = "TRIP-E500", 5


class BadMessage(NetworkError):
    """A message is truncated, malformed, of the wrong shape or carries values that are not finite.

    It was refused and nothing of it was used.
    """

    code = "TRIP-E501"


class BadSignature(BadMessage):
    """A message was not signed by the hospital whose name it bears, or was changed on its way."""

    code = "TRIP-E502"


class WrongStep(BadMessage):
    """A message belongs to another run, another step or another hospital: replayed or misrouted."""

    code = "TRIP-E503"


class CannotAgreeOnScale(BadMessage):
    """A contribution is too large for every scale that was tried. Nothing was clipped or sent."""

    code = "TRIP-E504"


class BrokenSum(BadMessage):
    """What a hospital got back is not the sum of what all hospitals sent.

    A message was changed on its way, or hospitals were told different things. Nothing of it was
    used, and the hospital forgot the keys of this epoch. Start the run again: it goes on from the
    last checkpoint under new keys. If it happens again, the coordinator's machine or a member is at
    fault.
    """

    code = "TRIP-E505"


class CoordinatorUnreachable(NetworkError):
    """Nobody answers at the coordinator's address, or what answers is not our server.

    Hospitals need one outbound TCP port to the address in `federation.toml`. Ask your network team
    for it: host, port, TCP, outbound, TLS that must not be opened on the way (no inspecting proxy).
    """

    code = "TRIP-E511"


class BadCertificate(NetworkError):
    """A certificate was refused: another authority, a wrong fingerprint, or a request of no member.

    Compare the authority's fingerprint with the coordinator by telephone. A certificate is asked
    for with `tripheno cert request`, approved by the coordinator and put in place with
    `tripheno cert install`.
    """

    code = "TRIP-E512"


class ExpiredCertificate(BadCertificate):
    """A certificate is not valid today: it ran out, or this machine's clock is wrong.

    Check the clock first (`timedatectl`). If it is right, request a new certificate.
    """

    code = "TRIP-E513"


class NameNotInCertificate(BadCertificate):
    """The server's certificate was made for another name than the address says.

    The host in `coordinator.address` must be the name the coordinator's server was started with.
    """

    code = "TRIP-E514"


class NoKit(NetworkError):
    """There is no certificate on this machine yet.

    At a hospital: `tripheno cert request`, have it approved, `tripheno cert install`. At the
    coordinator: `tripheno serve` makes its own.
    """

    code = "TRIP-E515"


class NameTaken(NetworkError):
    """A process under this hospital's name is already at work; a second one is refused.

    Stop the other one first. If it does not run here, somebody else holds a copy of this
    hospital's certificate: tell the coordinator.
    """

    code = "TRIP-E516"


class EngineRefused(NetworkError):
    """The federation's engine refused a command, a job or a login. The message says which."""

    code = "TRIP-E517"


class ForeignJob(NetworkError):
    """The engine was given a job with other files than tripheno's own; nothing of it was run.

    A hospital runs only code it installed. The job never changes within a version, so this is
    another version at the coordinator, or somebody who tries to send code.
    """

    code = "TRIP-E518"


class PortTaken(NetworkError):
    """The coordinator's server cannot listen at its port: another program does, or may not.

    `ss -ltnp` names the program. Two studies on one machine need two ports.
    """

    code = "TRIP-E519"


class DatabaseUnreachable(NetworkError):
    """The hospital's database could not be reached or refused the connection.

    The message never repeats the address, for it may hold a password.
    """

    code = "TRIP-E531"


# ── exit 6: peers ─────────────────────────────────────────────────────────────────────────────


class PeerLost(TriphenoError):
    """A hospital or the coordinator did not answer in time."""

    code, exit_code = "TRIP-E600", 6


class SessionLost(PeerLost):
    """A hospital was started again and holds no keys of this run any more.

    Nothing is wrong: the run goes on from the last iteration that every member kept, under new
    keys.
    """

    code = "TRIP-E601"


def catalogue() -> dict[str, type[TriphenoError]]:
    """Every error code and the class that carries it, in order."""

    def walk(kind: type[TriphenoError]) -> Iterator[type[TriphenoError]]:
        for child in kind.__subclasses__():
            yield child
            yield from walk(child)

    return {kind.code: kind for kind in sorted(walk(TriphenoError), key=lambda kind: kind.code)}
