"""A study in one process whose only exchange is adding: the pure parts driven as a study would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from tripheno.solver import stacked, starts, stopping, tournament
from tripheno.solver.acceleration import Momentum, extrapolated, no_worse
from tripheno.solver.squared import SquaredLoss
from tripheno.solver.starts import Factors
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import unit_columns


@dataclass
class Adding:
    """Hospitals, what each resamples with, and the rounds and numbers they have sent."""

    tensors: Sequence[CountTensor]
    resampling: Sequence[np.ndarray | None] = ()  # patients × models, where models differ in it
    rounds: int = 0
    numbers: int = 0  # sent up by one hospital
    kkt: list[float] = field(default_factory=list)

    @property
    def squared_norm(self) -> float:
        return sum(tensor.squared_norm for tensor in self.tensors)

    def add(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        self.rounds, self.numbers = self.rounds + 1, self.numbers + parts[0].size
        return reduce(np.add, parts)

    def root(self, rank: int, seed: int) -> np.ndarray:
        omega = starts.sketch_matrix(self.tensors[0].axes, rank, seed)
        total = self.add([starts.sketch(tensor, omega) for tensor in self.tensors])
        return starts.nystrom(total, omega, rank)

    def iteration(
        self, models: Sequence[Factors]
    ) -> tuple[list[Factors], np.ndarray, list[np.ndarray]]:
        """Every mode of every model once: the new factors, Ψ and each column's cost of removal."""
        widths, norm, loss = stacked.widths_of(models), self.squared_norm, SquaredLoss()
        unit = stacked.unit_of(norm)
        resampling = self.resampling or [None] * len(self.tensors)
        patients = [stacked.fit_patients(t, models) for t in self.tensors]
        found = [tuple(model) for model in models]
        objectives, self.kkt = np.zeros(len(models)), [0.0] * len(models)
        costs: list[np.ndarray] = []
        for n in range(len(found[0])):
            parts = [
                stacked.normal_equations(t, found, p, n, resampling=w, unit=unit)
                for t, p, w in zip(self.tensors, patients, resampling, strict=True)
            ]
            flat = self.add([np.append(p.mttkrp.ravel(), p.patient_gram) for p in parts])
            size = parts[0].mttkrp.size
            product = flat[:size].reshape(parts[0].mttkrp.shape)
            total = stacked.StackedEquations(product, flat[size:])
            costs = []
            for s, sums in enumerate(loss.sums(total, widths, norm)):
                model = found[s]
                gradient, pull = loss.gradient(model, n, sums), loss.pull(model, n, sums)
                residual = stopping.kkt_residual(model[n], gradient, pull)
                self.kkt[s] = max(self.kkt[s], residual)
                factor = loss.step(model, n, sums)
                objectives[s] = loss.reached(model, n, sums, factor)
                costs.append(loss.removal_costs(model, n, sums, factor))
                column, lengths = unit_columns(factor)
                found[s] = (*model[:n], column, *model[n + 1 :])
                for own in patients:
                    own[s] = own[s] * lengths
        return found, objectives, costs

    def to_the_end(
        self, start: Factors, most: int = 200, allowed: stopping.Tolerances | None = None
    ) -> tuple[Momentum, stopping.Quiet]:
        """One model with extrapolation until it may say that it converged."""
        allowed = allowed or stopping.Tolerances()
        momentum, point, quiet = Momentum(start), start, stopping.Quiet()
        for _ in range(most):
            (found,), (objective,), _ = self.iteration([point])
            moved = stopping.movement(momentum.factors, found)
            accept = no_worse(objective, momentum.objective)
            if accept:
                quiet = quiet.after(objective, self.kkt, moved, allowed)
            momentum, point = extrapolated(momentum, found, objective, accept=accept)
            if quiet.converged:
                break
        return momentum, quiet

    def tournament(self, rank: int, seed: int, starts_: int = 16) -> tournament.Tournament:
        """The whole tournament, every hospital voting alike."""
        axes = self.tensors[0].axes
        match = tournament.opened(axes, self.root(rank, seed), rank, seed, starts_)
        while not match.over:
            found, objectives, costs = self.iteration(match.models)
            own = tournament.votes(match, objectives, costs)
            decision = tournament.decided(match, own, 1)
            match = tournament.after(match, found, objectives, decision)
        return match

    def fit(self, rank: int, seed: int, starts_: int = 16) -> tuple[Momentum, stopping.Quiet]:
        """The default: tournament, then the best to the end."""
        best = self.tournament(rank, seed, starts_).best
        return self.to_the_end(best.momentum.factors)
