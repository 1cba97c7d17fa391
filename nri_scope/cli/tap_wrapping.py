# SPDX-License-Identifier: Apache-2.0
"""``tap --wrap`` and ``tap --unwrap``: install and remove the wrapper of a plugin."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import nri_scope
from nri_scope.errors import UsageError
from nri_scope.logger.default_file import DEFAULT_MAX_SIZE, LAUNCHED_FOLDER, SUFFIX
from nri_scope.tap.wrapper import Places, State, unwrap, wrap

from .params import say
from .tap_options import Options, settings_of


def wrap_plugin(plugin: Path, options: Options) -> None:
    """Install the wrapper of a plugin, and report it. Raises `NriScopeError`."""
    places = Places.of(plugin)
    output = options["output"]
    if output is None:
        output = LAUNCHED_FOLDER / f"{places.place.name}{SUFFIX}"
    elif not output.absolute().parent.is_dir():
        raise UsageError(f"{output}: no such folder", "create it, or choose another")
    settings = settings_of(options, output.absolute())
    if settings.max_size is None and settings.max_age is None:
        # The tap runs unattended, so the size of its recording is bounded.
        settings = replace(settings, max_size=DEFAULT_MAX_SIZE)
    if settings.redact:
        settings = replace(settings, redact=str(Path(settings.redact).absolute()))
    settings.check()
    starter = files("nri_scope.cli").joinpath("wrapper_start.py").read_bytes()
    instructions = {"settings": settings.plain(), "paths": _paths()}
    wrap(plugin, starter, json.dumps(instructions).encode())
    say(
        f"wrapped {places.place}: from its next launch by the runtime, it is recorded to"
        f" {settings.output}; --unwrap restores it"
    )
    for path in (Path(sys.executable).resolve(), Path(nri_scope.__file__).parent):
        if _can_be_modified(path, places.place):
            say(
                f"warning: users other than the plugin's owner can modify {path}, which it executes"
            )


def _can_be_modified(path: Path, plugin: Path) -> bool:
    """Return whether ``path`` can be modified by users who cannot modify the plugin."""
    status = path.stat()
    return status.st_uid not in (0, plugin.stat().st_uid) or bool(status.st_mode & 0o022)


def _paths() -> list[str]:
    """Return the folders of nri-scope and its dependencies, for an isolated Python.

    The current folder, which `python -m` adds, is left out: the wrapper runs as root.
    """
    own = str(Path(nri_scope.__file__).parents[1])
    return [own, *(path for path in sys.path if path.endswith(("site-packages", "dist-packages")))]


def unwrap_plugin(plugin: Path) -> None:
    """Remove the wrapper of a plugin, and report it. Raises `NriScopeError`."""
    found = unwrap(plugin)
    place = Places.of(plugin).place
    if found in (State.WRAPPED, State.GONE):
        say(f"unwrapped {place}: the runtime launches the original the next time")
    else:
        say(f"{place} was not wrapped; removed the files of an interrupted --wrap")
