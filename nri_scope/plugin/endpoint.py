# SPDX-License-Identifier: Apache-2.0
"""Connections of a plugin: by a socket's path, or from the runtime that launched it."""

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
"""Makes a new link to the runtime, given the callbacks for its requests and for notices."""


def unix_socket(path: str | Path) -> Connect:
    """Connect to the runtime's socket at ``path``; each call makes a new connection."""
    return lambda served, heard: connect_unix(path, lambda: _link(served, heard))


def inherited(descriptor: int) -> Connect:
    """Use the connected socket inherited from the runtime; it works once."""
    return lambda served, heard: adopt_descriptor(descriptor, lambda: _link(served, heard))


def _link(on_request: RequestHandler, on_notice: Callable[[Notice], None]) -> Link:
    return Link(Connection(serves=PLUGIN_CONN, calls=RUNTIME_CONN), on_request, on_notice)


def with_way_out(error: ConnectError) -> ConnectError:
    """Return the error about a runtime's socket, with a hint for the user of a command."""
    way_out = "run `nri-scope doctor` to see why, or use --wait to wait for it"
    return ConnectError(error.path, error.problem, error.hint or way_out)


@dataclass(frozen=True, slots=True)
class Identity:
    """The index and name under which a plugin registers."""

    index: str
    """Two digits that determine the order of calls."""
    name: str


@dataclass(frozen=True, slots=True)
class Launched:
    """The data that a runtime passes to a plugin that it launches."""

    descriptor: int
    identity: Identity


def launched(environment: Mapping[str, str] = os.environ) -> Launched | None:
    """Read NRI_PLUGIN_SOCKET, _NAME and _IDX; None if no runtime launched this process."""
    text = environment.get("NRI_PLUGIN_SOCKET", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise UsageError(
            f"NRI_PLUGIN_SOCKET={text!r} is no descriptor number", "unset it to connect to a socket"
        )
    # The runtime knows a launched plugin by its file name, regardless of its registration.
    name = environment.get("NRI_PLUGIN_NAME") or "nri-scope"
    index = environment.get("NRI_PLUGIN_IDX") or "00"
    return Launched(int(text), Identity(name=name, index=index))
