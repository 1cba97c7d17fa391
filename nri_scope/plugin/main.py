# SPDX-License-Identifier: Apache-2.0
"""`run`, the main program of a plugin."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

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

if TYPE_CHECKING:
    import argparse


_OWN = "nri_scope.plugin"
"""Logger of this library."""


def log_to_stderr(*, verbose: bool, launched: bool) -> None:
    """Print records from level INFO on, or from DEBUG with ``verbose``, one line each.

    Does nothing if the root logger has a handler, and omits records that a handler of another
    logger prints. For a ``launched`` plugin, this library logs no start and end of sessions, which
    the runtime decides.
    """
    if logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine())
    handler.addFilter(_is_unhandled)
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    if launched and not verbose:
        logging.getLogger(_OWN).setLevel(logging.WARNING)


def _is_unhandled(record: logging.LogRecord) -> bool:
    """Return whether no logger below the root has handled the record."""
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None and logger.parent is not None:
        if logger.handlers:
            return False
        logger = logger.parent
    return True


class _OneLine(logging.Formatter):
    """Formatter that escapes untrusted text, and prints one line."""

    def format(self, record: logging.LogRecord) -> str:
        line = printable(record.getMessage())
        text = f"{record.levelname.lower()}: {line}"
        if record.exc_info:
            # A traceback has several lines.
            lines = self.formatException(record.exc_info).splitlines()
            text = "\n".join([text, *("  " + printable(one) for one in lines)])
        return text


def printable(text: str) -> str:
    """Escape control characters and other characters that terminals do not print."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that end a plugin after its pending replies."""

CONFIG_MAX = 4 << 20
"""Maximum bytes of the file of ``--config``; a runtime cannot send more."""

log = logging.getLogger("nri_scope.plugin")


def run(
    plugin: object,
    *,
    name: str,
    index: str = "10",
    failure_policy: str = "",
    parser: argparse.ArgumentParser | None = None,
    arguments: Sequence[str] | None = None,
) -> NoReturn:
    """Run ``plugin``, an object with handlers as in `BasePlugin`, until a signal stops it.

    A plugin that a runtime launched serves that one connection. Others connect to ``--socket``,
    register ``--index`` and ``--name`` (defaults: the arguments here), and reconnect when the
    runtime has restarted. Parses the command line (or ``arguments``), logs to stderr, and exits
    with status 0 after a signal, or 2 with one line about an error.

    ``parser`` has the plugin's own options, to which those of `run` are added. ``plugin`` is then a
    class or function that is called with the parsed options, and returns the plugin.

    ``--config FILE`` passes the file's text to `BasePlugin.configure`. A configuration sent by the
    runtime, which only launched plugins get, replaces it.

    ``failure_policy`` tells a runtime with NRI 0.12.4 or later what to do when this plugin does not
    answer a request: ``"fail_request"`` fails the request, ``"keep_connected"`` does not disconnect
    the plugin for a missed deadline, ``"fail_request,keep_connected"`` does both. The default is
    the plugin's attribute `BasePlugin.failure_policy`. It is an error if the runtime does not know
    the policy; a launched plugin continues without it, as up to NRI 0.6 the runtime could not start
    otherwise.
    """
    try:
        status = _run(plugin, name, index, failure_policy, parser, arguments)
    except NriScopeError as error:
        print(f"{name}: {printable(str(error))}", file=sys.stderr)  # noqa: T201 - a main program
        status = 2
    sys.exit(status)


def _run(
    plugin: object,
    name: str,
    index: str,
    policy: str,
    own: argparse.ArgumentParser | None,
    arguments: Sequence[str] | None,
) -> int:
    import argparse

    if own is None:
        handlers = Handlers.of(plugin)
        own = argparse.ArgumentParser(
            prog=name, description=(type(plugin).__doc__ or "").strip().partition("\n")[0]
        )
        options = _parse(own, name, index, arguments)
    else:
        if not callable(plugin):
            raise UsageError(
                "with parser, run needs a function that makes the plugin",
                f"pass lambda options: {type(plugin).__name__}(...)",
            )
        options = _parse(own, name, index, arguments)
        handlers = Handlers.of(cast("Callable[[argparse.Namespace], object]", plugin)(options))
    if policy:
        handlers = replace(handlers, failure_policy=FailurePolicy.parse(policy))
    config = "" if options.config is None else _read_config(options.config)

    launch = launched()
    log_to_stderr(verbose=options.verbose, launched=launch is not None)
    if launch is not None:
        connect = inherited(launch.descriptor)
        life = _PluginRun(handlers, launch.identity, connect, config, once=True, wait=False)
        life.requires_policy = False
    else:
        identity = Identity(check_index(options.index), check_name(options.name))
        connect = unix_socket(options.socket)
        life = _PluginRun(handlers, identity, connect, config, once=options.once, wait=options.wait)
    return run_loop(life.run())


def _parse(
    parser: argparse.ArgumentParser, name: str, index: str, arguments: Sequence[str] | None
) -> argparse.Namespace:
    """Add the options of `run` to ``parser``, and parse the arguments."""
    import argparse

    group = parser.add_argument_group("NRI")
    try:
        group.add_argument(
            "--socket",
            type=Path,
            default=Path(DEFAULT_SOCKET),
            metavar="PATH",
            help="the runtime's NRI socket (default: %(default)s)",
        )
        group.add_argument(
            "--index",
            default=index,
            help="two digits: the place in the chain (default: %(default)s)",
        )
        group.add_argument(
            "--name", default=name, help="plugin name to register (default: %(default)s)"
        )
        group.add_argument(
            "--config", type=Path, metavar="FILE", help="configuration, if the runtime sends none"
        )
        group.add_argument("--wait", action="store_true", help="wait until a runtime is running")
        group.add_argument("--once", action="store_true", help="end when the connection ends")
        group.add_argument("-v", "--verbose", action="store_true", help="log more, with tracebacks")
    except argparse.ArgumentError as error:
        raise UsageError(f"run adds an option that parser has, too: {error}") from error
    return parser.parse_args(arguments)


def _read_config(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(CONFIG_MAX + 1)
        text = data.decode()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"--config {path}: cannot be read: {why}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--config {path}: it is not text in UTF-8") from error
    if len(data) > CONFIG_MAX:
        raise UsageError(f"--config {path}: it has more than {CONFIG_MAX >> 20} MiB")
    return text


class _PluginRun:
    """Runner of one session after the other, until a signal."""

    def __init__(
        self,
        handlers: Handlers,
        identity: Identity,
        connect: Connect,
        config: str,
        *,
        once: bool,
        wait: bool,
    ) -> None:
        self.requires_policy = True
        """Whether it is an error if the runtime does not know the failure policy. After the first
        session it is not: a runtime with an older NRI may return."""
        self._config = config
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
            self._config,
            requires_policy=self.requires_policy,
        )
        try:
            end = await session.run(self._connect, require_configure=not self._once)
        finally:
            self._session = None
        self.requires_policy = False
        return end
