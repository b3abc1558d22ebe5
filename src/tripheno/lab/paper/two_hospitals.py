"""Hospitals of different case mix: what they find together, pooled, and each alone.

Everybody has a tournament with the same number of starts: the federation's is decided by sums over
hospitals, a hospital's own by its own patients, the pooled model's by pooled patients. Nothing of
pooled data enters another model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from tripheno.evaluation.communication import seconds_at_15_mbps
from tripheno.evaluation.recovery import Recovered, recovery
from tripheno.lab.paper.ledger import Row
from tripheno.lab.paper.measuring import (
    ReferenceModel,
    about,
    compute_seconds,
    method_row,
    quietly,
)
from tripheno.lab.paper.plan import (
    CENTRAL,
    CORRECTED,
    EXACT,
    LOCAL,
    RELEASED,
    PaperSettings,
    usual_sums,
)
from tripheno.lab.synthetic.network import SyntheticNetwork
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Solution
from tripheno.study.makers import Maker
from tripheno.study.simulation import Federation, assemble, own_models
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import factor_match_score

HIDDEN = "Sickle cell / chronic pain crisis"


@dataclass(frozen=True)
class Discovery:
    """The models of one set of hospitals, on common axes."""

    federation: Federation
    together: Solution  # trip
    pooled: Solution
    own: Mapping[str, Solution]

    def recovered(self, network: SyntheticNetwork) -> dict[str, list[Recovered]]:
        """Model → for every planted phenotype the component most like it."""
        axes = self.federation.axes
        truth = {axis.mode: network.truth(axis.mode, tuple(axis.known.values())) for axis in axes}
        names = [phenotype.name for phenotype in network.planted]
        models = {"trip": self.together, "pooled": self.pooled, **self.own}
        return {name: recovery(names, truth, model.by_mode) for name, model in models.items()}


def only_together(found: Mapping[str, list[Recovered]], name: str = HIDDEN) -> bool:
    """Whether trip and pooled data have a planted phenotype and no hospital alone has it."""
    seen = {model: any(r.found for r in rows if r.name == name) for model, rows in found.items()}
    return seen.pop("trip") and seen.pop("pooled") and not any(seen.values())


def naming_settings(settings: PaperSettings, repeat: int) -> SolverSettings:
    """Phenotypes that are to be read are non-negative, and the best of several starts."""
    return SolverSettings(
        settings.rank,
        constraint="nonnegative",
        seed=settings.seed + repeat,
        max_iter=settings.max_iter,
        tol=settings.tol,
        starts=settings.starts,
        influence="none",
    )


def discover(
    tensors: Mapping[str, CountTensor], settings: PaperSettings, repeat: int
) -> tuple[Discovery, list[tuple[Row, dict[str, object]]]]:
    """Every model, and a row for each. A hospital's own model is the method `own`."""
    name, seed = settings.data, settings.seed + repeat
    federation = assemble(tensors, seed=seed)
    naming = naming_settings(settings, repeat)
    pooled, _ = quietly(federation.tensors, replace(naming, method="central"))
    reference = ReferenceModel(
        pooled.factors, pooled.rmse.nonzeros, compute_seconds(pooled), pooled.iterations,
        federation.nonzeros, len(federation.axes),
    )  # fmt: skip
    own = own_models(federation, naming)
    sums = Maker(usual_sums(len(tensors)), seed)
    together, (up, down) = quietly(federation.tensors, replace(naming, method="trip"), sums)
    alignment = federation.alignment_seconds
    blank = Row(name, "", "", repeat, 0.0, None, None, 0.0, 0.0, 0.0, 0, 0)
    row = partial(_row, blank, reference)
    rows: list[tuple[Row, dict[str, object]]] = [
        (row(CENTRAL, pooled, (reference.pooling_bytes(), 0)), about(pooled, tensors)),
        (row(CORRECTED, together, (up, down), alignment=alignment), about(together, tensors)),
    ]
    rows += [
        method_row(
            name,
            contender,
            repeat,
            federation.tensors,
            naming,
            reference=reference,
            sums=sums,
            alignment=alignment,
        )
        for contender in (EXACT, LOCAL, RELEASED)
    ]
    rows += [
        (row(("own", hospital), model, (0, 0)), about(model, {hospital: tensors[hospital]}))
        for hospital, model in own.items()
    ]
    return Discovery(federation, together, pooled, own), rows


def _row(
    blank: Row,
    reference: ReferenceModel,
    names: tuple[str, str | None],
    solution: Solution,
    sent: tuple[int, int],
    *,
    alignment: float = 0.0,
) -> Row:
    """A row of a model that is at hand. A hospital's own error is over its own nonzeros."""
    return replace(
        blank,
        method=names[0],
        variant=names[1] or "",
        rmse_nonzeros=solution.rmse.nonzeros,
        rmse_gap=(solution.rmse.nonzeros - reference.rmse) / reference.rmse,
        fms=factor_match_score(solution.factors, reference.factors),
        seconds_compute=compute_seconds(solution),
        seconds_communication=seconds_at_15_mbps(sum(sent)),
        seconds_alignment=alignment,
        bytes_up=sent[0],
        bytes_down=sent[1],
    )
