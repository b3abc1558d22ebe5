"""What was said on the command line and in the environment, over what the settings files say.

``TRIPHENO__FEDERATION__MODEL__RANK=12`` is ``model.rank`` of `federation.toml`;
``TRIPHENO__SITE__HOSPITAL__NAME=harbour`` is ``hospital.name`` of `site.toml`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from typing import Any, Literal

from tripheno.errors import SettingsError
from tripheno.protocol.settings_file import Layer

PREFIX = "TRIPHENO__"
FILES = ("FEDERATION", "SITE")


def layers_over(
    file: Literal["federation", "site"],
    options: Mapping[str, tuple[str, Any]] | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[Layer]:
    """The layers over one settings file, the command line last, for it wins.

    ``options`` maps a path to the option that was given and its value; None was not given.
    """
    values: dict[str, Any] = {}
    said: dict[str, str] = {}
    for name, text in (os.environ if environment is None else environment).items():
        if not name.startswith(PREFIX):
            continue
        kind, _, path = name[len(PREFIX) :].partition("__")
        if kind not in FILES or not path:
            raise SettingsError(
                f"unknown variable {name}", fix=f"{PREFIX}FEDERATION__… or {PREFIX}SITE__…"
            )
        if kind.lower() == file:
            key = path.lower().replace("__", ".")
            values[key], said[key] = _value(text), name
    given = {k: (name, value) for k, (name, value) in (options or {}).items() if value is not None}
    spoken = Layer(
        {k: value for k, (_, value) in given.items()}, {k: n for k, (n, _) in given.items()}
    )
    return [Layer(values, said), spoken]


def _value(text: str) -> Any:
    """A number, truth value or list as TOML writes it; else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
