# SPDX-License-Identifier: Apache-2.0
"""A socket for plugins that are started elsewhere: each gets a connection to the runtime."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from nri_scope.errors import ConnectError, UsageError
from nri_scope.transport.sockets import Door

from .connection import Connection
from .run import Tap, connect

PEERS_MAX = 200
"""Plugins at a time: nobody has as many, but one that reconnects in a loop would."""
ACCEPT_PAUSE_S = 0.5
"""Before the next try where the system has no room for a connection."""


def at_socket(listen: Path, path: Path, *, wait: bool) -> Callable[[Tap], Awaitable[int]]:
    """For `run_tap`: tap every plugin that connects to ``listen``, until told to stop.

    Each is connected to the runtime at ``path``. One that comes when the runtime is away is closed
    at once, so that it tries again, or waits likewise with ``wait``.
    """
    if not listen.absolute().parent.is_dir():
        raise UsageError(f"--listen {listen}: no such folder", "make it, or name another one")

    async def work(tap: Tap) -> int:
        door = Door(listen)
        try:
            tap.say(f"plugins can connect to {listen}")
            await _serve(door, path, tap, wait=wait)
        finally:
            door.close()
        return 0

    return work


async def _serve(door: Door, path: Path, tap: Tap, *, wait: bool) -> None:
    peers: set[asyncio.Task[None]] = set()
    stopping = asyncio.ensure_future(tap.stop.wait())
    away = _Away(tap)
    accepting = asyncio.ensure_future(door.accept())
    try:
        while not tap.stop.reason:
            await asyncio.wait((stopping, accepting), return_when=asyncio.FIRST_COMPLETED)
            if not accepting.done():
                continue
            plugin = _accepted(accepting, tap)
            accepting = asyncio.ensure_future(door.accept())
            if plugin is None:
                await asyncio.wait((stopping,), timeout=ACCEPT_PAUSE_S)
                continue
            if len(peers) >= PEERS_MAX:
                plugin.close()
                tap.say(f"a plugin was closed: {PEERS_MAX} are there already")
                continue
            task = asyncio.create_task(_peer(plugin, path, tap, away, wait=wait))
            peers.add(task)
            task.add_done_callback(peers.discard)
    finally:
        stopping.cancel()
        accepting.cancel()
        await asyncio.gather(stopping, accepting, return_exceptions=True)
        # They end by themselves, as they have been told to stop, too.
        await asyncio.gather(*peers)


def _accepted(accepting: asyncio.Future[socket.socket], tap: Tap) -> socket.socket | None:
    try:
        return accepting.result()
    except OSError as error:
        # Most likely there are too many descriptors, some of which will be closed.
        tap.say(f"a plugin could not be let in: {(error.strerror or str(error)).lower()}")
        return None


async def _peer(plugin: socket.socket, path: Path, tap: Tap, away: _Away, *, wait: bool) -> None:
    """One plugin, from its connection to its end; never raises for what either end does."""
    try:
        runtime = await connect(path, tap, wait=wait, needless=lambda: _is_gone(plugin))
    except (ConnectError, OSError) as error:
        away.tell(error)
        plugin.close()
        return
    if runtime is None:
        plugin.close()
        return
    away.over()
    connection = tap.connection(None)
    closing = asyncio.ensure_future(_close(connection, tap))
    try:
        try:
            end = await connection.relay(runtime, plugin)
        except UsageError as error:
            tap.say(f"a plugin was closed: {error}")
            return
        connection.finish(end.reason)
    finally:
        closing.cancel()
    tap.ended(end.plugin)
    if not tap.stop.reason:
        who = end.plugin or "a plugin that did not register"
        if end.refused:
            tap.say(f"{who}: the runtime refused the registration: {end.refused}")
        tap.say(f"{who}: session ended: {end.reason}")
    if connection.faults_made:
        tap.say(connection.faults_made)


def _is_gone(plugin: socket.socket) -> bool:
    """It does not wait any more. What it said before that, if anything, interests nobody."""
    poll = select.poll()
    poll.register(plugin, select.POLLRDHUP)
    return bool(poll.poll(0))


async def _close(connection: Connection, tap: Tap) -> None:
    await tap.stop.wait()
    connection.close(tap.stop.reason)


class _Away:
    """Tells once that the runtime is away, not for each plugin that tries again and again."""

    def __init__(self, tap: Tap) -> None:
        self._tap = tap
        self._told = False

    def tell(self, error: Exception) -> None:
        """A plugin was closed because of this."""
        if not self._told:
            self._tap.say(f"a plugin was closed, as there is no runtime for it: {error}")
        self._told = True

    def over(self) -> None:
        """The runtime is there."""
        self._told = False
