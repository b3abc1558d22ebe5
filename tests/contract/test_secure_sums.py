"""Secure sums keep the contract of all sums; and refuse what they must."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tripheno.errors import BadMessage, BadSignature, MaskReuse, TooFewHospitals, WrongStep
from tripheno.exchange import InProcessChannel
from tripheno.exchange.fixed_point import NARROWEST, Layout, Scales, pack_plan
from tripheno.exchange.secure import HEAD, MOST_RETRIES, PROOF_BYTES
from tripheno.exchange.simulated import SecureSums, sums_for
from tripheno.testing.sums_contract import HOSPITALS, STEP, SumsContract, part, zeros


def agreed(hospitals=HOSPITALS, seed=0, **options):
    """Both halves after the key agreement."""
    halves, server = SecureSums(seed, **options)(tuple(hospitals))
    server.agree(InProcessChannel({name: half.answer_keys for name, half in halves.items()}))
    return halves, server


class TestSecureSums(SumsContract):
    def make_sums(self, hospitals):
        return agreed(hospitals, allow_two=True)


SERVER = bytes(31) + b"\x09"  # any public key
LIKE = {"row": np.zeros(6)}
SMALL = {name: {"row": np.arange(6.0) + k} for k, name in enumerate(HOSPITALS)}


def sealed_by(halves, parts=SMALL, step=STEP):
    return {name: half.seal(name, step, parts[name]) for name, half in halves.items()}


def test_hospitals_on_seeded_keys_are_repeatable_and_on_the_systems_are_not():
    first, second = (sealed_by(agreed(seed=4)[0]) for _ in range(2))
    assert first == second
    third, fourth = (sealed_by(agreed(seed=None)[0]) for _ in range(2))
    assert all(third[name] != fourth[name] for name in HOSPITALS)


def test_every_run_of_one_maker_has_its_own_masks():
    make = SecureSums(7)
    streams = []
    for _ in range(2):
        halves, server = make(HOSPITALS)
        server.agree(InProcessChannel({name: half.answer_keys for name, half in halves.items()}))
        streams.append(sealed_by(halves)["harbour"][HEAD.size : -PROOF_BYTES])
    assert streams[0] != streams[1]


@pytest.mark.parametrize("size", [1, 2])
def test_fewer_than_three_hospitals_are_refused_with_the_plain_reason(size):
    with pytest.raises(TooFewHospitals, match="each sees the other's contribution"):
        SecureSums(0)(HOSPITALS[:size])


def test_a_simulation_is_secure_from_three_hospitals_on_unless_told_otherwise():
    kinds = [sums_for(None, size, 0)[0] for size in (1, 2, 3, 50)]
    assert kinds == ["plain", "plain", "secure", "secure"]
    assert sums_for("plain", 5, 0)[0] == "plain"
    with pytest.raises(TooFewHospitals):
        sums_for("secure", 2, 0)


def test_the_same_step_gives_the_same_bytes():
    halves, _ = agreed()
    assert sealed_by(halves) == sealed_by(halves)
    assert halves["harbour"].again(STEP, b"") == sealed_by(halves)["harbour"]


def test_another_contribution_under_the_masks_of_a_step_is_refused():
    halves, _ = agreed()
    halves["harbour"].seal("harbour", STEP, SMALL["harbour"])
    with pytest.raises(MaskReuse, match="harbour"):
        halves["harbour"].seal("harbour", STEP, SMALL["lakeside"])


def test_the_same_numbers_on_another_scale_are_another_contribution():
    halves, _ = agreed()
    layout = Layout.of(LIKE)
    halves["harbour"].seal("harbour", STEP, SMALL["harbour"])
    plan = pack_plan(layout, np.full(layout.lanes, 30))
    with pytest.raises(MaskReuse):
        halves["harbour"].seal("harbour", STEP, SMALL["harbour"], plan)


def test_a_step_that_is_over_is_not_taken_again():
    halves, _ = agreed()
    for step in ("iterate/1", "iterate/2"):
        sealed_by(halves, step=step)
    with pytest.raises(WrongStep, match="this step is over"):
        halves["harbour"].again("iterate/1", b"")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("iterate/9/retry1", "not asked for"),
        (f"{STEP}/retry2", "out of turn"),
        (f"{STEP}/retry{MOST_RETRIES + 1}", "out of turn"),
    ],
)
def test_a_repetition_out_of_turn_is_refused(asked, reason):
    halves, _ = agreed()
    sealed_by(halves)
    with pytest.raises(WrongStep, match=reason):
        halves["harbour"].again(asked, b"")


def test_no_sum_before_keys_are_agreed_on():
    halves, _ = SecureSums(0)(HOSPITALS)
    with pytest.raises(BadMessage, match="before keys were agreed on"):
        halves["harbour"].seal("harbour", STEP, SMALL["harbour"])


# ── at the server ────────────────────────────────────────────────────────────────────────────


def flipped(data, place):
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def test_any_single_changed_byte_is_refused():
    halves, server = agreed()
    sealed = sealed_by(halves)
    for place in range(len(sealed["harbour"])):
        with pytest.raises(BadSignature, match="harbour"):
            server.total(STEP, {**sealed, "harbour": flipped(sealed["harbour"], place)}, LIKE)


def test_a_message_of_an_earlier_step_is_refused_as_replayed():
    halves, server = agreed()
    old, new = sealed_by(halves, step="iterate/1/0"), sealed_by(halves, step="iterate/2/0")
    with pytest.raises(WrongStep, match=r"another step.*replayed"):
        server.total("iterate/2/0", {**new, "harbour": old["harbour"]}, LIKE)


def test_messages_in_each_others_place_are_refused():
    halves, server = agreed()
    sealed = sealed_by(halves)
    turned = {**sealed, "harbour": sealed["lakeside"], "lakeside": sealed["harbour"]}
    with pytest.raises(BadSignature):
        server.total(STEP, turned, LIKE)


def test_a_message_of_another_run_is_refused():
    make = SecureSums(0)
    runs = []
    for _ in range(2):
        halves, server = make(HOSPITALS)
        server.agree(InProcessChannel({name: half.answer_keys for name, half in halves.items()}))
        runs.append((sealed_by(halves), server))
    with pytest.raises(BadMessage, match="harbour"):
        runs[1][1].total(STEP, {**runs[1][0], "harbour": runs[0][0]["harbour"]}, LIKE)


@pytest.mark.parametrize("extra", [1, 8, 100_000])
def test_an_oversized_message_is_refused(extra):
    halves, server = agreed()
    sealed = sealed_by(halves)
    with pytest.raises(BadMessage, match="oversized"):
        server.total(STEP, {**sealed, "harbour": sealed["harbour"] + bytes(extra)}, LIKE)


def test_a_missing_or_an_unknown_hospital_is_refused():
    halves, server = agreed()
    sealed = sealed_by(halves)
    with pytest.raises(BadMessage, match="not the roster's"):
        server.total(STEP, {n: d for n, d in sealed.items() if n != "harbour"}, LIKE)
    with pytest.raises(BadMessage, match="not the roster's"):
        server.total(STEP, {**sealed, "stranger": sealed["harbour"]}, LIKE)


def test_hospitals_that_took_different_steps_do_not_add_up():
    """Signed messages of one step whose masks do not cancel are no sum."""
    halves, server = agreed()
    sealed = sealed_by(halves)
    key = halves["harbour"].desk.secrets
    halves["harbour"].desk.secrets = {name: bytes(32) for name in key}
    halves["harbour"]._sealed.clear()
    sealed["harbour"] = halves["harbour"].seal("harbour", STEP, SMALL["harbour"])
    with pytest.raises(BadMessage, match=r"masks did not cancel|more overflow"):
        server.total(STEP, sealed, LIKE)


# ── scales ───────────────────────────────────────────────────────────────────────────────────


def collected(halves, server, parts, step):
    asked = []

    def ask(name, plan):
        asked.append(name)
        return {
            h: half.again(name, plan) or half.seal(h, name, parts[h], plan)
            for h, half in halves.items()
        }

    like = {name: np.zeros_like(array) for name, array in next(iter(parts.values())).items()}
    return server.collect(step, like, ask), asked


@pytest.mark.parametrize("size", [1e-25, 1e-15, 1.0, 1e9, 1e30, 1e120])
def test_numbers_of_any_size_keep_their_digits_once_their_size_is_known(size):
    rng = np.random.default_rng(0)
    halves, server = agreed()
    for n in range(9):
        parts = {name: {"m": size * rng.normal(size=(100, 4))} for name in HOSPITALS}
        total, asked = collected(halves, server, parts, f"iterate/{n}/0")
    expected = sum(arrays["m"] for arrays in parts.values())
    assert np.abs(total["m"] - expected).max() <= 1e-13 * np.abs(expected).max()
    assert asked == ["iterate/8/0"]


def test_a_small_number_beside_a_large_one_keeps_its_digits():
    halves, server = agreed()
    parts = {name: {"review": np.array([3e12, 7e-9])} for name in HOSPITALS}
    for n in range(2):
        total, _ = collected(halves, server, parts, f"iterate/{n}/0")
    assert total["review"] == pytest.approx([9e12, 2.1e-8], rel=1e-12)


def test_contributions_that_cancel_find_a_scale_and_keep_it():
    halves, server = agreed()
    big = {"northfield": 1e12, "harbour": -1e12, "lakeside": 1e-3}
    repeats = []
    for n in range(9):
        parts = {name: {"x": np.array([value])} for name, value in big.items()}
        total, asked = collected(halves, server, parts, f"iterate/{n}/0")
        assert total["x"][0] == pytest.approx(1e-3, abs=1e-3)
        repeats.append(len(asked) - 1)
    assert repeats[0] > 0
    assert repeats[-3:] == [0, 0, 0]


def test_a_hospital_that_does_not_fit_is_not_told_from_the_others():
    """The overflowing lane is noise for everybody, and the flag is counted, not attributed."""
    halves, server = agreed()
    parts = {name: {"x": np.array([1.0, 2.0])} for name in HOSPITALS}
    parts["harbour"] = {"x": np.array([1.0, 1e12])}
    seen = []

    def ask(name, plan):
        sealed = {
            h: half.again(name, plan) or half.seal(h, name, parts[h], plan)
            for h, half in halves.items()
        }
        seen.append({len(data) for data in sealed.values()})
        first = np.sum(
            [np.frombuffer(d[HEAD.size : -PROOF_BYTES], "<u8") for d in sealed.values()], axis=0
        )
        seen[-1] = (seen[-1], first)
        return sealed

    total = server.collect("ask/1", {"x": np.zeros(2)}, ask)
    assert total["x"] == pytest.approx([3.0, 1e12 + 4.0])
    (lengths, words), *_ = seen
    assert len(lengths) == 1
    assert list(words[2:]) == [0, 1, 3]  # one flag in the second lane, three contributions
    partial = {round(v * 2.0**40) for v in (2.0, 4.0, 1e12, 0.0)}
    assert int(words[1]) not in partial


def test_numbers_too_large_for_any_scale_are_refused_and_never_clipped():
    halves, server = agreed()
    parts = {name: {"x": np.array([1.7e308])} for name in HOSPITALS}
    with pytest.raises(BadMessage, match="too large"):
        collected(halves, server, parts, "ask/1")


def test_scales_follow_the_same_step_of_the_last_iteration():
    layout = Layout.of({"x": np.zeros(1)})
    scales, never = Scales(3), np.array([NARROWEST])
    scales.learn("iterate/1/0", layout, np.array([20]), np.array([1e9]), never)
    scales.learn("iterate/1/1", layout, np.array([20]), np.array([1e-9]), never)
    assert scales.exponents("iterate/2/0", layout)[0] == 30 + 6
    assert scales.exponents("iterate/2/1", layout)[0] == -29 + 6


def test_scales_follow_the_last_step_on_the_mode_too():
    layout = Layout.of({"x": np.zeros(1)})
    scales, never = Scales(3), np.array([NARROWEST])
    for step, total in (("iterate/1/0/1", 1.0), ("iterate/2/0/0", 1e9), ("iterate/2/1/0", 1e12)):
        scales.learn(step, layout, np.array([60]), np.array([total]), never)
    assert scales.exponents("iterate/2/0/1", layout)[0] == 30 + 6
    assert scales.exponents("iterate/3/0/1", layout)[0] == 30 + 6
    assert scales.exponents("iterate/3/1/1", layout)[0] == 40 + 6


def test_a_sum_that_passes_zero_finds_its_scale_nearly_as_wide():
    layout = Layout.of({"x": np.zeros(1)})
    scales, never = Scales(3), np.array([NARROWEST])
    for iteration, total in ((1, 1e9), (2, 1e-9), (3, 1e-9)):
        scales.learn(f"iterate/{iteration}/0", layout, np.array([36]), np.array([total]), never)
    assert scales.exponents("iterate/4/0", layout)[0] == 30 + 6 - 2
    restored = Scales(3)
    restored.take(scales.to_arrays())
    for known in (scales, restored):
        known.learn("iterate/4/0", layout, np.array([34]), np.array([0.0]), never)
        assert known.exponents("iterate/5/0", layout)[0] == 30 + 6 - 3
        assert known.exponents("iterate/5/0", layout).dtype == np.dtype("<i2")


# ── keys ─────────────────────────────────────────────────────────────────────────────────────


def test_every_two_hospitals_share_a_secret_of_their_own():
    halves, _ = agreed()
    found = {}
    for a, b in itertools.permutations(HOSPITALS, 2):
        found[frozenset((a, b))] = halves[a].desk.secrets[b]
        assert halves[a].desk.secrets[b] == halves[b].desk.secrets[a]
    assert len(set(found.values())) == 3


@pytest.mark.parametrize("step", ["keys/announce", "keys/confirm", "keys/agree"])
@pytest.mark.parametrize("place", [0, 10, 31, 32, 63, -1])
def test_a_key_exchanged_on_its_way_is_refused(step, place):
    halves, server = SecureSums(0)(HOSPITALS)

    def tampering(name, half):
        def respond(asked, data):
            answer = half.answer_keys(asked, data)
            if asked == step and name == "harbour" and answer:
                answer = flipped(answer, place % len(answer))
            return answer

        return respond

    channel = InProcessChannel({name: tampering(name, half) for name, half in halves.items()})
    if step == "keys/agree":
        server.agree(channel)  # a listening round: there is nothing to tamper with
        return
    with pytest.raises(BadSignature, match="harbour"):
        server.agree(channel)


def test_a_server_that_puts_its_own_key_in_the_middle_is_found_out():
    halves, _ = SecureSums(0)(HOSPITALS)
    others, _ = SecureSums(1)(HOSPITALS)
    announced = {name: half.answer_keys("keys/announce", SERVER) for name, half in halves.items()}
    announced["harbour"] = others["harbour"].answer_keys("keys/announce", SERVER)
    from tripheno.exchange.keys import bundle

    with pytest.raises(BadSignature, match="harbour"):
        halves["lakeside"].answer_keys("keys/confirm", bundle(announced))


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b'{"harbour": 3}', b'{"a": "zz"}', b"[" * 5000, b"\xff" * 9]
)
@pytest.mark.parametrize("step", ["keys/confirm", "keys/agree", "keys/steal"])
def test_key_messages_that_cannot_be_read_are_refused(step, data):
    halves, _ = SecureSums(0)(HOSPITALS)
    with pytest.raises(BadMessage):
        halves["harbour"].answer_keys(step, data)


def test_masks_are_hkdf_and_aes_as_the_standards_have_them():
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

    from tripheno.exchange.keys import expand, extract
    from tripheno.exchange.secure import Streams

    secret, info, salt = b"s" * 32, b"run|step", b"t" * 32
    assert expand(secret, info) == HKDFExpand(SHA256(), 32, info).derive(secret)
    assert expand(extract(salt, secret), info) == HKDF(SHA256(), 32, salt, info).derive(secret)
    cipher = Cipher(algorithms.AES256(expand(secret, info)), modes.CTR(bytes(16))).encryptor()
    assert Streams(5).under(secret, info).tobytes() == cipher.update(bytes(40))


def test_a_fault_at_one_hospital_names_no_number():
    halves, _ = agreed()
    with pytest.raises(BadMessage) as caught:
        halves["harbour"].seal("harbour", STEP, {**part(0), "error": np.array(np.nan)})
    assert "nan" not in str(caught.value)
    assert zeros()["error"].shape == ()
