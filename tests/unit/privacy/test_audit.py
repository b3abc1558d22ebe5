"""Nobody changes the record of what left unnoticed."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tripheno.errors import BrokenChain
from tripheno.exchange.keys import Identity
from tripheno.privacy.audit import AuditLog, canonical, read_head, tally, verify

KEEPER, COORDINATOR, STRANGER = (Identity.from_bytes(bytes([n]) * 32) for n in (1, 2, 3))
KEYS = {"keeper": KEEPER.fingerprint, "coordinator": COORDINATOR.fingerprint}


def log(rounds=3, keeper=KEEPER):
    made = AuditLog("run-1", keeper, COORDINATOR)
    for n in range(rounds):
        for name in ("one", "two"):
            made.sent(f"fit/{n}/0", name, name.encode() * n)
            made.received(f"fit/{n}/0", name, b"down" * n)
    return made, made.close()


def test_an_untouched_log_holds():
    made, head = log()
    assert verify(made.text(), head, **KEYS) == len(made.lines)
    assert read_head(canonical(head.to_dict())) == head


def test_changing_any_single_byte_is_detected_and_the_line_is_named():
    made, head = log(1)
    text = made.text().encode()
    for place, bit in itertools.product(range(len(text)), (1, 32)):
        changed = text[:place] + bytes([text[place] ^ bit]) + text[place + 1 :]
        with pytest.raises(BrokenChain, match="line"):
            verify(changed.decode("utf-8", "replace"), head, **KEYS)


def test_the_first_broken_line_is_the_one_named():
    made, head = log()
    lines = list(made.lines)
    lines[4] = lines[4].replace('"bytes":', '"bytes":1')
    with pytest.raises(BrokenChain, match=r"line (5|6)\b"):
        verify("\n".join(lines) + "\n", head, **KEYS)


@pytest.mark.parametrize("kept", [0, 1, 5, -3, -2, -1])
def test_a_cut_tail_is_detected(kept):
    made, head = log()
    with pytest.raises(BrokenChain):
        verify("".join(line + "\n" for line in made.lines[:kept]), head, **KEYS)


def test_lines_left_out_doubled_or_turned_are_detected():
    made, head = log()
    lines = made.lines
    for wrong in (lines[:3] + lines[4:], lines[:4] + lines[3:], lines[:3] + lines[4:2:-1]):
        with pytest.raises(BrokenChain, match=r"line [45]"):
            verify("".join(line + "\n" for line in wrong), head, **KEYS)


def test_a_log_written_anew_by_a_stranger_is_detected():
    made, head = log(keeper=STRANGER)
    with pytest.raises(BrokenChain, match="another keeper"):
        verify(made.text(), head, **KEYS)


def test_a_log_that_goes_on_after_its_last_head_is_detected():
    made, head = log()
    made.write({"kind": "message"})
    with pytest.raises(BrokenChain, match="follow the last head"):
        verify(made.text(), head, **KEYS)


def test_another_logs_head_does_not_fit():
    made, _ = log(3)
    _, other = log(2)
    with pytest.raises(BrokenChain):
        verify(made.text(), other, **KEYS)


def test_the_log_holds_hashes_and_sizes_and_no_content():
    made, _ = log()
    assert "down" not in made.text()
    rows = tally(made.lines)
    assert {
        "hospital": "two",
        "step": "fit",
        "direction": "out",
        "messages": 3,
        "bytes": 9,
    } in rows


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(plain)
def test_canonical_json_is_json_with_one_spelling(value):
    assert json.loads(canonical(value)) == value
    assert canonical(json.loads(canonical(value))) == canonical(value)


def test_keys_are_sorted_as_the_standard_says():
    """RFC 8785, section 3.2.3: by UTF-16 code units."""
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    found = list(json.loads(canonical(dict.fromkeys(keys, 0))))
    assert found == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


@pytest.mark.parametrize("value", [1.5, float("nan"), 2**60, np.int64(3), b"bytes", {1.0}])
def test_what_has_no_one_spelling_is_refused(value):
    with pytest.raises(TypeError):
        canonical({"x": value})
