"""Build a release twice, compare, and try the wheel in fresh environments: ``make release``.

Nothing here needs the network. Dependencies come, by hash, from ``wheelhouse/`` where that folder
is (``make wheelhouse`` fills it), else from the environment this runs in, which a fresh one then
borrows; only a Python of the same version can.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

from tools.sbom import ROOT, VERSION

DIST, WHEELHOUSE = ROOT / "dist", ROOT / "wheelhouse"
PYTHONS = ("3.11", "3.12", "3.13")


def released() -> str:
    """When the changelog says this version was released; the time stamp of every packed file."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(VERSION)} \((\d{{4}}-\d\d-\d\d)\)$", text, re.MULTILINE)
    if found is None:
        raise SystemExit(f"CHANGELOG.md has no line: ## {VERSION} (YYYY-MM-DD)")
    return found[1]


def built(folder: Path, day: str) -> dict[str, str]:
    """Wheel and source archive in this folder; name → SHA-256."""
    seconds = subprocess.check_output(["date", "-u", "-d", day, "+%s"], text=True).strip()  # noqa: S607
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        env={**os.environ, "SOURCE_DATE_EPOCH": seconds}, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
    }


def fresh(version: str, python: str, folder: Path, wheel: Path) -> Path | None:
    """A new environment with the wheel in it; ``None`` where its dependencies are not at hand."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    binaries = folder / "bin"
    pip = [str(binaries / "python"), "-m", "pip", "install", "--quiet", "--no-index"]
    if WHEELHOUSE.is_dir():
        subprocess.run([*pip, "--find-links", str(WHEELHOUSE), "-c", str(ROOT / "constraints.txt"),
                        str(wheel)], check=True)  # fmt: skip
        return binaries
    if version != f"{sys.version_info.major}.{sys.version_info.minor}":
        return None
    site = next((folder / "lib").glob("python*")) / "site-packages"
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    subprocess.run([*pip, "--no-deps", "--ignore-installed", str(wheel)], check=True)
    return binaries


def tried(binaries: Path, folder: Path) -> None:
    """The wheel's own command, version and demo, from a folder without the sources."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    for words in (["--version"], ["explain", "TRIP-E302"], ["demo", "--out", "demo"]):
        subprocess.run([str(binaries / "tripheno"), *words], cwd=folder, env=environment,
                       check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    where = [str(binaries / "python"), "-c", "import tripheno; print(tripheno.__file__)"]
    found = subprocess.check_output(where, cwd=folder, env=environment, text=True)
    if str(folder) not in found or not (folder / "demo" / "report.html").is_file():
        raise SystemExit("the demo did not run from the wheel")


def main() -> None:
    """Build, compare, look inside, try."""
    shutil.rmtree(DIST, ignore_errors=True)
    day = released()
    with tempfile.TemporaryDirectory(prefix="tripheno-release-") as scratch:
        first = built(DIST, day)
        if first != built(Path(scratch) / "again", day):
            raise SystemExit("two builds differ")
        wheel = next(DIST.glob("*.whl"))
        names = zipfile.ZipFile(wheel).namelist()
        if not [name for name in names if ".dist-info/sboms/" in name]:
            raise SystemExit("the wheel has no bill of materials")
        for version in PYTHONS:
            folder, python = Path(scratch) / version, _python(version)
            binaries = fresh(version, python, folder, wheel) if python else None
            if binaries:
                tried(binaries, folder)
            missing = "fill wheelhouse/ first" if python else "it is not here"
            _say(f"Python {version}: {'the demo runs' if binaries else f'not tried, {missing}'}")
    lines = [f"{digest}  {name}" for name, digest in first.items()]
    (DIST / "SHA256SUMS").write_text("\n".join(lines) + "\n", encoding="utf-8")
    _say("\n".join(["two builds are equal:", *lines]))


def _python(version: str) -> str | None:
    """A Python of this version that starts (a version manager's link may not)."""
    asked = [os.environ.get(f"PYTHON{version}".replace(".", "")), shutil.which(f"python{version}")]
    for name in filter(None, asked):
        tried = subprocess.run([name, "--version"], capture_output=True, text=True, check=False)
        if f" {version}." in tried.stdout:
            return name
    return None


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
