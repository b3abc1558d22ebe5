"""Settings, options and usage: exit 2, TRIP-E2xx."""

from __future__ import annotations

from tripheno.errors.base import TriphenoError


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
    """The output folder is not empty: it holds a finished run, or files that are not a run's.

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
