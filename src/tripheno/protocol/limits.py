"""The limits of a study: the smallest cell, the smallest hospital, and how much may leave."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """How many people at least stand behind a code, and behind a hospital."""

    min_cell_count: int = 11
    min_site_patients: int = 100


@dataclass(frozen=True)
class Budgets:
    """How much may leave one hospital in one run."""

    max_rounds: int = 5_000
    max_megabytes: int = 2_000  # of 2²⁰ bytes
    max_codes: int = 20_000  # of one mode, in the whole network
    max_runs: int = 10  # of the study on the same data
