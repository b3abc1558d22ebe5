"""What the package is made of: ``python -m tools.sbom`` writes it from what is installed.

``sbom.cdx.json`` (CycloneDX 1.6) goes into the wheel's ``.dist-info/sboms`` (PEP 770);
``docs/licences.md`` is the same for people. Development tools are in neither.
"""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from tools.hashes import spelt

ROOT = Path(__file__).resolve().parents[1]
SBOM, TABLE = ROOT / "sbom.cdx.json", ROOT / "docs" / "licences.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "src/tripheno/__init__.py").read_text())[1]  # type: ignore[index]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
_CLASSIFIED = "License :: OSI Approved :: "
_SPDX = {  # how projects that do not write SPDX name their licence
    "MIT": "MIT", "MIT License": "MIT", "Expat license": "MIT", "The MIT License": "MIT",
    "BSD License": "BSD-3-Clause", "BSD": "BSD-3-Clause", "BSD 3-Clause License": "BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0", "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0", "Apache License, Version 2.0": "Apache-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "ISC License (ISCL)": "ISC",
    "GNU Library or Lesser General Public License (LGPL)": "LGPL-3.0-or-later",
    "GNU Lesser General Public License v3 or later (LGPLv3+)": "LGPL-3.0-or-later",
}  # fmt: skip


def closure(lines: list[str]) -> dict[str, Distribution]:
    """These requirements and all they bring, by spelt name, as far as this system needs them."""
    found: dict[str, Distribution] = {}
    left = [(Requirement(line), "") for line in lines]
    while left:
        asked, extra = left.pop()
        if asked.marker and not asked.marker.evaluate({"extra": extra}):
            continue
        try:
            one = distribution(asked.name)
        except PackageNotFoundError:
            raise SystemExit(f"{asked.name} is not installed: make .venv/ready first") from None
        new = spelt(asked.name) not in found
        found[spelt(asked.name)] = one
        for wanted in [*asked.extras, *([""] if new else [])]:
            left += [(Requirement(line), wanted) for line in one.requires or []]
    return found


def licence(one: Distribution) -> str:
    """The licence as SPDX where the project says it so that it can be told, else its own words."""
    meta = one.metadata
    if meta["License-Expression"]:
        return str(meta["License-Expression"])
    classified = [
        line.removeprefix(_CLASSIFIED)
        for line in meta.get_all("Classifier") or []
        if line.startswith(_CLASSIFIED)
    ]
    words = classified or [
        (meta["License"] or "").strip().splitlines()[0] if meta["License"] else ""
    ]
    return " AND ".join(dict.fromkeys(_SPDX.get(word, word) for word in words))


def checked() -> list[str]:
    """The extras that the checks install; others are neither pinned nor listed."""
    whole = next(line for line in EXTRAS["dev"] if line.startswith("tripheno["))
    return sorted(Requirement(whole).extras)


def bill() -> dict[str, Any]:
    """The CycloneDX document."""
    core = closure(PROJECT["dependencies"])
    everything = {**closure([line for name in checked() for line in EXTRAS[name]]), **core}
    components = [
        {
            "type": "library",
            "bom-ref": name,
            "name": name,
            "version": one.version,
            "scope": "required" if name in core else "optional",
            "purl": f"pkg:pypi/{name}@{one.version}",
            "licenses": [_as_licence(licence(one))],
        }
        for name, one in sorted(everything.items())
    ]
    whole = {
        "type": "library", "bom-ref": "tripheno", "name": "tripheno", "version": VERSION,
        "purl": f"pkg:pypi/tripheno@{VERSION}", "licenses": [_as_licence(PROJECT["license"])],
    }  # fmt: skip
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"component": whole}, "components": components,
        "dependencies": [{"ref": "tripheno", "dependsOn": sorted(everything)}],
    }  # fmt: skip


def _as_licence(words: str) -> dict[str, Any]:
    if re.fullmatch(r"[\w.+()-]+( (AND|OR|WITH) [\w.+()-]+)*", words):
        return {"expression": words}
    return {"license": {"name": words or "unknown"}}


def table(document: dict[str, Any]) -> str:
    """The page of licences."""
    rows = [
        f"| {one['name']} | {one['version']} | {_named(one['licenses'][0])} | "
        f"{'every install' if one['scope'] == 'required' else 'an extra'} |"
        for one in document["components"]
    ]
    return (
        "# Licences of what an install brings\n\n"
        "Versions of `constraints.txt`, licences as the projects state them; made by "
        "`python -m tools.sbom`, which also makes the bill of materials in the wheel. "
        f"Not listed, for the checks do not install them: {_unchecked()}.\n\n"
        "| library | version | licence | comes with |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )


def _unchecked() -> str:
    left = sorted(set(EXTRAS) - {"dev", *checked()})
    return ", ".join(f"the extra `{name}`" for name in left) or "none"


def _named(licence: dict[str, Any]) -> str:
    return str(licence.get("expression") or licence["license"]["name"])


def main() -> None:
    """Write both files."""
    document = bill()
    SBOM.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    TABLE.write_text(table(document), encoding="utf-8")


if __name__ == "__main__":
    main()
