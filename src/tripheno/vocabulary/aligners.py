"""The ways to agree on axes, behind one interface: codes in, each hospital's positions out.

Here whole federations in one process; the halves that run at a hospital and at the server stand in
:mod:`tripheno.vocabulary.tokens` and :mod:`tripheno.vocabulary.public_list`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from tripheno.errors import BadShape
from tripheno.exchange import Exchange, Guard, InProcessChannel, Responder, plain_sums
from tripheno.exchange.channel import open_door
from tripheno.exchange.keys import Entropy, from_seed, from_system
from tripheno.exchange.secure import HospitalSums, ServerSums
from tripheno.exchange.simulated import FEWEST, SecureSums
from tripheno.exchange.sums import Hospital
from tripheno.vocabulary.hospital_key import HospitalKeyDesk, agree_on_hospital_key
from tripheno.vocabulary.public_list import counting, kept_slots, people_in_slots, slots
from tripheno.vocabulary.tokens import Places, TokenDesk, places_by_hospital, unite_tokens

AlignKind = Literal["tokens", "vocabulary", "polynomial"]

People = dict[str, dict[str, int]]
"""Mode → code → how many people of one hospital have it."""


class Aligner(ABC):
    """Gives every hospital the positions of its own codes on common axes.

    A position of −1 means that the code is on no axis: too few people in the network have it.
    """

    def __init__(self, seed: int | None = None, guard: Guard = open_door) -> None:
        self.seed, self.guard = seed, guard

    @abstractmethod
    def align(self, hospitals: Mapping[str, People]) -> dict[str, Places]:
        """Hospital → its positions, in the order of its own codes, and the axes' sizes."""

    def _entropy(self, name: str) -> Entropy:
        return from_system if self.seed is None else from_seed(self.seed, f"alignment/{name}")

    def _desks(
        self, names: Sequence[str]
    ) -> tuple[dict[str, HospitalKeyDesk], dict[str, HospitalSums], ServerSums]:
        """Every hospital's keys, its half of secure sums, and the server's."""
        halves, server = SecureSums(self.seed, allow_two=True).halves(tuple(names))
        desks = {n: HospitalKeyDesk(half.desk, self._entropy(n)) for n, half in halves.items()}
        return desks, halves, server


class TokenAligner(Aligner):
    """By opaque tokens: for local or unlisted codes."""

    def align(self, hospitals: Mapping[str, People]) -> dict[str, Places]:
        """The union of all codes, shuffled."""
        keys, _, server = self._desks(list(hospitals))
        desks = {
            name: TokenDesk({mode: tuple(codes) for mode, codes in people.items()}, keys[name])
            for name, people in hospitals.items()
        }
        channel = InProcessChannel({n: self.guard(n, desk.answer) for n, desk in desks.items()})
        unite_tokens(channel, server, self._entropy("server")("shuffle"))
        return places_by_hospital(desks)


class VocabularyAligner(Aligner):
    """By secure counts over a public code list: for codes everybody knows."""

    def __init__(
        self,
        public: Mapping[str, Sequence[str]],
        seed: int | None = None,
        threshold: int = 1,
        guard: Guard = open_door,
    ) -> None:
        super().__init__(seed, guard)
        self.public, self.threshold = public, threshold

    def align(self, hospitals: Mapping[str, People]) -> dict[str, Places]:
        """The codes of the list that enough people in the network have."""
        keys, halves, server = self._desks(list(hospitals))
        talk = InProcessChannel({n: self.guard(n, desk.answer) for n, desk in keys.items()})
        server.agree(talk)
        agree_on_hospital_key(talk)
        where = {name: self._slots(keys[name]) for name in hospitals}
        exchange = self._exchange(hospitals, where, halves, server)
        sizes = [len(codes) for codes in self.public.values()]
        kept = dict(zip(self.public, kept_slots(exchange, sizes, self.threshold), strict=True))
        return {name: self._places(people, where[name], kept) for name, people in hospitals.items()}

    def _slots(self, desk: HospitalKeyDesk) -> dict[str, np.ndarray]:
        if desk.key is None:
            raise BadShape("there is no key to order the slots by", where=desk.name)
        return {mode: slots(desk.key, mode, codes) for mode, codes in self.public.items()}

    def _exchange(
        self,
        hospitals: Mapping[str, People],
        where: Mapping[str, Mapping[str, np.ndarray]],
        halves: Mapping[str, HospitalSums],
        server: ServerSums,
    ) -> Exchange:
        """Secure sums where they hide anything: from three hospitals on."""
        plain, plain_server = plain_sums(tuple(hospitals))
        secure = len(hospitals) >= FEWEST
        responders: dict[str, Responder] = {}
        for name, people in hospitals.items():
            counted = [
                people_in_slots(people.get(mode, {}), codes, where[name][mode])
                for mode, codes in self.public.items()
            ]
            half = halves[name] if secure else plain[name]
            desk = Hospital(name, half, {"people": counting(counted)})
            responders[name] = self.guard(name, desk.respond)
        return Exchange(InProcessChannel(responders), server if secure else plain_server)

    def _places(
        self, people: People, where: Mapping[str, np.ndarray], kept: Mapping[str, np.ndarray]
    ) -> Places:
        positions = {}
        for mode, codes in people.items():
            order = np.where(kept[mode], np.cumsum(kept[mode]) - 1, -1)
            slot_of = dict(zip(self.public[mode], where[mode], strict=True))
            positions[mode] = np.array([order[slot_of[code]] for code in codes], dtype=np.int64)
        return Places({mode: int(kept[mode].sum()) for mode in kept}, positions)
