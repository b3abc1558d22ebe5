"""Words → calls, no logic."""

import os

# Loops over patients have threads of their own. A second one for products of small matrices only
# waits in a loop: it made a study of a million cells take three times the CPU. Before numpy loads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
