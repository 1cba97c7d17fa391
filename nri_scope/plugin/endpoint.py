# SPDX-License-Identifier: Apache-2.0
"""Connections of a plugin: to a socket's path, or inherited from the runtime."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nri_scope.errors import ConnectError, UsageError
from nri_scope.nri.methods import PLUGIN_CONN, RUNTIME_CONN
from nri_scope.transport import Link, Notice, RequestHandler, adopt_descriptor, connect_unix
from nri_scope.wire import Connection

Connect = Callable[[RequestHandler, Callable[[Notice], None]], Awaitable[Link]]
"""Opens a link to the runtime, with callbacks for its requests and for notices."""


@dataclass(frozen=True, slots=True)
class UnixSocket:
    """`Connect` for the runtime's socket at ``path``, which can be repeated."""

    path: str | Path

    async def __call__(
        self, on_request: RequestHandler, on_notice: Callable[[Notice], None]
    ) -> Link:
        """Connect to the socket."""
        return await connect_unix(self.path, lambda: _link(on_request, on_notice))


def unix_socket(path: str | Path) -> Connect:
    """Return a `Connect` for the runtime's socket at ``path``."""
    return UnixSocket(path)


def inherited(descriptor: int) -> Connect:
    """Return a `Connect` for the connected socket inherited from the runtime; it works once."""
    return lambda on_request, on_notice: adopt_descriptor(
        descriptor, lambda: _link(on_request, on_notice)
    )


def _link(on_request: RequestHandler, on_notice: Callable[[Notice], None]) -> Link:
    return Link(Connection(serves=PLUGIN_CONN, calls=RUNTIME_CONN), on_request, on_notice)


def with_hint(error: ConnectError) -> ConnectError:
    """Return the error about a runtime's socket with a hint to use ``doctor`` or ``--wait``."""
    hint = "run `nri-scope doctor` to see why, or use --wait to wait for it"
    return ConnectError(error.path, error.problem, error.hint or hint)


@dataclass(frozen=True, slots=True)
class Identity:
    """Index and name that a plugin registers."""

    index: str
    """Two digits: the place in the chain."""
    name: str


@dataclass(frozen=True, slots=True)
class Launched:
    """Data that a runtime passes to a plugin that it launches."""

    descriptor: int
    identity: Identity


def launched(environment: Mapping[str, str] = os.environ) -> Launched | None:
    """Read NRI_PLUGIN_SOCKET, _NAME and _IDX; return None if no runtime launched this process.

    Raises `UsageError` for a descriptor that is not a number.
    """
    text = environment.get("NRI_PLUGIN_SOCKET", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise UsageError(
            f"NRI_PLUGIN_SOCKET={text!r} is not a descriptor number",
            "unset it to connect to a socket",
        )
    # The runtime uses the file name of a launched plugin and ignores what it registers.
    name = environment.get("NRI_PLUGIN_NAME") or "nri-scope"
    index = environment.get("NRI_PLUGIN_IDX") or "00"
    # iSulad sets it to NN-name.
    return Launched(int(text), Identity(name=name.removeprefix(f"{index}-") or name, index=index))
