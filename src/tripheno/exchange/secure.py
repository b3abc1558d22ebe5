"""Secure sums: the server gets the sum of all hospitals' arrays and nothing else of them.

Every two hospitals share a secret (:mod:`tripheno.exchange.keys`). For each step both derive the
same stream of words from it; one adds the stream to its contribution, the other subtracts it. Each
contribution alone is then uniformly random to whoever lacks the secrets; in the sum of all of them
the streams cancel. Pure functions over bytes: no engine, no network.

A hospital whose numbers do not fit the scale says so *inside* the sum: it fills the lane with
random words and raises the lane's flag. The server learns how many hospitals need a wider scale,
not which, and repeats the step under new masks.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.poly1305 import Poly1305

from tripheno.errors import (
    BadMessage,
    BadSignature,
    CannotAgreeOnScale,
    MaskReuse,
    RunFailed,
    WrongStep,
)
from tripheno.exchange.channel import Channel
from tripheno.exchange.fixed_point import (
    NARROWEST,
    Layout,
    Scales,
    decode,
    encode,
    pack_plan,
    read_plan,
)
from tripheno.exchange.keys import (
    KEY_BYTES,
    Entropy,
    KeyDesk,
    Roster,
    bundle,
    check_announcement,
    expand,
    from_system,
    server_secret,
)
from tripheno.exchange.sums import Arrays, Ask, Sums

MAGIC = b"TRS1"
HEAD = struct.Struct("<4s32sH32s32sQ")  # magic, roster, hospital, step, layout, words
PROOF_BYTES = 16
MOST_RETRIES = 7
BLOCK_BYTES = 16
_FROM_ZERO = CTR(bytes(BLOCK_BYTES))
RETRY = re.compile(r"^(?P<step>.+)/retry(?P<number>[1-9][0-9]?)$")


@lru_cache(maxsize=8)
def _nothing(size: int) -> bytes:
    """Zeros to encrypt, the same for all hospitals of one process."""
    return bytes(size)


class Streams:
    """Streams of so many words, each made in the place of the last one.

    Fresh memory for every stream would take several times as long as the cipher itself.
    """

    def __init__(self, words: int) -> None:
        self._nothing = _nothing(8 * words)
        self._room = bytearray(8 * words + BLOCK_BYTES)  # the cipher asks for a block to spare
        self._words = np.frombuffer(self._room, dtype="<u8", count=words)

    def under(self, secret: bytes, info: bytes) -> np.ndarray:
        """AES-256-CTR under a key made for one step and used once, so the counter starts at 0."""
        cipher = Cipher(AES(expand(secret, info)), _FROM_ZERO).encryptor()
        cipher.update_into(self._nothing, self._room)
        return self._words


@dataclass(frozen=True)
class _Head:
    """What stands in clear before the masked words."""

    roster: bytes
    hospital: int
    step: bytes
    layout: bytes
    words: int

    def pack(self) -> bytes:
        return HEAD.pack(MAGIC, self.roster, self.hospital, self.step, self.layout, self.words)


def unwrapped(data: bytes, where: str) -> tuple[bytes, bytes]:
    """The plan and the broadcast that travel together."""
    if len(data) < 8:
        raise BadMessage("a broadcast that is cut short", where=where)
    length = int.from_bytes(data[:8], "little")
    if length > len(data) - 8:
        raise BadMessage("a plan that is cut short", where=where)
    return data[8 : 8 + length], data[8 + length :]


def masked_words(data: bytes) -> np.ndarray:
    """The words of a sealed contribution as they stand, masks and all."""
    return np.frombuffer(data[HEAD.size : -PROOF_BYTES], dtype="<u8")


def check_sealed(data: bytes, step: str, layout: Layout, where: str) -> None:
    """Whether bytes are a masked contribution to this step with these arrays, and nothing more.

    This looks at the outside alone: no key is needed, and nothing is unmasked.
    """
    expected = sealed_bytes(layout)
    if len(data) != expected:
        raise BadMessage(f"{len(data):,} bytes, not {expected:,}", where=where)
    magic, _, _, of_step, of_layout, count = HEAD.unpack_from(data)
    if magic != MAGIC:
        raise BadMessage("is no masked contribution", where=where)
    if of_step != _digest(step):
        raise WrongStep("made for another step", where=where)
    if of_layout != layout.digest or count != layout.words:
        raise BadMessage("the fields are not the protocol's", where=where)


def sealed_bytes(layout: Layout) -> int:
    """How many bytes a masked contribution has: it follows from names and shapes."""
    return HEAD.size + 8 * layout.words + PROOF_BYTES


def _proof(body: bytes, secret: bytes) -> bytes:
    """Who made a message, and that it is whole: Poly1305 under a key for its step alone.

    The key comes from the secret shared with the server and the step that the head names. A step
    has one message, so no key ever proves two.
    """
    return Poly1305.generate_tag(expand(secret, b"proof" + HEAD.unpack_from(body)[3]), body)


def _digest(step: str) -> bytes:
    return hashlib.sha256(step.encode()).digest()


class HospitalSums(Sums):
    """A hospital's half: it seals. The same step gives the same bytes, or is refused."""

    def __init__(self, desk: KeyDesk) -> None:
        self.desk, self.name, self.roster = desk, desk.name, desk.roster
        self._sealed: dict[str, bytes] = {}  # step → proof of the one message it may have
        self._last: tuple[str, Arrays] | None = None
        self._last_answer: tuple[str, bytes] | None = None
        self._retries = 0
        self._streams: dict[int, Streams] = {}  # by their words: a run has few lengths

    def answer_keys(self, step: str, data: bytes) -> bytes:
        """One round of the key agreement."""
        return self.desk.answer(step, data)

    def unwrap(self, data: bytes) -> tuple[bytes, bytes]:
        """The plan and the broadcast."""
        return unwrapped(data, self.name)

    def again(self, step: str, plan: bytes) -> bytes | None:
        """The last bytes for a repeated request; the last arrays anew on a wider scale."""
        if self._last_answer is not None and self._last_answer[0] == step:
            return self._last_answer[1]
        if step in self._sealed:
            raise WrongStep("this step is over", where=f"{self.name}, step {step[:80]}")
        asked = RETRY.match(step)
        if asked is None:
            return None
        number = int(asked["number"])
        if self._last is None or self._last[0] != asked["step"]:
            raise WrongStep("a step that was not asked for is repeated", where=self.name)
        if number != self._retries + 1 or number > MOST_RETRIES:
            raise WrongStep(f"repetition {number} is out of turn", where=self.name)
        sealed = self._seal(step, self._last[1], plan)
        self._retries = number
        return sealed

    def seal(self, hospital: str, step: str, arrays: Arrays, plan: bytes = b"") -> bytes:
        """The arrays as masked words, signed."""
        if hospital != self.name:
            raise BadMessage(f"'{hospital[:40]}' cannot seal for this hospital", where=self.name)
        sealed = self._seal(step, arrays, plan)
        self._last, self._retries = (step, arrays), 0
        return sealed

    def _seal(self, step: str, arrays: Arrays, plan: bytes) -> bytes:
        where = f"{self.name}, step {step[:80]}"
        if not self.desk.ready:
            raise BadMessage("a sum is asked for before keys were agreed on", where=where)
        _check_numbers(arrays, where)
        layout = Layout.of(arrays)
        words = self._words(layout, arrays, step, read_plan(plan, layout, self._size, where))
        body = self._head(step, layout).pack() + self._masked(words, step, layout).tobytes()
        proof = _proof(body, self.desk.server_secret)
        if self._sealed.setdefault(step, proof) != proof:
            raise MaskReuse("another contribution under the masks of this step", where=where)
        sealed = body + proof
        self._last_answer = (step, sealed)
        return sealed

    @property
    def _size(self) -> int:
        return len(self.roster.names)

    def _head(self, step: str, layout: Layout) -> _Head:
        index = self.roster.index(self.name)
        return _Head(self.roster.digest, index, _digest(step), layout.digest, layout.words)

    def _words(
        self, layout: Layout, arrays: Arrays, step: str, exponents: np.ndarray
    ) -> np.ndarray:
        """Numbers, overflow flags, and the 1 that proves a contribution; not masked yet."""
        numbers, overflow = encode(layout, layout.flat(arrays), exponents, self._size)
        if overflow.any():
            lost = overflow[layout.lane_of]
            noise = Streams(layout.size).under(self.desk.own_secret, self._info(step, layout))
            numbers = np.where(lost, noise, numbers)
        return np.concatenate([numbers, overflow.astype("<u8"), np.ones(1, dtype="<u8")])

    def _masked(self, words: np.ndarray, step: str, layout: Layout) -> np.ndarray:
        """Words + Σ_{j>i} stream(i,j) − Σ_{j<i} stream(i,j), modulo 2⁶⁴."""
        masked, own = words.copy(), self.roster.index(self.name)
        info = self._info(step, layout)
        if len(words) not in self._streams:
            self._streams[len(words)] = Streams(len(words))
        streams = self._streams[len(words)]
        for place, name in enumerate(self.roster.names):
            if place > own:
                masked += streams.under(self.desk.secrets[name], info)
            elif place < own:
                masked -= streams.under(self.desk.secrets[name], info)
        return masked

    def _info(self, step: str, layout: Layout) -> bytes:
        """Run | step | arrays: what one mask is good for."""
        return self.roster.digest + _digest(step) + layout.digest

    def total(self, step: str, sealed: Mapping[str, bytes], like: Arrays) -> Arrays:
        """A hospital adds nothing up."""
        del step, sealed, like
        raise RunFailed("a hospital cannot open a sum", where=self.name)


class ServerSums(Sums):
    """The server's half: it adds up masked words and reads the sum."""

    def __init__(self, roster: Roster, entropy: Entropy = from_system) -> None:
        self.roster, self.scales = roster, Scales(len(roster.names))
        self._private = X25519PrivateKey.from_private_bytes(entropy("x25519"))
        self.secrets: dict[str, bytes] = {}
        self.repeats = 0  # steps repeated on a wider scale so far
        self._agreed = False

    def agree(self, channel: Channel) -> None:
        """Carry the hospitals' keys to each other, once."""
        if self._agreed:
            return
        if set(channel.hospitals) != set(self.roster.names):
            raise BadMessage("the hospitals are not the roster's", where="key agreement")
        own = self._private.public_key().public_bytes_raw()
        announced = channel.round("keys/announce", own)
        for name, public in self.roster.members:
            check_announcement(announced[name], public, self.roster, own, name)
            key = announced[name][:KEY_BYTES]
            self.secrets[name] = server_secret(self._private, key, self.roster, name, name)
        confirmed = channel.round("keys/confirm", bundle(announced))
        channel.round("keys/agree", bundle(confirmed))
        self._agreed = True

    def wrap(self, plan: bytes, broadcast: bytes) -> bytes:
        """Length of the plan, plan, broadcast."""
        return len(plan).to_bytes(8, "little") + plan + broadcast

    def collect(self, step: str, like: Arrays, ask: Ask) -> Arrays:
        """Ask; where a contribution did not fit, ask again on a wider scale under new masks."""
        layout = Layout.of(like)
        exponents = self.scales.exponents(step, layout)
        failed = np.full(layout.lanes, NARROWEST)
        for attempt in range(MOST_RETRIES + 1):
            name = step if attempt == 0 else f"{step}/retry{attempt}"
            sealed = ask(name, pack_plan(layout, exponents))
            words = self._add_up(name, sealed, layout)
            overflow = words[layout.size : -1] > 0
            if not overflow.any():
                sums = decode(layout, words[: layout.size], exponents, len(self.roster.names))
                self.scales.learn(step, layout, exponents, layout.flat(sums), failed)
                return sums
            self.repeats += 1
            failed = np.where(overflow, exponents, failed)
            exponents = self.scales.widened(exponents, overflow, attempt)
        raise CannotAgreeOnScale("numbers too large to be added", where=f"step {step[:80]}")

    def total(self, step: str, sealed: Mapping[str, bytes], like: Arrays) -> Arrays:
        """One attempt on the first scale."""
        layout = Layout.of(like)
        words = self._add_up(step, sealed, layout)
        if words[layout.size : -1].any():
            raise CannotAgreeOnScale("a contribution does not fit", where=f"step {step[:80]}")
        exponents = read_plan(b"", layout, len(self.roster.names), where=step)
        return decode(layout, words[: layout.size], exponents, len(self.roster.names))

    def _add_up(self, step: str, sealed: Mapping[str, bytes], layout: Layout) -> np.ndarray:
        """Σ of the masked words, once each message has proved to be what it should be."""
        if set(sealed) != set(self.roster.names):
            raise BadMessage("the hospitals are not the roster's", where=f"step {step[:80]}")
        words = np.zeros(layout.words, dtype="<u8")
        for name in self.roster.names:
            words += self._open(sealed[name], name, step, layout)
        if int(words[-1]) != len(self.roster.names):
            raise BadMessage(
                "the sum does not hold one contribution of every hospital",
                where=f"step {step[:80]}",
                why="masks did not cancel",
            )
        if (words[layout.size : -1] > len(self.roster.names)).any():
            raise BadMessage("more overflow flags than hospitals", where=f"step {step[:80]}")
        return words

    def _open(self, data: bytes, name: str, step: str, layout: Layout) -> np.ndarray:
        """One hospital's masked words, or the reason why not."""
        where = f"{name}, step {step[:80]}"
        expected = sealed_bytes(layout)
        if len(data) != expected:
            fault = "truncated" if len(data) < expected else "oversized"
            raise BadMessage(f"{fault}: {len(data):,} bytes, not {expected:,}", where=where)
        body, proof = data[:-PROOF_BYTES], data[-PROOF_BYTES:]
        if not hmac.compare_digest(proof, _proof(body, self.secrets.get(name, b""))):
            raise BadSignature("was not made by this hospital, or was changed", where=where)
        magic, roster, hospital, of_step, of_layout, count = HEAD.unpack_from(body)
        if magic != MAGIC or roster != self.roster.digest:
            raise WrongStep("made for another run", where=where)
        if hospital != self.roster.index(name):
            raise WrongStep("made by another hospital", where=where)
        if of_step != _digest(step):
            raise WrongStep("made for another step", where=where, why="replayed or reordered")
        if of_layout != layout.digest or count != layout.words:
            raise BadMessage("the fields are not the protocol's", where=where)
        return np.frombuffer(body, dtype="<u8", offset=HEAD.size)

    def seal(self, hospital: str, step: str, arrays: Arrays, plan: bytes = b"") -> bytes:
        """The server contributes nothing."""
        del hospital, arrays, plan
        raise RunFailed("the server has nothing to contribute", where=step[:80])


def _check_numbers(arrays: Arrays, where: str) -> None:
    """Only finite doubles are added: anything else is a fault at this hospital."""
    for name, array in arrays.items():
        if array.dtype != np.dtype("<f8"):
            raise BadMessage(f"'{name[:40]}' is {array.dtype}, not float64", where=where)
        if not np.isfinite(array).all():
            raise BadMessage(f"'{name[:40]}' holds values that are not finite", where=where)
