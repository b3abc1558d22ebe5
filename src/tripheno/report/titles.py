"""What a phenotype is called where nobody named it: its most telling codes, never two alike."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tripheno.records.drugs import ingredient_of

if TYPE_CHECKING:
    from tripheno.report.phenotypes import Phenotype, RankedCode

SPEAKING = ("diagnosis", "condition")  # modes whose codes name a disease
MOST_LEADING = 4  # codes in a title
LONGEST = 60  # letters of a code in a title
_PRODUCT = re.compile(r"\d (?:MG|MCG|ML|UNT|MEQ|ACTUAT)\b")  # as RxNorm writes strengths


def led_apart(phenotypes: Sequence[Phenotype]) -> list[Phenotype]:
    """The same with their leading codes: as few as tell each from all others, then its number."""
    telling = [telling_codes(p) or ["empty"] for p in phenotypes]
    used = [1] * len(phenotypes)

    def led(n: int) -> str:
        first, *more = telling[n][: used[n]]
        return f"{first} with {' and '.join(more)}" if more else first

    while True:
        heard = Counter(led(n) for n in range(len(used)))
        alike = [n for n in range(len(used)) if heard[led(n)] > 1]
        grow = [n for n in alike if used[n] < min(MOST_LEADING, len(telling[n]))]
        if not grow:
            break
        for n in grow:
            used[n] += 1
    return [
        replace(p, led_by=f"{led(n)} ({p.number})" if n in alike else led(n))
        for n, p in enumerate(phenotypes)
    ]


def telling_codes(phenotype: Phenotype) -> list[str]:
    """Names of its codes, large and specific ones first, diseases before all others."""
    ranked = [
        (mode not in SPEAKING, -code.share * code.specificity, code.name)
        for mode, codes in phenotype.codes.items()
        for code in codes
        if code.name
    ]
    best = sorted(ranked)[:1] + sorted(ranked, key=lambda one: one[1])
    return list(dict.fromkeys(shortened(brief(name), LONGEST) for _, _, name in best))


def shortened(text: str, longest: int) -> str:
    """A text cut with a sign that it was."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def readable(name: str) -> str:
    """A label that a source writes in capitals only, as people write it."""
    words = " ".join(name.split()) if len(name) < 400 else name
    return words.capitalize() if words.isupper() and len(words) > 5 and " " in words else words


def brief(name: str) -> str:
    """The plain label; of a product with its strengths (“amlodipine 5 MG”) the ingredients."""
    return ingredient_of(name) if _PRODUCT.search(name) else plain(name)


def apart(codes: Sequence[RankedCode]) -> list[tuple[RankedCode, str]]:
    """Codes of one card with their plain names, whole where two would be alike."""
    short = [plain(code.name) for code in codes]
    return [
        (code, name if short.count(name) == 1 else readable(code.name))
        for code, name in zip(codes, short, strict=True)
    ]


def plain(name: str) -> str:
    """A label without what only sorts it.

    Of a path (“cardiovascular | arrhythmias | atrial fibrillation | with rapid response”) what
    stands below organ and group: the disease and how it is qualified, nothing said twice.
    """
    parts = [part for part in readable(name).split(" | ") if part]
    parts = parts[min(2, len(parts) - 1) :]
    words = [set(part.casefold().split()) for part in parts]
    return ", ".join(
        part for n, part in enumerate(parts) if not any(words[n] <= more for more in words[n + 1 :])
    )
