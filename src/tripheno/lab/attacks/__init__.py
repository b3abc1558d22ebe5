"""Attacks on ourselves: what a curious server or hospital gets out of what it saw."""
