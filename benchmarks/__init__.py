"""Measurements that are not tests: ``make bench``."""
