"""A real browser for the journeys: Debian's chromium, driven by Playwright."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kit.requirements import require, tool
from tripheno.cli.main import main

WIDTHS = (3840, 390, 1280)
WATCH_POLICY = """addEventListener("securitypolicyviolation",
    (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`))"""


@dataclass
class Watched:
    """A page, and everything about it that should not have happened."""

    page: Any
    host: str
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda fault: self.complaints.append(f"script: {fault}"))
        self.page.on("request", self._request)
        self.page.on("dialog", self._dialog)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text}")

    def _request(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("file", "data", "about") and parts.netloc != self.host:
            self.complaints.append(f"request to {parts.netloc}")

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, address: str) -> Any:
        """Go to an address and wait until the page stands."""
        self.page.goto(address, wait_until="load")
        return self.page

    def axe(self) -> list[str]:
        """What axe-core finds on the page as it stands."""
        from axe_playwright_python.sync_playwright import Axe

        options = {"resultTypes": ["violations"], "preload": False}
        found = Axe().run(self.page, options=options).response["violations"]
        return [
            f"{one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0].get('failureSummary')}"
            for one in found
        ]

    def overflows(self) -> dict[int, int]:
        """Window width → pixels by which the page is wider, where it is."""
        found = {}
        for width in WIDTHS:
            self.page.set_viewport_size({"width": width, "height": 900})
            wider = self.page.evaluate("document.scrollingElement.scrollWidth - window.innerWidth")
            if wider > 0:
                found[width] = wider
        return found


@pytest.fixture
def in_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """A command without a process of its own: enough where it says no before any work."""

    def run(*words: object, cwd: Path | None = None, check: int = 0) -> Any:
        monkeypatch.setattr(sys, "argv", ["tripheno", *map(str, words)])
        with monkeypatch.context() as place:
            place.chdir(cwd or Path.cwd())
            with pytest.raises(SystemExit) as ended:
                main()
        assert ended.value.code == check
        return capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for a module; without sandbox, for checks may run as root."""
    require(find_spec("playwright"), "the package 'playwright' is not installed")
    program = tool("chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        made = driver.chromium.launch(
            executable_path=str(program), args=["--no-sandbox", "--disable-gpu"]
        )
        yield made
        made.close()


@pytest.fixture
def opened() -> list[tuple[Any, Watched]]:
    """The pages a test has open, with their contexts."""
    return []


@pytest.fixture
def look(browser: Any, opened: list[tuple[Any, Watched]]) -> Iterator[Any]:
    """``look(host)``: a fresh watched page; whatever it complained of fails the test."""

    def make(host: str = "") -> Watched:
        context = browser.new_context(viewport={"width": WIDTHS[-1], "height": 900})
        context.add_init_script(WATCH_POLICY)
        context.set_default_timeout(20_000)
        watched = Watched(context.new_page(), host)
        opened.append((context, watched))
        return watched

    yield make
    for context, watched in opened:
        context.close()
        assert watched.complaints == []


@contextmanager
def dashboard(folder: Path) -> Iterator[str]:
    """``tripheno ui`` as a user starts it; gives the address it prints."""
    words = [sys.executable, "-m", "tripheno", "ui", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        assert re.match(r"http://127\.0\.0\.1:\d+/\?token=", address)
        try:
            yield address
        finally:
            server.terminate()


@pytest.fixture
def serve(opened: list[tuple[Any, Watched]]) -> Any:
    """``with serve(folder) as address``; pages leave it before it ends.

    A browser asks for a page's icon after the page has loaded: asked of a server that has just
    ended, that would be a complaint of the test's own making.
    """

    @contextmanager
    def served(folder: Path) -> Iterator[str]:
        with dashboard(folder) as address:
            yield address
            for context, _ in opened:
                for page in context.pages:
                    page.goto("about:blank")

    return served


@pytest.fixture(scope="module")
def serve_once() -> Any:
    """The same for fixtures that serve a whole module."""
    return dashboard
