# SPDX-License-Identifier: Apache-2.0
"""Run the tap for the wrapper of a plugin, which a runtime launches instead of the plugin.

Its output is discarded, so messages go to a file beside the recording.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from time import monotonic, sleep

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.logger.logfile import LogFile, log_beside
from nri_scope.logger.settings import LAUNCHED_FOLDER
from nri_scope.nri.identity import parse_plugin_file
from nri_scope.plugin import Identity, launched
from nri_scope.runtime.command import PLUGIN_DESCRIPTOR, Command
from nri_scope.runtime.output import Stream
from nri_scope.tap.launched_plugin import Launch, tap_launched
from nri_scope.tap.run import Tap, run_tap
from nri_scope.tap.settings import Settings

START_S = 2.5
"""Seconds for the tap to start; after that the plugin runs without it. Runtimes give a plugin 5 s
altogether to register."""
FORMER_S = 2.0
"""Maximum share of these seconds spent waiting for another tap that records to the file."""
RELAY_S = 0.5
"""Minimum time in seconds for the relaying process to start, regardless of earlier steps."""


def run_wrapped(
    instructions: Mapping[str, object],
    place: str,
    program: str,
    arguments: list[str],
    environment: Mapping[bytes, bytes],
) -> None:
    """Tap ``program``, which the runtime calls by the path ``place``, and exit with its status.

    Returns, or raises, only while the runtime's connection is untouched: the caller then has to
    execute the plugin instead.
    """
    how = launched()
    if how is None:
        # It was launched by a user, to see its help for example, not by a runtime.
        return
    plain = instructions.get("settings")
    if not isinstance(plain, dict):
        raise UsageError("the tap's settings are missing")
    settings = Settings.read(plain)
    log = LogFile()
    log.use(log_beside(Path(settings.output)))
    taken = False
    status = 1
    began = monotonic()

    def take() -> socket.socket:
        nonlocal taken
        taken = True
        return socket.socket(fileno=how.descriptor)

    async def work(tap: Tap) -> int:
        return await tap_launched(plugin, take, _unheard, tap)

    try:
        _checked(how.descriptor)
        index, name = parse_plugin_file(Path(place).name)
        plugin = Launch(
            Command(program, (place, *arguments), _for_plugin(environment), str(Path.cwd())),
            Identity(index=index, name=name),
            named=True,
        )
        if Path(settings.output).parent == LAUNCHED_FOLDER:
            # The user gave any other folder, which existed then.
            with contextlib.suppress(OSError):
                LAUNCHED_FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
        _wait_for_former(Path(settings.output))
        status = run_tap(
            settings, work, log.write, start_s=max(RELAY_S, began + START_S - monotonic())
        )
    except BaseException as error:
        kind = "" if isinstance(error, NriScopeError) else f"{type(error).__name__}: "
        words = f"{kind}{error}"
        log.write(words if taken else f"{words}; the plugin runs without a tap")
        if not taken:
            log.close()
            raise
    log.close()
    # Threads that still run here are no longer needed.
    os._exit(status)


def _wait_for_former(path: Path) -> None:
    """Wait for the tap from before a runtime's restart, which may still write to the same file."""
    deadline = monotonic() + FORMER_S
    while monotonic() < deadline and _is_recorded_to(path):
        sleep(0.05)


def _is_recorded_to(path: Path) -> bool:
    try:
        # Opening the recording reports a bad file; opening a named pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _checked(descriptor: int) -> None:
    """Raise `UsageError` if the descriptor is not a socket."""
    try:
        is_socket = stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:
        is_socket = False
    if not is_socket:
        raise UsageError(f"descriptor {descriptor} is no socket")


def _for_plugin(environment: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return the runtime's variables, with the plugin's own descriptor number."""
    given = {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}
    return given | {"NRI_PLUGIN_SOCKET": str(PLUGIN_DESCRIPTOR)}


def _unheard(stream: Stream, line: str, mono_ns: int) -> None:
    pass
