# SPDX-License-Identifier: Apache-2.0
"""Run the tap: a recorder, tapped connections, and messages to the user."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic

from nri_scope.errors import ConnectError
from nri_scope.events import SessionStart, plugin_title
from nri_scope.nri.versions import runtime_words
from nri_scope.plugin import ABSENT_POLL, Identity
from nri_scope.plugin.endpoint import with_hint
from nri_scope.process.child import keep_exit_statuses
from nri_scope.process.signals import ignore_stop_signals, stop_signals
from nri_scope.recorder.counters import RecorderCounters
from nri_scope.recorder.writer import Recorder
from nri_scope.transport.loop import run
from nri_scope.transport.sockets import connect_socket

from .connection import Connection
from .relay_process import READY_S, Relays
from .settings import OnEvent, Settings

Say = Callable[[str], None]
"""Callback for messages to the user, line by line. Never blocks."""


class StopRequest:
    """Request to stop, set by the first signal. A run polls it or waits for it."""

    def __init__(self) -> None:
        self.number = 0
        self.reason = ""
        self._set = asyncio.Event()

    def set(self, number: int, reason: str) -> None:
        """Request the stop. Only the first call has an effect."""
        if not self.reason:
            self.number, self.reason = number, reason
            self._set.set()

    async def wait(self) -> None:
        """Wait until the stop is requested."""
        await self._set.wait()


class Tap:
    """State shared by all connections of one run."""

    def __init__(self, settings: Settings, recorder: Recorder, say: Say) -> None:
        self.settings = settings
        self.relays = Relays()
        self.recorder = recorder
        self.say = say
        self.stop = StopRequest()
        self.sessions = 0
        self._connected: Counter[str] = Counter()
        self._started = monotonic()

    def connection(self, named: Identity | None) -> Connection:
        """Return a new connection. ``named`` is the runtime's name for the plugin, if known."""
        faults = self.settings.faults()
        return Connection(self.relays, self.recorder, named, self.began, faults, self.say)

    def began(self, start: SessionStart) -> None:
        """Count and report a plugin that was configured through the tap."""
        self.sessions += 1
        plugin = plugin_title(start.plugin_index, start.plugin_name)
        self._connected[plugin] += 1
        if self._connected[plugin] > 1:
            self.say(f"warning: another plugin is tapped as {plugin} at the same time")
        version = start.nri_version or "unknown"
        if start.nri_version_inferred:
            version += ", inferred"
        self.say(
            f"tapping {plugin} at {runtime_words(start.runtime_name, start.runtime_version)}"
            f" (NRI {version}), to {self.settings.output}"
        )

    def ended(self, plugin: str) -> None:
        """Count the end of a connection of ``NN-name``."""
        # A connection that was never configured was not counted.
        self._connected[plugin] -= self._connected[plugin] > 0

    def summary(self, counters: RecorderCounters) -> str:
        """Return the final message, with the counts of what was recorded."""
        seconds = monotonic() - self._started
        return counters.outcome(Path(self.settings.output), sessions=self.sessions, seconds=seconds)


def run_tap(
    settings: Settings,
    work: Callable[[Tap], Awaitable[int]],
    say: Say,
    on_event: OnEvent | None = None,
    *,
    start_s: float = READY_S,
) -> int:
    """Record what ``work`` taps, until it returns or a signal arrives; return the exit status.

    ``start_s`` is the maximum time in seconds for the relay process to start. Raises
    `NriScopeError` if tapping or recording is impossible; no new file is left behind then.
    """
    path = Path(settings.output)
    existed = os.path.lexists(path)
    recorder = settings.open(say, on_event)
    keep_exit_statuses()
    tap: Tap | None = None

    async def main() -> int:
        nonlocal tap
        tap = Tap(settings, recorder, say)
        loop = asyncio.get_running_loop()
        with stop_signals(tap.stop.set, loop=loop, ignore_afterwards=True):
            try:
                await tap.relays.start(start_s)
                return await work(tap)
            finally:
                tap.relays.close()

    is_done = False
    try:
        status = run(main())
        is_done = True
    finally:
        # A second signal must not interrupt the final writing, which takes a bounded time.
        ignore_stop_signals()
        counters = recorder.close()
        if tap is not None and tap.sessions:
            say(tap.summary(counters))
        elif not existed:
            path.unlink(missing_ok=True)
            if is_done:
                say("nothing recorded: no plugin was configured")
    return status


async def connect(
    path: Path, tap: Tap, *, wait: bool, needless: Callable[[], bool] = lambda: False
) -> socket.socket | None:
    """Connect to the runtime; with ``wait``, retry until it is available.

    Return None if stopped, or if the connection has become ``needless``. Raise `ConnectError`.
    """
    is_reported = False
    while not tap.stop.reason and not needless():
        try:
            return await connect_socket(path)
        except ConnectError as error:
            if not (wait and error.can_retry):
                raise with_hint(error) from error
            if not is_reported:
                tap.say(f"waiting for a runtime: {error}")
                is_reported = True
        waiting = asyncio.ensure_future(tap.stop.wait())
        await asyncio.wait([waiting], timeout=ABSENT_POLL)
        waiting.cancel()
    return None
