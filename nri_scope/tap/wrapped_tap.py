# SPDX-License-Identifier: Apache-2.0
"""The tap of a wrapped plugin, a child of the process that the runtime launched.

Runtimes discard a plugin's output, so messages are written to a file beside the recording.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import stat
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from threading import Event
from typing import NamedTuple

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.nri.identity import parse_plugin_file
from nri_scope.plugin import Identity, launched
from nri_scope.process.private_folders import make_private_folder
from nri_scope.runtime.command import PLUGIN_DESCRIPTOR, PluginProgram
from nri_scope.writer.background_output import LAUNCHED_FOLDER, LogFile, log_beside

from .launched_plugin import Launch, tap_launched
from .run import Tap, TapSettings, run_tap

START_S = 2.5
"""Seconds to open the recording, after which the plugin runs without a tap. They include up to 2 s
for the writer of a previous tap to finish. Runtimes allow 5 s in total for a plugin to register."""
KILLED = "the process that the runtime had launched ended"
CLOSE_S = 0.05
"""Seconds after the end of the launched process until the connection is closed. A runtime that
killed it closes the connection first, or at the same time, which is the reason to record then."""


class WrappedPlugin(NamedTuple):
    """A plugin that a runtime launched through its wrapper."""

    instructions: Mapping[str, object]
    """The content of ``tap.json``."""
    path: str
    """The path that the runtime launched."""
    program: str
    arguments: list[str]
    environment: Mapping[bytes, bytes]
    """The runtime's variables."""


def tap_wrapped(
    parent: socket.socket, on_taken: Callable[[], object], wrapped: WrappedPlugin
) -> None:
    """Tap the plugin for the launched process at the other end of ``parent``; see `run_wrapped`.

    ``on_taken`` is called when the plugin runs, before the runtime's connection is used. Returns or
    raises only before that; otherwise, this process exits with the plugin's status.
    """
    launch = launched()
    plain = wrapped.instructions.get("settings")
    if launch is None or not isinstance(plain, dict):
        raise UsageError("the tap's settings are missing")
    settings = TapSettings.read(plain)
    log = LogFile()
    log.use(log_beside(Path(settings.output)))
    is_taken = Event()
    status = 1

    def take() -> socket.socket:
        is_taken.set()
        on_taken()
        return socket.socket(fileno=launch.descriptor)

    try:
        _check_socket(launch.descriptor)
        plugin = _launch(wrapped)
        if Path(settings.output).parent == LAUNCHED_FOLDER:
            # Any other folder was given by the user, and existed when the plugin was wrapped.
            with contextlib.suppress(OSError):
                make_private_folder(LAUNCHED_FOLDER)
        work = partial(_tap_plugin, parent, plugin, take)
        status = run_tap(settings, work, log.write, start_s=START_S)
    except BaseException as error:
        kind = "" if isinstance(error, NriScopeError) else f"{type(error).__name__}: "
        problem = f"{kind}{error}"
        log.write(problem if is_taken.is_set() else f"{problem}; the plugin runs without a tap")
        if not is_taken.is_set():
            log.close()
            raise
    log.close()
    # Skip joining remaining threads, which are no longer needed.
    os._exit(status)


def _check_socket(descriptor: int) -> None:
    """Raise `UsageError` if the descriptor is not a socket."""
    try:
        is_socket = stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:
        is_socket = False
    if not is_socket:
        raise UsageError(f"descriptor {descriptor} is not a socket")


async def _tap_plugin(
    parent: socket.socket, plugin: Launch, take: Callable[[], socket.socket], tap: Tap
) -> int:
    """Tap a plugin until it or the launched process ends; return its exit status."""
    loop = asyncio.get_running_loop()

    def ended() -> None:
        loop.remove_reader(parent)
        loop.call_later(CLOSE_S, tap.stop.set, signal.SIGKILL, KILLED)

    loop.add_reader(parent, ended)
    return await tap_launched(plugin, take, lambda line: None, tap)


def _launch(wrapped: WrappedPlugin) -> Launch:
    """Return the plugin with its identity. Raises UsageError for a path without NN-name."""
    index, name = parse_plugin_file(Path(wrapped.path).name)
    variables = {os.fsdecode(key): os.fsdecode(text) for key, text in wrapped.environment.items()}
    # The plugin has its own descriptor number.
    variables["NRI_PLUGIN_SOCKET"] = str(PLUGIN_DESCRIPTOR)
    argv = (wrapped.path, *wrapped.arguments)
    command = PluginProgram(wrapped.program, argv, variables, str(Path.cwd()))
    return Launch(command, Identity(index=index, name=name), named=True)
