"""One drug axis that clinicians can read: names folded to ingredients by rule.

Strength, route, form, packaging and salt are taken off; a mixture is its parts in order, joined by
``+``. Fluids that only carry a drug are marked: their codes begin with ``carrier:``. Whether they
take part is decided later, by whoever fits. A name that nothing is left of keeps itself.
"""

from __future__ import annotations

import csv
import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tripheno.errors import BadGrouping, NoSuchFile
from tripheno.records.textfile import MISREAD, header_of, lines

CARRIER = "carrier:"
_UNIT = r"(?:mcg|mg|gm|g|ml|l|units?|unt|meq|mmol|iu|mu|mci|cc|oz|act|puff|hr|h|dose|actuat|kg|min)"
_STRENGTH = re.compile(
    rf"[<>~]?\b\d[\d.,]*\s*(?:-\s*\d[\d.,]*\s*)?(?:%|{_UNIT}\b)?(?:\s*/\s*[\d.,]*\s*{_UNIT}\b)*(?![a-z])"
)
_ASIDE = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\*[a-z ]+\*?|\{[^{}]*\}")
_DILUTED = re.compile(
    r"\s+(?:in|with|/)\s+(?:\d[\d.]*\s*%?\s*)?(?:ns|nacl|d5w?|d10w?|dextrose|sodium chloride|"
    r"sterile water|lactated|iso-?osmotic|premix).*$"
)
_PACKED = re.compile(r"^\d[\d.,]*\s*(?:ml|l|g|gm|each)\b[^:]{0,20}?(?:\s-\s+|\s*:\s*)")
_CARRIER = re.compile(
    r"^(?:(?:0?\.9|0?\.45|\.2)\s*%|iso-?osmotic|bacteriostatic|normal|half)?\s*"
    r"(?:sodium chloride|nacl|saline|ns)\b"
    r"(?!.*(?:(?<![\d.])(?:[3-9]|[12]\d)(?:\.\d+)?\s*%|tab|nasal|neb))"  # 3 % treats, 0.9 % carries
    r"|^(?:[25]\s*%)?\s*dextrose\s*(?:5|2\.5)\s*%|^5\s*%\s*dextrose|^d5\s*(?:w|ns|1/2|lr|\.)"
    r"|^dextrose-nacl|^iso-?osmotic"
    r"|^(?:sterile|bacteriostatic) water|^sw\b|^(?:lactated )?ringer|^lr\b|flush\b|diluent"
    r"|^(?:mini ?)?(?:bag|syringe|vial|cassette|intravenous fluid)s?\b"
)
_LETTERED = r"(?:vitamins?|penicillin|hepatitis|polymyxin|factor|coenzyme)"
_LETTER = re.compile(  # vitamin B-12 is not vitamin D
    rf"\b({_LETTERED})[ -]([a-z])(?:-?(\d{{1,2}})(?!\d))?(?![a-z\d])"
)
_SHORT = {"5-asa": "mesalamine", "5-fu": "fluorouracil", "6-mp": "mercaptopurine"}  # asa is aspirin
_WORDS = re.compile(rf"\b{_LETTERED} [a-z]\d{{0,2}}\b|[^\W\d_][^\W\d_']*(?:-[^\W\d_']+)*")


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


_FORMS = _listed("""
    tab tabs tablet tablets cap caps capsule capsules po iv im sc sq subq pr ng og sl inh soln
    sol solution inj injection injectable susp suspension syringe syringes vial vials bag bags
    ud er xr xl sr ec dr cr la tbec tbdp tbcr cpdr cpep cp oral orally rectal topical ophth
    ophthalmic otic nasal neb nebu nebs nebulizer inhaler inhalation aero aerosol spray patch
    patches ptch transdermal cream crea ointment oint gel lotion liquid liqd powder powd packet
    pack pwd syrup syrp elixir elix drops drop supp suppository supps suppositories chew
    chewable disintegrating odt enteric coated extended release delayed sustained immediate
    premix premixed ivpb ivp drip infusion bolus pca continuous titrate standard conc
    concentrate dose doses unit units pf preservative free bulk kit pen flexpen sopn soaj
    prefilled carpuject ampul ampule amp ij ir solr so as in of for the and with mini plus
    duplex container ml mg mcg meq gm g per each mdv sdv human nf desensitization study
    intravenous intramuscular subcutaneous sublingual buccal mouth/throat mt ex op ot na re or
    misc film immed rel w adult solp sso liq syr cont flex cup crtrdg-ndl iso repackage
    pediatric hospital stock override pyxis only
""")
_SALTS = _listed("""
    hcl hydrochloride sodium potassium sulfate sulphate tartrate succinate acetate citrate
    phosphate maleate mesylate besylate fumarate bitartrate gluconate bromide hydrobromide
    chloride nitrate calcium magnesium disodium trihydrate monohydrate dihydrate anhydrous
    bisulfate hyclate dinitrate mononitrate lactate furoate propionate dipropionate pamoate
    decanoate palmitate valerate tromethamine edisylate hemihydrate besilate axetil proxetil
    medoxomil etexilate malate aspartate carbonate
""")
_ELEMENTS = _listed("""
    sodium potassium calcium magnesium zinc ferrous iron aluminum ammonium lithium silver
    selenium isosorbide barium bismuth
""")


@dataclass(frozen=True)
class DrugAxis:
    """Codes → ingredients, and how they were found."""

    table: Mapping[str, str] = field(default_factory=dict)
    """What a hospital's own table says: a code, NDC, HICL or name → ingredient or name."""

    def groups(
        self, uses: Iterable[tuple[str, str | None, int]]
    ) -> tuple[list[tuple[str, str, str]], Counter[str]]:
        """(code, ingredient, label) for every code, from how often it is used with which name."""
        names: dict[str, Counter[str]] = {}
        for code, label, count in uses:
            held = names.setdefault(code, Counter())
            if label and label.strip():
                held[label.strip()] += count
        known = {
            name.lower(): most_used(held)
            for code, held in names.items()
            if code.isdigit()  # HICL: the code says that its names mean one drug
            for name in held
        }
        found, tally = [], Counter[str]()
        for code, held in names.items():
            ingredient, label, how = self._one(code, held, known)
            tally[how] += 1
            tally["carriers"] += is_carrier(ingredient)
            tally["misread"] += any(map(MISREAD.search, map(html.unescape, (code, *held))))
            found.append((code, ingredient, label))
        return found, tally

    def _one(self, code: str, held: Counter[str], known: Mapping[str, str]) -> tuple[str, str, str]:
        keys = (code, code.rpartition(":")[2], code.lower())
        given = next((self.table[key] for key in keys if key in self.table), None)
        if given is None and not held and code.isdigit():
            return f"HICL:{code}", f"HICL {code} (no name given)", "without a name"
        if given is None and not held and re.fullmatch(r"[\w-]+:\S+", code):
            return code, code, "without a name"
        name = given or known.get(code.lower()) or (most_used(held) if held else code)
        ingredient = ingredient_of(name)
        plain = ingredient.removeprefix(CARRIER)
        label = plain if plain == ingredient else f"{plain} (carrier)"
        return ingredient, label, "by table" if given else "by name"


def is_carrier(code: str) -> bool:
    """Whether a code of the drug axis is a fluid or a container that only carries a drug.

    Saline, flushes, bags and dextrose or water as a diluent are; a solver may leave them out.
    """
    return code.startswith(CARRIER)


def most_used(held: Counter[str]) -> str:
    """The commonest name, the first in order among equals."""
    return min(held, key=lambda name: (-held[name], name))


def ingredient_of(name: str) -> str:
    """A drug's name without strength, route, form, packaging and salt."""
    lower = " ".join(html.unescape(name).lower().replace("\ufeff", " ").replace("_", " ").split())
    bare = " ".join(_ASIDE.sub(" ", lower).split()) or lower
    bare = _PACKED.sub("", bare)
    if _CARRIER.search(bare):
        return CARRIER + _carrier(bare)
    bare = _LETTER.sub(lambda m: f"{m[1]} {m[2]}{m[3] or ''}", _DILUTED.sub("", bare))
    for short, meant in _SHORT.items():
        bare = re.sub(rf"\b{short}\b", meant, bare)
    bare = _STRENGTH.sub(" ", bare)
    parts = re.split(r"\s*[/+&]\s*|\s+and\s+|(?<=[a-z]{5})(?<!insulin)-(?=[a-z]{5})", bare)
    kept = sorted({words for words in map(_without_form, parts) if words})
    return " + ".join(kept) or lower


def _without_form(part: str) -> str:
    words = [word for word in _WORDS.findall(part) if word not in _FORMS and len(word) > 1]
    while len(words) > 1 and words[-1] in _SALTS and words[0] not in _ELEMENTS:
        words.pop()
    return " ".join(words)


def _carrier(bare: str) -> str:
    for sign, words in (
        (r"heparin", "heparin flush"), (r"chloride|saline|nacl|\bns\b", "sodium chloride"),
        (r"dextrose|\bd5", "dextrose"),
        (r"water|\bsw\b", "water"), (r"ringer|\blr\b", "lactated ringer"),
    ):  # fmt: skip
        if re.search(sign, bare):
            return words
    return _without_form(bare) or "container"


def read_drug_table(path: Path) -> DrugAxis:
    """A table that names drugs: codes (NDC, HICL …) or names, and what to call them."""
    if not path.is_file():
        raise NoSuchFile(f"No table of drugs {path}")
    header = header_of(path)
    if len(header.columns) < 2:
        raise BadGrouping("a table of drugs has two columns: code and ingredient", where=path.name)
    rows = csv.reader(lines(path), delimiter=header.delimiter)
    next(rows)
    named = (row for row in rows if len(row) > 1 and row[1].strip())
    return DrugAxis({row[0].strip(): row[1].strip() for row in named})
