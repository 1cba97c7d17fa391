# SPDX-License-Identifier: Apache-2.0
"""``tap --wrap`` and ``tap --unwrap``: install and remove what records a pre-installed plugin."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import nri_scope
from nri_scope.doctor.host import Host
from nri_scope.doctor.v01 import first_program
from nri_scope.errors import UsageError
from nri_scope.nri.identity import parse_plugin_file
from nri_scope.nri.v01 import BINARY_PATH, TYPE
from nri_scope.recording.file.trusted_location import private_place
from nri_scope.writer.background_output import DEFAULT_MAX_SIZE, LAUNCHED_FOLDER, SUFFIX, V01_SPOOL

from .run import Say, TapSettings
from .wrapper import TapPaths, WrapperState, unwrap, usage_errors, wrap


def wrap_plugin(plugin: Path, settings: TapSettings, v01: str | None, say: Say) -> None:
    """Install the wrapper of a plugin, and report it. Raises `NriScopeError`.

    ``settings`` without an output: the default one. ``v01``: for a plugin of NRI 0.1, its spool, or
    "" for the default one.
    """
    paths = TapPaths.of(plugin)
    if v01 is not None or str(paths.plugin.parent) == BINARY_PATH:
        _wrap_v01(paths.plugin, settings, v01, say)
        return
    parse_plugin_file(plugin.name)
    output = Path(settings.output)
    if not settings.output:
        output = LAUNCHED_FOLDER / f"{paths.plugin.name}{SUFFIX}"
    elif not output.absolute().parent.is_dir():
        raise UsageError(f"{output}: no such folder", "create it, or choose another")
    settings = replace(settings, output=str(output.absolute()))
    if settings.max_size is None and settings.max_age is None:
        # The tap runs unattended, so the size of its recording is bounded.
        settings = replace(settings, max_size=DEFAULT_MAX_SIZE)
    if settings.redact:
        settings = replace(settings, redact=str(Path(settings.redact).absolute()))
    settings.check()
    starter = files("nri_scope.tap").joinpath("wrapper_start.py").read_bytes()
    instructions = {"settings": settings.plain(), "paths": _paths()}
    wrap(plugin, starter, json.dumps(instructions).encode())
    say(
        f"wrapped {paths.plugin}: from its next launch by the runtime, it is recorded to"
        f" {settings.output}; --unwrap restores it"
    )
    _warn_of_others(paths.plugin, say)


def _wrap_v01(plugin: Path, settings: TapSettings, v01: str | None, say: Say) -> None:
    """Install the wrapper of a plugin of NRI 0.1, which writes to the spool."""
    if settings.output or settings.where or settings.cri or settings.redact is not None:
        raise UsageError(
            "a plugin of NRI 0.1 is recorded by `record`", "give these options to `record`"
        )
    if not TYPE.fullmatch(plugin.name):
        raise UsageError(f"{plugin.name!r} is not the name of a plugin", "rename its file")
    with usage_errors(plugin):
        spool = private_place(Path(v01 or V01_SPOOL), "name another --v01")
        private_place(spool / plugin.name, "name another --v01")
    starter = files("nri_scope.tap").joinpath("wrapper_v01_start.py").read_bytes()
    instructions = json.dumps({"spool": str(spool / plugin.name)}).encode()
    wrap(plugin, starter, instructions, any_name=True)
    option = f" --spool {spool}" if spool != V01_SPOOL else ""
    say(f"wrapped {plugin}: `record{option}` records its calls; --unwrap restores it")
    called = first_program(Host(), plugin.name)
    if called and not Path(called).samefile(plugin):
        say(f"warning: the runtime calls {called} instead, which is earlier in its PATH")
    _warn_of_others(plugin, say)


def _warn_of_others(plugin: Path, say: Say) -> None:
    for path in (Path(sys.executable).resolve(), Path(nri_scope.__file__).parent):
        if _can_be_modified(path, plugin):
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


def unwrap_plugin(plugin: Path, say: Say) -> None:
    """Remove the wrapper of a plugin, and report it. Raises `NriScopeError`."""
    state = unwrap(plugin)
    plugin_path = TapPaths.of(plugin).plugin
    if state in (WrapperState.WRAPPED, WrapperState.GONE):
        say(f"unwrapped {plugin_path}: the runtime launches the original the next time")
    else:
        say(f"{plugin_path} was not wrapped; removed the files of an interrupted --wrap")
