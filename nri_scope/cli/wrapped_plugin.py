# SPDX-License-Identifier: Apache-2.0
"""Tap a wrapped plugin: a runtime launches the wrapper in place of the plugin.

Runtimes discard a plugin's output, so messages are written to a file beside the recording.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Mapping
from pathlib import Path

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.logger.default_file import LAUNCHED_FOLDER
from nri_scope.logger.logfile import LogFile, log_beside
from nri_scope.nri.identity import parse_plugin_file
from nri_scope.plugin import Identity, launched
from nri_scope.runtime.command import PLUGIN_DESCRIPTOR, Command
from nri_scope.tap.launched_plugin import Launch, tap_launched
from nri_scope.tap.run import Tap, run_tap
from nri_scope.tap.settings import Settings

START_S = 2.5
"""Seconds to open the recording, after which the plugin runs without a tap. They include up to 2 s
for the writer of a previous tap to finish. Runtimes allow 5 s in total for a plugin to register."""


def run_wrapped(
    instructions: Mapping[str, object],
    place: str,
    program: str,
    arguments: list[str],
    environment: Mapping[bytes, bytes],
) -> None:
    """Tap ``program``, launched by the runtime as ``place``, and exit with its status.

    Returns or raises only before the runtime's connection is used: the caller must then execute the
    plugin itself.
    """
    launch = launched()
    if launch is None:
        # Started by a user, for example for --help, not by a runtime.
        return
    plain = instructions.get("settings")
    if not isinstance(plain, dict):
        raise UsageError("the tap's settings are missing")
    settings = Settings.read(plain)
    log = LogFile()
    log.use(log_beside(Path(settings.output)))
    is_taken = False
    status = 1

    def take() -> socket.socket:
        nonlocal is_taken
        is_taken = True
        return socket.socket(fileno=launch.descriptor)

    async def work(tap: Tap) -> int:
        return await tap_launched(plugin, take, lambda line: None, tap)

    try:
        _check_socket(launch.descriptor)
        index, name = parse_plugin_file(Path(place).name)
        plugin = Launch(
            Command(program, (place, *arguments), _for_plugin(environment), str(Path.cwd())),
            Identity(index=index, name=name),
            named=True,
        )
        if Path(settings.output).parent == LAUNCHED_FOLDER:
            # Any other folder was given by the user, and existed when the plugin was wrapped.
            with contextlib.suppress(OSError):
                LAUNCHED_FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = run_tap(settings, work, log.write, start_s=START_S)
    except BaseException as error:
        kind = "" if isinstance(error, NriScopeError) else f"{type(error).__name__}: "
        words = f"{kind}{error}"
        log.write(words if is_taken else f"{words}; the plugin runs without a tap")
        if not is_taken:
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


def _for_plugin(environment: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return the runtime's variables, with the plugin's own descriptor number."""
    variables = {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}
    return variables | {"NRI_PLUGIN_SOCKET": str(PLUGIN_DESCRIPTOR)}
