"""What the seed paper printed, to stand beside what we measure.

Another machine, another program and, unless one has MIMIC-III, other data: to be quoted, not to be
divided by. The paper's figures over hospitals and skew print no numbers.
"""

from __future__ import annotations

from typing import NamedTuple


class SeedTensor(NamedTuple):
    """One of the paper's four MIMIC-III tensors: rank 10, three hospitals."""

    window: str
    nonzeros: int
    rmse_central: float
    rmse_trip: float
    rmse_local: float | None
    compute_central: int  # seconds, as all below
    compute_trip: int
    communication_central: float
    communication_trip: float
    alignment: float


SEED_TENSORS = (
    SeedTensor("3h", 15_000_000, 1.4404, 1.4409, 1.5957, 5_266, 3_152, 30.1, 100.7, 22.6),
    SeedTensor("6h", 25_000_000, 1.4947, 1.4955, 1.6867, 8_068, 4_183, 53.9, 100.7, 26.1),
    SeedTensor("1d", 40_000_000, 1.7903, 1.7913, 2.0037, 11_661, 5_796, 85.0, 100.7, 29.3),
    SeedTensor("7d", 50_000_000, 1.8479, 1.8482, None, 15_105, 7_125, 114.4, 100.7, 59.0),
)
SEED_WORST_GAP = 0.0006  # |TRIP − central| / central on MIMIC-III


class SeedModel(NamedTuple):
    """One column of the paper's last table (UCSD, two hospitals)."""

    name: str
    rmse: float
    compute: float
    communication: float
    alignment: float


SEED_UCSD = (
    SeedModel("TRIP", 1.2304, 446.5, 15.1196, 1.2052),
    SeedModel("UCSD1+UCSD2", 1.2327, 656.9, 3.4533, 0.0),
    SeedModel("UCSD1", 1.2267, 432.8, 0.0, 0.0),
    SeedModel("UCSD2", 1.1778, 314.6, 0.0, 0.0),
)

SEED_PHENOTYPES: dict[str, tuple[str, ...]] = {
    "TRIP": (
        "Coronary artery disease with diabetes & hypertension", "Diabetic with hypertension",
        "COPD exacerbation", "Constipation", "Cystic fibrosis with pancreatic involvement",
        "Decompensated cirrhosis", "Non-specific gastrointestinal complaints",
        "Cystic fibrosis with pulmonary exacerbation", "Sickle cell/chronic pain crisis",
        "Non-specific complaints",
    ),
    "UCSD1+UCSD2": (
        "Diabetic with hypertension", "Cystic fibrosis with pancreatic involvement",
        "Coronary artery disease with diabetes & hypertension", "Hypertension",
        "COPD exacerbation", "Constipation", "Decompensated cirrhosis", "Non-specific complaints",
        "Sickle cell/chronic pain crisis", "Neurogenic bladder with abdominal pain",
    ),
    "UCSD1": (
        "Diabetic with hypertension", "Coronary artery disease with diabetes & hypertension",
        "COPD exacerbation", "Decompensated cirrhosis", "Non-specific gastrointestinal complaints",
        "Non-specific complaints", "COPD w/o exacerbation", "Acute on chronic pain",
        "COPD with Pneumonia", "Anxiety with hypertension",
    ),
    "UCSD2": (
        "Cystic fibrosis with pancreatic involvement",
        "Cystic fibrosis with pulmonary exacerbation", "Neurogenic bladder with abdominal pain",
        "Non-specific gastrointestinal complaints", "Diabetes", "Constipation",
        "Anxiety with gastrointestinal complaints", "Cystic fibrosis with pneumonia",
        "Non-specific complaints", "Lymphoma",
    ),
}  # fmt: skip
