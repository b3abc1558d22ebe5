"""Pictures of every page, at desktop and phone width: ``make pictures``.

The demo's report and dashboard, and the dashboard of a run in progress, as a real browser shows
them. One picture goes into the README; the others are for looking at.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

WIDTHS = {"desktop": 1280, "phone": 390}
PAGES = {
    "federation": "/", "phenotypes": "/phenotypes", "compare": "/compare",
    "experiments": "/experiments", "privacy": "/privacy",
}  # fmt: skip
README_PICTURE = Path("docs/images/report.png")


@contextmanager
def dashboard(folder: Path) -> Iterator[str]:
    words = [sys.executable, "-m", "tripheno", "ui", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def in_progress(run: Path, folder: Path) -> Path:
    """The run as it stood half-way, from its own history."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines = (run / "history.jsonl").read_text().splitlines()
    half = lines[: max(2, len(lines) // 2)]
    (folder / "history.jsonl").write_text("\n".join(half) + "\n")
    status = json.loads((run / "status.json").read_text())
    last = json.loads(half[-1])
    share = last["bytes"] // (2 * len(status["hospitals"]))
    for hospital in status["hospitals"]:
        hospital.update(bytes_up=share, bytes_down=share, step=f"iterate/{len(half)}/1/3")
    status |= {
        "state": "running", "stage": "the hospitals together (trip)", "start": 2, "starts": 3,
        "iteration": last["iteration"], "objective": last["objective"], "rounds": 14 * len(half),
    }  # fmt: skip
    (folder / "status.json").write_text(json.dumps(status))
    return folder


def draw(run: Path, out: Path, chromium: str) -> None:
    from playwright.sync_api import sync_playwright

    out.mkdir(parents=True, exist_ok=True)
    running = in_progress(run, out / "in-progress")
    with (
        sync_playwright() as driver,
        dashboard(run) as finished,
        dashboard(running) as live,
    ):
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        addresses = {"report": f"file://{(run / 'report.html').resolve()}"}
        for name, path in PAGES.items():
            parts = urlsplit(finished)
            addresses[name] = f"http://{parts.netloc}{path}?{parts.query}"
        addresses["live"] = live
        for size, width in WIDTHS.items():
            page = browser.new_page(viewport={"width": width, "height": 900})
            for name, address in addresses.items():
                page.goto(address)
                if name == "live":
                    page.wait_for_selector("#live-error circle")
                page.screenshot(path=out / f"{name}-{size}.png", full_page=True)
        page = browser.new_page(viewport={"width": 1100, "height": 1150})
        page.goto(addresses["report"])
        page.screenshot(path=README_PICTURE)
        page.emulate_media(media="print")
        page.pdf(path=out / "report.pdf")
        browser.close()


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("run", type=Path, help="a finished run folder")
    words.add_argument("--out", type=Path, default=Path("runs/pictures"))
    words.add_argument("--chromium", default=shutil.which("chromium") or "chromium")
    given = words.parse_args()
    draw(given.run, given.out, given.chromium)
    print(f"pictures in {given.out}, the README's in {README_PICTURE}")
