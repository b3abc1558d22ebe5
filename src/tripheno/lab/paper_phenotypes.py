"""The seed paper's table of phenotypes: together, pooled, each hospital alone; and the hidden one.

Every repeat that is measured leaves its rows in ``phenotypes.csv`` and what was found in
``phenotypes-<repeat>.json``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tripheno.evaluation.origin import origins
from tripheno.evaluation.recovery import Recovered
from tripheno.lab.paper.ledger import RowFile, write_json
from tripheno.lab.paper.plan import PaperSettings
from tripheno.lab.paper.tensors import hospitals_of
from tripheno.lab.paper.two_hospitals import HIDDEN, Discovery, discover, only_together
from tripheno.lab.synthetic.network import SyntheticNetwork
from tripheno.report.models_table import models_table
from tripheno.report.phenotypes import phenotypes_of

Say = Callable[[str], None]


def run_phenotypes(folder: Path, settings: PaperSettings, say: Say) -> int:
    """Find, compare and keep the phenotypes of every repeat that is missing."""
    ledger = RowFile(folder, "phenotypes", settings.to_dict())
    missing = [
        repeat
        for repeat in settings.own_repeats
        if not (folder / f"phenotypes-{repeat}.json").is_file()
    ]
    for done, repeat in enumerate(missing):
        tensors, network = hospitals_of(settings, repeat)
        discovery, rows = discover(tensors, settings, repeat)
        for row, about in rows:
            if not ledger.has(row.x, row.method, row.variant, row.repeat):
                ledger.add(row, {**about, **settings.company})
        found = _found(discovery, network)
        write_json(folder / f"phenotypes-{repeat}.json", found)
        gap = next(row.rmse_gap for row, _ in rows if row.variant == "corrected")
        hidden = {True: ", hidden one found only together", False: ", hidden one not so", None: ""}
        say(
            f"[{done + 1}/{len(missing)}] phenotypes of {len(tensors)} hospitals, repeat {repeat}: "
            f"gap {100 * (gap or 0.0):+.4f} %{hidden[found['only_together']]}"
        )
    return len(missing)


def _found(discovery: Discovery, network: SyntheticNetwork | None) -> dict[str, Any]:
    """The table, where planted phenotypes are seen, and the phenotypes only seen together."""
    recovered = discovery.recovered(network) if network else None
    names = _planted_names(recovered)
    kinds = origins(discovery.together, discovery.own)
    shown = phenotypes_of(discovery.together, names.get("trip"))
    details = [
        {
            "number": phenotype.number,
            "title": phenotype.title,
            "similarity": origin.similarity,
            "codes": {
                mode: [{"name": code.name, "weight": round(code.weight, 3)} for code in ranked]
                for mode, ranked in phenotype.codes.items()
            },
        }
        for phenotype, origin in zip(shown, kinds, strict=True)
        if origin.kind == "together"
    ]
    return {
        "hospitals": {n: t.patients for n, t in discovery.federation.tensors.items()},
        "shape": list(discovery.together.shape),
        "nonzeros": discovery.federation.nonzeros,
        "table": models_table(
            discovery.together, discovery.pooled, discovery.own, discovery.federation.tensors
        ),
        "names": {model: {str(r): name for r, name in named.items()}
                  for model, named in names.items()},
        "planted": _where(recovered) if recovered else [],
        "only_together": only_together(recovered) if recovered else None,
        "hidden": HIDDEN if recovered else None,
        "details": details,
    }  # fmt: skip


def _planted_names(recovered: dict[str, list[Recovered]] | None) -> dict[str, dict[int, str]]:
    """Model → component → the planted phenotype it was recognised as."""
    return {
        model: {item.component: item.name for item in items if item.found}
        for model, items in (recovered or {}).items()
    }


def _where(recovered: dict[str, list[Recovered]]) -> list[dict[str, Any]]:
    first = next(iter(recovered.values()))
    return [
        {
            "name": item.name,
            "similarity": {model: round(items[i].similarity, 3)
                           for model, items in recovered.items()},
            "found": {model: items[i].found for model, items in recovered.items()},
        }
        for i, item in enumerate(first)
    ]  # fmt: skip
