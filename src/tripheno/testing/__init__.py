"""The test kit: contracts and helpers that only tests import."""
