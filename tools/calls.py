"""A pytest plugin: which test calls which function of the package, written to ``$CALLS``.

One line per test: its id, its seconds and the functions it called, as ``path:first line``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

SOURCE = f"{os.sep}src{os.sep}tripheno{os.sep}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    seen: set[Any] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    began = time.perf_counter()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        return (yield)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        called = {
            f"{code.co_filename.split(SOURCE)[1]}:{code.co_firstlineno}"
            for code in seen
            if SOURCE in code.co_filename
        }
        seconds = round(time.perf_counter() - began, 3)
        with Path(os.environ["CALLS"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps([item.nodeid, seconds, sorted(called)]) + "\n")
