# SPDX-License-Identifier: Apache-2.0
"""The NRI socket: whether it exists, who may use it, and which process listens on it."""

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
"""Timeout in seconds; a listening socket accepts immediately or is full."""


@dataclass(frozen=True, slots=True)
class SocketFile:
    """The socket in the file system."""

    path: str
    problem: str = ""
    """Why the socket could not be examined; "" if it could."""
    exists: bool = False
    is_socket: bool = False
    mode: int = 0
    uid: int = 0
    folder_mode: int | None = None
    """Permission bits of the folder; None if there is none or it is hidden."""


@dataclass(frozen=True, slots=True)
class Listener:
    """The process at the other end, or the reason why there is none."""

    problem: str = ""
    refused: bool = False
    """Whether the socket is a left-over on which no process listens."""
    denied: bool = False
    """Whether we may not connect: it is unknown whether a process listens."""
    busy: bool = False
    """Whether a process listens but does not accept."""
    pid: int = 0
    """Id of the process that called listen(2); 0 if its process namespace is hidden from us."""
    uid: int = -1
    name: str = ""
    """Short name of the process, "" if unknown."""
    descriptor: int | None = None
    """The connection, to be used or closed by the caller."""


def look_at_socket(host: Host, path: str) -> SocketFile:
    """Read the socket's facts from the file system, without connecting."""
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
    """Connect, and ask the kernel which process listens. Nothing is sent."""
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
        # A unix socket's queue of waiting connections is full.
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
        text = f"there is no {file.path}"
        if file.folder_mode is None:
            text += ", nor its folder"
        fix = "switch NRI on in the runtime and restart it, or give its socket with --socket"
        return [fail("socket", text, fix)]
    if not file.is_socket:
        return [fail("socket", f"{file.path} is no socket", "give the socket's path with --socket")]
    text = f"{file.path} is a socket, mode {file.mode:04o}, owner {file.uid}"
    return [ok("socket", text), *_folder(file)]


def _folder(file: SocketFile) -> list[Check]:
    folder = PurePosixPath(file.path).parent
    mode = file.folder_mode
    if mode is None:
        return []
    enters = _who_enters(mode)
    # Replacing also takes search permission, and a sticky folder protects other users' files.
    if mode & stat.S_ISVTX == 0 and (mode & 0o030 == 0o030 or mode & 0o003 == 0o003):
        text = f"{folder} has mode {mode:04o}: others than its owner can replace the socket"
        return [warn("socket-folder", text, f"chmod 0700 {folder}")]
    # A client that connects can change every container. It needs write permission on the socket and
    # search permission on the folder, which runtimes make 0700. Folder and socket may belong to
    # different groups, so a bit for either group counts for both.
    if mode & 0o011 and file.mode & 0o022:
        text = (
            f"{folder} has mode {mode:04o}: {enters} may enter it, and with the socket's mode "
            f"{file.mode:04o} others than its owner can register plugins, which can change every "
            "container"
        )
        return [warn("socket-folder", text, f"chmod 0700 {folder}")]
    text = f"{folder} has mode {mode:04o}: {enters} may enter it"
    if mode & 0o011:
        text += f", but the socket's mode {file.mode:04o} lets only its owner connect"
    return [ok("socket-folder", text)]


def _who_enters(mode: int) -> str:
    """Return the users that a folder's search bits admit; root needs none."""
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
        text = f"no process listens at {path}: it is left over from a runtime that has ended"
        return [fail("listener", text, "start or restart the runtime; it replaces the socket")]
    if listener.busy:
        text = f"{listener.problem}: its queue of waiting plugins is full"
        fix = "look for a plugin that connects and says nothing; restart the runtime if it hangs"
        return [fail("listener", text, fix)]
    if listener.denied:
        fix = "run doctor as root"
        if not os.geteuid():
            # Root does not need permission bits, so there is another obstacle.
            fix = "look for SELinux or AppArmor denials; run doctor on the node, in no container"
        return [unknown("listener", f"cannot connect to {path}: {listener.problem}", fix)]
    if listener.problem:
        return [fail("listener", f"cannot connect to {path}: {listener.problem}")]
    if not listener.pid:
        return [unknown("listener", "a process that is not visible from here listens")]
    who = f"{listener.name or 'a process that we must not see'} (process {listener.pid})"
    if listener.pid == 1 and listener.name not in RUNTIMES:
        return [ok("listener", f"{who} listens, a service manager as a rule")]
    if listener.name and listener.name not in RUNTIMES:
        text = f"{who} listens, which is none of {', '.join(RUNTIMES)}"
        return [warn("listener", text, "make sure that this is meant to be a container runtime")]
    return [ok("listener", f"{who} listens")]
