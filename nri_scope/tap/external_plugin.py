# SPDX-License-Identifier: Apache-2.0
"""Start a plugin that connects to a private socket by itself, and tap its connections."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path, PurePath

from nri_scope.errors import UsageError
from nri_scope.runtime.external_plugin import ExternalPlugin
from nri_scope.runtime.output import Stream
from nri_scope.runtime.plugin_process import Process
from nri_scope.transport.sockets import ListeningSocket

from .connection import Connection
from .launched_plugin import GRACE_S, exit_status, report_leftovers
from .plugin_socket import Peers, serve
from .run import Tap

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

    ``show`` and ``wait``: see `launched_plugin.to_socket`; ``grace_s``: see `Launch`.
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
    """The plugin with its current connection, to which its output is attributed."""

    def __init__(self, tap: Tap, name: str, show: Callable[[str], None] | None) -> None:
        super().__init__(tap)
        self.tap = tap
        self.process: Process | None = None
        self.has_connected = False
        self._name = name
        self._show = show
        # Created before the plugin connects, as it may print early.
        self._connection = tap.connection(None)

    def connection(self) -> Connection:
        self.has_connected = True
        return self._connection

    async def finish(self, connection: Connection, reason: str) -> str:
        if self.process is not None:
            await self.process.wait_exit(EXIT_S)
            reason = self.process.explain(reason)
        self._connection = self.tap.connection(None)
        return await super().finish(connection, reason)

    def printed(self, stream: Stream, line: str, mono_ns: int) -> None:
        """Record a line that the plugin printed, and show it."""
        at_ns = self._connection.printed(stream.value, line, mono_ns)
        if self._show is not None:
            self._show(line)
        else:
            self.tap.writer.show_line(at_ns, self._name, stream.value, line)
