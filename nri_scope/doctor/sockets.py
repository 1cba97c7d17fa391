# SPDX-License-Identifier: Apache-2.0
"""The NRI socket: its file, the process that listens, and a passive registration."""

from __future__ import annotations

import asyncio
import socket
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from nri_scope.end_reasons import oversized_message
from nri_scope.errors import ConnectError, NriScopeError, reason_of
from nri_scope.nri.events import (
    CONFIGURE,
    DEFAULT_REGISTRATION_TIMEOUT_MS,
    DEFAULT_REQUEST_TIMEOUT_MS,
    SYNCHRONIZE,
    EventKind,
)
from nri_scope.nri.no_change import no_change
from nri_scope.nri.runtime_setup import (
    NOT_INTRODUCED,
    ConfigureRequest,
    Introduction,
    introduction_of,
    parse_state_part,
)
from nri_scope.nri.versions import (
    SPLIT_ADVICE,
    has_split_sync,
    runtime_remark,
    runtime_title,
    runtime_words,
)
from nri_scope.plugin import HandledCall, Identity, PluginSession, inherited
from nri_scope.transport.sockets import check_path
from nri_scope.wire import RequestReceived
from nri_scope.wire.ttrpc import MESSAGE_DATA_MAX

from .check import Check, fail, not_permitted, ok, unknown, unreadable, warn
from .host import RUNTIMES, Host, process_name

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
class ListeningProcess:
    """Result of connecting: the listening process, or a problem."""

    error: ConnectError | OSError | None = None
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
        return SocketFile(path, reason_of(error), folder_mode=folder_mode)
    return SocketFile(
        path,
        exists=True,
        is_socket=stat.S_ISSOCK(status.st_mode),
        mode=stat.S_IMODE(status.st_mode),
        uid=status.st_uid,
        folder_mode=folder_mode,
    )


def connect(host: Host, path: str) -> ListeningProcess:
    """Connect, and get the listening process from the kernel. Nothing is sent."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        address = check_path(host.resolve(path))
        sock.settimeout(CONNECT_TIMEOUT)
        sock.connect(address)
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except (ConnectError, OSError) as error:
        sock.close()
        return ListeningProcess(error)
    pid, uid, _ = struct.unpack("3i", credentials)
    return ListeningProcess(
        pid=pid, uid=uid, name=process_name(host, pid) if pid else "", descriptor=sock.detach()
    )


def check_socket(file: SocketFile) -> list[Check]:
    """Check the socket's file and folder."""
    if file.problem:
        return [unreadable("socket", file.path, file.problem)]
    if not file.exists:
        text = f"{file.path} does not exist"
        if file.folder_mode is None:
            text += ", nor does its folder"
        fix = "enable NRI in the runtime if it is off, restart the runtime, or pass --socket"
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


def check_listener(path: str, listener: ListeningProcess) -> list[Check]:
    """Check which process listens."""
    match listener.error:
        case ConnectionRefusedError():
            text = f"no process listens at {path}: the file is left over from a runtime that ended"
            return [fail("listener", text, "start or restart the runtime; it replaces the socket")]
        case BlockingIOError() | TimeoutError():
            text = f"{path} does not accept connections: its queue is full"
            fix = "look for a plugin that connects without registering; "
            return [fail("listener", text, f"{fix}restart the runtime if it hangs")]
        case PermissionError() as error:
            return [not_permitted("listener", f"cannot connect to {path}: {reason_of(error)}")]
        case ConnectError(problem=problem):
            return [fail("listener", f"cannot connect to {path}: {problem}")]
        case OSError() as error:
            return [fail("listener", f"cannot connect to {path}: {reason_of(error)}")]
        case None:
            pass
    if not listener.pid:
        return [unknown("listener", "a process in a hidden process namespace listens")]
    who = f"{listener.name or 'a hidden process'} (process {listener.pid})"
    if listener.pid == 1 and listener.name not in RUNTIMES:
        return [ok("listener", f"{who} listens, usually a service manager for the runtime")]
    if listener.name and listener.name not in RUNTIMES:
        text = f"{who} listens, which is not one of {', '.join(RUNTIMES)}"
        return [warn("listener", text, "check that it is a container runtime")]
    return [ok("listener", f"{who} listens")]


IDENTITY = Identity(index="00", name="nri-scope-doctor")
TIMEOUT = 10.0
"""Seconds for the whole registration. A runtime waits up to 5 s for each plugin before ours."""


@dataclass(frozen=True, slots=True)
class Registration:
    """Result of a registration."""

    configured: bool = False
    synchronized: bool = False
    problem: str = ""
    runtime: Introduction = NOT_INTRODUCED
    pods: int = 0
    containers: int = 0
    size: int = 0
    """Bytes of Synchronize, all parts together."""
    took_s: float = 0.0
    """Seconds from Configure to the last byte of Synchronize."""

    @property
    def deadline_s(self) -> float:
        """Seconds to reply to a request."""
        return (self.runtime.request_timeout_ms or DEFAULT_REQUEST_TIMEOUT_MS) / 1000

    @property
    def title(self) -> str:
        """The runtime with its version."""
        runtime = self.runtime
        return runtime_words(runtime.runtime_name, runtime.runtime_version) or "the runtime"


class _RecordingPlugin:
    """Plugin that only records what the runtime sends."""

    def __init__(self) -> None:
        self.found = Registration()
        self.done = asyncio.Event()
        self._configured_ns = 0

    def configure(self, request: ConfigureRequest) -> int:
        self.found = replace(self.found, configured=True, runtime=introduction_of(request))
        return EventKind.RemovePodSandbox.bit

    def answer(self, request: RequestReceived) -> bytes:
        part = parse_state_part(request.payload) if request.method == SYNCHRONIZE else None
        if part is not None:
            self.found = replace(
                self.found,
                synchronized=not part.more,
                pods=self.found.pods + part.pods,
                containers=self.found.containers + part.containers,
                size=self.found.size + len(request.payload),
            )
        return no_change(request.method, request.payload, request.service)

    def answered(self, exchange: HandledCall) -> None:
        if exchange.request.method == CONFIGURE:
            self._configured_ns = exchange.arrived_ns
        if self.found.synchronized:
            took_ns = exchange.arrived_ns - self._configured_ns
            self.found = replace(self.found, took_s=took_ns / 1e9)
            self.done.set()

    def noticed(self, text: str) -> None:
        """Ignore protocol violations, which this command does not check."""


async def register(descriptor: int, timeout: float = TIMEOUT) -> Registration:
    """Register over a connected socket, which is closed afterwards. Never raises."""
    recorder = _RecordingPlugin()
    session = PluginSession(IDENTITY, recorder)

    async def close_when_done() -> None:
        await recorder.done.wait()
        session.close("synchronized")

    closing = asyncio.create_task(close_when_done())
    problem = ""
    try:
        async with asyncio.timeout(timeout):
            end = await session.run(inherited(descriptor))
            problem = end.reason
    except TimeoutError:
        problem = f"no reply within {timeout:g} s"
    except NriScopeError as error:
        problem = str(error)
    finally:
        closing.cancel()
    return replace(recorder.found, problem="" if recorder.found.synchronized else problem)


def check_registration(registration: Registration) -> list[Check]:
    """Check whether plugins are served, and by which runtime."""
    if not registration.configured:
        return [
            fail(
                "registration",
                f"a plugin cannot register: {registration.problem}",
                "see the runtime's log; a plugin that connects without registering delays the "
                "others by the registration timeout",
            )
        ]
    checks = [*_served(registration), _version(registration)]
    if remark := runtime_remark(registration.runtime.runtime_name):
        checks.append(unknown("runtime", f"{registration.title}{remark}"))
    runtime = registration.runtime
    register_s = (runtime.registration_timeout_ms or DEFAULT_REGISTRATION_TIMEOUT_MS) / 1000
    if runtime.request_timeout_ms:
        text = f"{register_s:g} s to register, {registration.deadline_s:g} s to reply to a request"
        checks.append(ok("timeouts", text))
    else:
        text = (
            "the runtime does not report its timeouts (before NRI 0.7); the defaults are "
            f"{register_s:g} s for registration and {registration.deadline_s:g} s for each request"
        )
        checks.append(unknown("timeouts", text))
    return checks


SYNCHRONIZE_SHARE = 0.5
"""Fraction of a limit on Synchronize from which on a busier node may exceed it."""


def _served(registration: Registration) -> Iterator[Check]:
    title, version = registration.title, registration.runtime.version
    if oversized_message([registration.problem]):
        yield fail("registration", f"no plugin gets events: {registration.problem}", SPLIT_ADVICE)
        return
    if not registration.synchronized:
        text = f"{title} sent Configure but not all of Synchronize: {registration.problem}"
        is_isulad = runtime_title(registration.runtime.runtime_name) == "iSulad"
        yield warn("registration", text, SPLIT_ADVICE if is_isulad else "see the runtime's log")
        return
    objects = f"{registration.pods} pods and {registration.containers} containers"
    yield ok("registration", f"{title} serves plugins; it sent {objects}")
    deadline = registration.deadline_s
    is_split = version is None or has_split_sync(version)
    limit = "" if is_split else f" of at most {MESSAGE_DATA_MAX:,}"
    text = f"Synchronize has {registration.size:,} bytes{limit}; it arrived "
    text += f"{registration.took_s:.2g} s after Configure, and its deadline is {deadline:g} s"
    if limit and registration.size > MESSAGE_DATA_MAX * SYNCHRONIZE_SHARE:
        yield warn("synchronize", f"{text}; over the limit, no plugin gets events", SPLIT_ADVICE)
    elif registration.took_s > deadline * SYNCHRONIZE_SHARE:
        text += "; a plugin that is late gets no events"
        yield warn("synchronize", text, "raise the runtime's request timeout")
    else:
        yield ok("synchronize", text)


def _version(registration: Registration) -> Check:
    runtime = registration.runtime
    if runtime.version is None:
        return unknown(
            "nri-version",
            f"{registration.title} does not report its NRI version, which cannot be inferred",
        )
    how = "inferred from its version" if runtime.inferred else "as it reports"
    return ok("nri-version", f"NRI {runtime.version}, {how}")
