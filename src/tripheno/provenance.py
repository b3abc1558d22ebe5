"""Where a result comes from: software, settings, seed, inputs. Stamped on every artefact."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tripheno import __version__

LIBRARIES = ("numpy", "scipy", "numba", "pyarrow")


def canonical_json(value: Any) -> str:
    """JSON with one spelling: sorted keys, no spaces, no NaN. Equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(value: Any) -> str:
    """SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def file_fingerprint(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def provenance(settings: Mapping[str, Any], inputs: Mapping[str, str]) -> dict[str, Any]:
    """The record that goes into every artefact: enough to run it again and to compare runs."""
    return {
        "tripheno": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": dict(settings),
        "settings_sha256": fingerprint(dict(settings)),
        "inputs": dict(inputs),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES if find_spec(name)},
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
        },
    }
