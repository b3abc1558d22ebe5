"""Phenotypes that no longer change, and new patients scored on them at home."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tripheno.errors import UnknownCodes
from tripheno.solver.loss import Loss
from tripheno.tensor.count_tensor import CountTensor
from tripheno.vocabulary.axis import Axis


@dataclass(frozen=True)
class FrozenPhenotypes:
    """Released feature factors with their axes: all that scoring a patient needs."""

    axes: tuple[Axis, ...]
    factors: tuple[np.ndarray, ...]
    loss: Loss
    bias: tuple[np.ndarray, ...] | None = None

    @property
    def n_components(self) -> int:
        """R, without the bias."""
        return int(self.factors[0].shape[1])

    def memberships(self, tensor: CountTensor) -> np.ndarray:
        """Row by row the a_i for which Σ_r a_ir A⁽²⁾_r ∘ A⁽³⁾_r ∘ … fits O_i best by the loss.

        Needs no other patient and no other hospital. Codes the phenotypes lack are left out.
        """
        tensor = tensor.on_axes(self.axes)
        features = self.factors
        if self.bias is not None:
            pairs = zip(features, self.bias, strict=True)
            features = tuple(np.column_stack([factor, bias]) for factor, bias in pairs)
        (rows,) = self.loss.fit_patients(tensor, [features])
        return rows[:, : self.n_components]

    def unknown_codes(self, tensor: CountTensor) -> dict[str, tuple[int, int]]:
        """Per mode: codes of the tensor that these phenotypes cannot place, and codes in all.

        Raises :class:`UnknownCodes` when a mode has no code in common.
        """
        counted = {}
        for old, new in zip(tensor.axes, self.axes, strict=False):
            if old.codes is None or new.codes is None:
                continue
            unknown = len(set(old.codes) - set(new.codes))
            counted[old.mode] = (unknown, old.size)
            if unknown == old.size:
                raise UnknownCodes(
                    f"None of the {old.size:,} {old.mode} codes is known to these phenotypes",
                    fix="use the code system of the run, and the same roll-up",
                )
        return counted
