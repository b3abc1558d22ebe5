"""Invented hospitals with planted phenotypes, for the demo, the paper and the benchmarks."""
