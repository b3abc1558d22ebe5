"""Phenotypes where people use them: ATLAS, FHIR, spreadsheets, data frames, a model card."""
