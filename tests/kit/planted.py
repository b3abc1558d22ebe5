"""Small federations with a known answer, for tests of the solvers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from tripheno.lab.synthetic.catalogue import (
    PHENOTYPE_NAMES,
    PlantedPhenotype,
    catalogue_weights,
)
from tripheno.lab.synthetic.network import SyntheticSettings, synthetic_network
from tripheno.tensor.count_tensor import CountTensor, pooled
from tripheno.vocabulary.alignment import align_plainly

RANK = 6
_CODES = {
    3: {"medication": 60, "diagnosis": 48},
    4: {"medication": 50, "diagnosis": 40, "procedure": 30},
}


@dataclass(frozen=True)
class Planted:
    """Three hospitals with another case mix each, on common axes, and what was planted."""

    hospitals: dict[str, CountTensor]
    factors: tuple[np.ndarray, ...]
    names: tuple[str, ...]

    @property
    def together(self) -> CountTensor:
        """All patients in one tensor."""
        return pooled(list(self.hospitals.values()))


@cache
def planted(seed: int, modes: int = 3) -> Planted:
    """Synthetic hospitals with six phenotypes; ``modes`` counts the patient mode."""
    codes = _CODES[modes]
    rng = np.random.default_rng(seed)
    phenotypes = tuple(
        PlantedPhenotype(name, catalogue_weights(name, tuple(codes)), _case_mix(rng))
        for name in PHENOTYPE_NAMES[:RANK]
    )
    settings = SyntheticSettings(
        patients_per_hospital=(300, 200, 200),
        codes_per_mode=codes,
        phenotypes=phenotypes,
        seed=seed,
    )
    network = synthetic_network(settings)
    tensors = {h.name: CountTensor.from_events(h.events) for h in network.hospitals}
    axes = align_plainly([tensor.axes for tensor in tensors.values()])
    truth = tuple(network.truth(axis.mode, tuple(axis.known.values())) for axis in axes)
    aligned = {name: tensor.on_axes(axes) for name, tensor in tensors.items()}
    return Planted(aligned, truth, tuple(PHENOTYPE_NAMES[:RANK]))


def _case_mix(rng: np.random.Generator) -> tuple[float, ...]:
    """Prevalence at three hospitals: common somewhere, rare elsewhere."""
    return tuple(float(share) for share in rng.permutation([0.3, 0.15, 0.05]))
