"""Is one code spelt in two ways, or are several spelt in one field?

Text stays text: nothing is merged. But two spellings of one code are two columns of the tensor, and
somebody should know.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

_SEVERAL = re.compile(r"[\w.]*\d[\w.]*(\s*[;|,]\s*[\w.]*\d[\w.]*)+|[\[{].*[\]}]")
_WORDY = re.compile(r"(\S*\d\S*?)[\s:–-]+\D.*")
_CODE = re.compile(r"[^\s:]*\d[^\s:]*")
_LATIN = str.maketrans("авекмнорстухіαβεικνορτυχ", "abekmhopctyxiabeiknoptux")
"""Cyrillic and Greek letters that look like Latin ones."""


def spellings(mode: str, codes: Sequence[str]) -> Iterator[str]:
    """One sentence for each way in which codes of a mode look like one another."""
    held = {code: _same_letters(code) for code in codes}
    for words, fold in _FOLDS.items():
        folded = {code: fold(plain) for code, plain in held.items()}
        count = Counter(folded.values())
        twins = [code for code, one in folded.items() if count[one] > 1]
        if twins:
            yield f"{mode}: {len(twins):,} codes differ by {words} only: {_some(twins)}"
            held = {code: plain for code, plain in held.items() if count[folded[code]] == 1}
    known = set(codes)
    wordy = [
        c
        for c in codes
        if mode != "medication" and (m := _WORDY.fullmatch(c)) is not None and m[1] in known
    ]
    if wordy:
        yield f"{mode}: {len(wordy):,} codes are another with words behind it: " + _some(wordy)
    several = [code for code in codes if _SEVERAL.fullmatch(code)]
    if several:
        yield (
            f"{mode}: {len(several):,} codes look like several in one field: {_some(several)}; "
            "a mapping may name their separator"
        )


def _same_letters(code: str) -> str:
    """Capitals, full-width and look-alike letters as one; blanks left out."""
    return "".join(unicodedata.normalize("NFKC", code).casefold().translate(_LATIN).split())


def _if_code(fold: Callable[[str], str]) -> Callable[[str], str]:
    """Words are left as they are, and codes of a system: these are spelt alike already."""
    return lambda plain: fold(plain) if _CODE.fullmatch(plain) else plain


_FOLDS: dict[str, Callable[[str], str]] = {
    "capitals, blanks or look-alike letters": str,
    "points": _if_code(lambda plain: plain.replace(".", "")),
    "leading zeros": _if_code(lambda plain: plain.lstrip("0")),
}


def _some(codes: Sequence[str]) -> str:
    return ", ".join(codes[:3]) + (" …" if len(codes) > 3 else "")
