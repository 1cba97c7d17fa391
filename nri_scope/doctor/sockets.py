# SPDX-License-Identifier: Apache-2.0
"""The NRI socket: its file, its permissions, and the listening process."""

from __future__ import annotations

import os
import socket
import stat
import struct
from dataclasses import dataclass
from pathlib import PurePosixPath

from nri_scope.errors import ConnectError
from nri_scope.transport.sockets import check_path

from .check import Check, fail, ok, unknown, warn
from .host import Host, words
from .processes import RUNTIMES, process_name

CONNECT_TIMEOUT = 2.0
"""Timeout in seconds for connecting, which takes time only if the queue of the socket is full."""


@dataclass(frozen=True, slots=True)
class SocketFile:
    """The socket's file and folder."""

    path: str
    problem: str = ""
    """Why the socket could not be examined; "" if it could."""
    exists: bool = False
    is_socket: bool = False
    mode: int = 0
    uid: int = 0
    folder_mode: int | None = None
    """Permission bits of the folder; None if it does not exist or is hidden."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Result of connecting: the listening process, or a problem."""

    problem: str = ""
    refused: bool = False
    """Whether no process listens: the socket's file is left over."""
    denied: bool = False
    """Whether connecting is not permitted, so it is unknown whether a process listens."""
    busy: bool = False
    """Whether a process listens but does not accept."""
    pid: int = 0
    """Id of the process that called listen(2); 0 if it is in a hidden process namespace."""
    uid: int = -1
    name: str = ""
    """Short name of the process, "" if unknown."""
    descriptor: int | None = None
    """The connection, which the caller owns."""


def look_at_socket(host: Host, path: str) -> SocketFile:
    """Read the status of the socket's file and folder, without connecting."""
    folder_mode = None
    try:
        folder_mode = stat.S_IMODE(host.status(str(PurePosixPath(path).parent)).st_mode)
        status = host.status(path)
    except FileNotFoundError:
        return SocketFile(path, folder_mode=folder_mode)
    except OSError as error:
        return SocketFile(path, words(error), folder_mode=folder_mode)
    return SocketFile(
        path,
        exists=True,
        is_socket=stat.S_ISSOCK(status.st_mode),
        mode=stat.S_IMODE(status.st_mode),
        uid=status.st_uid,
        folder_mode=folder_mode,
    )


def connect(host: Host, path: str) -> Listener:
    """Connect, and get the listening process from the kernel. Nothing is sent."""
    try:
        address = check_path(host.resolve(path))
    except ConnectError as error:
        return Listener(problem=error.problem)
    except OSError as error:
        return Listener(problem=words(error))
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(CONNECT_TIMEOUT)
        sock.connect(address)
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except ConnectionRefusedError:
        sock.close()
        return Listener(problem="no process listens", refused=True)
    except (BlockingIOError, TimeoutError):
        # The queue of pending connections is full.
        sock.close()
        return Listener(problem="it does not accept connections", busy=True)
    except PermissionError as error:
        sock.close()
        return Listener(problem=words(error), denied=True)
    except OSError as error:
        sock.close()
        return Listener(problem=words(error))
    pid, uid, _ = struct.unpack("3i", credentials)
    return Listener(
        pid=pid, uid=uid, name=process_name(host, pid) if pid else "", descriptor=sock.detach()
    )


def check_socket(file: SocketFile) -> list[Check]:
    """Check the socket's file and folder."""
    if file.problem:
        return [unknown("socket", f"{file.path}: {file.problem}", "run doctor as root")]
    if not file.exists:
        text = f"{file.path} does not exist"
        if file.folder_mode is None:
            text += ", nor does its folder"
        fix = "enable NRI in the runtime and restart it, or pass its socket with --socket"
        return [fail("socket", text, fix)]
    if not file.is_socket:
        return [
            fail("socket", f"{file.path} is not a socket", "pass the socket's path with --socket")
        ]
    text = f"{file.path} is a socket, mode {file.mode:04o}, owner {file.uid}"
    return [ok("socket", text), *_folder(file)]


def _folder(file: SocketFile) -> list[Check]:
    folder = PurePosixPath(file.path).parent
    mode = file.folder_mode
    if mode is None:
        return []
    enters = _who_enters(mode)
    # Replacing a file also needs search permission; a sticky folder protects other users' files.
    if mode & stat.S_ISVTX == 0 and (mode & 0o030 == 0o030 or mode & 0o003 == 0o003):
        text = f"{folder} has mode {mode:04o}: other users than its owner can replace the socket"
        return [warn("socket-folder", text, f"chmod 0700 {folder}")]
    # A plugin can change every container. To connect, it needs write permission for the socket and
    # search permission for the folder, which has mode 0700 in all runtimes. Folder and socket may
    # belong to different groups, so a permission of either group counts for both.
    if mode & 0o011 and file.mode & 0o022:
        text = (
            f"{folder} has mode {mode:04o}: {enters} may enter it, and with the socket's mode "
            f"{file.mode:04o} other users than its owner can register plugins, which can change "
            "every container"
        )
        return [warn("socket-folder", text, f"chmod 0700 {folder}")]
    text = f"{folder} has mode {mode:04o}: {enters} may enter it"
    if mode & 0o011:
        text += f", but the socket's mode {file.mode:04o} lets only its owner connect"
    return [ok("socket-folder", text)]


def _who_enters(mode: int) -> str:
    """Return the users that a folder's search bits admit, besides root."""
    match bool(mode & 0o010), bool(mode & 0o001):
        case True, True:
            return "all users"
        case False, True:
            return "all users but its group"
        case True, False:
            return "only its owner and its group"
    return "only its owner"


def check_listener(path: str, listener: Listener) -> list[Check]:
    """Check which process listens."""
    if listener.refused:
        text = f"no process listens at {path}: the file is left over from a runtime that ended"
        return [fail("listener", text, "start or restart the runtime; it replaces the socket")]
    if listener.busy:
        text = f"{path} does not accept connections: its queue is full"
        fix = "look for a plugin that connects without registering; restart the runtime if it hangs"
        return [fail("listener", text, fix)]
    if listener.denied:
        fix = "run doctor as root"
        if not os.geteuid():
            # Permission bits do not apply to root, so there is another reason.
            fix = "look for SELinux or AppArmor denials; run doctor on the node, not in a container"
        return [unknown("listener", f"cannot connect to {path}: {listener.problem}", fix)]
    if listener.problem:
        return [fail("listener", f"cannot connect to {path}: {listener.problem}")]
    if not listener.pid:
        return [unknown("listener", "a process in a hidden process namespace listens")]
    who = f"{listener.name or 'a hidden process'} (process {listener.pid})"
    if listener.pid == 1 and listener.name not in RUNTIMES:
        return [ok("listener", f"{who} listens, usually a service manager for the runtime")]
    if listener.name and listener.name not in RUNTIMES:
        text = f"{who} listens, which is not one of {', '.join(RUNTIMES)}"
        return [warn("listener", text, "check that it is a container runtime")]
    return [ok("listener", f"{who} listens")]
