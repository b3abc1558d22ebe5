"""Eight words that stand for a study, for people to compare over the telephone.

They are made of the study's digest, so whoever reads the same words approved the same protocol with
the same members. 88 bits, each try costs 128 MB and a third of a second (scrypt, N = 2¹⁷): two
studies with the same words are out of reach even for whoever may choose both.
The 2,048 words follow a rule, so there is no list to compare: consonant, vowel, consonant, vowel.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from itertools import product

WORDS = tuple(map("".join, product("bdfghjklmnprstvz", "aiou", "dfklmnrt", "aiou")))
COUNT = 8
_BITS = 11
_COST = 1 << 17


@lru_cache(maxsize=64)
def study_words(study: bytes) -> tuple[str, ...]:
    """The words of a study's digest."""
    drawn = hashlib.scrypt(
        study, salt=b"tripheno study words", n=_COST, r=8, p=1, maxmem=1 << 28, dklen=COUNT * 2
    )
    bits = int.from_bytes(drawn, "big")
    return tuple(WORDS[bits >> _BITS * n & (1 << _BITS) - 1] for n in range(COUNT))


def are_the_words(typed: str, study: bytes) -> bool:
    """Whether somebody typed the study's words, in order, however written."""
    return tuple(re.findall(r"\w+", typed.lower())) == study_words(study)
