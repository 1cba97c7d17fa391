# SPDX-License-Identifier: Apache-2.0
"""Launch a plugin as a runtime would, and end it with its connection.

The plugin inherits its end of a socket pair in the same way as from a real runtime, and cannot
find out whether its parent is the runtime or the tap.

A plugin that connects to a private socket by itself is started and tapped, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from time import monotonic

from nri_scope.errors import UsageError
from nri_scope.nri.identity import plugin_id
from nri_scope.plugin import Identity
from nri_scope.runtime.command import PluginProgram
from nri_scope.runtime.external_plugin import ExternalPlugin, registers_itself
from nri_scope.runtime.output import Stream
from nri_scope.runtime.plugin_process import Process, launch
from nri_scope.text.quantities import first_names
from nri_scope.transport.sockets import ListeningSocket

from .connection import TapEnd, TappedConnection
from .plugin_socket import Peers, serve
from .run import Tap, connect

GRACE_S = 2.0
"""Default of `Launch.grace_s`."""
LAUNCHED_GRACE_S = 1.0
"""Seconds for a plugin launched by a runtime to exit after its connection has ended; then it is
killed, as the runtime may be about to launch it again."""
REFUSED_GRACE_S = 0.5
"""The same for a plugin whose registration was not accepted."""

LEFT_SHOWN = 3
"""Maximum number of processes left behind by a plugin that are listed."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The plugin to launch."""

    command: PluginProgram
    identity: Identity
    """The index and name passed to the plugin in its environment."""
    named: bool = False
    """Whether the runtime launched the plugin, and so ignores the name that it registers."""
    grace_s: float = GRACE_S
    """Seconds for the plugin to exit after its connection has ended, and again after SIGTERM; also
    after the tap's stop signal. Then it is killed."""


class RegistersItself(UsageError):
    """The plugin registers an index or a name of its own, so it cannot be launched."""


def to_socket(
    plugin: Launch,
    path: Path,
    show: Callable[[str], None] | None,
    *,
    wait: bool,
    fallback: Callable[[Tap], Awaitable[int]] | None = None,
) -> Callable[[Tap], Awaitable[int]]:
    """Return a function for `run_tap` that launches a plugin and connects it to ``path``.

    ``show`` is called with each line that the plugin prints; None: the writer prints them.
    ``fallback`` taps the plugin instead if it cannot be launched.
    """

    async def work(tap: Tap) -> int:
        runtime = await connect(path, tap, wait=wait)
        if runtime is None:
            return 0
        with runtime:
            try:
                return await tap_launched(plugin, lambda: runtime, show, tap)
            except RegistersItself:
                if fallback is None:
                    raise
        name = plugin_id(plugin.identity.index, plugin.identity.name)
        tap.say(f"{name} sets its own index, so it is started again as an external plugin")
        return await fallback(tap)

    return work


async def tap_launched(
    plugin: Launch,
    take: Callable[[], socket.socket],
    show: Callable[[str], None] | None,
    tap: Tap,
) -> int:
    """Launch a plugin, relay until its connection has ended, then end the plugin.

    ``take`` is called once the plugin runs, and returns the runtime's connection. Returns the
    plugin's exit status, as a shell does. Raises `UsageError` if the command cannot be run, or
    never registers as a plugin.
    """
    connection = tap.connection(plugin.identity if plugin.named else None)

    name = plugin_id(plugin.identity.index, plugin.identity.name)

    def printed(stream: Stream, line: str, mono_ns: int) -> None:
        at_ns = connection.printed(stream.value, line, mono_ns)
        if show is not None:
            show(line)
        else:
            tap.writer.show_line(at_ns, name, stream.value, line)

    process, ours = await launch(plugin.command, printed, pass_output=True)
    forwarding = asyncio.ensure_future(_forward_signal(process, connection, tap, plugin.grace_s))
    started = monotonic()
    try:
        end = await connection.relay(take(), ours)
        stopped = tap.stop.reason
        lasted = monotonic() - started
        if not end.registered:
            # A plugin that keeps running does not use this connection.
            await process.wait_exit(REFUSED_GRACE_S)
            process.end()
        elif plugin.named:
            await process.wait_exit(LAUNCHED_GRACE_S)
        else:
            await process.stop(plugin.grace_s)
    finally:
        forwarding.cancel()
        await process.kill()
        ours.close()
    reason = process.explain(end.reason)
    if stopped and stopped != reason:
        reason = f"{stopped}: {reason}"
    connection.finish(reason)
    if not end.registered and not tap.stop.reason:
        raise _not_registered(process, end, reason, lasted)
    if not tap.stop.reason:
        tap.say(f"session ended: {reason}")
    if process.ending_words and not tap.stop.reason:
        tap.say(f"the plugin {process.ending_words}: it did not exit when its connection ended")
    report_leftovers(process, tap)
    return exit_status(process, tap.stop.number)


async def _forward_signal(
    process: Process, connection: TappedConnection, tap: Tap, grace_s: float
) -> None:
    """Forward the tap's stop signal to the plugin, which has a session of its own."""
    await tap.stop.wait()
    if tap.stop.number == signal.SIGKILL:
        connection.close(tap.stop.reason)
        process.end()
        return
    if process.running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, tap.stop.number)
    await process.wait_exit(grace_s)
    # The plugin's children may keep the connection open.
    process.end()
    await process.wait_exit(grace_s)
    connection.close(tap.stop.reason)


def exit_status(process: Process, stopped_by: int) -> int:
    """Return the exit status as a shell does: 128 plus the number of a signal that ended it."""
    if process.ended_by_us:
        # Runtimes end plugins in this way, so it is not a failure without a stop signal.
        return 128 + stopped_by if stopped_by else 0
    code = process.exit_code
    if code is None:
        return 1
    return code if code >= 0 else 128 - code


def _not_registered(process: Process, end: TapEnd, reason: str, lasted: float) -> UsageError:
    program = process.command[0]
    if registers_itself(process):
        return RegistersItself(f"{program} never registered: {reason}")
    if end.refused:
        return UsageError(
            f"the runtime refused the registration of {end.plugin or program}: {end.refused}",
            "try another --index or --name",
        )
    if process.ended_by_us:
        return UsageError(
            f"{program} did not register: {end.reason} after {lasted:.1f} s",
            "if it connects by itself, add --external",
        )
    return UsageError(f"{program} never registered: {reason}")


def report_leftovers(process: Process, tap: Tap) -> None:
    """Report processes that the plugin left behind, and lines that were not recorded."""
    left = process.left_behind
    if left:
        names = [f"{process.pid} ({process.command})" for process in left]
        listed = first_names(names, LEFT_SHOWN)
        tap.say(f"killed processes that the plugin left behind: {listed}")
    if process.output.left_out:
        tap.say(f"{process.output.left_out} lines were not recorded: the plugin printed too fast")


EXIT_S = 0.5
"""Seconds in which a plugin whose connection ended may exit, and print why."""
CONNECT_S = 10.0
"""Seconds after which a plugin that has not connected is reported."""


def as_external(
    argv: Sequence[str],
    environment: Mapping[str, str],
    path: Path,
    show: Callable[[str], None] | None,
    *,
    wait: bool,
    grace_s: float = GRACE_S,
) -> Callable[[Tap], Awaitable[int]]:
    """Return a function for `run_tap` that starts a plugin and connects it to ``path``.

    ``show`` and ``wait``: see `to_socket`; ``grace_s``: see `Launch`.
    """

    async def work(tap: Tap) -> int:
        peer = _ExternalPeer(tap, PurePath(argv[0]).name, show)
        external = ExternalPlugin(argv, environment, on_output=peer.printed, pass_output=True)
        try:
            listener = ListeningSocket(external.socket.path)
            try:
                peer.process = process = await external.start()
                serving = asyncio.ensure_future(serve(listener, path, tap, peer, wait=wait))
                await _run(external, process, serving, peer, grace_s)
            finally:
                listener.close()
        finally:
            await external.remove()
        report_leftovers(process, tap)
        if not tap.sessions and not tap.stop.reason:
            reason = process.explain("it did not connect")
            raise UsageError(f"{process.command[0]} never registered: {reason}")
        return exit_status(process, tap.stop.number)

    return work


async def _run(
    external: ExternalPlugin,
    process: Process,
    serving: asyncio.Future[None],
    peer: _ExternalPeer,
    grace_s: float,
) -> None:
    """Return once the plugin has ended, or was ended because the tap stops."""
    exiting = asyncio.ensure_future(process.wait_exit())
    try:
        waiting = (exiting, serving)
        await asyncio.wait(waiting, timeout=CONNECT_S, return_when=asyncio.FIRST_COMPLETED)
        if not peer.has_connected and process.running and not peer.tap.stop.reason:
            peer.tap.say(str(external.not_connected(CONNECT_S)))
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if process.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, peer.tap.stop.number)
            await process.wait_exit(grace_s)
    finally:
        exiting.cancel()
        await process.kill()
        # Its connections are closed now.
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


class _ExternalPeer(Peers):
    """The plugin with the first of its connections, to which its output is attributed."""

    def __init__(self, tap: Tap, name: str, show: Callable[[str], None] | None) -> None:
        super().__init__(tap)
        self.tap = tap
        self.process: Process | None = None
        self.has_connected = False
        self._name = name
        self._show = show
        # Created before the plugin connects, as it may print early.
        self._connection = tap.connection(None)
        self._is_used = False

    def connection(self) -> TappedConnection:
        self.has_connected = True
        if self._is_used:
            # The plugin registers more than once.
            return self.tap.connection(None)
        self._is_used = True
        return self._connection

    async def finish(self, connection: TappedConnection, reason: str) -> str:
        if self.process is not None:
            await self.process.wait_exit(EXIT_S)
            reason = self.process.explain(reason)
        if connection is self._connection:
            self._connection, self._is_used = self.tap.connection(None), False
        return await super().finish(connection, reason)

    def printed(self, stream: Stream, line: str, mono_ns: int) -> None:
        """Record a line that the plugin printed, and show it."""
        at_ns = self._connection.printed(stream.value, line, mono_ns)
        if self._show is not None:
            self._show(line)
        else:
            self.tap.writer.show_line(at_ns, self._name, stream.value, line)
