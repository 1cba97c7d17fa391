# SPDX-License-Identifier: Apache-2.0
"""`run`, the main program of a plugin."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from nri_scope.errors import NriScopeError, RpcError, UsageError
from nri_scope.nri.failure_policy import FailurePolicy
from nri_scope.nri.identity import check_index, check_name
from nri_scope.nri.methods import DEFAULT_SOCKET
from nri_scope.process.signals import stop_signals
from nri_scope.transport.loop import run as run_loop

from .endpoint import Connect, Identity, inherited, launched, unix_socket
from .handlers import Handlers
from .reconnect import keep_connected
from .serving import HandlerSession
from .session import SessionEnd

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that end a plugin after its pending replies."""

log = logging.getLogger("nri_scope.plugin")


def run(
    plugin: object,
    *,
    name: str,
    index: str = "10",
    failure_policy: str = "",
    arguments: Sequence[str] | None = None,
) -> NoReturn:
    """Run ``plugin``, an object with handlers as in `BasePlugin`, until a signal stops it.

    A plugin that a runtime launched serves that one connection. Others connect to ``--socket``,
    register ``--index`` and ``--name`` (defaults: the arguments here), and reconnect when the
    runtime has restarted. Parses the command line (or ``arguments``), logs to stderr, and exits
    with status 0 after a signal, or 2 with one line about an error.

    ``failure_policy`` tells a runtime with NRI 0.12.4 or later what to do when this plugin does not
    answer a request: ``"fail_request"`` fails the request, ``"keep_connected"`` does not disconnect
    the plugin for a missed deadline, ``"fail_request,keep_connected"`` does both. It is an error if
    the runtime does not know the policy; a launched plugin continues without it, as up to NRI 0.6
    the runtime could not start otherwise.
    """
    try:
        policy = FailurePolicy.parse(failure_policy)
        status = _run(plugin, name, index, policy, arguments)
    except NriScopeError as error:
        print(f"{name}: {_printable(str(error))}", file=sys.stderr)  # noqa: T201 - a main program
        status = 2
    sys.exit(status)


def _run(
    plugin: object,
    name: str,
    index: str,
    policy: FailurePolicy,
    arguments: Sequence[str] | None,
) -> int:
    import argparse

    handlers = Handlers.of(plugin)
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
        "--index", default=index, help="two digits: the place in the chain (default: %(default)s)"
    )
    parser.add_argument(
        "--name", default=name, help="plugin name to register (default: %(default)s)"
    )
    parser.add_argument("--wait", action="store_true", help="wait until a runtime is running")
    parser.add_argument("--once", action="store_true", help="end when the connection ends")
    parser.add_argument("-v", "--verbose", action="store_true", help="log more, with tracebacks")
    options = parser.parse_args(arguments)

    launch = launched()
    # A launched plugin does not log its start and end.
    usual = logging.INFO if launch is None else logging.WARNING
    _log_to_stderr(logging.DEBUG if options.verbose else usual)
    if launch is not None:
        connect = inherited(launch.descriptor)
        life = _PluginRun(handlers, launch.identity, connect, policy, once=True, wait=False)
        life.requires_policy = False
    else:
        identity = Identity(check_index(options.index), check_name(options.name))
        connect = unix_socket(options.socket)
        life = _PluginRun(handlers, identity, connect, policy, once=options.once, wait=options.wait)
    return run_loop(life.run())


class _PluginRun:
    """Runner of one session after the other, until a signal."""

    def __init__(
        self,
        handlers: Handlers,
        identity: Identity,
        connect: Connect,
        policy: FailurePolicy,
        *,
        once: bool,
        wait: bool,
    ) -> None:
        self.requires_policy = True
        """Whether it is an error if the runtime does not know the failure policy. After the first
        session it is not: a runtime with an older NRI may return."""
        self._policy = policy
        self._handlers = handlers
        self._identity = identity
        self._connect = connect
        self._once = once
        self._wait = wait
        self._session: HandlerSession | None = None
        self._stopping = ""

    async def run(self) -> int:
        """Run the plugin, and return the exit status."""
        sessions = asyncio.create_task(
            keep_connected(
                self._one_session,
                wait=self._wait,
                once=self._once,
                stopping=lambda: bool(self._stopping),
                on_end=lambda end: log.info("session ended: %s", end.reason),
                on_wait=lambda error: log.warning("waiting for a runtime: %s", error),
            )
        )

        def stop(_number: int, reason: str) -> None:
            self._stop(sessions, reason)

        try:
            with stop_signals(stop, signals=STOP_SIGNALS, loop=asyncio.get_running_loop()):
                await sessions
        except asyncio.CancelledError:
            if not self._stopping:
                raise
        except RpcError as error:
            raise UsageError(
                f"the runtime refused the registration: {error.message}",
                "try another --index or --name",
            ) from error
        return 0

    def _stop(self, sessions: asyncio.Task[None], reason: str) -> None:
        again, self._stopping = bool(self._stopping), reason
        if again or self._session is None or not self._session.close(reason):
            sessions.cancel()

    async def _one_session(self) -> SessionEnd:
        session = self._session = HandlerSession(
            self._handlers,
            self._identity,
            self._policy,
            requires_policy=self.requires_policy,
        )
        try:
            end = await session.run(self._connect, require_configure=not self._once)
        finally:
            self._session = None
        self.requires_policy = False
        return end


class _OneLine(logging.Formatter):
    """Formatter that escapes untrusted text, and prints one line."""

    def format(self, record: logging.LogRecord) -> str:
        line = _printable(record.getMessage())
        text = f"{record.levelname.lower()}: {line}"
        if record.exc_info:
            # A traceback has several lines.
            lines = self.formatException(record.exc_info).splitlines()
            text = "\n".join([text, *("  " + _printable(one) for one in lines)])
        return text


def _log_to_stderr(level: int) -> None:
    if logging.getLogger().handlers:
        # The plugin has configured its own logging.
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine())
    logging.basicConfig(level=level, handlers=[handler])
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _printable(text: str) -> str:
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
