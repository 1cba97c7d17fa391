# SPDX-License-Identifier: Apache-2.0
"""One run of the tap: a recorder, tapped connections, and messages to the user."""

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
from nri_scope.nri.versions import runtime_title
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
    """The request to stop, set once by a signal; a run polls it or waits for it."""

    def __init__(self) -> None:
        self.number = 0
        self.reason = ""
        self._set = asyncio.Event()

    def set(self, number: int, reason: str) -> None:
        """Request the stop; only the first call counts."""
        if not self.reason:
            self.number, self.reason = number, reason
            self._set.set()

    async def wait(self) -> None:
        """Wait until the stop is requested."""
        await self._set.wait()


class Tap:
    """The state that all connections of one run share."""

    def __init__(self, settings: Settings, recorder: Recorder, say: Say) -> None:
        self.settings = settings
        self.relays = Relays()
        self.recorder = recorder
        self.say = say
        self.stop = StopRequest()
        self.sessions = 0
        self._there: Counter[str] = Counter()
        self._started = monotonic()

    def connection(self, named: Identity | None) -> Connection:
        """Make a connection; ``named``: the name that the runtime gives the plugin, if any."""
        faults = self.settings.faults()
        return Connection(self.relays, self.recorder, named, self.began, faults, self.say)

    def began(self, start: SessionStart) -> None:
        """Count and report a plugin that has been configured through the tap."""
        self.sessions += 1
        plugin = plugin_title(start.plugin_index, start.plugin_name)
        self._there[plugin] += 1
        if self._there[plugin] > 1:
            self.say(f"warning: another plugin is tapped as {plugin} at the same time")
        version = start.nri_version or "unknown"
        if start.nri_version_inferred:
            version += ", inferred"
        self.say(
            f"tapping {plugin} at {runtime_title(start.runtime_name)} {start.runtime_version}"
            f" (NRI {version}), to {self.settings.output}"
        )

    def ended(self, plugin: str) -> None:
        """Note that a connection of ``NN-name`` has ended."""
        # A connection that was never configured was not counted.
        self._there[plugin] -= self._there[plugin] > 0

    def summary(self, counters: RecorderCounters) -> str:
        """Return the final line on what was recorded."""
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
    """Record what ``work`` taps until it is done or a signal arrives; return the exit status.

    ``start_s``: seconds for the relay process to start. Raises `NriScopeError` if tapping or
    recording is impossible; then no file is left behind.
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

    done = False
    try:
        status = run(main())
        done = True
    finally:
        # A second signal must not interrupt the final writing, which takes a bounded time.
        ignore_stop_signals()
        counters = recorder.close()
        if tap is not None and tap.sessions:
            say(tap.summary(counters))
        elif not existed:
            path.unlink(missing_ok=True)
            if done:
                say("nothing recorded: no plugin was configured")
    return status


async def connect(
    path: Path, tap: Tap, *, wait: bool, needless: Callable[[], bool] = lambda: False
) -> socket.socket | None:
    """Connect to the runtime; with ``wait``, as soon as there is one.

    Return None when stopped, or if the connection is ``needless``. Raise `ConnectError`.
    """
    told = False
    while not tap.stop.reason and not needless():
        try:
            return await connect_socket(path)
        except ConnectError as error:
            if not (wait and error.can_retry):
                raise with_hint(error) from error
            if not told:
                tap.say(f"waiting for a runtime: {error}")
                told = True
        waiting = asyncio.ensure_future(tap.stop.wait())
        await asyncio.wait([waiting], timeout=ABSENT_POLL)
        waiting.cancel()
    return None
