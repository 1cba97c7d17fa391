# SPDX-License-Identifier: Apache-2.0
"""What a wrapped plugin's wrapper runs: the tap, launched by a runtime in the plugin's place.

Nobody reads its output, so what there is to say goes to a file beside the recording.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Mapping
from pathlib import Path

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.logger.logfile import LogFile, log_beside
from nri_scope.logger.settings import LAUNCHED_FOLDER
from nri_scope.nri.identity import parse_plugin_file
from nri_scope.plugin import Identity, launched
from nri_scope.runtime.command import PLUGIN_DESCRIPTOR, Command
from nri_scope.runtime.output import Stream
from nri_scope.tap.launching import Launch, tap_launched
from nri_scope.tap.run import Tap, run_tap
from nri_scope.tap.settings import Settings


def run_wrapped(
    manner: Mapping[str, object],
    place: str,
    program: str,
    arguments: list[str],
    environment: Mapping[bytes, bytes],
) -> None:
    """Tap ``program``, which the runtime calls by the name of ``place``, and end with its status.

    Returns, or raises, only with the runtime's connection untouched: the plugin is to be executed
    then instead.
    """
    how = launched()
    if how is None:
        # A person runs it, to see its help for example.
        return
    plain = manner.get("settings")
    if not isinstance(plain, dict):
        raise UsageError("the tap's settings are missing")
    settings = Settings.read(plain)
    log = LogFile()
    log.settle(log_beside(Path(settings.output)))
    taken = False
    status = 1

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
            # Any other folder is somebody's choice, and was there when he made it.
            with contextlib.suppress(OSError):
                LAUNCHED_FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = run_tap(settings, work, log.write)
    except BaseException as error:
        kind = "" if isinstance(error, NriScopeError) else f"{type(error).__name__}: "
        words = f"{kind}{error}"
        log.write(words if taken else f"{words}; the plugin runs without a tap")
        if not taken:
            log.close()
            raise
    log.close()
    # Whatever still runs here has nothing to do with the plugin any more.
    os._exit(status)


def _checked(descriptor: int) -> None:
    """Raise `UsageError` for what is no connection."""
    try:
        is_socket = stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:
        is_socket = False
    if not is_socket:
        raise UsageError(f"descriptor {descriptor} is no socket")


def _for_plugin(environment: Mapping[bytes, bytes]) -> dict[str, str]:
    """What the runtime gave, whatever that is, but for the number of the descriptor."""
    given = {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}
    return given | {"NRI_PLUGIN_SOCKET": str(PLUGIN_DESCRIPTOR)}


def _unheard(stream: Stream, line: str, mono_ns: int) -> None:
    pass
