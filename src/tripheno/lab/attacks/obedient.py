"""What a server got out of the first version's hospitals: they answered whatever it asked.

The baseline beside the lies to the real hospital code, where there is nothing to ask. The server
named the cap of the counts, the codes that stay and those to be named, vouched for members' keys,
could ask one step twice, and an audit log was believed under the keys that it names itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tripheno.errors import TriphenoError
from tripheno.exchange.fixed_point import Layout
from tripheno.exchange.keys import Identity
from tripheno.lab.attacks.finding import COORDINATOR, FIRST_VERSION, RECOVERED, Finding, Unit
from tripheno.lab.attacks.first_version import FirstVersion
from tripheno.privacy.audit import AuditLog, verify
from tripheno.tensor.count_tensor import CountTensor

FEW = 11
FULL = 1_000_000  # a cap that caps nothing


class Obedient(FirstVersion):
    """Hospitals that do what the server says, under the first version's masks."""

    def __init__(self, tensors: Mapping[str, CountTensor], seed: int) -> None:
        super().__init__(tuple(sorted(tensors)), seed)
        self.tensors = tensors

    def people(self, name: str, cap: int, kept: Sequence[np.ndarray]) -> np.ndarray:
        """Masked numbers of min(people, cap) at the positions that the server keeps."""
        counts = self.tensors[name].people_at_positions()
        counted = np.concatenate([n[keep] for n, keep in zip(counts, kept, strict=True)])
        arrays = {"people": np.minimum(counted, cap).astype(float)}
        return self.sealed(name, "people/0", arrays, self._wide(len(counted)))

    def counted_twice(self, name: str, kept: Sequence[np.ndarray]) -> np.ndarray:
        """One step under two caps: masks hang on the step alone, so the difference has none."""
        full, none = (self.people(name, cap, kept) for cap in (FULL, 0))
        layout = Layout.of({"people": np.zeros(len(full))})
        return self.read(layout, full - none, self._wide(len(full)))["people"]

    def among_made_up(self, name: str) -> np.ndarray:
        """One hospital among members that the server made up: it has their keys, they send 0."""
        study = FirstVersion((name, "made up 1", "made up 2"), self.seed)
        true = {"people": np.concatenate(self.tensors[name].people_at_positions())}
        nothing = {"people": np.zeros_like(true["people"])}
        scales = self._wide(len(true["people"]))
        words = [
            study.sealed(member, "people/0", true if member == name else nothing, scales)
            for member in study.hospitals
        ]
        return study.read(Layout.of(true), np.sum(words, axis=0, dtype="<u8"), scales)["people"]

    def set_back(self, name: str) -> np.ndarray:
        """A step answered again from an older snapshot, which one patient is not in yet."""
        whole, kept = (
            self.tensors[name],
            [np.ones(a.size, dtype=bool) for a in self.tensors[name].axes],
        )
        earlier = whole.select_patients(np.arange(whole.patients - 1))
        older = Obedient({**self.tensors, name: earlier}, self.seed)
        now, before = (one.people(name, FULL, kept) for one in (self, older))
        scales = self._wide(len(now))
        layout = Layout.of({"people": np.zeros(len(now))})
        return self.read(layout, now - before, scales)["people"]

    def names(self, name: str, mode: int, places: Sequence[int]) -> dict[int, str]:
        """The names of the hospital's codes at the positions it is asked about."""
        known = self.tensors[name].axes[mode].known
        return {place: known[place] for place in places if place in known}

    def _wide(self, size: int) -> np.ndarray:
        return np.full(Layout.of({"people": np.zeros(size)}).lanes, 30)


def asked(tensors: Mapping[str, CountTensor], seed: int) -> Iterator[Finding]:
    """Each question, and how much of one hospital the answers gave."""
    hospitals = Obedient(tensors, seed)
    everything = [np.ones(axis.size, dtype=bool) for axis in next(iter(tensors.values())).axes]
    errors, rare, named, codes = [], [], 0, 0
    alone, newest = [], []
    for name, tensor in tensors.items():
        true = np.concatenate(tensor.people_at_positions())
        seen = hospitals.counted_twice(name, everything)
        errors.append(float(np.abs(seen - true).max() / true.max()))
        alone.append(float(np.abs(hospitals.among_made_up(name) - true).max() / true.max()))
        last = tensor.select_patients(np.array([tensor.patients - 1])).people_at_positions()
        newest.append(np.array_equal(np.rint(hospitals.set_back(name)), np.concatenate(last)))
        few = (true > 0) & (true < FEW)
        rare.append(np.abs(seen - true)[few] < 0.5)
        for mode, axis in enumerate(tensor.axes):
            named += len(hospitals.names(name, mode, range(axis.size)))
            codes += len(axis.known)

    def found(attack: str, unit: Unit, value: float, succeeded: bool) -> Finding:
        return Finding(attack, COORDINATOR, FIRST_VERSION, unit, value, succeeded)

    yield found("one hospital's counts of codes, by a cap and a step asked twice", "error",
                max(errors), max(errors) < RECOVERED)  # fmt: skip
    small = float(np.mean(np.concatenate(rare))) if any(map(len, rare)) else 0.0
    yield found("counts of fewer than 11 people, by naming what stays", "share", small, small > 0)
    yield found("names of a hospital's codes, by asking for them", "share",
                named / max(codes, 1), named > 0)  # fmt: skip
    yield found("one hospital's counts of codes, among members that the server made up", "error",
                max(alone), max(alone) < RECOVERED)  # fmt: skip
    share = float(np.mean(newest))
    yield found("all codes of a new patient, by a step answered again from an older snapshot",
                "share", share, share > 0)  # fmt: skip
    believed = believes_a_forged_log(seed, pinned=False)
    yield found("a log rewritten under other keys that verifies", "share", float(believed),
                believed)  # fmt: skip


def believes_a_forged_log(seed: int, *, pinned: bool) -> bool:
    """Whether a log that somebody else wrote verifies: under its own first line, or agreed keys."""
    forger, true = (Identity.from_bytes(bytes([seed % 200 + n]) * 32) for n in (1, 2))
    forged = AuditLog("run-1", forger, forger)
    head = forged.close()
    agreed = {"keeper": true.fingerprint, "coordinator": true.fingerprint} if pinned else {}
    try:
        return verify(forged.text(), head, **agreed) == len(forged.lines)
    except TriphenoError:
        return False
