"""Sums that a coordinator can neither read, steer nor change. The argument: `docs/sums.md`.

Two rounds agree on keys, which live in memory only: signed announcements with fresh keys, then a
share from everyone to everyone, of which the group key is made. A first sum of ones shows that all
have the same key. Then every contribution is x ‖ tag, under a mask with every other hospital, and
the first hospital's under a blind that all hospitals know: so the total is opaque to whoever adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from tripheno.errors import BadMessage, BadSignature, MaskReuse, UnknownMember, WrongStep
from tripheno.exchange import field
from tripheno.exchange.announcement import (
    Announcement,
    Kept,
    newest_kept_by_all,
    read_announcement,
)
from tripheno.exchange.keys import Entropy, Identity, check_signature, expand, extract
from tripheno.exchange.roster import Roster, digest_of
from tripheno.exchange.session import Session
from tripheno.exchange.signed import occasion_of, signed, verified

CONFIRM = "keys/confirm"
SHARE_BYTES = 32
_BOX_BYTES = SHARE_BYTES + 16  # a share under its seal
_ONCE = bytes(12)  # a box's key is made for one message, so the nonce may stand still
_END = b"sums 2 end"


class BlindSession(Session):
    """One hospital's keys and transcript in one epoch."""

    magic, tags = b"TRB2", 1

    def __init__(  # noqa: PLR0917
        self, name: str, identity: Identity, roster: Roster, run: str, epoch: int, entropy: Entropy
    ) -> None:
        super().__init__(name, roster.study, run, epoch, b"")
        if name not in roster.names or roster.key_of(name) != identity.public:
            raise UnknownMember("this hospital's key is not the roster's", where=name)
        self.roster, self._identity = roster, identity
        fresh = f"{run}/{epoch}/{name}"
        self._private = X25519PrivateKey.from_private_bytes(entropy(f"x25519/{fresh}"))
        self._share = entropy(f"share/{fresh}")
        self._announcement, self._shares, self._group = b"", b"", b""
        self._pairs: dict[str, bytes] = {}
        self._boxes: dict[tuple[str, str], bytes] = {}
        self.announced: dict[str, Announcement] = {}

    # ── keys ──────────────────────────────────────────────────────────────────────────────────

    def announce(
        self, snapshot: bytes, thresholds: Mapping[str, int], kept: Sequence[Kept]
    ) -> bytes:
        """What this hospital says first, signed; the same bytes when asked again."""
        self._check_alive()
        if not self._announcement:
            key = self._private.public_key().public_bytes_raw()
            said = (self.study, self.run, self.epoch, self.name, key, snapshot)
            own = Announcement(*said, dict(thresholds), tuple(kept))
            self._announcement = own.signed(self._identity)
        return self._announcement

    def meet(self, announcements: Mapping[str, bytes]) -> bytes:
        """Check everybody's announcement; this hospital's share for each peer, encrypted."""
        self._check_alive()
        everyone = [announcements.get(name, b"") for name in self.roster.names]
        if set(announcements) != set(self.roster.names):
            raise UnknownMember("the announcements are not the roster's", where=self.name)
        if not self._announcement or announcements[self.name] != self._announcement:
            raise BadSignature("this hospital's own announcement was exchanged", where=self.name)
        h = digest_of("sums2", *everyone)
        if self.announced and h != self._h:
            raise WrongStep("other announcements than before in one epoch", where=self.name)
        if not self.announced:
            announced = self._read(announcements)
            self._pairs = {name: self._pair(h, name, announced[name].key) for name in self._peers}
            self._h, self.announced = h, announced
            self._shares = b"".join(
                self.encrypt_to(name, "share", self._share) for name in self._peers
            )
        return self._shares

    def _read(self, announcements: Mapping[str, bytes]) -> dict[str, Announcement]:
        found = {
            name: read_announcement(announcements[name], name, self.roster, self.run, self.epoch)
            for name in self.roster.names
        }
        if len({one.key for one in found.values()}) < len(found):
            raise BadMessage("two hospitals announced one key", where=self.name)
        return found

    def _pair(self, h: bytes, peer: str, key: bytes) -> bytes:
        """The secret of two hospitals, in this epoch and after these announcements only."""
        try:
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(key))
        except ValueError:
            raise BadMessage("its key is degenerate", where=f"announcement of {peer}") from None
        first, second = sorted([self.name, peer])
        return expand(extract(h, shared), digest_of("pair", first.encode(), second.encode()))

    @property
    def resume(self) -> Kept | None:
        """The newest checkpoint that all announced: each computes it, nobody says it."""
        return newest_kept_by_all(self.announced) if self.announced else None

    def resume_at(self, t: int, h: bytes) -> None:
        """Go on from the checkpoint that all announced."""
        if (t, h) != self.resume:
            raise WrongStep("not the newest checkpoint that all kept", where=self.name)
        super().resume_at(t, h)

    def take_shares(self, shares: Mapping[str, bytes]) -> None:
        """Make the group key of everybody's shares; the transcript hangs on it from here on."""
        self._check_alive()
        if not self.announced or self._group:
            raise WrongStep("shares out of turn", where=self.name)
        if set(shares) != set(self.roster.names) or shares[self.name] != self._shares:
            self._break()
        try:
            found = {peer: self._read_share(peer, shares[peer]) for peer in self._peers}
        except BadSignature:
            self._break()
        found[self.name] = self._share
        sealed, opened = ([these[n] for n in self.roster.names] for these in (shares, found))
        self._group = digest_of("group", self._h, *sealed, *opened)

    def _read_share(self, sender: str, boxes: bytes) -> bytes:
        others = [name for name in self.roster.names if name != sender]
        start = others.index(self.name) * _BOX_BYTES
        if len(boxes) != len(others) * _BOX_BYTES:
            raise BadSignature("shares of the wrong length", where=sender)
        return self.decrypt_from(sender, "share", boxes[start : start + _BOX_BYTES])

    def confirm(self) -> bytes:
        """The first sum: a one from everybody, so that every hospital's tag is in it."""
        return self.seal(CONFIRM, np.ones(1, dtype="<i8"), b"", b"")

    def check_confirm(self, total: bytes) -> None:
        """All hospitals hold the same group key, or the epoch ends."""
        if int(self.open(total)[0]) != len(self.roster.names):
            self._break()

    def end(self) -> bytes:
        """A signature under everything this hospital was told, the last total included."""
        self._check_ready()
        return self._identity.sign(_END, self._h)

    def check_end(self, signatures: Mapping[str, bytes]) -> None:
        """All hospitals were told the same to the end: what they release is one result."""
        self._check_ready()
        if set(signatures) != set(self.roster.names):
            self._break()
        for member in self.roster.members:
            try:
                check_signature(member.public, _END, self._h, signatures[member.name], member.name)
            except BadSignature:
                self._break()

    def signed(self, label: str, data: bytes) -> bytes:
        """Something in clear, under this hospital's key, for this attempt alone."""
        self._check_ready()
        return signed(self._identity, self._occasion, label, data)

    def verified(self, peer: str, label: str, data: bytes) -> bytes:
        """What a peer signed in clear in this attempt, without its signature."""
        self._check_ready()
        where = f"{peer}, {label}"
        return verified(data, self.roster.key_of(peer), self._occasion, label, where)

    @property
    def _occasion(self) -> bytes:
        return occasion_of(self.study, self.run, self.epoch)

    # ── from one hospital to another ──────────────────────────────────────────────────────────

    def encrypt_to(self, peer: str, label: str, data: bytes) -> bytes:
        """A message that only this peer can read; one content for each peer and label."""
        self._check_alive()
        key = self._box_key(self.name, peer, label)
        content = digest_of("box", data)
        if self._boxes.setdefault((peer, label), content) != content:
            self._die()
            raise MaskReuse("a second content under one label", where=f"{self.name}, {label[:80]}")
        return ChaCha20Poly1305(key).encrypt(_ONCE, data, None)

    def decrypt_from(self, peer: str, label: str, data: bytes) -> bytes:
        """What a peer encrypted for this hospital under this label in this epoch."""
        self._check_alive()
        try:
            return ChaCha20Poly1305(self._box_key(peer, self.name, label)).decrypt(
                _ONCE, data, None
            )
        except InvalidTag:
            raise BadSignature(
                "it was not made by this hospital for this one", where=f"{peer}, {label[:80]}"
            ) from None

    def _box_key(self, sender: str, receiver: str, label: str) -> bytes:
        pair = self._pairs.get(receiver if sender == self.name else sender)
        if pair is None:
            raise WrongStep("there is no key with this hospital", where=self.name)
        return expand(pair, digest_of("box", *(s.encode() for s in (label, sender, receiver))))

    # ── sums ──────────────────────────────────────────────────────────────────────────────────

    @property
    def _peers(self) -> list[str]:
        return [name for name in self.roster.names if name != self.name]

    def _bind(self, name: bytes, layout: bytes, scales: bytes) -> bytes:
        """m, under the group key: nobody outside can try scales against a hash it has seen."""
        return expand(self._group, super()._bind(name, layout, scales))

    def _mask(self, numbers: np.ndarray, binding: bytes) -> np.ndarray:
        masks = {name: expand(pair, b"mask" + binding) for name, pair in self._pairs.items()}
        plus = [mask for name, mask in masks.items() if name > self.name]
        minus = [mask for name, mask in masks.items() if name < self.name]
        if self.name == self.roster.names[0]:
            plus.append(expand(self._group, b"blind" + binding))
        return field.sealed(numbers, expand(self._group, b"tag" + binding), plus, minus)

    def _unmask(self, words: np.ndarray, binding: bytes) -> np.ndarray | None:
        tag, blind = (expand(self._group, label + binding) for label in (b"tag", b"blind"))
        return field.opened(words, tag, blind)

    def _check_alive(self) -> None:
        super()._check_ready()

    def _check_ready(self) -> None:
        self._check_alive()
        if not self._group:
            raise WrongStep("a sum before keys were agreed on", where=self.name)

    def _die(self) -> None:
        super()._die()
        del self._private, self._share
        self._pairs, self._group = {}, b""
