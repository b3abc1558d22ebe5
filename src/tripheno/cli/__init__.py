"""Words → calls, no logic."""
