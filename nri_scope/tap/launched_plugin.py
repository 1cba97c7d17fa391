# SPDX-License-Identifier: Apache-2.0
"""A plugin that the tap launches as a runtime would, and ends with its connection.

The plugin gets its end of a socket pair in the same way as from a real runtime, so it cannot find
out whether its parent is the runtime or the tap.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from nri_scope.errors import UsageError
from nri_scope.plugin import Identity
from nri_scope.runtime.command import Command
from nri_scope.runtime.output import OnOutput, Stream
from nri_scope.runtime.plugin_process import Process, launch

from .connection import Connection, TapEnd
from .run import Tap, connect

AGAIN_S = 1.0
"""Seconds for a new relay process to start after the first one was killed."""
STOP_GRACE_S = 2.0
"""Seconds for the plugin to end after it was sent the signal that ends the tap."""
END_GRACE_S = 5.0
"""Seconds for the plugin to end after its connection; then it is killed, as by runtimes."""
LAUNCHED_GRACE_S = 1.0
"""The same for a plugin launched by a runtime, which may be about to launch it again."""
REFUSED_GRACE_S = 0.5
"""The same for a plugin whose registration was not accepted."""

LEFT_SHOWN = 3
"""Number of processes left behind by a plugin that are listed."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The plugin to launch."""

    command: Command
    identity: Identity
    """The index and name passed to the plugin in its environment."""
    named: bool = False
    """Whether the runtime launched the plugin, and uses this name even if another is registered."""


def to_socket(
    plugin: Launch, path: Path, on_output: OnOutput, *, wait: bool
) -> Callable[[Tap], Awaitable[int]]:
    """Return the work for `run_tap` that launches a plugin and connects it to ``path``."""

    async def work(tap: Tap) -> int:
        runtime = await connect(path, tap, wait=wait)
        if runtime is None:
            return 0
        with runtime:
            return await tap_launched(plugin, lambda: runtime, on_output, tap)

    return work


async def tap_launched(
    plugin: Launch, take: Callable[[], socket.socket], on_output: OnOutput, tap: Tap
) -> int:
    """Launch a plugin, relay until its connection has ended, then end the plugin.

    ``take`` returns the runtime's connection once the plugin runs. Returns the plugin's exit
    status, as a shell does. Raises `UsageError` if the command cannot be run, or never registers as
    a plugin.
    """
    connection = tap.connection(plugin.identity if plugin.named else None)

    def printed(stream: Stream, line: str, mono_ns: int) -> None:
        connection.printed(stream.value, line, mono_ns)
        on_output(stream, line, mono_ns)

    process, ours = await launch(plugin.command, printed, pass_output=True)
    passing = asyncio.ensure_future(_pass_signal(process, connection, tap))
    started = monotonic()
    try:
        # If this fails, then before the runtime's connection is taken.
        await tap.relays.start(AGAIN_S)
        end = await connection.relay(take(), ours)
        lasted = monotonic() - started
        if not end.registered:
            # If it does not exit on its own, it does not use this connection.
            await process.wait_exit(REFUSED_GRACE_S)
            process.end()
        # A runtime may launch the plugin again soon, when this instance must no longer run.
        await process.wait_exit(LAUNCHED_GRACE_S if plugin.named else END_GRACE_S)
        slow = process.running
    finally:
        passing.cancel()
        await process.kill()
        ours.close()
    reason = process.explain(end.reason)
    if tap.stop.reason:
        reason = f"{tap.stop.reason}: {reason}"
    connection.finish(reason)
    if end.by_us and not tap.stop.reason:
        raise UsageError(f"nothing is relayed any more: {reason}")
    if not end.registered and not tap.stop.reason:
        raise _no_plugin(process, end, reason, lasted)
    if not tap.stop.reason:
        tap.say(f"session ended: {reason}")
    if connection.faults_made:
        tap.say(connection.faults_made)
    if slow:
        tap.say("the plugin did not end with its connection and was killed, as runtimes do")
    _tell_left(process, tap)
    return exit_status(process, tap.stop.number)


async def _pass_signal(process: Process, connection: Connection, tap: Tap) -> None:
    """Send the plugin the signal that ends the tap, as the plugin has its own session."""
    await tap.stop.wait()
    if process.running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, tap.stop.number)
    await process.wait_exit(STOP_GRACE_S)
    # The plugin's children may keep the connection open.
    process.end()
    await process.wait_exit(STOP_GRACE_S)
    connection.close(tap.stop.reason)


def exit_status(process: Process, stopped_by: int) -> int:
    """Return the exit status as a shell does: 128 plus the number of a signal that ended it."""
    if process.ended_by_us:
        # The normal end of a plugin, unless a signal was sent to stop the tap.
        return 128 + stopped_by if stopped_by else 0
    code = process.exit_code
    if code is None:
        return 1
    return code if code >= 0 else 128 - code


def _no_plugin(process: Process, end: TapEnd, reason: str, lasted: float) -> UsageError:
    program = process.command[0]
    if end.refused:
        return UsageError(
            f"the runtime refused the registration of {end.plugin or program}: {end.refused}",
            "another --index or --name may help",
        )
    if process.ended_by_us:
        return UsageError(
            f"{program}: it did not register, and {end.reason} after {lasted:.1f} s",
            "a plugin that connects by itself is tapped with --listen SOCKET, and that socket as"
            " its option",
        )
    return UsageError(f"{program}: never registered: {reason}")


def _tell_left(process: Process, tap: Tap) -> None:
    left = process.left_behind
    if left:
        shown = ", ".join(f"{one.pid} ({one.command})" for one in left[:LEFT_SHOWN])
        more = f" and {len(left) - LEFT_SHOWN} more" if len(left) > LEFT_SHOWN else ""
        tap.say(f"processes that the plugin left behind were killed: {shown}{more}")
    if process.output.left_out:
        tap.say(f"{process.output.left_out} lines that the plugin printed were too many to record")
