"""Agree on the feature axes: which position of a mode means which code, at every hospital."""
