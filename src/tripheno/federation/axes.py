"""A hospital's own tensor on the way to the common axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tripheno.errors import BadMessage, BadShape
from tripheno.exchange.keys import KeyDesk
from tripheno.federation.keys import alignment_entropy
from tripheno.privacy.labels import Named
from tripheno.privacy.small_cells import people_per_code, restricted
from tripheno.protocol.agreed import Protocol
from tripheno.tensor.count_tensor import CountTensor
from tripheno.vocabulary.axis import Axis
from tripheno.vocabulary.hospital_key import HospitalKeyDesk
from tripheno.vocabulary.public_list import people_in_slots, slots
from tripheno.vocabulary.tokens import Places, TokenDesk

UNNAMED = "not known here"


class OwnAxes:
    """What one hospital knows of the axes: its own codes by name, the others by position."""

    def __init__(self, tensor: CountTensor, protocol: Protocol) -> None:
        self.tensor, self.protocol = tensor, protocol
        self._tokens: TokenDesk | None = None
        self._slots: dict[str, np.ndarray] = {}

    def take_keys(self, keys: KeyDesk) -> None:
        """The keys of this attempt."""
        desk = HospitalKeyDesk(keys, alignment_entropy(self.protocol, keys.name))
        self._tokens = TokenDesk(own_codes(self.tensor), desk)

    def answer(self, step: str, data: bytes) -> bytes:
        """A step of the key agreement or of the union of tokens."""
        desk = self._desk
        answer = desk.answer(step, data)
        if step == "tokens/places" and desk.places is not None:
            self.tensor = self.tensor.on_axes(_axes_of(self.tensor, desk.places))
        return answer

    @property
    def _desk(self) -> TokenDesk:
        if self._tokens is None:
            raise BadMessage("a step before the keys")
        return self._tokens

    def people_in_slots(self) -> list[np.ndarray]:
        """People per slot of the public lists, in an order that only hospitals know."""
        key = self._desk.desk.key
        if key is None:
            raise BadShape("there is no key to order the slots by", where=self._desk.name)
        people = people_per_code(self.tensor)
        found = []
        for mode in self.tensor.modes:
            codes = self._listed(mode)
            self._slots[mode] = slots(key, mode, codes)
            found.append(people_in_slots(people.get(mode, {}), codes, self._slots[mode]))
        return found

    def _listed(self, mode: str) -> tuple[str, ...]:
        return next(one.codes for one in self.protocol.lists if one.mode == mode)

    def keep(self, kept: Sequence[np.ndarray]) -> None:
        """Leave the positions that too few people have; the first time, take a list's slots."""
        if self._slots:
            axes = [
                _axis_of_slots(axis, self._listed(axis.mode), self._slots[axis.mode], keep)
                for axis, keep in zip(self.tensor.axes, kept, strict=True)
            ]
            self._slots = {}
            self.tensor = self.tensor.on_axes(axes)
            return
        sizes = [axis.size for axis in self.tensor.axes]
        if [len(keep) for keep in kept] != sizes:
            raise BadMessage("kept positions of other axes")
        self.tensor = restricted(self.tensor, [keep.astype(bool) for keep in kept])

    def take(self, axes: tuple[Axis, ...]) -> None:
        """The axes as they were frozen."""
        self.tensor = self.tensor.on_axes(axes)


def own_codes(tensor: CountTensor) -> dict[str, tuple[str, ...]]:
    """Mode → this hospital's codes."""
    return {axis.mode: axis.codes or () for axis in tensor.axes}


def _axes_of(tensor: CountTensor, places: Places) -> list[Axis]:
    """Common axes with this hospital's codes at their places; the others have no name here."""
    axes = []
    for axis in tensor.axes:
        size, positions = places.sizes[axis.mode], places.positions[axis.mode]
        codes = [_blank(position) for position in range(size)]
        for code, position in zip(axis.codes or (), positions, strict=True):
            codes[position] = code
        labels = {**dict.fromkeys(map(_blank, range(size)), UNNAMED), **axis.labels}
        axes.append(Axis(axis.mode, size, tuple(codes), labels))
    return axes


def known_codes(axes: Sequence[Axis]) -> dict[str, dict[int, str]]:
    """Mode → position → code, of the codes that have a name here."""
    return {
        axis.mode: {n: code for n, code in enumerate(axis.codes or ()) if code.strip()}
        for axis in axes
    }


def with_names(axes: Sequence[Axis], named: Named) -> tuple[Axis, ...]:
    """Axes with the names that hospitals released; what was named here keeps its name."""
    return tuple(_with_names(axis, named.get(axis.mode, {})) for axis in axes)


def _with_names(axis: Axis, named: Mapping[int, tuple[str, str]]) -> Axis:
    if not named:
        return axis
    codes = list(axis.codes or map(_blank, range(axis.size)))
    labels = {**dict.fromkeys(map(_blank, range(axis.size)), UNNAMED), **axis.labels}
    for position, (code, label) in named.items():
        if not codes[position].strip():
            codes[position] = code
            if label:
                labels[code] = label
    return Axis(axis.mode, axis.size, tuple(codes), labels)


def _blank(position: int) -> str:
    """A code without a name: white space, another one for every position."""
    return f"{position:b}".translate({ord("0"): " ", ord("1"): "\t"})


def _axis_of_slots(axis: Axis, listed: Sequence[str], place: np.ndarray, keep: np.ndarray) -> Axis:
    """The kept slots in their secret order, with the list's codes."""
    if len(keep) != len(listed):
        raise BadMessage("kept slots of another list")
    ordered = [listed[n] for n in np.argsort(place)]
    codes = tuple(code for code, stays in zip(ordered, keep.astype(bool), strict=True) if stays)
    return Axis(axis.mode, len(codes), codes, axis.labels)
