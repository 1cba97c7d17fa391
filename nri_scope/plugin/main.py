# SPDX-License-Identifier: Apache-2.0
"""`run`, the main program of a plugin, and its reconnection after a restart of the runtime."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NoReturn

from nri_scope.errors import (
    ConnectError,
    ConnectionClosed,
    DeadlineExceeded,
    NriScopeError,
    RpcError,
    UsageError,
)
from nri_scope.nri.events import DEFAULT_SOCKET
from nri_scope.nri.identity import check_index, check_name
from nri_scope.process.signals import stop_signals
from nri_scope.text.escape import safe
from nri_scope.transport.loop import run as run_loop

from .serving import HandlerSession, log
from .session import Connect, Identity, SessionEnd, inherited, launched, unix_socket

if TYPE_CHECKING:
    import argparse


_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that end a plugin after its pending replies."""

ABSENT_POLL = 0.1
"""Seconds between two attempts to connect while no runtime listens. Changes of the socket's folder
are not watched. An attempt takes about 50 µs, and no runtime notices it.
"""


@dataclass(slots=True)
class Backoff:
    """Pauses between attempts in seconds, which double from `first` to `longest`."""

    first: float = 0.1
    longest: float = 5.0
    absent: float = ABSENT_POLL
    """Pause while no runtime is running."""
    healthy: float = 10.0
    """Length of a session after which pauses start from `first` again."""
    _next: float = 0.0

    def pause(self, lasted: float) -> float:
        """Return the pause after a session, or a failed attempt, that lasted ``lasted`` seconds."""
        if lasted >= self.healthy or not self._next:
            self._next = self.first
        pause, self._next = self._next, min(self._next * 2, self.longest)
        return pause

    def poll(self) -> float:
        """Return the pause while no runtime is running; later pauses start from `first`."""
        self._next = self.first
        return self.absent


async def keep_connected(
    run_session: Callable[[], Awaitable[SessionEnd]],
    *,
    wait: bool,
    once: bool,
    stopping: Callable[[], bool],
    backoff: Backoff | None = None,
    on_end: Callable[[SessionEnd], None] = lambda end: None,
    on_wait: Callable[[NriScopeError], None] = lambda error: None,
) -> None:
    """Run one session after the other until ``stopping`` or, with ``once``, until one has ended.

    Before the first session, errors are raised; with ``wait``, attempts are repeated as long as no
    runtime is running. After the first session all errors lead to another attempt, even rejections:
    a starting runtime may reject plugins for a while. ``on_wait`` is called with the first error of
    a series.
    """
    backoff = backoff or Backoff()
    connected = False
    waiting = False
    while True:
        started = monotonic()
        absent = False
        try:
            end = await run_session()
        except NriScopeError as error:
            if stopping():
                return
            absent = isinstance(error, ConnectError) and error.can_retry
            starting = absent or isinstance(error, ConnectionClosed | DeadlineExceeded)
            if not (connected or (wait and starting)):
                raise
            if not waiting:
                on_wait(error)
            waiting = True
        else:
            connected, waiting = True, False
            on_end(end)
            if once or stopping():
                return
        await asyncio.sleep(backoff.poll() if absent else backoff.pause(monotonic() - started))


def _log_to_stderr(*, verbose: bool, launched: bool) -> None:
    """Print records from level INFO on, or from DEBUG with ``verbose``, one line each.

    Does nothing if the root logger has a handler. For a ``launched`` plugin, start and end of
    sessions, which the runtime decides, are not logged.
    """
    if logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine())
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    if launched and not verbose:
        log.setLevel(logging.WARNING)


class _OneLine(logging.Formatter):
    """Formatter that escapes untrusted text, and prints one line."""

    def format(self, record: logging.LogRecord) -> str:
        lines = [f"{record.levelname.lower()}: {safe(record.getMessage())}"]
        if record.exc_info:
            # A traceback has several lines.
            trace = self.formatException(record.exc_info).splitlines()
            lines += ["  " + safe(line) for line in trace]
        return "\n".join(lines)


def run(
    plugin: object, *, name: str, index: str = "10", arguments: Sequence[str] | None = None
) -> NoReturn:
    """Run ``plugin``, an object with some of the methods in `HANDLERS`, until a signal stops it.

    A plugin that a runtime launched serves that one connection. Others connect to ``--socket``,
    register ``--index`` and ``--name`` (defaults: the arguments here), and reconnect when the
    runtime has restarted. Parses the command line (or ``arguments``), logs to stderr, and exits
    with status 0 after a signal, or 2 with one line about an error.

    The plugin's attribute "failure_policy", if any, tells a runtime with NRI 0.12.4 or later what
    to do when this plugin does not answer a request: "fail_request" fails the request,
    "keep_connected" does not disconnect the plugin for a missed deadline, and
    "fail_request,keep_connected" does both. It is an error if the runtime does not know the policy;
    a launched plugin continues without it, as up to NRI 0.6 the runtime could not start otherwise.
    """
    try:
        _run(plugin, _parse(plugin, name, index, arguments))
    except NriScopeError as error:
        print(f"{name}: {safe(str(error))}", file=sys.stderr)  # noqa: T201 - a main program
        sys.exit(2)
    sys.exit(0)


def _run(plugin: object, options: argparse.Namespace) -> None:
    launch = launched()
    _log_to_stderr(verbose=options.verbose, launched=launch is not None)
    if launch is not None:
        connect = inherited(launch.descriptor)
        life = _PluginRun(
            plugin, launch.identity, connect, once=True, wait=False, requires_policy=False
        )
    else:
        identity = Identity(check_index(options.index), check_name(options.name))
        connect = unix_socket(options.socket)
        life = _PluginRun(plugin, identity, connect, once=options.once, wait=options.wait)
    run_loop(life.run())


def _parse(
    plugin: object, name: str, index: str, arguments: Sequence[str] | None
) -> argparse.Namespace:
    import argparse

    parser = argparse.ArgumentParser(
        prog=name, description=(type(plugin).__doc__ or "").strip().partition("\n")[0]
    )
    parser.add_argument(
        "--socket",
        type=Path,
        default=Path(DEFAULT_SOCKET),
        metavar="PATH",
        help="the runtime's NRI socket (default: %(default)s)",
    )
    parser.add_argument(
        "--index",
        default=index,
        help="two digits: the place in the chain (default: %(default)s)",
    )
    parser.add_argument(
        "--name", default=name, help="plugin name to register (default: %(default)s)"
    )
    parser.add_argument("--wait", action="store_true", help="wait until a runtime is running")
    parser.add_argument("--once", action="store_true", help="end when the connection ends")
    parser.add_argument("-v", "--verbose", action="store_true", help="log more, with tracebacks")
    return parser.parse_args(arguments)


@dataclass(eq=False)
class _PluginRun:
    """Runner of one session after the other, until a signal."""

    plugin: object
    identity: Identity
    connect: Connect
    once: bool
    wait: bool
    requires_policy: bool = True
    """Whether it is an error if the runtime does not know the failure policy. After the first
    session it is not: a runtime with an older NRI may return."""
    _session: HandlerSession | None = None
    _stopping: str = ""

    async def run(self) -> None:
        """Run the plugin until a signal, or the end of its last session."""
        sessions = asyncio.create_task(
            keep_connected(
                self._one_session,
                wait=self.wait,
                once=self.once,
                stopping=lambda: bool(self._stopping),
                on_end=lambda end: log.info("session ended: %s", end.reason),
                on_wait=lambda error: log.warning("waiting for a runtime: %s", error),
            )
        )

        def stop(_number: int, reason: str) -> None:
            self._stop(sessions, reason)

        try:
            with stop_signals(stop, signals=_STOP_SIGNALS, loop=asyncio.get_running_loop()):
                await sessions
        except asyncio.CancelledError:
            if not self._stopping:
                raise
        except RpcError as error:
            raise UsageError(
                f"the runtime refused the registration: {error.message}",
                "try another --index or --name",
            ) from error

    def _stop(self, sessions: asyncio.Task[None], reason: str) -> None:
        again, self._stopping = bool(self._stopping), reason
        if again or self._session is None or not self._session.close(reason):
            sessions.cancel()

    async def _one_session(self) -> SessionEnd:
        session = self._session = HandlerSession(
            self.plugin, self.identity, requires_policy=self.requires_policy
        )
        try:
            end = await session.run(self.connect, require_configure=not self.once)
        finally:
            self._session = None
        self.requires_policy = False
        return end
