"""Phenotypes a clinician can read: view model, run folder, offline page."""
