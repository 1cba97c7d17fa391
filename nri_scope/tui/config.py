# SPDX-License-Identifier: Apache-2.0
"""The user's own keys and theme: ``~/.config/nri-scope/keys.toml``."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nri_scope.errors import UsageError
from nri_scope.recording.trusted_location import read_regular

from .actions import DEFAULT, Keymap, shown

MAX_SIZE = 1 << 20
"""Maximum size of the file in bytes; a usual one has a few dozen lines."""


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of the file, with defaults."""

    keymap: Keymap = DEFAULT
    theme: str = ""
    """Name of the theme; "" for the default one."""
    warning: str = ""
    """Why the file is ignored, with its path; "" if it was read or does not exist."""


_ALIASES = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+h": "backspace", "ctrl+[": "escape"}
"""Keys for which terminals send the same bytes as for another key, by that key."""


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the file according to the XDG base directory specification."""
    folder = environ.get("XDG_CONFIG_HOME", "")
    # The specification says to ignore relative paths.
    base = Path(folder) if folder.startswith("/") else Path("~/.config").expanduser()
    return base / "nri-scope" / "keys.toml"


def load(path: Path, themes: tuple[str, ...]) -> Config:
    """Read the file. Return the defaults if it is missing, or, with a warning, if unreadable.

    Raises UsageError, naming the file, if its content is invalid.
    """
    try:
        content = read_regular(path, MAX_SIZE + 1)
        if len(content) > MAX_SIZE:
            raise UsageError(
                f"{path}: larger than {MAX_SIZE >> 10} KiB",
                "it should contain only keys and a theme",
            )
        text = content.decode()
    except FileNotFoundError:
        return Config()
    except OSError as error:
        words = (error.strerror or str(error)).lower()
        # For example another user's file, after `sudo`: continue with the defaults.
        return Config(warning=f"{path}: {words}; using the default keys and theme")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not valid UTF-8", "save it as UTF-8") from error
    try:
        return parsed(text, themes)
    except UsageError as error:
        raise UsageError(f"{path}: {error.problem}", error.hint) from error


def parsed(text: str, themes: tuple[str, ...]) -> Config:
    """Parse the configuration ``text``. Raises UsageError."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"invalid TOML: {error}", 'write for example follow = "F"') from error
    theme = content.pop("theme", "")
    if theme and theme not in themes:
        raise UsageError(f"there is no theme {theme!r}", f"choose one of {', '.join(themes)}")
    keys = content.pop("keys", {})
    if not isinstance(keys, dict):
        raise UsageError("keys is not a table", "write [keys] on a line of its own")
    if content:
        raise UsageError(
            f"unknown setting {next(iter(content))!r}",
            "only theme and the table [keys] are allowed",
        )
    return Config(
        DEFAULT.rebound({name: _keys(name, value) for name, value in keys.items()}), theme
    )


def _keys(name: str, value: object) -> tuple[str, ...]:
    keys = [value] if isinstance(value, str) else value
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise UsageError(
            f"the keys of {name} are not strings",
            f'write {name} = "x", {name} = ["x", "ctrl+x"], or {name} = [] for none',
        )
    for key in keys:
        if not key or "," in key or key != key.strip():
            raise UsageError(
                f"{key!r} is not a key", 'write a key as "x", "ctrl+x", "f5" or "comma"'
            )
        if other := _ALIASES.get(key.lower()):
            raise UsageError(
                f"terminals cannot distinguish the key {shown(key)} of {name} from {shown(other)}",
                f"use another key, or {other} itself",
            )
    return tuple(keys)
