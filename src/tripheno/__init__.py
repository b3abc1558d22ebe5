"""Phenotypes from the combined patients of several hospitals; every patient row stays at home."""

__version__ = "0.1.0"
