# SPDX-License-Identifier: Apache-2.0
"""What a wrapped plugin's wrapper runs: the tap, launched by a runtime in the plugin's place.

Nobody reads its output, so what there is to say goes to a file beside the recording.
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
"""For all that a tap needs; then the plugin runs without it. Runtimes give a plugin 5 s in all to
register."""
FORMER_S = 2.0
"""Of that for another tap that records to the file."""
RELAY_S = 0.5
"""For the process that relays at least, whatever the rest took."""


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
            # Any other folder is somebody's choice, and was there when he made it.
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
    # Whatever still runs here has nothing to do with the plugin any more.
    os._exit(status)


def _wait_for_former(path: Path) -> None:
    """The tap of before the runtime's restart may be about to end; it writes to the same file."""
    deadline = monotonic() + FORMER_S
    while monotonic() < deadline and _is_recorded_to(path):
        sleep(0.05)


def _is_recorded_to(path: Path) -> bool:
    try:
        # What is no file of ours is for others to tell of; a named pipe would wait for a writer.
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
