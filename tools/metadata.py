"""Files that repeat what pyproject.toml says: ``python -m tools.metadata`` writes them.

A maintainer fills in the addresses in one place, ``[project.urls]``; citation, code metadata and
the lines of contact follow.
"""

from __future__ import annotations

import json
import re

from tools.release import released
from tools.sbom import PROJECT, ROOT, VERSION

_CONTACT = re.compile(r"(<!-- contact -->\n).*\n")
_PAGES = ("SECURITY.md", "CODE_OF_CONDUCT.md")


def written() -> dict[str, str]:
    """Each file's text."""
    urls, day = PROJECT["urls"], released()
    words = "\n".join(f"  - {word}" for word in PROJECT["keywords"])
    citation = f"""cff-version: 1.2.0
message: Cite the paper below for the method `trip`, and tripheno with its version.
title: tripheno
abstract: {PROJECT["description"]}
type: software
version: {VERSION}
date-released: "{day}"
license: {PROJECT["license"]}
repository-code: {urls["Repository"]}
url: {urls["Documentation"]}
authors:
  - name: {PROJECT["authors"][0]["name"]}
keywords:
{words}
references:
  - type: conference-paper
    title: Federated Tensor Factorization for Computational Phenotyping
    doi: 10.1145/3097983.3098118
    year: 2017
    conference:
      name: KDD 2017
    authors:
      - family-names: Kim
        given-names: Yejin
      - family-names: Sun
        given-names: Jimeng
      - family-names: Yu
        given-names: Hwanjo
      - family-names: Jiang
        given-names: Xiaoqian
"""
    code = {
        "@context": "https://w3id.org/codemeta/3.0", "type": "SoftwareSourceCode",
        "name": "tripheno", "description": PROJECT["description"], "version": VERSION,
        "datePublished": day, "license": f"https://spdx.org/licenses/{PROJECT['license']}",
        "codeRepository": urls["Repository"], "issueTracker": urls["Issues"],
        "softwareHelp": urls["Documentation"], "programmingLanguage": "Python",
        "runtimePlatform": f"Python {PROJECT['requires-python']}", "keywords": PROJECT["keywords"],
        "author": [{"type": "Organization", "name": PROJECT["authors"][0]["name"]}],
        "referencePublication": "https://doi.org/10.1145/3097983.3098118",
    }  # fmt: skip
    files = {"CITATION.cff": citation, "codemeta.json": json.dumps(code, indent=2) + "\n"}
    for name in _PAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        files[name] = _CONTACT.sub(
            rf"\1Write to the maintainers, in private: <{urls['Security']}>\n", text
        )
    return files


def main() -> None:
    """Write them."""
    for name, text in written().items():
        (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
