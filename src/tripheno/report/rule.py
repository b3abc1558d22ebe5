"""The rule by which a patient has a phenotype, in words: the page, cohorts and exports say it."""

from __future__ import annotations

from tripheno.evaluation.membership import ALPHA, LEAST_SHARE

RULE = (
    f"the phenotype fits the patient better than {100 * (1 - ALPHA):g} % of made-up twins (as many "
    f"codes, drawn by chance), and stands for at least {100 * LEAST_SHARE:g} % of all counts the "
    "model expects of the patient"
)
