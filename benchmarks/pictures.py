"""Pictures of every page, at desktop and phone width: ``make pictures``.

The demo's report and dashboard, the dashboard of a run in progress, and, where their records are
beside the project, the reports of eICU, MIMIC-III and Synthea, light and dark, as a real browser
shows them. One picture goes into the README; the others are for looking at.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

WIDTHS = {"desktop": 1280, "phone": 390}
PAGES = {
    "federation": "/", "phenotypes": "/phenotypes", "compare": "/compare",
    "experiments": "/experiments", "privacy": "/privacy",
}  # fmt: skip
README_PICTURE = Path("docs/images/report.png")
RECORDS = Path("../shared/data")
REAL = {  # source, folder, how it is read, how it is dealt
    "eicu": ("eicu", "eicu-demo-2.0.1-dev", ["--by", "region"], []),
    "mimic": (
        "mimic",
        "mimic-iii-demo-1.4",
        ["--modes", "medication,diagnosis"],
        ["--hospitals", "3"],
    ),
    "synthea": (
        "omop",
        "synthea1k-omop",
        ["--modes", "medication,diagnosis"],
        ["--hospitals", "3"],
    ),
}


@contextmanager
def dashboard(folder: Path) -> Iterator[str]:
    words = [sys.executable, "-m", "tripheno", "ui", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def tripheno(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "tripheno", *map(str, words)], check=True)


def real_runs(out: Path) -> dict[str, Path]:
    """A run on each of the open records that are at hand."""
    found = {}
    for name, (source, folder, read, dealt) in REAL.items():
        if not (RECORDS / folder).is_dir():
            continue
        site, found[name] = out / f"{name}-site", out / f"{name}-run"
        tripheno("ingest", source, RECORDS / folder, "--out", site, *read)
        sites = sorted({path.parent for path in site.rglob("events.parquet")})
        tripheno("simulate", *sites, "--out", found[name], "--rank", 10, "--force", *dealt)
    return found


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
        addresses, papers = {}, []
        for name, path in PAGES.items():
            parts = urlsplit(finished)
            addresses[name] = f"http://{parts.netloc}{path}?{parts.query}"
        addresses["live"] = live
        for name, folder in {"report": run, **real_runs(out)}.items():
            addresses[name] = f"file://{(folder / 'report.html').resolve()}"
            papers.append(name)
        for size, width in WIDTHS.items():
            page = browser.new_page(viewport={"width": width, "height": 900})
            for scheme, (name, address) in product(("light", "dark"), addresses.items()):
                page.emulate_media(color_scheme=scheme)
                page.goto(address)
                if name == "live":
                    page.wait_for_selector("#live-error circle")
                page.screenshot(path=out / f"{name}-{size}-{scheme}.png", full_page=True)
        page = browser.new_page(viewport={"width": 1100, "height": 1150})
        page.goto(addresses["report"])
        page.screenshot(path=README_PICTURE)
        page.emulate_media(media="print")
        for name in papers:
            page.goto(addresses[name])
            page.pdf(path=out / f"{name}.pdf", format="A4")
        browser.close()


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("run", type=Path, help="a finished run folder")
    words.add_argument("--out", type=Path, default=Path("runs/pictures"))
    words.add_argument("--chromium", default=shutil.which("chromium") or "chromium")
    given = words.parse_args()
    draw(given.run, given.out, given.chromium)
    print(f"pictures in {given.out}, the README's in {README_PICTURE}")
