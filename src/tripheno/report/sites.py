"""The hospitals of a simulation, from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tripheno.errors import EmptyTensor, SettingsError
from tripheno.evaluation.comparison import dealt
from tripheno.provenance import file_fingerprint
from tripheno.records.traits import read_traits
from tripheno.study.subgroups import Traits
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.parts import PatientParts
from tripheno.tensor.reading import read_tensor


class Sites(NamedTuple):
    """Tensors and fingerprints by hospital; traits of patients where every site has them."""

    tensors: dict[str, CountTensor]
    inputs: dict[str, str]
    traits: Traits | None
    left_out: dict[str, str]  # hospital → why it has no cell and takes no part


def read_sites(
    sites: Sequence[Path], hospitals: int | None, skew: float | None, seed: int
) -> Sites:
    """One hospital per file, or one file dealt to several.

    A hospital that records none of a mode has no cell: it is named, and takes no part.
    """
    if hospitals is not None and len(sites) != 1:
        raise SettingsError(
            f"--hospitals with {len(sites)} sites", fix="give one site to deal, or no --hospitals"
        )
    if len({site.resolve() for site in sites}) < len(sites):
        raise SettingsError("the same site twice", fix="name every hospital once")
    files = {
        name: site / "events.parquet" if site.is_dir() else site
        for name, site in zip(_names(sites), sites, strict=True)
    }
    read, left_out = {}, {}
    for name, site in zip(tuple(files), sites, strict=True):
        try:
            read[name] = read_tensor(site)
        except EmptyTensor as fault:
            if len(sites) == 1:
                raise
            left_out[name] = fault.what
            del files[name]
    if not read:
        raise EmptyTensor("No hospital has a cell", fix="check the modes and the records read")
    inputs = {name: file_fingerprint(file) for name, file in files.items()}
    if len(set(inputs.values())) < len(inputs):
        raise SettingsError("two sites have the same content", fix="name every hospital once")
    traits: Traits | None = None
    if all((file.parent / "local" / "attributes.parquet").is_file() for file in files.values()):
        traits = {
            name: read_traits(file.parent, tensor.patients)[np.diff(tensor.cells.starts) > 0]
            for (name, file), tensor in zip(files.items(), read.values(), strict=True)
        }
    tensors = {name: tensor.drop_unused() for name, tensor in read.items()}  # who take part
    if hospitals is not None:
        ((name, tensor),) = tensors.items()
        rows = dealt(tensor.patients, hospitals, skew, np.random.default_rng(seed))
        if isinstance(tensor.cells, PatientParts):  # read once, in their order
            rows = {one: np.sort(own) for one, own in rows.items()}
        tensors = {one: tensor.select_patients(own) for one, own in rows.items()}
        traits = None if traits is None else {one: traits[name][own] for one, own in rows.items()}
    return Sites(tensors, inputs, traits, left_out)


def _names(sites: Sequence[Path]) -> list[str]:
    """The last part of each path, numbered where two are the same."""
    names = [site.resolve().name.split(".")[0] for site in sites]
    if len(set(names)) == len(names):
        return names
    return [f"{name}-{k + 1}" for k, name in enumerate(names)]
