# SPDX-License-Identifier: Apache-2.0
"""``tap --wrap`` and ``tap --unwrap``: install and remove what records a pre-installed plugin."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import nri_scope
from nri_scope.doctor.host import Host
from nri_scope.doctor.v01 import first_program
from nri_scope.errors import UsageError
from nri_scope.logger.background_output import DEFAULT_MAX_SIZE, LAUNCHED_FOLDER, SUFFIX, V01_SPOOL
from nri_scope.nri.identity import parse_plugin_file
from nri_scope.nri.v01 import BINARY_PATH, TYPE
from nri_scope.recording.display import many
from nri_scope.recording.trusted_location import private_place
from nri_scope.tap.v01_conf import install, uninstall
from nri_scope.tap.wrapper import Places, State, unwrap, usage_errors, wrap

from .params import say

if TYPE_CHECKING:
    from nri_scope.tap.run import Settings


def wrap_plugin(plugin: Path, options: Options) -> None:
    """Install the wrapper of a plugin, and report it. Raises `NriScopeError`."""
    if _is_list(plugin):
        _install_v01(plugin, options)
        return
    places = Places.of(plugin)
    if options["v01"] is not None or str(places.place.parent) == BINARY_PATH:
        _wrap_v01(places.place, options)
        return
    parse_plugin_file(plugin.name)
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
    _warn_of_others(places.place)


def _is_list(path: Path) -> bool:
    """Return whether this is the runtime's list of plugins of NRI 0.1, rather than a program."""
    return path.suffix == ".json" and not os.access(path, os.X_OK)


def _install_v01(conf: Path, options: Options) -> None:
    """Add the recording plugin to a list of plugins of NRI 0.1."""
    _refuse_recording_options(options)
    spool = Path(options["v01"] or V01_SPOOL)
    places = install(conf, spool)
    say(
        f"installed in {places.conf}; `record{_spool_option(spool)}` reads its requests;"
        " --unwrap restores the list"
    )


def _refuse_recording_options(options: Options) -> None:
    if any(options[name] for name in ("output", "where", "cri", "redact")):
        raise UsageError(
            "a plugin of NRI 0.1 is recorded by `record`", "give these options to `record`"
        )


def _spool_option(spool: Path) -> str:
    return f" --spool {spool}" if spool != V01_SPOOL else ""


def _wrap_v01(plugin: Path, options: Options) -> None:
    """Install the wrapper of a plugin of NRI 0.1, which writes to the spool."""
    _refuse_recording_options(options)
    if not TYPE.fullmatch(plugin.name):
        raise UsageError(f"{plugin.name!r} is not the name of a plugin", "rename its file")
    with usage_errors(plugin):
        spool = private_place(Path(options["v01"] or V01_SPOOL), "name another --v01")
        private_place(spool / plugin.name, "name another --v01")
    starter = files("nri_scope.cli").joinpath("wrapper_v01_start.py").read_bytes()
    instructions = json.dumps({"spool": str(spool / plugin.name)}).encode()
    wrap(plugin, starter, instructions, any_name=True)
    say(f"wrapped {plugin}: `record{_spool_option(spool)}` records its calls; --unwrap restores it")
    found = first_program(Host(), plugin.name)
    if found and not Path(found).samefile(plugin):
        say(f"warning: the runtime calls {found} instead, which is earlier in its PATH")
    _warn_of_others(plugin)


def _warn_of_others(plugin: Path) -> None:
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


def unwrap_plugin(plugin: Path) -> None:
    """Remove the wrapper of a plugin, and report it. Raises `NriScopeError`."""
    if _is_list(plugin):
        spool, waiting = uninstall(plugin)
        say(f"restored {plugin}")
        if waiting:
            requests = many(waiting, "request")
            say(f"{requests} in {spool}; `record --spool {spool}` reads them")
        return
    found = unwrap(plugin)
    place = Places.of(plugin).place
    if found in (State.WRAPPED, State.GONE):
        say(f"unwrapped {place}: the runtime launches the original the next time")
    else:
        say(f"{place} was not wrapped; removed the files of an interrupted --wrap")


class Options(TypedDict):
    """The options as click passes them."""

    command_line: tuple[str, ...]
    output: Path | None
    socket: Path
    index: str | None
    name: str | None
    variables: tuple[str, ...]
    external: bool
    grace: float
    listen: Path | None
    wrap: Path | None
    unwrap: Path | None
    v01: str | None
    where: str
    max_size: int | None
    max_age: float | None
    wait: bool
    print_format: str | None
    cri: Path | None
    redact: str | None


def settings_of(options: Options, output: Path) -> Settings:
    """Return the tap's settings from the options."""
    from nri_scope.tap.run import Settings

    return Settings(
        output=str(output),
        where=options["where"],
        redact=options["redact"],
        cri=None if options["cri"] is None else str(options["cri"].absolute()),
        # The runtime launches a wrapped plugin before it serves the CRI.
        cri_waits=options["wait"] or options["wrap"] is not None,
        max_size=options["max_size"],
        max_age=options["max_age"],
    )
