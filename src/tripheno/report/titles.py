"""What a phenotype is called where nobody named it: its most telling codes, never two alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tripheno.report.phenotypes import Phenotype

SPEAKING = ("diagnosis", "condition")  # modes whose codes name a disease
MOST_LEADING = 4  # codes in a title
LONGEST = 60  # letters of a code in a title


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
    """A label that is a path (“pulmonary | respiratory failure | hypoxemia”), its end first.

    What stands above is left out where the end says it already.
    """
    parts = [part for part in readable(name).split(" | ") if part]
    if len(parts) < 2:
        return readable(name)
    above, end = parts[-2:]
    said = set(above.casefold().split()) <= set(end.casefold().split())
    return end if said else f"{end}, {above}"
