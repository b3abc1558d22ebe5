"""The three ways to common axes, behind one function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tripheno.exchange.communicator import Communicator
from tripheno.exchange.keys import Entropy, from_seed
from tripheno.protocol.agreed import NOTHING_ASIDE, SetAside
from tripheno.study.axes import (
    Tensors,
    by_polynomials,
    check_cells,
    on_listed_axes,
    public_union,
    with_common_labels,
    without_small_cells,
)
from tripheno.study.set_aside import Aside, Lacks, without_carriers, without_common
from tripheno.study.tokens import Secrets, by_tokens
from tripheno.vocabulary.alignment import AlignKind, check_modes
from tripheno.vocabulary.secret_tokens import CURVE, AllKnown


@dataclass(frozen=True)
class Aligned:
    """Tensors on common axes, and what is to be said of codes that are not on them."""

    tensors: Tensors
    removed: dict[str, int] = field(default_factory=dict)  # by mode, for small cells
    aside: tuple[Aside, ...] = ()
    lacks: Lacks = field(default_factory=dict)  # hospital → what others use often and it never


def align(
    federation: Communicator,
    tensors: Tensors,
    kind: AlignKind,
    *,
    fewest: int = 1,
    rule: SetAside = NOTHING_ASIDE,
    lists: Mapping[str, Sequence[str]] | None = None,
    study: bytes = b"",
    secrets: Secrets | None = None,
    entropy: Entropy | None = None,
    seed: int = 0,
    insecure: bool = False,
) -> Aligned:
    """The members' tensors on axes that all share, without codes that too few people have.

    Also says how many codes of each mode went; a code nobody has goes always, and is not counted.
    Codes that the rule sets aside go too, and are listed.
    """
    aside: tuple[Aside, ...] = ()
    if rule.carriers:
        tensors, aside = without_carriers(tensors)
        check_cells(tensors)
    check_modes([tensor.axes for tensor in tensors.values()])
    if kind == "polynomial":
        aligned = by_polynomials(tensors, seed, insecure=insecure)
    elif all(axis.codes is None for t in tensors.values() for axis in t.axes):
        if fewest <= 1:
            return Aligned(with_common_labels(tensors))  # positions are the codes, used or not
        aligned = with_common_labels(tensors)
    elif kind == "vocabulary":
        aligned = with_common_labels(on_listed_axes(tensors, lists or public_union(tensors)))
    else:
        drawn = from_seed(seed, "tokens")
        curve = CURVE if secrets or entropy else AllKnown()  # in a simulation the seed has them all
        aligned = with_common_labels(
            by_tokens(federation, tensors, study, secrets or drawn, entropy or drawn, curve=curve)
        )
    federation.resize({axis.mode: axis.size for axis in next(iter(aligned.values())).axes})
    held, _ = without_small_cells(federation, aligned, 1)
    removed: dict[str, int] = {}
    if fewest > 1:
        held, removed = without_small_cells(federation, held, fewest, "people/few")
    held, common, lacks = without_common(federation, held, rule, fewest)
    if common:  # they took cells of other codes with them
        held, more = without_small_cells(federation, held, fewest, "people/again")
        removed = {mode: count + more[mode] for mode, count in removed.items()}
    return Aligned(held, removed, (*aside, *common), lacks)
