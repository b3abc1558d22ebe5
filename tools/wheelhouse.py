"""Fill ``wheelhouse/`` by hash with what an install brings, for every Python at hand (network)."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path

from tools.hashes import HASHED, spelt
from tools.release import PYTHONS, WHEELHOUSE, _python
from tools.sbom import SBOM


def main() -> None:
    """Download each required component of the bill of materials, and nothing else."""
    parts = json.loads(SBOM.read_text(encoding="utf-8"))["components"]
    wanted = {part["name"] for part in parts if part["scope"] == "required"}
    blocks = re.split(r"\n(?=\S)", HASHED.read_text(encoding="utf-8"))
    chosen = [block for block in blocks if spelt(block.split("==")[0]) in wanted]
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "asked.txt"
        asked.write_text("\n".join(chosen) + "\n", encoding="utf-8")
        for python in filter(None, map(_python, PYTHONS)):
            subprocess.run(
                [python, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes",
                 "--dest", str(WHEELHOUSE), "--requirement", str(asked)], check=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
