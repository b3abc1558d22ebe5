"""PowerPoint: a slide for each phenotype that is handed on, how sure before what."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

from tripheno.errors import MissingExtra
from tripheno.report.exports.chosen import Chosen, Source
from tripheno.report.page import GRADE_WORDS, percent
from tripheno.report.phenotypes import Phenotype, RankedCode
from tripheno.report.rule import RULE
from tripheno.report.summary import how_many, sentences
from tripheno.report.titles import brief, readable, shortened

CODES = 6  # of a mode on a slide
LONGEST = 46  # letters of a code


def write_slides(source: Source, out: Path) -> list[Path]:
    """``phenotypes.pptx``: the summary, then the phenotypes."""
    try:
        from pptx import Presentation  # noqa: PLC0415  an extra
        from pptx.util import Inches  # noqa: PLC0415
    except ImportError:
        raise MissingExtra(
            "PowerPoint needs python-pptx", fix="pip install 'tripheno[export]'"
        ) from None
    deck = Presentation()
    deck.slide_width, deck.slide_height = Inches(13.333), Inches(7.5)
    run = source.report.annotations.run
    _summary(deck, source, f"Run {run}. A patient has a phenotype when {RULE}.")
    for one in source.chosen():
        _slide(deck, one, f"Run {run}")
    deck.save(str(out / "phenotypes.pptx"))
    return [out / "phenotypes.pptx"]


def _summary(deck: Any, source: Source, foot: str) -> None:
    slide = _titled(deck, f"Phenotypes of {how_many(source.run)}", foot)
    _text(slide, (0.6, 1.4, 12.1, 5.0), sentences(source.report), 20)


def _slide(deck: Any, one: Chosen, foot: str) -> None:
    phenotype = one.phenotype
    slide = _titled(deck, f"{phenotype.number}. {phenotype.title}", foot)
    _text(slide, (0.6, 1.25, 12.1, 0.9), facts(phenotype), 16)
    width = 12.1 / len(one.codes)
    for n, (mode, codes) in enumerate(one.codes.items()):
        shares = [share_of(code, phenotype) for code in codes[:CODES]]
        rows = list(zip(names_on(codes[:CODES]), shares, strict=True))
        _codes(slide, (mode.capitalize(), "share"), rows, (0.6 + n * width, 2.5, width - 0.3))


def facts(phenotype: Phenotype) -> list[str]:
    """How sure and who has it, in two lines."""
    sure = GRADE_WORDS.get(phenotype.grade or "", "not examined")
    said = f"How sure: {sure}"
    if phenotype.named and phenotype.effective_patients is not None:
        said += f"; rests on about {int(phenotype.effective_patients)} patients"
    counted = phenotype.prevalence
    if counted is None or counted.total is None or counted.total_share is None:
        return [said, "How many have it: withheld or not counted"]
    who = f"{counted.total:,} patients have it ({percent(counted.total_share, 1)}"
    if phenotype.interval and phenotype.grade != "unstable":
        low, high = (percent(end, 1) for end in phenotype.interval)
        who += f", 90 % interval {low} to {high}"
    return [said, who + ")"]


def _codes(
    slide: Any, heading: tuple[str, str], codes: list[tuple[str, str]],
    place: tuple[float, float, float],
) -> None:  # fmt: skip
    from pptx.util import Inches, Pt  # noqa: PLC0415

    left, top, width = place
    shape = slide.shapes.add_table(
        len(codes) + 1, 2, Inches(left), Inches(top), Inches(width), Inches(0.4 * (len(codes) + 1))
    )
    table = shape.table
    size = 14 if width > 5 else 11
    table.columns[0].width, table.columns[1].width = Inches(width - size / 8), Inches(size / 8)
    for n, row in enumerate([heading, *codes]):
        for m, words in enumerate(row):
            cell = table.cell(n, m)
            cell.text = words
            cell.text_frame.paragraphs[0].runs[0].font.size = Pt(size)


def names_on(codes: Sequence[RankedCode]) -> list[str]:
    """What codes are called on a slide: drugs by ingredients, unless two would be alike."""
    short = [brief(code.name) or "(not known here)" for code in codes]
    return [
        shortened(name if short.count(name) == 1 else readable(code.name), LONGEST)
        for code, name in zip(codes, short, strict=True)
    ]


def share_of(code: RankedCode, phenotype: Phenotype) -> str:
    """A code's share with its interval, none of an unstable phenotype; whose it is, if another's.

    Codes of a phenotype that was merged into this one keep their own shares.
    """
    own = any(code in codes for codes in phenotype.codes.values())
    share = percent(code.share) + ("" if own else " (merged)")
    if code.interval is None or not own or phenotype.grade == "unstable":
        return share
    return f"{share} ({100 * code.interval[0]:.0f}–{100 * code.interval[1]:.0f})"


def _titled(deck: Any, title: str, foot: str) -> Any:
    slide = deck.slides.add_slide(deck.slide_layouts[6])  # blank
    _text(slide, (0.6, 0.35, 12.1, 0.9), [shortened(title, 120)], 28, bold=True)
    _text(slide, (0.6, 6.85, 12.1, 0.5), [foot], 10)
    return slide


def _text(
    slide: Any, box: tuple[float, float, float, float], lines: list[str], size: int, *,
    bold: bool = False,
) -> None:  # fmt: skip
    from pptx.util import Inches, Pt  # noqa: PLC0415

    size = fitting(lines, box[2], box[3], size)
    frame = slide.shapes.add_textbox(*(Inches(value) for value in box)).text_frame
    frame.word_wrap = True
    for n, line in enumerate(lines):
        paragraph = frame.paragraphs[0] if n == 0 else frame.add_paragraph()
        run = paragraph.add_run()
        run.text = line
        run.font.size, run.font.bold = Pt(size), bold


def fitting(lines: Sequence[str], width: float, height: float, most: int) -> int:
    """The largest size, in points, at which lines stay in their box (inches).

    A letter is about half as wide as it is high, one of Chinese, Japanese or Korean as wide.
    """
    for size in range(most, 8, -1):
        inch = size / 72
        wide = [sum(1.0 if east_asian_width(c) in "WF" else 0.55 for c in line) for line in lines]
        if sum(max(1, ceil(w * inch / (width - 0.2))) for w in wide) * 1.2 * inch <= height:
            return size
    return 8
