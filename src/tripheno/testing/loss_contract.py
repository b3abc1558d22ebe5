"""What every loss must keep. Inherit, and give ``loss``."""

from __future__ import annotations

import dataclasses

import numpy as np

from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import MessagePlan, Sizes, declaration_of
from tripheno.solver.loss import Loss, Sums
from tripheno.solver.stacked import unit_of, widths_of
from tripheno.solver.starts import Factors
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import unit_columns


def small_counts(seed: int = 0) -> CountTensor:
    """Twenty patients, a few phenotypes, some cells without a count."""
    rng = np.random.default_rng(seed)
    parts = [rng.gamma(0.6, 1.0, (size, 3)) for size in (20, 7, 6)]
    counts = rng.poisson(np.einsum("ar,br,cr->abc", *parts))
    cells = np.argwhere(counts)
    return CountTensor.from_cells(cells, counts[tuple(cells.T)], shape=counts.shape)


def added(parts: list[Contribution]) -> Contribution:
    """The only exchange."""
    names = [field.name for field in dataclasses.fields(parts[0])]
    return dataclasses.replace(
        parts[0], **{name: sum(getattr(part, name) for part in parts) for name in names}
    )


class LossContract:
    """Value, derivative, curvature, descent, and the sum over hospitals."""

    loss: Loss

    def begun(self) -> tuple[CountTensor, Factors, np.ndarray]:
        tensor = small_counts()
        rng = np.random.default_rng(1)
        factors = tuple(unit_columns(rng.random((axis.size, 3)))[0] for axis in tensor.axes)
        return tensor, factors, self.loss.fit_patients(tensor, [factors])[0]

    def sums(self, tensor: CountTensor, factors: Factors, patients: np.ndarray, n: int) -> Sums:
        null = self.loss.null(tensor)
        unit = unit_of(null)
        total = self.loss.contribution(tensor, [factors], [patients], n, unit=unit)
        return self.loss.sums(total, widths_of([factors]), null)[0]

    def values(
        self, tensor: CountTensor, factors: Factors, patients: np.ndarray, n: int, move: np.ndarray
    ) -> list[float]:
        found = []
        for sign in (1.0, 0.0, -1.0):
            moved = (*factors[:n], factors[n] + sign * move, *factors[n + 1 :])
            found.append(self.loss.value(moved, n, self.sums(tensor, moved, patients, n)))
        return found

    def test_gradient_and_curvature_are_the_numerical_ones(self) -> None:
        tensor, factors, patients = self.begun()
        rng = np.random.default_rng(2)
        tensor = tensor.with_weights(rng.random(tensor.patients) + 0.5)
        for n, factor in enumerate(factors):
            sums = self.sums(tensor, factors, patients, n)
            move = 1e-5 * rng.standard_normal(factor.shape)
            ahead, here, behind = self.values(tensor, factors, patients, n, move)
            slope = float((self.loss.gradient(factors, n, sums) * move).sum())
            assert abs((ahead - behind) / 2.0 - slope) <= 1e-5 * abs(slope) + 1e-9
            move *= 100.0
            ahead, here, behind = self.values(tensor, factors, patients, n, move)
            bend = self.loss.curvature(factors, n, sums, move)
            assert abs(ahead - 2.0 * here + behind - bend) <= 1e-4 * bend

    def test_steps_never_raise_the_loss_whatever_the_weights_are(self) -> None:
        tensor, factors, patients = self.begun()
        rng = np.random.default_rng(3)
        for weights in (None, 10.0 ** rng.uniform(-6, 0, tensor.patients)):
            weighted, last = tensor.with_weights(weights), np.inf
            for _ in range(8):
                for n in range(len(factors)):
                    sums = self.sums(weighted, factors, patients, n)
                    value = self.loss.value(factors, n, sums)
                    assert value <= last + 1e-9 * abs(value)
                    factor = self.loss.step(factors, n, sums)
                    last = self.loss.reached(factors, n, sums, factor)
                    assert last <= value + 1e-9 * abs(value)
                    factors = (*factors[:n], factor, *factors[n + 1 :])
                patients = self.loss.fit_patients(tensor, [factors], [patients])[0]

    def test_rows_do_not_depend_on_where_they_begin(self) -> None:
        tensor, factors, patients = self.begun()
        begun = np.random.default_rng(4).random(patients.shape) * patients.max()
        again = self.loss.fit_patients(tensor, [factors], [begun])[0]
        assert np.abs(again - patients).max() <= 1e-7 * patients.max()

    def test_hospitals_together_step_as_the_pooled_patients_do(self) -> None:
        tensor, factors, patients = self.begun()
        parts, null = np.array_split(np.arange(tensor.patients), 3), self.loss.null(tensor)
        for n in range(len(factors)):
            whole = self.loss.contribution(tensor, [factors], [patients], n, unit=unit_of(null))
            sent = [
                self.loss.contribution(
                    tensor.select_patients(own), [factors], [patients[own]], n, unit=unit_of(null)
                )
                for own in parts
            ]
            one, other = (
                self.loss.step(factors, n, self.loss.sums(total, widths_of([factors]), null)[0])
                for total in (whole, added(sent))
            )
            assert np.abs(one - other).max() <= 1e-9 * np.abs(one).max()

    def test_models_side_by_side_are_each_as_if_alone_and_resampled_by_its_own_weights(
        self,
    ) -> None:
        tensor, factors, patients = self.begun()
        wide = tuple(np.hstack([factor, factor[:, :1]]) for factor in factors)
        both = [factors, wide]
        rows = self.loss.fit_patients(tensor, both)
        weights = np.random.default_rng(5).exponential(size=(tensor.patients, 2))
        null = self.loss.null(tensor)
        total = self.loss.contribution(
            tensor, both, rows, 1, resampling=weights, unit=unit_of(null)
        )
        found = self.loss.sums(total, widths_of(both), null)
        for s in range(2):
            alone = self.sums(tensor.with_weights(weights[:, s]), both[s], rows[s], 1)
            for name in set(alone) - {"null"}:
                assert np.allclose(found[s][name], alone[name], rtol=1e-9)
        assert np.allclose(rows[0], patients, rtol=1e-9)

    def test_its_message_is_declared_and_has_the_shapes_it_says(self) -> None:
        tensor, factors, patients = self.begun()
        sent = self.loss.contribution(tensor, [factors], [patients], 1)
        declaration = declaration_of(sent)
        sizes = Sizes(tensor.shape[1:], 3, 3, (1, 3, 9))
        shapes = {name: array.shape for name, array in sent.arrays().items()}
        assert shapes == declaration.shapes(sizes, 1)
        plans = [
            MessagePlan(("a", "b"), 3, loss=loss, tournaments=1, stacks=((1, 3, 9),))
            for loss in ("squared", "poisson")
        ]
        assert sorted(declaration.times(plan) > 0 for plan in plans) == [False, True]

    def test_unseen_codes_are_predicted_better_by_the_right_model_than_by_none(self) -> None:
        tensor, factors, patients = self.begun()
        for _ in range(20):
            for n in range(len(factors)):
                factor = self.loss.step(factors, n, self.sums(tensor, factors, patients, n))
                column, lengths = unit_columns(factor)
                factors = (*factors[:n], column, *factors[n + 1 :])
                patients = patients * lengths
            patients = self.loss.fit_patients(tensor, [factors], [patients])[0]
        seen = np.arange(tensor.shape[-1]) % 2 == 0
        error, null = self.loss.held_out(tensor, factors, seen)
        assert 0.0 < error < null
