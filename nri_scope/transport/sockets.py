# SPDX-License-Identifier: Apache-2.0
"""Sources of links: a path to connect to, an inherited descriptor, a path to listen on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from nri_scope.errors import ConnectError

from .link import Link

UNIX_PATH_MAX = 107
"""Maximum bytes of a path: sockaddr_un.sun_path holds 108 bytes, including the final zero."""

LinkFactory = Callable[[], Link]


def check_path(path: str | Path) -> str:
    """Return ``path`` as a string that fits a unix socket address. Raises ConnectError."""
    text = os.fspath(path)
    length = len(os.fsencode(text))
    if length > UNIX_PATH_MAX:
        raise ConnectError(
            text,
            f"the path has {length} bytes, a unix socket's at most {UNIX_PATH_MAX}",
            "use a shorter one, or a symbolic link to its folder",
        )
    if "\0" in text or not text:
        raise ConnectError(text, "not a path")
    return text


async def connect_unix(path: str | Path, new_link: LinkFactory) -> Link:
    """Connect to a listening unix socket; `ConnectError` gives the reason of a failure."""
    return await _adopt(await connect_socket(path), new_link)


async def connect_socket(path: str | Path) -> socket.socket:
    """Return a plain non-blocking socket connected to ``path``; raises as `connect_unix`."""
    text = check_path(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        # Checked first, because connecting to an ordinary file is "refused" like a dead socket.
        if not stat.S_ISSOCK(_status(text).st_mode):
            raise ConnectError(text, "not a socket", "give the socket's path with --socket")
        await asyncio.get_running_loop().sock_connect(sock, text)
    except OSError as error:
        sock.close()
        absent = isinstance(error, FileNotFoundError | ConnectionRefusedError)
        hint = "run it as root" if isinstance(error, PermissionError) else ""
        raise ConnectError(text, _words(error), hint, may_come=absent) from error
    except BaseException:
        sock.close()
        raise
    return sock


async def adopt_descriptor(descriptor: int, new_link: LinkFactory) -> Link:
    """Take over a connected stream socket inherited from a parent process."""
    name = f"descriptor {descriptor}"
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError as error:
        raise ConnectError(name, "not a socket") from error
    if sock.family != socket.AF_UNIX or sock.type != socket.SOCK_STREAM:
        sock.detach()
        raise ConnectError(name, "not a unix stream socket")
    sock.setblocking(False)
    # Child processes must not keep the connection open after us.
    sock.set_inheritable(False)
    return await _adopt(sock, new_link)


async def _adopt(sock: socket.socket, new_link: LinkFactory) -> Link:
    _, link = await asyncio.get_running_loop().create_unix_connection(new_link, sock=sock)
    return link


class Server:
    """A listening unix socket; closing it removes the path."""

    def __init__(self, server: asyncio.AbstractServer, path: str, inode: int) -> None:
        self._server = server
        self._inode = inode
        self.path = path

    async def close(self) -> None:
        """Stop listening. Accepted links stay open."""
        self._server.close()
        _remove_own(self.path, self._inode)


async def listen_unix(path: str | Path, new_link: LinkFactory) -> Server:
    """Listen on ``path`` (0600) in an existing folder; ``new_link`` makes the link of a peer.

    A socket without a listener is replaced; anything else at the path is left unchanged.
    """
    sock = bind_socket(path)
    inode = _status(os.fspath(path)).st_ino
    server = await asyncio.get_running_loop().create_unix_server(new_link, sock=sock)
    return Server(server, os.fspath(path), inode)


class ListeningSocket:
    """A listening unix socket whose peers become plain sockets. Created as by `listen_unix`."""

    def __init__(self, path: str | Path) -> None:
        """Listen on ``path``; raises `ConnectError`."""
        self.path = os.fspath(path)
        self._sock = bind_socket(path)
        self._sock.setblocking(False)
        self._inode = _status(self.path).st_ino

    async def accept(self) -> socket.socket:
        """Wait for the next peer, and return its non-blocking socket."""
        sock, _ = await asyncio.get_running_loop().sock_accept(self._sock)
        return sock

    def close(self) -> None:
        """Stop listening and remove the path. Accepted peers stay connected."""
        self._sock.close()
        _remove_own(self.path, self._inode)


def bind_socket(path: str | Path) -> socket.socket:
    """Return a socket that listens on ``path`` (0600), as `listen_unix`. Raises ConnectError."""
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
        raise ConnectError(text, f"cannot listen here: {_words(error)}") from error
    finally:
        os.umask(mask)
    return sock


def _status(path: str) -> os.stat_result:
    return Path(path).stat()


def _remove_own(path: str, inode: int) -> None:
    # Another process may have created its own socket there meanwhile.
    with contextlib.suppress(FileNotFoundError):
        if _status(path).st_ino == inode:
            Path(path).unlink()


def _remove_stale(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConnectError(path, "something that is no socket is there already", "choose another")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink()
            return
        except OSError as error:
            raise ConnectError(path, f"cannot listen here: {_words(error)}") from error
    raise ConnectError(path, "another process listens there already", "choose another")


def _words(error: OSError) -> str:
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
            return (error.strerror or str(error)).lower()
