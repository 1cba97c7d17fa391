# SPDX-License-Identifier: Apache-2.0
"""Listen on a socket for plugins, and connect each to the runtime."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from nri_scope.errors import ConnectError, UsageError, reason_of
from nri_scope.transport.sockets import ListeningSocket

from .connection import TappedConnection
from .run import Tap, connect

PEERS_MAX = 200
"""Maximum number of connected plugins: more than any host has, unless plugins leak connections."""
ACCEPT_PAUSE_S = 0.5
"""Seconds until the next accept if no descriptor was free for a connection."""


def at_socket(listen: Path, path: Path, *, wait: bool) -> Callable[[Tap], Awaitable[int]]:
    """Return a function for `run_tap` that taps every plugin that connects to ``listen``.

    Each plugin is connected to the runtime at ``path``. Without a runtime, the plugin's connection
    is closed immediately, so that the plugin retries; with ``wait``, it stays open until the
    runtime is available.
    """
    if not listen.absolute().parent.is_dir():
        raise UsageError(f"--listen {listen}: no such folder", "make it, or name another one")

    async def work(tap: Tap) -> int:
        listener = ListeningSocket(listen)
        try:
            tap.say(f"plugins can connect to {listen}")
            await serve(listener, path, tap, Peers(tap), wait=wait)
        finally:
            listener.close()
        return 0

    return work


class Peers:
    """The plugins that connect to a socket. `external_plugin` overrides this for a single one."""

    def __init__(self, tap: Tap) -> None:
        self._tap = tap

    def connection(self) -> TappedConnection:
        """Return the connection to use for a plugin that has connected."""
        return self._tap.connection(None)

    async def finish(self, connection: TappedConnection, reason: str) -> str:
        """End the session of a connection; return the reason, for display."""
        connection.finish(reason)
        return reason


async def serve(
    listener: ListeningSocket, path: Path, tap: Tap, peers: Peers, *, wait: bool
) -> None:
    """Tap every plugin that connects to ``listener``, until the tap is stopped."""
    plugins: set[asyncio.Task[None]] = set()
    stopping = asyncio.ensure_future(tap.stop.wait())
    accepting = asyncio.ensure_future(listener.accept())
    try:
        while not tap.stop.reason:
            await asyncio.wait((stopping, accepting), return_when=asyncio.FIRST_COMPLETED)
            if not accepting.done():
                continue
            plugin = _accepted(accepting, tap)
            accepting = asyncio.ensure_future(listener.accept())
            if plugin is None:
                await asyncio.wait((stopping,), timeout=ACCEPT_PAUSE_S)
                continue
            if len(plugins) >= PEERS_MAX:
                plugin.close()
                tap.say(f"closed a plugin's connection: the limit is {PEERS_MAX} plugins")
                continue
            task = asyncio.create_task(_tap_plugin(plugin, path, tap, peers, wait=wait))
            plugins.add(task)
            task.add_done_callback(plugins.discard)
    finally:
        stopping.cancel()
        accepting.cancel()
        await asyncio.gather(stopping, accepting, return_exceptions=True)
        # The same stop request ends these tasks.
        await asyncio.gather(*plugins)


def _accepted(accepting: asyncio.Future[socket.socket], tap: Tap) -> socket.socket | None:
    try:
        return accepting.result()
    except OSError as error:
        # Usually too many open descriptors, some of which will be closed later.
        tap.say(f"a plugin's connection failed: {reason_of(error)}")
        return None


async def _tap_plugin(
    plugin: socket.socket,
    path: Path,
    tap: Tap,
    peers: Peers,
    *,
    wait: bool,
) -> None:
    """Tap one plugin until its connection ends. Neither peer can cause an exception."""
    try:
        runtime = await connect(path, tap, wait=wait, needless=lambda: _is_gone(plugin))
    except (ConnectError, OSError) as error:
        if not tap.misses_runtime:
            tap.say(f"closed a plugin's connection, as there is no runtime: {error}")
        tap.misses_runtime = True
        plugin.close()
        return
    if runtime is None:
        plugin.close()
        return
    tap.misses_runtime = False
    connection = peers.connection()
    closing = asyncio.ensure_future(_close_on_stop(connection, tap))
    try:
        try:
            end = await connection.relay(runtime, plugin)
        except UsageError as error:
            tap.say(f"closed a plugin's connection: {error}")
            return
        reason = await peers.finish(connection, end.reason)
    finally:
        closing.cancel()
    tap.ended(end.plugin)
    if not tap.stop.reason:
        who = end.plugin or "a plugin that did not register"
        if end.refused:
            tap.say(f"{who}: the runtime refused the registration: {end.refused}")
        tap.say(f"{who}: session ended: {reason}")


def _is_gone(plugin: socket.socket) -> bool:
    """Return whether the plugin has closed its connection, even if it sent unread data before."""
    poll = select.poll()
    poll.register(plugin, select.POLLRDHUP)
    return bool(poll.poll(0))


async def _close_on_stop(connection: TappedConnection, tap: Tap) -> None:
    await tap.stop.wait()
    connection.close(tap.stop.reason)
