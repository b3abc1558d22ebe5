"""``constraints-hashed.txt``: pinned versions with the hashes of their files (needs the network).

``python -m tools.hashes`` asks the index that ``PIP_INDEX_URL`` names and writes names, versions
and hashes; which host told them is not written.
"""

from __future__ import annotations

import os
import re
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HASHED = ROOT / "constraints-hashed.txt"
HEAD = "# Every version of constraints.txt with its files' hashes, by: python -m tools.hashes\n"
_LINK = re.compile(r'href="[^"#]*/([^"/#]+)#sha256=([0-9a-f]{64})"')


def pinned() -> list[tuple[str, str]]:
    """Names and versions of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("==")) for line in lines if "==" in line and line[0] != "#"]  # type: ignore[misc]


def spelt(name: str) -> str:
    """A project's name as indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def hashes_of(pin: tuple[str, str]) -> tuple[str, ...]:
    """SHA-256 of every file of one version: for each system, and the source."""
    name, version = pin
    index = os.environ.get("PIP_INDEX_URL", "").rstrip("/")
    if not index:
        raise SystemExit("name the index to ask: PIP_INDEX_URL=… python -m tools.hashes")
    with urllib.request.urlopen(f"{index}/{spelt(name)}/", timeout=60) as answer:  # noqa: S310
        page = answer.read().decode()
    stem = f"{spelt(name)}-{version}"
    found = {
        digest
        for file, digest in _LINK.findall(page)
        if (spelt(file.split("-")[0]) + "-" + file.split("-", 1)[-1]).startswith(
            (f"{stem}-", f"{stem}.tar", f"{stem}.zip")
        )
        or spelt(file.removesuffix(".tar.gz")) == spelt(f"{name}-{version}")
    }
    if not found:
        raise SystemExit(f"the index has no file of {name} {version}")
    return tuple(sorted(found))


def main() -> None:
    """Write the file."""
    pins = pinned()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(hashes_of, pins))
    blocks = [
        f"{name}=={version} \\\n" + " \\\n".join(f"    --hash=sha256:{one}" for one in hashes)
        for (name, version), hashes in zip(pins, found, strict=True)
    ]
    HASHED.write_text(HEAD + "\n".join(blocks) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
