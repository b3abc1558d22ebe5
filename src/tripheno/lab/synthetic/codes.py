"""Which codes does each synthetic hospital use, and what does it write down?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tripheno.lab.synthetic.catalogue import common_codes

if TYPE_CHECKING:
    from tripheno.lab.synthetic.network import SyntheticSettings

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SyntheticCodes:
    """All codes of one mode, the most popular first, and which hospital uses which."""

    mode: str
    codes: list[str]
    used: Booleans  # hospitals × codes
    popularity: Floats


def code_list(settings: SyntheticSettings, mode: str, rng: np.random.Generator) -> SyntheticCodes:
    """The codes of one mode: common ones lead, then planted and invented ones mixed."""
    count, hospitals = settings.codes_per_mode[mode], len(settings.patients_per_hospital)
    planted = list(dict.fromkeys(code for one in settings.planted for code in one.weights[mode]))
    common = [code for code in common_codes(mode) if code not in set(planted)]
    common = common[: count - len(planted)]
    invented = [f"{mode}-{j + 1:04d}" for j in range(count - len(planted) - len(common))]
    rest = np.array([*planted, *invented], dtype=np.str_)
    codes = [*common, *rng.permutation(rest).tolist()]
    used = rng.random(count) < settings.code_overlap
    used = used[None, :] | _proper_subsets(hospitals, count, rng)
    place = {code: j for j, code in enumerate(codes)}
    for one in settings.planted:  # a hospital that treats a disease has its codes
        for code in one.weights[mode]:
            used[np.array(one.prevalence) > 0, place[code]] = True
    popularity = np.arange(1, count + 1, dtype=np.float64) ** -settings.popularity_exponent
    return SyntheticCodes(mode, codes, used, popularity)


def _proper_subsets(hospitals: int, codes: int, rng: np.random.Generator) -> Booleans:
    """For every code some hospitals that use it: at least one, and never all of several."""
    subset = rng.random((hospitals, codes)) < 0.5
    owner = rng.integers(hospitals, size=codes)
    if hospitals > 1:
        stranger = (owner + rng.integers(1, hospitals, size=codes)) % hospitals
        subset[stranger, np.arange(codes)] = False
    subset[owner, np.arange(codes)] = True
    return subset


def popular(codes: SyntheticCodes, k: int, count: int, rng: np.random.Generator) -> Integers:
    """Draw codes that hospital k uses, with their popularity."""
    known = np.flatnonzero(codes.used[k])
    if len(known) == 0:
        known = np.arange(1)  # a hospital without any code of the mode still writes something down
    steps = np.cumsum(codes.popularity[known])
    place = np.searchsorted(steps, rng.random(count) * steps[-1], side="right")
    drawn: Integers = known[np.minimum(place, len(known) - 1)]
    return drawn


def as_recorded(
    settings: SyntheticSettings,
    lists: Sequence[SyntheticCodes],
    k: int,
    events: tuple[Integers, Integers],
    rng: np.random.Generator,
) -> tuple[Integers, Integers]:
    """What the hospital writes down: some codes wrong, some never."""
    visit, code = events
    if settings.mislabelled:
        first = np.cumsum([0, *(len(one.codes) for one in lists)])
        for one, start, end in zip(lists, first[:-1], first[1:], strict=True):
            wrong = (code >= start) & (code < end) & (rng.random(len(code)) < settings.mislabelled)
            code = code.copy()
            code[wrong] = start + popular(one, k, int(wrong.sum()), rng)
        visit, code = np.divmod(np.unique(visit * first[-1] + code), first[-1])
    never = set(settings.unrecorded.get(settings.names[k], ()))
    if not never:
        return visit, code
    kept = np.array([not {one.mode, name} & never for one in lists for name in one.codes])[code]
    return visit[kept], code[kept]
