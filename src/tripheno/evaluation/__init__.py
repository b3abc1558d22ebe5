"""How good, how alike, how costly: errors, matching, recovery, and whole federations simulated."""
