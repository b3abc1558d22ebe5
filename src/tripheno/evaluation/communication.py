"""What a federation's bytes take on the seed paper's network."""

from __future__ import annotations

MEGABYTE = 2**20
SEED_RATE = 15  # MB/s


def seconds_at_15_mbps(sent: int) -> float:
    """Seconds that a number of bytes takes on the paper's network."""
    return sent / MEGABYTE / SEED_RATE
