"""Does a phenotype come back from other starts and from other patients?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tripheno.solver.solution import Solution
from tripheno.tensor.factors import match_components


def matched(reference: Solution, others: Sequence[Solution]) -> np.ndarray:
    """Per component of the reference the mean factor match with its partners in the others."""
    rows = [match_components(reference.factors, other.factors).similarity for other in others]
    return np.asarray(np.mean(rows, axis=0))
