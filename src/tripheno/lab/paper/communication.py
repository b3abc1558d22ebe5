"""What a federation sends by the seed paper's own rule, and what consensus really has to move."""

from __future__ import annotations

from collections.abc import Sequence

from tripheno.evaluation.communication import seconds_at_15_mbps


def seed_communication_seconds(
    shape: Sequence[int], hospitals: int, rank: int, iterations: int
) -> float:
    """Communication time by the authors' rule, patient factors that never travel included.

    With a(I) = 8·I·R + 112 bytes for a factor and b(I) = 8·I + 112 for its bias column:
    K·Σ_{n≥2}(a+b) at the start; per iteration and feature mode n 2K(a+b)(I_n) + K·Σ_{all}(a+b);
    two thirds of the total, at 15 MB/s.
    """

    def parcel(size: int) -> int:
        return (8 * size * rank + 112) + (8 * size + 112)

    features = shape[1:]
    every = sum(parcel(size) for size in shape)
    total = hospitals * sum(parcel(size) for size in features)
    total += iterations * sum(2 * hospitals * parcel(size) + hospitals * every for size in features)
    return seconds_at_15_mbps(total) * 2 / 3


def consensus_bytes(
    shape: Sequence[int], hospitals: int, rank: int, iterations: int, inner_steps: int = 1
) -> int:
    """What consensus really has to move: each hospital's proposal up, the agreed factor down."""
    per_round = 2 * hospitals * 8 * rank * sum(shape[1:])
    return iterations * inner_steps * per_round
