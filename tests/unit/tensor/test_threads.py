"""Loops over patients: whoever asks for one works in it too."""

from __future__ import annotations

from threading import Barrier, get_ident

from tripheno.tensor.threads import in_chunks, limited_to

CHUNKS = [(n, n + 1) for n in range(7)]


def test_one_thread_is_the_one_that_asks():
    with limited_to(1):
        assert set(in_chunks(CHUNKS, lambda _first, _last: get_ident())) == {get_ident()}


def test_so_many_threads_as_are_allowed_work_at_the_same_time():
    together = Barrier(3)

    def work(_first: int, _last: int) -> int:
        together.wait(timeout=60)  # passes only where three are inside
        return get_ident()

    with limited_to(3):
        found = in_chunks(CHUNKS[:3], work)
    assert len(set(found)) == 3
    assert get_ident() in found
