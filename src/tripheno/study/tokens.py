"""Common axes by tokens: every list passes every hospital, and the coordinator unites the ends.

A token is a code's point under the secret exponents of all hospitals
(:mod:`tripheno.vocabulary.secret_tokens`); this is the exchange around it. It is no sum, and is
named as such.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tripheno.errors import BadMessage
from tripheno.exchange.blind import BlindSession
from tripheno.exchange.communicator import Communicator, bundle, unbundled
from tripheno.exchange.keys import Entropy
from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import CODES, Declaration, MessagePlan, declared, register, shaped
from tripheno.study.axes import Tensors, placed
from tripheno.vocabulary.secret_tokens import (
    CURVE,
    PAD_TO,
    POINT_BYTES,
    Curve,
    OwnList,
    exponent_of,
    hops,
    own_list,
    pack,
    ranks,
    read,
    released,
)


def _by_tokens(plan: MessagePlan) -> int:
    return int(plan.alignment == "tokens")


def _list_bytes(_plan: MessagePlan, most: Mapping[str, int]) -> int:
    return sum(POINT_BYTES * (n + PAD_TO) + 128 for n in most.values())


PASSED = register(
    Declaration(
        "tokens-passed", "gather", "a code list as hidden points, encrypted for the next hospital",
        (), lambda plan: _by_tokens(plan) * plan.members, _list_bytes,
    )
)  # fmt: skip
TOKENS = register(
    Declaration(
        "tokens", "unite", "this hospital's codes of one mode as opaque tokens, sorted", (),
        lambda plan: _by_tokens(plan) * len(plan.modes), _list_bytes,
    )
)  # fmt: skip


@declared(
    "holders", "codes of every mode: 1 where this hospital sent a token, padding included",
    _by_tokens,
)  # fmt: skip
@dataclass(frozen=True)
class Holders(Contribution):
    """1 at every token of this hospital's own; a mode without codes is everybody's."""

    holders: tuple[np.ndarray, ...] = shaped(CODES)


Secrets = Callable[[str], bytes]
"""A hospital's secret, from which its exponent in the study follows: kept, and backed up."""


def by_tokens(
    federation: Communicator,
    tensors: Tensors,
    study: bytes,
    secrets: Secrets,
    entropy: Entropy,
    *,
    curve: Curve = CURVE,
) -> Tensors:
    """The members' tensors on the union of all codes, positions ranked by token."""
    own = {
        name: {
            axis.mode: own_list(
                study, axis.mode, tuple(axis.known.values()), _own(entropy, name), curve
            )
            for axis in tensor.axes
            if axis.codes is not None
        }
        for name, tensor in tensors.items()
    }
    modes = tuple(next(iter(own.values())))
    exponents = {name: exponent_of(secrets(name), study) for name in own}
    held = _passed_around(federation, own, exponents, curve)
    tokens = {
        name: {
            mode: own[name][mode].finished(
                read(held[name][mode], where=name), exponents[name], curve, where=name
            )
            for mode in modes
        }
        for name in own
    }
    sizes: dict[str, int] = {}
    known: dict[str, tuple[str, ...]] = {}
    positions: dict[str, dict[str, np.ndarray]] = {name: {} for name in own}
    places: dict[str, dict[str, np.ndarray]] = {name: {} for name in own}
    for mode in modes:

        def give(name: str, mode: str = mode) -> bytes:
            return released(tokens[name][mode])

        union = federation.unite(f"tokens/{mode}", TOKENS, give)
        _heard(federation, f"tokens/{mode}", union)
        known[mode] = tuple(token.hex() for token in read(union, where=mode))
        sizes[mode] = len(known[mode])
        for name in own:
            places[name][mode] = ranks(union, tokens[name][mode], where=name)
            place = dict(zip(own[name][mode].codes, places[name][mode], strict=True))
            axis = next(axis for axis in tensors[name].axes if axis.mode == mode)
            positions[name][mode] = np.array([place[code] for code in axis.codes or ()], dtype=int)
    found = {
        name: placed(tensor, sizes, positions[name], known) for name, tensor in tensors.items()
    }
    _check_holders(federation, found, places)
    return found


def _check_holders(
    federation: Communicator, tensors: Tensors, places: Mapping[str, Mapping[str, np.ndarray]]
) -> None:
    """Refuse a union with a token that no hospital sent: one was added, or changed on its way."""
    axes = next(iter(tensors.values())).axes
    federation.resize({axis.mode: axis.size for axis in axes})

    def holding(name: str) -> Holders:
        held = [np.full(axis.size, float(axis.mode not in places[name])) for axis in axes]
        for axis, ones in zip(axes, held, strict=True):
            ones[places[name].get(axis.mode, [])] = 1.0
        return Holders(tuple(held))

    total = federation.sum("holders", holding).value
    if any((holders < 0.5).any() for holders in total.holders):
        raise BadMessage("the union has a token that no hospital sent", where="tokens")


def _own(entropy: Entropy, name: str) -> Entropy:
    return lambda purpose: entropy(f"{name}/{purpose}")


def _passed_around(
    federation: Communicator,
    own: Mapping[str, Mapping[str, OwnList]],
    exponents: Mapping[str, int],
    curve: Curve,
) -> dict[str, dict[str, bytes]]:
    """Every list goes round the ring once; each hospital on the way hides it under its exponent."""
    names = federation.hospitals
    holding = {
        name: {mode: pack(one.points) for mode, one in lists.items()} for name, lists in own.items()
    }
    for stage, hop in enumerate(hops(names)):
        sender_of = {receiver: (owner, sender) for owner, sender, receiver in hop}
        receiver_of = {sender: receiver for _, sender, receiver in hop}
        step = f"tokens-passed/{stage}"

        sent = {
            name: _sealed(federation, name, receiver_of[name], step, bundle(lists))
            for name, lists in holding.items()
        }
        answers = federation.gather(step, PASSED, sent.__getitem__)
        _heard(federation, step, bundle(answers))
        arrived = {}
        for name in own:
            owner, sender = sender_of[name]
            data = _opened(federation, name, sender, step, answers[sender])
            lists = unbundled(data, tuple(next(iter(own.values()))), step)
            if owner != name:
                lists = {
                    mode: pack(
                        curve.hide(exponents[name], read(points, where=sender), where=sender)
                    )
                    for mode, points in lists.items()
                }
            arrived[name] = lists
        holding = arrived
    return holding


def _heard(federation: Communicator, step: str, data: bytes) -> None:
    """All hospitals were told the same here, or no sum fits any more."""
    for local in federation.local_hospitals.values():
        if local.session is not None:
            local.session.hear(step, data)


def _sealed(federation: Communicator, name: str, peer: str, step: str, data: bytes) -> bytes:
    session = federation.local_hospitals[name].session
    return session.encrypt_to(peer, step, data) if isinstance(session, BlindSession) else data


def _opened(federation: Communicator, name: str, peer: str, step: str, data: bytes) -> bytes:
    session = federation.local_hospitals[name].session
    if isinstance(session, BlindSession):
        return session.decrypt_from(peer, step, data)
    if len(federation.members) < federation.size:
        raise BadMessage("lists of codes travel under encryption only", where=name)
    return data
