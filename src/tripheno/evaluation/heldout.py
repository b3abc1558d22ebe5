"""Does a model foretell counts it has not seen? And does it hold together as a model?

The mathematics and the messages are those of ``solver/diagnosis.py``; here the hospitals sit in one
process, and answer through the same sums as everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tripheno.exchange import Exchange, InProcessChannel, MakeSums, plain_sums
from tripheno.exchange.sums import Handler, Hospital, handler
from tripheno.solver import diagnosis
from tripheno.solver.diagnosis import AskCore, Foretell
from tripheno.tensor.count_tensor import CountTensor


def halves(
    tensors: Mapping[str, CountTensor], rng: np.random.Generator
) -> tuple[dict[str, CountTensor], dict[str, CountTensor]]:
    """Every hospital splits its own patients in two at random; no patient moves."""
    first, second = {}, {}
    for name, tensor in tensors.items():
        order = rng.permutation(tensor.patients)
        middle = tensor.patients // 2
        first[name] = tensor.select_patients(np.sort(order[:middle]))
        second[name] = tensor.select_patients(np.sort(order[middle:]))
    return first, second


def held_out_error(
    tensors: Mapping[str, CountTensor],
    features: Sequence[np.ndarray],
    rng: np.random.Generator,
    *,
    nonnegative: bool,
    sums: MakeSums = plain_sums,
) -> float:
    """How badly these hospitals' counts are foretold; each contributes two numbers twice."""

    def answer(tensor: CountTensor) -> Handler:
        return handler(Foretell, lambda asked: diagnosis.foretell(tensor, asked))

    exchange = _asked({name: {"foretell": answer(t)} for name, t in tensors.items()}, sums)
    return diagnosis.held_out_error(exchange, features, rng, nonnegative=nonnegative)


def core_consistency(
    tensors: Mapping[str, CountTensor],
    patient_factors: Mapping[str, np.ndarray],
    features: Sequence[np.ndarray],
    *,
    sums: MakeSums = plain_sums,
) -> float:
    """Core consistency over these hospitals: 100 for a perfect model of its rank."""

    def answer(tensor: CountTensor, rows: np.ndarray) -> Handler:
        return handler(AskCore, lambda asked: diagnosis.core_parts(tensor, rows, asked))

    handlers = {name: {"core": answer(t, patient_factors[name])} for name, t in tensors.items()}
    return diagnosis.core_consistency(_asked(handlers, sums), features)


def _asked(handlers: Mapping[str, dict[str, Handler]], sums: MakeSums) -> Exchange:
    """The hospitals at their desks, each question a run of its own under keys of its own."""
    own, server = sums(tuple(handlers))
    responders = {name: Hospital(name, own[name], h).respond for name, h in handlers.items()}
    return Exchange(InProcessChannel(responders), server)
