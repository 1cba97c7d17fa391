# SPDX-License-Identifier: Apache-2.0
"""Create links and sockets: connect to a path, adopt a descriptor, or listen on a path."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns

from nri_scope.errors import ConnectError, reason_of
from nri_scope.process.signals import root_hint

from .link import Link

UNIX_PATH_MAX = 107
"""Maximum length of a path in bytes: sockaddr_un.sun_path has 108, including the final zero."""

CHECK_S = 0.5
"""Seconds between two checks whether a socket was made anew, each of some µs."""

LinkFactory = Callable[[], Link]
SocketFile = tuple[int, int, int]
"""What distinguishes a socket's file from one made anew: inode numbers are reused. Connecting and
chmod(1) keep the time of modification."""


def check_path(path: str | Path) -> str:
    """Return ``path`` as a string; raise ConnectError if it is not valid for a unix socket."""
    text = os.fspath(path)
    length = len(os.fsencode(text))
    if length > UNIX_PATH_MAX:
        raise ConnectError(
            text,
            f"the path has {length} bytes; a unix socket's path has at most {UNIX_PATH_MAX}",
            "use a shorter path, or a symbolic link to its folder",
        )
    if "\0" in text or not text:
        raise ConnectError(text, "not a valid path")
    return text


async def connect_unix(path: str | Path, new_link: LinkFactory) -> Link:
    """Connect to a listening unix socket. Raises ConnectError with the reason of a failure."""
    return await _adopt(await connect_socket(path), new_link)


async def connect_socket(path: str | Path) -> socket.socket:
    """Return a plain non-blocking socket connected to ``path``. Raises ConnectError."""
    text = check_path(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        # Checked first: connecting to a regular file fails with ECONNREFUSED, as if the socket had
        # no listener.
        if not stat.S_ISSOCK(_status(text).st_mode):
            raise ConnectError(text, "not a socket", "give the socket's path with --socket")
        await asyncio.get_running_loop().sock_connect(sock, text)
    except OSError as error:
        sock.close()
        is_absent = isinstance(error, FileNotFoundError | ConnectionRefusedError)
        hint = root_hint("run it as root") if isinstance(error, PermissionError) else ""
        raise ConnectError(text, _problem(error), hint, can_retry=is_absent) from error
    except BaseException:
        sock.close()
        raise
    return sock


def socket_file(path: str | Path) -> SocketFile | None:
    """Return what distinguishes the file at ``path``; None if there is none."""
    try:
        status = _status(os.fspath(path))
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def peer_path(sock: socket.socket) -> str:
    """Return the path that the peer of a unix socket listens on; "" for none."""
    try:
        path = sock.getpeername()
    except OSError:
        return ""
    # Bytes are the name of an abstract socket.
    return path if isinstance(path, str) else ""


async def made_anew(path: str | Path, file: SocketFile | None) -> int:
    """Wait until another file than ``file`` is at ``path``.

    Return the time of the last check before, on the monotonic clock in ns.
    """
    checked_ns = monotonic_ns()
    while socket_file(path) in (file, None):
        checked_ns = monotonic_ns()
        await asyncio.sleep(CHECK_S)
    return checked_ns


async def adopt_descriptor(descriptor: int, new_link: LinkFactory) -> Link:
    """Return a link over a connected unix socket inherited from a parent. Raises ConnectError."""
    name = f"descriptor {descriptor}"
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError as error:
        raise ConnectError(name, "not a socket") from error
    if sock.family != socket.AF_UNIX or sock.type != socket.SOCK_STREAM:
        sock.detach()
        raise ConnectError(name, "not a unix stream socket")
    sock.setblocking(False)
    # Child processes must not keep the connection open.
    sock.set_inheritable(False)
    return await _adopt(sock, new_link)


async def _adopt(sock: socket.socket, new_link: LinkFactory) -> Link:
    _, link = await asyncio.get_running_loop().create_unix_connection(new_link, sock=sock)
    return link


class Server:
    """A listening unix socket whose path is removed on close."""

    def __init__(self, server: asyncio.AbstractServer, path: str, inode: int) -> None:
        self._server = server
        self._inode = inode
        self.path = path

    async def close(self) -> None:
        """Stop listening. Accepted links stay open."""
        self._server.close()
        _remove_own(self.path, self._inode)


async def listen_unix(path: str | Path, new_link: LinkFactory) -> Server:
    """Listen on ``path`` (mode 0600) in an existing folder; call ``new_link`` for each peer.

    A socket without a listener is replaced. Raises ConnectError if the path exists otherwise.
    """
    sock = bind_socket(path)
    inode = _status(os.fspath(path)).st_ino
    server = await asyncio.get_running_loop().create_unix_server(new_link, sock=sock)
    return Server(server, os.fspath(path), inode)


class ListeningSocket:
    """A listening unix socket that accepts peers as plain sockets."""

    def __init__(self, path: str | Path) -> None:
        """Listen on ``path``, as `listen_unix` does. Raises ConnectError."""
        self.path = os.fspath(path)
        self._sock = bind_socket(path)
        self._sock.setblocking(False)
        self._inode = _status(self.path).st_ino

    async def accept(self) -> socket.socket:
        """Wait for the next peer and return its non-blocking socket."""
        sock, _ = await asyncio.get_running_loop().sock_accept(self._sock)
        return sock

    def close(self) -> None:
        """Stop listening and remove the path. Accepted peers stay connected."""
        self._sock.close()
        _remove_own(self.path, self._inode)


def bind_socket(path: str | Path) -> socket.socket:
    """Return a socket that listens on ``path``, as for `listen_unix`. Raises ConnectError."""
    text = check_path(path)
    _remove_stale(text)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        sock.bind(text)
        # An explicit backlog: uvloop's default differs from asyncio's.
        sock.listen(128)
    except OSError as error:
        sock.close()
        raise ConnectError(text, f"cannot listen here: {_problem(error)}") from error
    finally:
        os.umask(mask)
    return sock


def _status(path: str) -> os.stat_result:
    return Path(path).stat()


def _remove_own(path: str, inode: int) -> None:
    # Another process may have created its own socket at this path.
    with contextlib.suppress(FileNotFoundError):
        if _status(path).st_ino == inode:
            Path(path).unlink()


def _remove_stale(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConnectError(path, "the file exists and is not a socket", "choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink()
            return
        except OSError as error:
            raise ConnectError(path, f"cannot listen here: {_problem(error)}") from error
    raise ConnectError(path, "another process already listens here", "choose another path")


def _problem(error: OSError) -> str:
    match error:
        case FileNotFoundError():
            return "no such socket"
        case ConnectionRefusedError():
            return "no process listens on this socket"
        case PermissionError():
            return "permission denied"
        case NotADirectoryError():
            return "a part of the path is not a folder"
        case _:
            return reason_of(error)
