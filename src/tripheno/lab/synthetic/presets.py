"""Synthetic networks for a purpose: the demonstration, and the sizes of the seed paper's data.

The background of each preset was calibrated by counting the cells of generated tables: they came
within about two in a hundred of the number aimed at, which another seed may shift a little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tripheno.errors import SettingsError
from tripheno.lab.synthetic.catalogue import (
    PHENOTYPE_NAMES,
    PlantedPhenotype,
    catalogue_weights,
)
from tripheno.lab.synthetic.network import SyntheticSettings

DEMO_RANK = 10

# Seven diseases are everywhere, two are strong at some hospitals, two are particular to each
# hospital. Each hospital therefore has ten phenotypes stronger than sickle cell (by 1.4), so the
# best model of rank ten of one hospital has no room for it; all together have only nine, and it is
# 2.1 times stronger than the next. What that gives for ten seeds: decision 7.
_DEMO_CASE_MIX: dict[str, tuple[float, ...]] = {
    "Diabetes with hypertension": (0.16, 0.13, 0.12),
    "Coronary artery disease": (0.13, 0.11, 0.11),
    "Heart failure": (0.13, 0.13, 0.13),
    "Depression and anxiety": (0.11, 0.12, 0.13),
    "Chronic kidney disease": (0.12, 0.12, 0.13),
    "COPD exacerbation": (0.13, 0.11, 0.12),
    "Sepsis with pneumonia": (0.10, 0.12, 0.12),
    "Cystic fibrosis with pancreatic involvement": (0.0, 0.0, 0.22),
    "Decompensated cirrhosis": (0.11, 0.10, 0.0),
    "Sickle cell / chronic pain crisis": (0.063, 0.069, 0.077),
    "Asthma": (0.078, 0.0, 0.0),
    "Hypothyroidism": (0.078, 0.0, 0.0),
    "Neurogenic bladder with abdominal pain": (0.0, 0.083, 0.0),
    "Non-specific gastrointestinal complaints": (0.0, 0.084, 0.0),
    "Lymphoma": (0.0, 0.0, 0.086),
    "Epilepsy": (0.0, 0.0, 0.099),
}

# Twelve diseases, from common to rare, some at one hospital alone; no two as strong.
_HARD_CASE_MIX: dict[str, tuple[float, ...]] = {
    "Diabetes with hypertension": (0.18, 0.15, 0.13),
    "Heart failure": (0.13, 0.15, 0.11),
    "COPD exacerbation": (0.14, 0.10, 0.12),
    "Chronic kidney disease": (0.10, 0.12, 0.12),
    "Depression and anxiety": (0.10, 0.09, 0.10),
    "Sepsis with pneumonia": (0.08, 0.09, 0.08),
    "Decompensated cirrhosis": (0.12, 0.06, 0.0),
    "Coronary artery disease": (0.05, 0.05, 0.06),
    "Cystic fibrosis with pancreatic involvement": (0.0, 0.0, 0.15),
    "Sickle cell / chronic pain crisis": (0.04, 0.04, 0.04),
    "Lymphoma": (0.02, 0.03, 0.02),
    "Epilepsy": (0.015, 0.01, 0.015),
}
# Codes that lakeside never writes down, though its patients have what they stand for.
_HARD_UNRECORDED = ("furosemide", "401.9", "metformin", "428.0")

# The two hospitals of the seed paper, after its table of phenotypes. Five diseases are everywhere,
# cirrhosis leads at the first and cystic fibrosis at the second; four more are particular to each.
# Every one of these stands, at its own hospital, before sickle cell, so the best model of rank ten
# of one hospital has no room for it; sickle cell, as strong at both, stands before all of them in
# the pool, where only seven are stronger (decision 70).
_UCSD_CASE_MIX: dict[str, tuple[float, ...]] = {
    "Diabetes with hypertension": (0.183, 0.137),
    "Coronary artery disease": (0.114, 0.091),
    "COPD exacerbation": (0.126, 0.117),
    "Non-specific gastrointestinal complaints": (0.1, 0.148),
    "Depression and anxiety": (0.105, 0.173),
    "Decompensated cirrhosis": (0.117, 0.0),
    "Cystic fibrosis with pancreatic involvement": (0.0, 0.161),
    "Sickle cell / chronic pain crisis": (0.05, 0.071),
    "Chronic kidney disease": (0.077, 0.0),
    "Hypothyroidism": (0.065, 0.0),
    "Epilepsy": (0.068, 0.0),
    "Sepsis with pneumonia": (0.064, 0.0),
    "Neurogenic bladder with abdominal pain": (0.0, 0.09),
    "Lymphoma": (0.0, 0.084),
    "Asthma": (0.0, 0.093),
    "Heart failure": (0.0, 0.109),
}

# Nonzero cells of the seed paper's four tensors, and the background that gives as many.
_SEED_NONZEROS = (15_000_000, 25_000_000, 40_000_000, 50_000_000)
_SEED_NOISE = (14.0, 20.0, 27.5, 32.0)
_SEED_PATIENTS = 38_035
# One population whose events, paired within 3 hours, 6 hours, 1 day and 7 days and capped at three,
# give about 16.5, 24, 39 and 50 million cells: the paper's four tensors, to a tenth.
_WINDOWS_NOISE, _WINDOWS_HOURS = 32.3, 74.0
_CODES_FOLLOW, _FEWEST_CODES = 0.4, 200  # codes ∝ scale^0.4, but room for those of phenotypes


def _planted(
    case_mix: Mapping[str, tuple[float, ...]], modes: tuple[str, ...]
) -> tuple[PlantedPhenotype, ...]:
    return tuple(
        PlantedPhenotype(name, catalogue_weights(name, modes), prevalence)
        for name, prevalence in case_mix.items()
    )


def demo_settings(seed: int = 0, *, with_times: bool = False) -> SyntheticSettings:
    """Three hospitals, 3,000 patients: cystic fibrosis at one, sickle cell hidden in all."""
    codes = {"medication": 120, "diagnosis": 96}
    return SyntheticSettings(
        patients_per_hospital=(1_100, 1_000, 900),
        codes_per_mode=codes,
        phenotypes=_planted(_DEMO_CASE_MIX, tuple(codes)),
        hospital_names=("northfield", "harbour", "lakeside"),
        noise_per_visit=1.0,  # more would drown the difference between finalists
        fixed_carriers=True,
        with_times=with_times,
        seed=seed,
    )


def planted_hard_settings(seed: int = 0, *, outpost: bool = False) -> SyntheticSettings:
    """The preset *planted-hard*: what real records do to a factorisation, with the truth known.

    Phenotypes share codes, a few patients have most visits, one event in twenty carries a wrong
    code, the background is loud, and one hospital never records four codes that the others use
    often. With ``outpost`` a fourth hospital records no diagnosis at all.
    """
    codes = {"medication": 120, "diagnosis": 96}
    extra = 1 if outpost else 0
    case_mix = {name: (*mix, *mix[:extra]) for name, mix in _HARD_CASE_MIX.items()}
    unrecorded = {"lakeside": _HARD_UNRECORDED, "outpost": ("diagnosis",)}
    names = ("northfield", "harbour", "lakeside", "outpost")[: 3 + extra]
    return SyntheticSettings(
        patients_per_hospital=(1_100, 1_000, 900, 200)[: 3 + extra],
        codes_per_mode=codes,
        phenotypes=_planted(case_mix, tuple(codes)),
        hospital_names=names,
        noise_per_visit=2.5,
        noise_habit=0.5,
        phenotype_overlap=0.4,
        heavy_tail=1.0,
        mislabelled=0.05,
        unrecorded={name: unrecorded[name] for name in names if name in unrecorded},
        seed=seed,
    )


def ucsd_settings(seed: int = 0) -> SyntheticSettings:
    """The size of the seed paper's UCSD data: 4,703 + 3,319 patients, 748 × 299, 1.6M cells."""
    codes = {"medication": 748, "diagnosis": 299}
    return SyntheticSettings(
        patients_per_hospital=(4_703, 3_319),
        codes_per_mode=codes,
        phenotypes=_planted(_UCSD_CASE_MIX, tuple(codes)),
        hospital_names=("ucsd1", "ucsd2"),
        visits_per_patient=5.0,
        noise_per_visit=5.9,
        noise_habit=0.6,
        popularity_exponent=0.9,
        seed=seed,
    )


def seed_paper_settings(
    nonzeros: int = 15_000_000, *, hospitals: int = 3, scale: float = 1.0, seed: int = 0
) -> SyntheticSettings:
    """The size of the seed paper's MIMIC-III data: 38,035 patients × 3,229 × 304 abnormal labs.

    ``nonzeros`` is 15, 25, 40 or 50 million or between them. As in the paper the hospitals are
    equal parts of one population. ``scale`` shrinks the number of patients, and the cells with it.
    """
    patients = round(_SEED_PATIENTS * scale)
    faults = []
    if not _SEED_NONZEROS[0] <= nonzeros <= _SEED_NONZEROS[-1]:
        faults.append(f"nonzeros must lie between 15 and 50 million, not {nonzeros:,}")
    if not 0 < scale <= 1:
        faults.append(f"scale must lie between 0 and 1, not {scale}")
    if not 1 <= hospitals <= max(patients, 1):
        faults.append(f"{patients:,} patients cannot be shared among {hospitals} hospitals")
    if faults:
        raise SettingsError("; ".join(faults), where="seed paper's data")
    codes = {"medication": 3_229, "lab": 304}
    case_mix = dict.fromkeys(PHENOTYPE_NAMES, (0.1,) * hospitals)
    return SyntheticSettings(
        patients_per_hospital=tuple((patients + k) // hospitals for k in range(hospitals)),
        codes_per_mode=codes,
        phenotypes=_planted(case_mix, tuple(codes)),
        visits_per_patient=5.0,
        noise_per_visit=float(np.interp(nonzeros, _SEED_NONZEROS, _SEED_NOISE)),
        noise_habit=0.9,
        popularity_exponent=0.9,
        code_overlap=1.0,
        seed=seed,
    )


def seed_windows_settings(*, scale: float = 1.0, seed: int = 0) -> SyntheticSettings:
    """One population with times, from which the windows make the seed paper's four tensors.

    Sliding windows of 3 hours to 7 days with a cap of three give the paper's numbers of nonzeros;
    medications × abnormal labs, 38,035 × 3,229 × 304. ``scale`` shrinks the number of patients and,
    more slowly, the list of medications: a code that hardly a patient has says nothing.
    """
    whole = seed_paper_settings(_SEED_NONZEROS[-1], hospitals=1, scale=scale, seed=seed)
    medications = round(whole.codes_per_mode["medication"] * scale**_CODES_FOLLOW)
    return replace(
        whole,
        codes_per_mode={**whole.codes_per_mode, "medication": max(medications, _FEWEST_CODES)},
        with_times=True,
        noise_per_visit=_WINDOWS_NOISE,
        hours_per_visit=_WINDOWS_HOURS,
    )
