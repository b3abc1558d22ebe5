"""The three ways to common axes, behind one function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tripheno.exchange.communicator import Communicator
from tripheno.exchange.keys import Entropy, from_seed
from tripheno.study.axes import (
    Tensors,
    by_polynomials,
    on_listed_axes,
    public_union,
    with_common_labels,
    without_small_cells,
)
from tripheno.study.tokens import Secrets, by_tokens
from tripheno.vocabulary.alignment import AlignKind, check_modes


def align(
    federation: Communicator,
    tensors: Tensors,
    kind: AlignKind,
    *,
    fewest: int = 1,
    lists: Mapping[str, Sequence[str]] | None = None,
    study: bytes = b"",
    secrets: Secrets | None = None,
    entropy: Entropy | None = None,
    seed: int = 0,
    insecure: bool = False,
) -> tuple[Tensors, dict[str, int]]:
    """The members' tensors on axes that all share, without codes that too few people have.

    Also says how many codes of each mode went; a code nobody has goes always, and is not counted.
    """
    check_modes([tensor.axes for tensor in tensors.values()])
    if kind == "polynomial":
        aligned = by_polynomials(tensors, seed, insecure=insecure)
    elif all(axis.codes is None for t in tensors.values() for axis in t.axes):
        if fewest <= 1:
            return with_common_labels(tensors), {}  # positions are the codes, used or not
        aligned = with_common_labels(tensors)
    elif kind == "vocabulary":
        aligned = with_common_labels(on_listed_axes(tensors, lists or public_union(tensors)))
    else:
        drawn = from_seed(seed, "tokens")
        aligned = with_common_labels(
            by_tokens(federation, tensors, study, secrets or drawn, entropy or drawn)
        )
    federation.resize({axis.mode: axis.size for axis in next(iter(aligned.values())).axes})
    held, _ = without_small_cells(federation, aligned, 1)
    if fewest <= 1:
        return held, {}
    return without_small_cells(federation, held, fewest, "people/few")
