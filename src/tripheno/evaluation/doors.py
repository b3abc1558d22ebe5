"""The doors of simulated hospitals: the same gate as a real one's, with a list from the settings.

A simulation has no officer who approved a manifest; what may leave follows from its own settings.
"""

from __future__ import annotations

from collections.abc import Mapping

from tripheno.exchange import Guard, MakeSums, plain_sums
from tripheno.exchange.channel import open_door
from tripheno.exchange.simulated import FEWEST, SumsKind
from tripheno.privacy.gate import Gate, Record
from tripheno.privacy.outgoing import Traffic
from tripheno.solver.settings import SolverSettings
from tripheno.tensor.count_tensor import CountTensor
from tripheno.vocabulary.aligners import AlignKind, People

NO_LIMIT = 2**62


def doors_of(
    hospitals: Mapping[str, Mapping[str, int]],
    traffic: Traffic,
    record: Record,
) -> Guard:
    """One gate for each hospital (name → its own codes by mode), which all write to one record."""
    gates = {
        name: Gate(
            name, traffic.messages(), traffic.most_codes, record,
            most_rounds=NO_LIMIT, most_bytes=NO_LIMIT, own_codes=own,
        )
        for name, own in hospitals.items()
    }  # fmt: skip
    return lambda name, respond: gates[name].guard(respond)


def solver_doors(
    tensors: Mapping[str, CountTensor], settings: SolverSettings, sums: SumsKind, record: Record
) -> Guard:
    """For a method's rounds, on axes that are agreed on."""
    axes = next(iter(tensors.values())).axes
    sizes = {axis.mode: axis.size for axis in axes}
    traffic = Traffic(tuple(sizes), sizes, settings, len(tensors), masked=sums == "secure")
    return doors_of(dict.fromkeys(tensors, sizes), traffic, record)


def alignment_doors(align: AlignKind, hospitals: Mapping[str, People], record: Record) -> Guard:
    """For agreeing on axes. The insecure one of the paper has no door: it shows its lists."""
    if align == "polynomial":
        return open_door
    own = {
        name: {mode: len(codes) for mode, codes in people.items()}
        for name, people in hospitals.items()
    }
    lists: dict[str, set[str]] = {}
    for people in hospitals.values():
        for mode, codes in people.items():
            lists.setdefault(mode, set()).update(codes)
    most = {mode: len(codes) for mode, codes in lists.items()}
    masked = len(hospitals) >= FEWEST
    traffic = Traffic(tuple(most), most, SolverSettings(), len(own), masked, align)
    return doors_of(own, traffic, record)


def counting_doors(
    hospitals: tuple[str, ...], make: MakeSums, record: Record, sizes: Mapping[str, int]
) -> Guard:
    """For counting the people behind each code."""
    masked = make is not plain_sums
    traffic = Traffic(
        tuple(sizes), sizes, SolverSettings(), len(hospitals), masked, count_people=True
    )
    return doors_of(dict.fromkeys(hospitals, sizes), traffic, record)
