"""Hospitals that look like hospitals and hold no patient: the truth in them is known.

Every patient has some of the planted phenotypes and every visit is about one of them: it records
that phenotype's codes of every mode, each with its own probability, and some background. The
expected count tensor is therefore a sum of rank-one phenotypes,

    E[O_k(i, m, d, …)] = Σ_p visits_k(i, p) · w_p(m) · w_p(d) · … + background,

which is what the factorisation assumes, and a fitted column can be compared with a planted one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tripheno.errors import SettingsError
from tripheno.lab.synthetic.catalogue import (
    PHENOTYPE_NAMES,
    PlantedPhenotype,
    catalogue_weights,
    label_of,
)
from tripheno.lab.synthetic.codes import (
    Booleans,
    Floats,
    Integers,
    SyntheticCodes,
    as_recorded,
    code_list,
    popular,
)
from tripheno.records.events import events_from_columns

_OPENING = np.datetime64("2008-01-01T00:00", "m")  # the day the synthetic hospitals open
_MINUTES_PER_DAY = 1440


@dataclass(frozen=True)
class SyntheticSettings:
    """A network of hospitals to be made up. The defaults give three small ones."""

    patients_per_hospital: tuple[int, ...] = (400, 300, 300)
    codes_per_mode: Mapping[str, int] = field(
        default_factory=lambda: {"medication": 120, "diagnosis": 96}
    )
    phenotypes: tuple[PlantedPhenotype, ...] | None = None  # None: all of the catalogue that fit
    hospital_names: tuple[str, ...] | None = None  # None: hospital-1, hospital-2, …
    visits_per_patient: float = 4.0  # mean; every patient has one at least
    noise_per_visit: float = 1.5  # mean background events of each mode in a visit
    noise_habit: float = 0.3  # share of the background that repeats the patient's usual codes
    popularity_exponent: float = 0.8  # the background's j-th code has popularity ∝ j^(-exponent)
    code_overlap: float = 0.8  # share of the background codes that every hospital uses
    fixed_carriers: bool = False  # as many carriers as the prevalence says, not about as many
    phenotype_overlap: float = 0.0  # how probable, against its own, are a neighbour's first codes
    heavy_tail: float = 0.0  # spread σ of patients' visit rates (lognormal); 0: all alike
    mislabelled: float = 0.0  # share of recorded events that carry another code of the mode
    unrecorded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Hospital → modes or codes that it never records, whatever its patients have."""
    with_times: bool = False
    hours_per_visit: float = 48.0  # mean length of a visit, when times are wanted
    seed: int = 0

    def __post_init__(self) -> None:
        faults = [*_size_faults(self), *_number_faults(self)]
        if not faults:
            faults += _phenotype_faults(self)
        if faults:
            raise SettingsError(
                "; ".join(faults),
                where="synthetic settings",
                fix="a phenotype needs codes in every mode and one prevalence per hospital",
            )

    @property
    def modes(self) -> tuple[str, ...]:
        """The feature modes, in the order given."""
        return tuple(self.codes_per_mode)

    @property
    def names(self) -> tuple[str, ...]:
        """The hospitals' names."""
        numbered = (f"hospital-{k + 1}" for k in range(len(self.patients_per_hospital)))
        return self.hospital_names or tuple(numbered)

    @property
    def planted(self) -> tuple[PlantedPhenotype, ...]:
        """The phenotypes given, or those of the catalogue with a case mix drawn from the seed."""
        plain = _phenotypes_that_fit(self) if self.phenotypes is None else self.phenotypes
        if self.phenotype_overlap == 0:
            return plain
        return tuple(
            _with_neighbour(one, after, self.phenotype_overlap)
            for one, after in zip(plain, (*plain[1:], *plain[:1]), strict=True)
        )


def _size_faults(settings: SyntheticSettings) -> Iterator[str]:
    hospitals = settings.patients_per_hospital
    if not hospitals or any(patients < 1 for patients in hospitals):
        yield f"every hospital needs a patient, not {list(hospitals)}"
    if len(settings.codes_per_mode) < 2:
        yield f"two or more modes are needed, not {list(settings.codes_per_mode)}"
    for mode, count in settings.codes_per_mode.items():
        if mode == "patient" or not mode.strip():
            yield f"a feature mode cannot be called {mode!r}"
        if count < 1:
            yield f"mode {mode!r} needs a code, not {count}"
    for hospital in set(settings.unrecorded) - set(settings.names):
        yield f"unrecorded names no hospital of the network: {hospital!r}"
    names = settings.hospital_names
    if names is not None and (len(names) != len(hospitals) or len(set(names)) != len(names)):
        yield f"{len(hospitals)} different hospital names are needed, not {list(names)}"


def _number_faults(settings: SyntheticSettings) -> Iterator[str]:
    limits = {
        "visits_per_patient": (1.0, 10_000.0),
        "noise_per_visit": (0.0, 100_000.0),
        "noise_habit": (0.0, 1.0),
        "popularity_exponent": (0.0, 10.0),
        "code_overlap": (0.0, 1.0),
        "phenotype_overlap": (0.0, 1.0),
        "heavy_tail": (0.0, 3.0),
        "mislabelled": (0.0, 1.0),
        "hours_per_visit": (0.1, 100_000.0),
        "seed": (0, 2**63),
    }
    for name, (least, most) in limits.items():
        value = getattr(settings, name)
        if not least <= value <= most:  # written so that a NaN is a fault too
            yield f"{name} must lie between {least:g} and {most:g}, not {value}"


def _phenotype_faults(settings: SyntheticSettings) -> Iterator[str]:
    planted = settings.phenotypes
    if planted is None:
        return
    if len({one.name for one in planted}) != len(planted):
        yield "two phenotypes have the same name"
    hospitals = len(settings.patients_per_hospital)
    for one in planted:
        if len(one.prevalence) != hospitals:
            yield f"{one.name!r} has {len(one.prevalence)} prevalences for {hospitals} hospitals"
        if not all(0 <= share <= 1 for share in one.prevalence):
            yield f"{one.name!r} has a prevalence outside 0 to 1"
        for mode in settings.modes:
            if not one.weights.get(mode):
                yield f"{one.name!r} has no {mode} codes"
        if not all(0 < w <= 1 for weights in one.weights.values() for w in weights.values()):
            yield f"{one.name!r} has a weight outside 0 (excluded) to 1"
    for mode, count in settings.codes_per_mode.items():
        needed = len({code for one in planted for code in one.weights.get(mode, ())})
        if needed > count:
            yield f"the phenotypes have {needed} {mode} codes and only {count} are allowed"


def _phenotypes_that_fit(settings: SyntheticSettings) -> tuple[PlantedPhenotype, ...]:
    """The first phenotypes of the catalogue whose codes fit into the code lists."""
    rng = np.random.default_rng(settings.seed)
    hospitals = len(settings.patients_per_hospital)
    used: dict[str, set[str]] = {mode: set() for mode in settings.modes}
    chosen = []
    for name in PHENOTYPE_NAMES:
        weights = catalogue_weights(name, settings.modes)
        used = {mode: used[mode] | set(weights.get(mode, ())) for mode in settings.modes}
        fits = all(len(used[mode]) <= settings.codes_per_mode[mode] for mode in settings.modes)
        if not fits or len(weights) < len(settings.modes):
            break
        prevalence = np.minimum(0.08 * rng.lognormal(sigma=0.6, size=hospitals), 0.5)
        chosen.append(PlantedPhenotype(name, weights, tuple(prevalence.tolist())))
    return tuple(chosen)


def _with_neighbour(
    one: PlantedPhenotype, after: PlantedPhenotype, overlap: float
) -> PlantedPhenotype:
    """The phenotype with the first half of another's codes too, less probable than there."""
    weights = {}
    for mode, own in one.weights.items():
        theirs = list(after.weights.get(mode, {}).items())
        borrowed = {code: overlap * w for code, w in theirs[: (len(theirs) + 1) // 2]}
        weights[mode] = {**borrowed, **own}
    return PlantedPhenotype(one.name, weights, one.prevalence)


@dataclass(frozen=True)
class SyntheticHospital:
    """One hospital's event table, and which patient truly has which phenotype."""

    name: str
    events: pa.Table
    memberships: Booleans  # patients × planted phenotypes


@dataclass(frozen=True)
class SyntheticNetwork:
    """The hospitals and the truth that a factorisation of their records should find."""

    hospitals: tuple[SyntheticHospital, ...]
    planted: tuple[PlantedPhenotype, ...]

    def truth(self, mode: str, codes: Sequence[str]) -> Floats:
        """The planted columns of a mode: a row per code asked for, a column per phenotype."""
        columns = [[one.weights[mode].get(code, 0.0) for code in codes] for one in self.planted]
        return np.array(columns, dtype=np.float64).reshape(len(self.planted), len(codes)).T


def synthetic_network(settings: SyntheticSettings) -> SyntheticNetwork:
    """Make up the hospitals. The same settings give the same tables, byte for byte.

    Each hospital has its own stream of random numbers, so its records do not depend on how many
    patients the others have.
    """
    common, *own = np.random.SeedSequence(settings.seed).spawn(
        1 + len(settings.patients_per_hospital)
    )
    rng = np.random.default_rng(common)
    lists = [code_list(settings, mode, rng) for mode in settings.modes]
    hospitals = [
        _hospital(settings, lists, k, np.random.default_rng(stream)) for k, stream in enumerate(own)
    ]
    return SyntheticNetwork(tuple(hospitals), settings.planted)


def _hospital(
    settings: SyntheticSettings, lists: Sequence[SyntheticCodes], k: int, rng: np.random.Generator
) -> SyntheticHospital:
    """One hospital: who has what, who comes when and for what, what is then recorded."""
    patients = settings.patients_per_hospital[k]
    prevalence = np.array([one.prevalence[k] for one in settings.planted], dtype=np.float64)
    draws = rng.random((patients, len(prevalence)))
    if settings.fixed_carriers:  # a rank among all patients instead of a coin for each
        draws = draws.argsort(axis=0).argsort(axis=0) / patients
    memberships = draws < prevalence
    visits = 1 + rng.poisson(_visit_rates(settings, patients, rng), size=patients)
    patient = np.repeat(np.arange(patients), visits)
    first = np.cumsum(visits) - visits
    reason = _visit_reasons(memberships, patient, rng)
    offsets = np.cumsum([0, *(len(one.codes) for one in lists)])
    keys = []
    for one, offset in zip(lists, offsets[:-1], strict=True):
        planted = _phenotype_events(settings.planted, one, reason, rng)
        noise = _background_events(settings, one, k, (patient, first), rng)
        keys += [visit * offsets[-1] + offset + code for visit, code in (planted, noise)]
    visit, code = np.divmod(np.unique(np.concatenate(keys)), offsets[-1])
    visit, code = as_recorded(settings, lists, k, (visit, code), rng)
    time = _times(settings, patient, first, visit, rng) if settings.with_times else None
    events = _event_table(lists, patient[visit], visit, code, time)
    return SyntheticHospital(settings.names[k], events, memberships)


def _visit_rates(
    settings: SyntheticSettings, patients: int, rng: np.random.Generator
) -> Floats | float:
    """Visits beyond the first to be expected of each patient; a few have most of them."""
    mean, spread = settings.visits_per_patient - 1, settings.heavy_tail
    return mean * rng.lognormal(-(spread**2) / 2, spread, size=patients) if spread else mean


def _visit_reasons(memberships: Booleans, patient: Integers, rng: np.random.Generator) -> Integers:
    """For every visit one of the patient's phenotypes, evenly; -1 where the patient has none."""
    counts = memberships.sum(axis=1)
    _, phenotypes = np.nonzero(memberships)
    starts = np.cumsum(counts) - counts
    pick = (rng.random(len(patient)) * counts[patient]).astype(np.int64)
    reason = np.full(len(patient), -1, dtype=np.int64)
    has = counts[patient] > 0
    reason[has] = phenotypes[(starts[patient] + pick)[has]]
    return reason


def _phenotype_events(
    planted: Sequence[PlantedPhenotype],
    codes: SyntheticCodes,
    reason: Integers,
    rng: np.random.Generator,
) -> tuple[Integers, Integers]:
    """Visit and code of what the phenotypes cause: a coin with bias w_p(code) each."""
    place = {code: j for j, code in enumerate(codes.codes)}
    visits, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for p, one in enumerate(planted):
        about = np.flatnonzero(reason == p)
        for code, weight in one.weights[codes.mode].items():
            recorded = about[rng.random(len(about)) < weight]
            visits.append(recorded)
            places.append(np.full(len(recorded), place[code], dtype=np.int64))
    return np.concatenate(visits), np.concatenate(places)


def _background_events(
    settings: SyntheticSettings,
    codes: SyntheticCodes,
    k: int,
    visits: tuple[Integers, Integers],
    rng: np.random.Generator,
) -> tuple[Integers, Integers]:
    """Visit and code of what has nothing to do with a phenotype, popular codes more often."""
    patient, first = visits
    counts = rng.poisson(settings.noise_per_visit, size=len(patient))
    # With one event of every mode in the first visit, nobody drops out of the tensor.
    counts[first] = np.maximum(counts[first], 1)
    visit = np.repeat(np.arange(len(patient)), counts)
    drawn = popular(codes, k, len(visit), rng)
    # Chronic patients bring the same codes again: without habits hardly a count would exceed 1.
    usual_count = max(1, round(settings.noise_per_visit))
    usual = popular(codes, k, len(first) * usual_count, rng)
    again = rng.random(len(visit)) < settings.noise_habit
    slot = patient[visit] * usual_count + rng.integers(usual_count, size=len(visit))
    return visit, np.where(again, usual[slot], drawn)


def _times(
    settings: SyntheticSettings,
    patient: Integers,
    first: Integers,
    visit: Integers,
    rng: np.random.Generator,
) -> npt.NDArray[np.datetime64]:
    """When each event happened: visits follow each other, events lie within their visit."""
    length = 60 * rng.exponential(settings.hours_per_visit, size=len(patient))
    wait = _MINUTES_PER_DAY * rng.exponential(90.0, size=len(patient))
    wait[first] = _MINUTES_PER_DAY * rng.uniform(0, 3 * 365, size=len(first))
    ends = np.cumsum(wait + length)
    start = ends - length
    before = (ends - wait - length)[first]
    start -= before[patient]
    minutes = start[visit] + rng.random(len(visit)) * length[visit]
    return (_OPENING + minutes.astype("timedelta64[m]")).astype("datetime64[us]")


def _event_table(
    lists: Sequence[SyntheticCodes],
    patient: Integers,
    visit: Integers,
    code: Integers,
    time: npt.NDArray[np.datetime64] | None,
) -> pa.Table:
    """The checked table; codes stay numbers until Arrow, which is what keeps it fast."""
    sizes = [len(one.codes) for one in lists]
    mode = np.repeat(np.arange(len(lists), dtype=np.int32), sizes)[code]
    names = [name for one in lists for name in one.codes]
    labels = [label_of(one.mode, name) for one in lists for name in one.codes]
    place = pa.array(code.astype(np.int32))
    return events_from_columns(
        patient,
        visit,
        pa.DictionaryArray.from_arrays(pa.array(mode), pa.array([one.mode for one in lists])),
        pa.DictionaryArray.from_arrays(place, pa.array(names)),
        label=pa.DictionaryArray.from_arrays(place, pa.array(labels)),
        time=None if time is None else pa.array(time),
    )
