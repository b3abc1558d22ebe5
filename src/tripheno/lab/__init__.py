"""What is not a hospital's: the paper's experiments, benchmarks, attacks on ourselves, the demo."""
