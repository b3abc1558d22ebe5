"""What sums in clear and blind sums promise alike, and what only blind ones do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kit.sessions import (
    NAMES,
    SNAPSHOT,
    THRESHOLDS,
    blind_session,
    blind_sessions,
    identity_of,
    meet,
    plain_sessions,
    roster_of,
    summed,
)
from tripheno.errors import (
    BadMessage,
    BadSignature,
    BrokenSum,
    MaskReuse,
    OtherProtocol,
    TriphenoError,
    UnknownMember,
    WrongStep,
)
from tripheno.exchange import field
from tripheno.exchange.announcement import Announcement, _read, strictest
from tripheno.exchange.roster import Member, Roster
from tripheno.exchange.session import add

KINDS = {"plain": plain_sessions, "blind": blind_sessions}
every_kind = pytest.mark.parametrize("kind", KINDS)
FIVE = ("a", "b", "c", "d", "e")


def numbers(name, size=50):
    rng = np.random.default_rng(list(name.encode()))
    return rng.integers(-(1 << 57), 1 << 57, size)


@every_kind
@pytest.mark.parametrize("names", [("one",), ("one", "two"), NAMES, FIVE], ids=len)
def test_the_total_is_the_exact_sum_at_every_hospital(kind, names):
    sessions = KINDS[kind](names)
    expected = sum(numbers(name) for name in names)
    for step in range(3):
        for found in summed(sessions, f"fit/{step}", numbers).values():
            assert found.dtype == np.dtype("<i8")
            assert np.array_equal(found, expected)
    assert len({session.h for session in sessions.values()}) == 1


@every_kind
@pytest.mark.parametrize("size", [0, 1, field.CHUNK - 1, field.CHUNK, 3 * field.CHUNK + 7])
def test_sums_of_every_length(kind, size):
    found = summed(KINDS[kind](), "fit/0", lambda name: numbers(name, size))
    expected = sum(numbers(name, size) for name in NAMES)
    assert all(np.array_equal(total, expected) for total in found.values())


@every_kind
def test_the_ends_of_the_field_are_numbers_like_others(kind):
    edge = np.array([field.LARGEST, -field.LARGEST, 0], dtype="<i8")
    zero = np.zeros(3, dtype="<i8")
    found = summed(KINDS[kind](), "fit/0", lambda name: edge if name == "lakeside" else zero)
    assert all(np.array_equal(total, edge) for total in found.values())


@every_kind
@pytest.mark.parametrize("bad", [1 << 60, -(1 << 60), -(1 << 63)])
def test_numbers_outside_the_field_are_refused_at_home(kind, bad):
    session = KINDS[kind]()["harbour"]
    with pytest.raises(BadMessage):
        session.seal("fit/0", np.array([bad]), b"", b"")
    with pytest.raises(BadMessage):
        session.seal("fit/0", np.zeros(3), b"", b"")


@every_kind
def test_a_repeat_is_the_stored_bytes_whatever_the_numbers_are_now(kind):
    session = KINDS[kind]()["harbour"]
    first = session.seal("fit/0", numbers("a"), b"layout", b"scales")
    assert session.seal("fit/0", numbers("b"), b"layout", b"scales") == first
    assert session.again(session.t) == first


@every_kind
@pytest.mark.parametrize("change", ["name", "layout", "scales"])
def test_a_second_content_for_one_step_kills_the_session(kind, change):
    said = {"name": "fit/0", "layout": b"layout", "scales": b"scales"}
    session = KINDS[kind]()["harbour"]
    session.seal(words=numbers("a"), **said)
    other = {**said, change: "fit/1" if change == "name" else b"other"}
    with pytest.raises(MaskReuse):
        session.seal(words=numbers("a"), **other)
    with pytest.raises(BrokenSum):
        session.seal(words=numbers("a"), **said)


@every_kind
def test_a_total_that_is_not_awaited_changes_nothing(kind):
    sessions = KINDS[kind]()
    totals = []
    for step in range(2):
        totals.append(
            add([s.seal(f"fit/{step}", numbers(n), b"", b"") for n, s in sessions.items()])
        )
        for session in sessions.values():
            session.open(totals[-1])
    harbour = sessions["harbour"]
    with pytest.raises(WrongStep):
        harbour.open(totals[1])  # nothing is sealed yet
    before = harbour.t, harbour.h
    harbour.seal("fit/2", numbers("a"), b"", b"")
    for late in totals:
        with pytest.raises(WrongStep):
            harbour.open(late)
    assert (harbour.t, harbour.h) == before
    assert summed(sessions, "fit/2", numbers)["lakeside"].size


@every_kind
def test_two_steps_are_kept_for_lost_messages_and_no_more(kind):
    sessions = KINDS[kind]()
    harbour, first = sessions["harbour"], sessions["harbour"].t
    for step in range(3):
        summed(sessions, f"fit/{step}", numbers)
    sealed = harbour.seal("fit/3", numbers("harbour"), b"", b"")
    assert harbour.again(first + 3) == sealed
    assert harbour.again(first + 2) != sealed
    with pytest.raises(WrongStep):
        harbour.again(first + 1)


@every_kind
def test_words_of_p_and_above_are_refused(kind):
    sessions = KINDS[kind]()
    parts = [s.seal("fit/0", numbers(n), b"", b"") for n, s in sessions.items()]
    high = field.P.to_bytes(8, "little")
    with pytest.raises(BadMessage):
        add([*parts[:2], parts[2][:-8] + high])
    total = add(parts)
    with pytest.raises(BrokenSum):
        sessions["harbour"].open(total[:-8] + high)


def test_plain_and_blind_totals_are_equal_bit_for_bit():
    plain, blind = (summed(KINDS[kind](), "fit/0", numbers) for kind in KINDS)
    assert all(np.array_equal(plain[name], blind[name]) for name in NAMES)


# ── blind ─────────────────────────────────────────────────────────────────────────────────────


def test_a_wrong_total_has_one_code_and_ends_the_epoch():
    for change in ("length", "word", "tag", "blind"):
        sessions = blind_sessions()
        total = add([s.seal("fit/0", numbers(n), b"", b"") for n, s in sessions.items()])
        flipped = bytearray(total)
        flipped[-9 if change == "word" else -1] ^= 1
        changed = {"length": total[:-8], "blind": total[:-400] + bytes(400)}.get(change, flipped)
        with pytest.raises(BrokenSum) as caught:
            sessions["harbour"].open(bytes(changed))
        assert caught.value.code == "TRIP-E505"
        with pytest.raises(BrokenSum):
            sessions["harbour"].open(total)
        assert not sessions["harbour"]._pairs
        assert sessions["harbour"]._group == b""


def test_hospitals_that_were_told_different_things_give_noise():
    """The scales of one hospital differ: masks do not cancel, and the tag shows it."""
    sessions = blind_sessions()
    parts = [
        s.seal("fit/0", numbers(n), b"", b"wide" if n == "lakeside" else b"")
        for n, s in sessions.items()
    ]
    for session in sessions.values():
        with pytest.raises(BrokenSum):
            session.open(add(parts))


def test_a_contribution_left_out_or_counted_twice_is_seen():
    for chosen in ([0, 1], [0, 1, 1], [0, 1, 2, 2]):
        sessions = blind_sessions()
        parts = [s.seal("fit/0", numbers(n), b"", b"") for n, s in sessions.items()]
        with pytest.raises(BrokenSum):
            sessions["harbour"].open(add([parts[n] for n in chosen]))


def test_what_the_coordinator_holds_is_uniform():
    """Contributions and the total, of zeros: every bit is as often 0 as 1."""
    sessions = blind_sessions()
    size = 4000
    parts = [s.seal("fit/0", np.zeros(size, dtype="<i8"), b"", b"") for s in sessions.values()]
    for data in [*parts, add(parts)]:
        words = np.frombuffer(data[-8 * size :], dtype="<u8")
        bits = (words[:, None] >> np.arange(61, dtype=np.uint64)) & np.uint64(1)
        spread = (bits.mean(axis=0) - 0.5) * 2 * np.sqrt(size)
        assert np.abs(spread).max() < 5
        assert 30 < float((spread**2).sum()) < 110  # χ² with 61 degrees of freedom


def test_the_strictest_threshold_holds_for_all():
    roster = roster_of()
    sessions = {name: blind_session(name, roster) for name in NAMES}
    said = {
        name: session.announce(SNAPSHOT, {"min_cell_count": 5 + n}, ())
        for n, (name, session) in enumerate(sessions.items())
    }
    sessions["harbour"].meet(said)
    assert strictest(sessions["harbour"].announced) == {"min_cell_count": 7}
    assert sessions["harbour"].announced["lakeside"].thresholds == {"min_cell_count": 6}


def announcements(sessions):
    return {n: s.announce(SNAPSHOT, THRESHOLDS, ()) for n, s in sessions.items()}


def fresh(roster=None, epoch=1, seed=0):
    roster = roster or roster_of()
    return {name: blind_session(name, roster, epoch, seed) for name in roster.names}


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("missing", UnknownMember),
        ("added", UnknownMember),
        ("swapped", BadSignature),
        ("own", BadSignature),
        ("another epoch", WrongStep),
        ("another study", OtherProtocol),
        ("empty", BadMessage),
        ("huge", BadMessage),
    ],
)
def test_announcements_that_are_not_the_rosters_are_refused(fault, error):
    sessions = fresh()
    said = announcements(sessions)
    elsewhere = Roster(roster_of().members, b"d" * 32, b"p" * 32, "0")
    match fault:
        case "missing":
            del said["lakeside"]
        case "added":
            said["mallory"] = said["lakeside"]
        case "swapped":
            said["lakeside"] = said["northfield"]
        case "own":
            said["harbour"] = announcements(fresh(seed=1))["harbour"]
        case "another epoch":
            said["lakeside"] = announcements(fresh(epoch=2))["lakeside"]
        case "another study":
            said["lakeside"] = announcements(fresh(elsewhere))["lakeside"]
        case "empty":
            said["lakeside"] = b""
        case "huge":
            said["lakeside"] = bytes(1 << 21)
    with pytest.raises(error):
        sessions["harbour"].meet(said)
    with pytest.raises(TriphenoError):
        sessions["harbour"].seal("fit/0", numbers("a"), b"", b"")
    assert sessions["harbour"].meet(announcements(sessions))


@pytest.mark.parametrize(
    "wild",
    [{"epoch": True}, {"epoch": 1 << 63}, {"thresholds": {"a": -1}}, {"kept": ((-1, bytes(32)),)}],
)
def test_an_announcement_with_a_number_that_counts_nothing_is_refused(wild):
    sound = Announcement(
        study=bytes(32), run="run", epoch=1, name="harbour", key=bytes(32), snapshot=bytes(32),
        thresholds={"a": 11}, kept=((3, bytes(32)),),
    )  # fmt: skip
    assert _read(sound._body(), "harbour") == sound
    with pytest.raises(BadMessage, match="cannot be read"):
        _read(replace(sound, **wild)._body(), "harbour")


def test_two_sets_of_announcements_in_one_epoch_are_refused():
    sessions = fresh()
    said = announcements(sessions)
    sessions["harbour"].meet(said)
    with pytest.raises(WrongStep):
        sessions["harbour"].meet({**said, "lakeside": announcements(fresh(seed=1))["lakeside"]})


def test_a_hospital_that_was_shown_other_announcements_cannot_go_on():
    """The coordinator shows one hospital another (truly signed) key: shares do not open."""
    sessions, shadow = fresh(), fresh(seed=1)
    said = announcements(sessions)
    other = {**said, "lakeside": announcements(shadow)["lakeside"]}
    shares = {n: s.meet(other if n == "northfield" else said) for n, s in sessions.items()}
    for session in sessions.values():
        with pytest.raises(BrokenSum):
            session.take_shares(shares)


def test_shares_that_differ_between_hospitals_end_the_epoch_for_all():
    """A member that gives each peer another share: the first sum is noise at every hospital."""
    sessions = fresh()
    said = announcements(sessions)
    shares = {n: s.meet(said) for n, s in sessions.items()}
    liar = fresh()["lakeside"]
    liar._share = b"x" * 32
    liar.announce(SNAPSHOT, THRESHOLDS, ())
    mixed = shares["lakeside"][:48] + liar.meet(said)[48:]
    sessions["lakeside"]._shares = mixed
    for session in sessions.values():
        session.take_shares({**shares, "lakeside": mixed})
    total = add([session.confirm() for session in sessions.values()])
    for session in sessions.values():
        with pytest.raises(BrokenSum):
            session.check_confirm(total)


def test_a_run_goes_on_from_the_newest_checkpoint_that_all_kept():
    sessions = blind_sessions()
    kept = {name: [] for name in NAMES}
    for step in range(4):
        summed(sessions, f"fit/{step}", numbers)
        for name, session in sessions.items():
            if step < 3 or name != "lakeside":  # one hospital lost the newest
                kept[name].append((session.t, session.h))
    again = fresh(epoch=2, seed=9)
    meet(again, {name: tuple(one) for name, one in kept.items()})
    for session in again.values():
        assert session.resume == kept["harbour"][2]
        with pytest.raises(WrongStep):
            session.resume_at(*kept["harbour"][1])
        session.resume_at(*session.resume)
    total = add([session.confirm() for session in again.values()])
    for session in again.values():
        session.check_confirm(total)
    assert {s.t for s in again.values()} == {kept["harbour"][2][0] + 1}
    summed(again, "fit/3", numbers)


def test_a_hospital_that_does_not_resume_fits_no_other():
    sessions = fresh()
    meet(sessions, dict.fromkeys(NAMES, ((5, b"h" * 32),)))
    for name in NAMES[:2]:
        sessions[name].resume_at(5, b"h" * 32)
    parts = [session.confirm() for session in sessions.values()]
    with pytest.raises(WrongStep):
        add(parts)


def test_the_end_needs_every_signature_under_the_same_totals():
    sessions = blind_sessions()
    summed(sessions, "fit/0", numbers)
    signed = {name: session.end() for name, session in sessions.items()}
    sessions["harbour"].check_end(signed)
    for bad in (
        {**signed, "lakeside": signed["harbour"]},
        {name: signed[name] for name in NAMES[:2]},
        {**signed, "lakeside": b""},
    ):
        other = blind_sessions()
        summed(other, "fit/0", numbers)
        with pytest.raises(BrokenSum):
            other["harbour"].check_end(bad)
    summed(sessions, "fit/1", numbers)
    with pytest.raises(BrokenSum):
        sessions["lakeside"].check_end(signed)


def test_messages_between_two_hospitals_are_theirs_alone():
    sessions = blind_sessions()
    box = sessions["harbour"].encrypt_to("lakeside", "tokens/1", b"a list")
    assert sessions["harbour"].encrypt_to("lakeside", "tokens/1", b"a list") == box
    assert sessions["lakeside"].decrypt_from("harbour", "tokens/1", box) == b"a list"
    for reader, sender, label in (
        ("northfield", "harbour", "tokens/1"),
        ("lakeside", "northfield", "tokens/1"),
        ("lakeside", "harbour", "tokens/2"),
        ("harbour", "lakeside", "tokens/1"),
    ):
        with pytest.raises(BadSignature):
            sessions[reader].decrypt_from(sender, label, box)
    with pytest.raises(MaskReuse):
        sessions["harbour"].encrypt_to("lakeside", "tokens/1", b"another list")


def test_nobody_outside_can_try_scales_against_the_transcript():
    """Two runs that differ in the group key alone have other hashes for the same public bytes."""
    one, two = blind_sessions()["harbour"], blind_sessions()["harbour"]
    two._group = bytes(32)
    assert one.h == two.h
    assert one._bind(b"fit/0", b"", b"") != two._bind(b"fit/0", b"", b"")


def test_the_study_digest_hangs_on_everything_that_was_agreed():
    roster = roster_of()
    members = roster.members
    renamed = (Member("harbour", "another trust", members[0].public), *members[1:])
    rekeyed = (Member("harbour", "harbour trust", identity_of("mallory").public), *members[1:])
    digests = [
        Roster(members, b"c" * 32, b"p" * 32, "0"),
        Roster(members, b"d" * 32, b"p" * 32, "0"),
        Roster(members, b"c" * 32, b"q" * 32, "0"),
        Roster(members, b"c" * 32, b"p" * 32, "1"),
        Roster(members[:2], b"c" * 32, b"p" * 32, "0"),
        Roster(renamed, b"c" * 32, b"p" * 32, "0"),
        Roster(rekeyed, b"c" * 32, b"p" * 32, "0"),
    ]
    assert len({one.study for one in digests}) == len(digests)
    assert Roster(members[::-1], b"c" * 32, b"p" * 32, "0").study == roster.study


def test_members_of_one_institution_count_once():
    keys = [identity_of(name).public for name in NAMES]
    members = [
        Member(n, i, k) for n, i, k in zip(NAMES, ["St  Mary", "st mary ", "X"], keys, strict=True)
    ]
    assert Roster(tuple(members), b"c" * 32, b"p" * 32, "0").institutions == 2


@pytest.mark.parametrize("fault", ["name", "key", "short", "nobody", "nameless"])
def test_a_roster_with_shadows_is_refused(fault):
    one, two = Member("a", "x", b"a" * 32), Member("b", "y", b"b" * 32)
    bad = {
        "name": (one, Member("a", "y", b"b" * 32)),
        "key": (one, Member("b", "y", b"a" * 32)),
        "short": (one, Member("b", "y", b"b" * 31)),
        "nobody": (),
        "nameless": (one, two, Member("", "z", b"z" * 32)),
    }[fault]
    with pytest.raises(UnknownMember):
        Roster(bad, b"c" * 32, b"p" * 32, "0")


def test_steps_of_the_key_agreement_out_of_turn_are_refused():
    late = blind_sessions()["harbour"]
    with pytest.raises(WrongStep, match="out of turn"):
        late.take_shares({})
    early = blind_session("harbour", roster_of())
    with pytest.raises(WrongStep, match="out of turn"):
        early.take_shares({})
    with pytest.raises(WrongStep, match="before keys"):
        early.seal("totals", np.zeros(3, dtype=np.uint64), b"layout", b"scales")
