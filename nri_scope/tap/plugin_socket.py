# SPDX-License-Identifier: Apache-2.0
"""A socket for plugins that are started elsewhere, each of which is connected to the runtime."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from nri_scope.errors import ConnectError, UsageError
from nri_scope.transport.sockets import ListeningSocket

from .connection import Connection
from .run import Tap, connect

PEERS_MAX = 200
"""Maximum number of plugins at a time: more than any host has, but reached by a reconnect loop."""
ACCEPT_PAUSE_S = 0.5
"""Seconds to wait before retrying when the system has no free descriptor for a connection."""


def at_socket(listen: Path, path: Path, *, wait: bool) -> Callable[[Tap], Awaitable[int]]:
    """Return the work for `run_tap` that taps every plugin that connects to ``listen``.

    Each plugin is connected to the runtime at ``path``. Without a runtime, a plugin's connection is
    closed at once, so that the plugin tries again; with ``wait`` it waits for the runtime.
    """
    if not listen.absolute().parent.is_dir():
        raise UsageError(f"--listen {listen}: no such folder", "make it, or name another one")

    async def work(tap: Tap) -> int:
        door = ListeningSocket(listen)
        try:
            tap.say(f"plugins can connect to {listen}")
            await _serve(door, path, tap, wait=wait)
        finally:
            door.close()
        return 0

    return work


async def _serve(door: ListeningSocket, path: Path, tap: Tap, *, wait: bool) -> None:
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
        # They end on their own: the same stop event ends them, too.
        await asyncio.gather(*peers)


def _accepted(accepting: asyncio.Future[socket.socket], tap: Tap) -> socket.socket | None:
    try:
        return accepting.result()
    except OSError as error:
        # The usual cause is too many descriptors, some of which will be closed.
        tap.say(f"a plugin's connection failed: {(error.strerror or str(error)).lower()}")
        return None


async def _peer(plugin: socket.socket, path: Path, tap: Tap, away: _Away, *, wait: bool) -> None:
    """Serve one plugin from connection to end; raise no exception for actions of either end."""
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
    """Return whether the plugin has closed its connection; data sent before that is ignored."""
    poll = select.poll()
    poll.register(plugin, select.POLLRDHUP)
    return bool(poll.poll(0))


async def _close(connection: Connection, tap: Tap) -> None:
    await tap.stop.wait()
    connection.close(tap.stop.reason)


class _Away:
    """Reports a missing runtime once, instead of for each plugin that retries repeatedly."""

    def __init__(self, tap: Tap) -> None:
        self._tap = tap
        self._told = False

    def tell(self, error: Exception) -> None:
        """Report that a plugin's connection was closed because of ``error``."""
        if not self._told:
            self._tap.say(f"a plugin was closed, as there is no runtime for it: {error}")
        self._told = True

    def over(self) -> None:
        """Note that the runtime is available."""
        self._told = False
