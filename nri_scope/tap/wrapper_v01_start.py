# SPDX-License-Identifier: Apache-2.0
"""Run a wrapped plugin of NRI 0.1, and spool its invocation. Copied, not imported.

The copy is stored beside the original plugin and ``tap.json``, and uses the standard library only.
The plugin gets its request, environment and arguments as from the runtime; its output and its exit
status are passed on. If nothing can be spooled, the plugin runs nevertheless.
"""

import contextlib
import fcntl
import json
import os
import selectors
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Importing it takes longer than everything else here.
    from typing import NoReturn

BEGAN = time.monotonic_ns()
REQUESTS_MAX = 1024
CAPTURED_MAX = {1: 4 << 20, 2: 256 << 10}
"""Maximum bytes that are spooled of the request, and of each output."""
PIECE = 64 << 10
CLOSED_WAIT_S = 0.1
"""Seconds to read what the plugin had written to standard error when it ended."""


def main() -> None:
    """Run the plugin between the runtime and the spool, and end as it ends."""
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    name = os.path.basename(folder)  # noqa: PTH119
    original = os.path.join(folder, name)  # noqa: PTH118
    called_path, *arguments = sys.argv[1:]
    program = original
    if os.path.islink(original):  # noqa: PTH114
        # Resolve a relative link from the plugin's former folder.
        plugins = os.path.dirname(os.path.dirname(folder))  # noqa: PTH120
        program = os.path.join(plugins, os.readlink(original))  # noqa: PTH115, PTH118
    try:
        environment = original_environment()
    except OSError:
        environment = dict(os.environb)
    command = (program, [called_path, *arguments], environment)
    request = b"".join(iter(lambda: os.read(0, PIECE), b""))
    spool = stem = ""
    umask = os.umask(0o077)
    try:
        with open(os.path.join(folder, "tap.json"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
            configured = json.load(file)["spool"]
        if not isinstance(configured, str) or not os.path.isabs(configured):  # noqa: PTH117
            raise ValueError("tap.json names no spool")
        spool = configured
        os.makedirs(spool, mode=0o700, exist_ok=True)  # noqa: PTH103
        stem = begin(spool, request)
        pipes = [os.pipe(), os.pipe()]
        began_ns, started = time.time_ns(), time.monotonic_ns()
        pid = os.fork()
    except Exception:  # noqa: BLE001 - the node needs its plugin despite any error
        with contextlib.suppress(OSError, ValueError):
            if stem:
                os.unlink(f"{stem}.in")  # noqa: PTH108
            if spool:
                lose(spool)
        become(command, request, umask)
    if not pid:
        for number, (_, ours) in enumerate(pipes, 1):
            os.dup2(ours, number)
        end_with_parent()
        become(command, request, umask)
    for _, theirs in pipes:
        os.close(theirs)
    outputs, status = relay(pid, pipes[0][0], pipes[1][0])
    took_ns = time.monotonic_ns() - started
    with contextlib.suppress(OSError):
        complete(stem, outputs, status, began_ns, took_ns)
    finish(status)


def original_environment() -> "dict[bytes, bytes]":
    """Return the variables with which the wrapper was started, without those added by a shell."""
    # Python itself sets LC_CTYPE in the C locale.
    with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
        pairs = [entry.partition(b"=") for entry in file.read().split(b"\0") if entry]
    variables = {name: value for name, _, value in pairs if name != b"_"}
    if variables.get(b"SHLVL") == b"0":
        del variables[b"SHLVL"]
    return variables


def become(
    command: "tuple[str, list[str], dict[bytes, bytes]]", request: bytes, umask: int
) -> "NoReturn":
    """Replace this process with the plugin, whose standard input is the request."""
    try:
        os.umask(umask)
        stdin = os.memfd_create("request")
        position = 0
        while position < len(request):
            position += os.write(stdin, request[position:])
        os.lseek(stdin, 0, os.SEEK_SET)
        os.dup2(stdin, 0)
        # Python ignores these signals, and the plugin would inherit that.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execve(*command)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def end_with_parent() -> None:
    """Let the kernel kill the plugin if the runtime kills the wrapper."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    except Exception:  # noqa: BLE001 - the plugin runs without it
        pass


def begin(spool: str, request: bytes) -> str:
    """Write the request; return the path of the invocation's files without suffix."""
    waiting = sum(name.endswith(".in") for name in os.listdir(spool))  # noqa: PTH208
    if waiting >= REQUESTS_MAX or len(request) > CAPTURED_MAX[1]:
        raise OSError("the spool is full")
    for number in range(10):
        stem = os.path.join(spool, f"{os.getpid()}-{number}")  # noqa: PTH118
        with contextlib.suppress(FileExistsError):
            # Open and locked until this process ends: the recorder leaves the group alone.
            write(f"{stem}.in", request, stays_locked=True)
            return stem
    raise OSError("no free name")


def lose(spool: str) -> None:
    """Count a request that is not spooled."""
    with contextlib.suppress(FileExistsError):
        # Its time is that of the first one.
        write(os.path.join(spool, "lost.from"), b"")  # noqa: PTH118
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    file = os.open(os.path.join(spool, "lost"), flags, 0o600)  # noqa: PTH118
    if os.fstat(file).st_size < CAPTURED_MAX[1]:
        os.write(file, b"x")
    os.close(file)


def write(path: str, content: bytes, *, stays_locked: bool = False) -> None:
    """Write a new file; remove it if that fails. ``stays_locked``: neither unlock nor close it."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        if stays_locked:
            # Some file systems cannot lock.
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        position = 0
        while position < len(content):
            position += os.write(file, content[position:])
    except OSError:
        os.unlink(path)  # noqa: PTH108
        raise
    finally:
        if not stays_locked:
            os.close(file)


def relay(pid: int, stdout: int, stderr: int) -> "tuple[dict[int, bytearray], int]":
    """Pass the plugin's output on until it has ended; return what it wrote, and its status."""
    captured = {1: bytearray(), 2: bytearray()}
    waiting = selectors.DefaultSelector()
    open_ones = {stdout: 1, stderr: 2}
    for descriptor in open_ones:
        waiting.register(descriptor, selectors.EVENT_READ)
    until = None
    status = None
    # A runtime waits for the end of standard output, but not for that of standard error.
    while stdout in open_ones or (stderr in open_ones and (until is None or until > now())):
        ready = waiting.select(None if stdout in open_ones else CLOSED_WAIT_S)
        for key, _ in ready:
            descriptor = key.fd
            number = open_ones[descriptor]
            piece = os.read(descriptor, PIECE)
            if not piece:
                waiting.unregister(descriptor)
                del open_ones[descriptor]
                continue
            # One byte more than the maximum shows that there was more.
            captured[number] += piece[: CAPTURED_MAX[number] + 1 - len(captured[number])]
            with contextlib.suppress(OSError):
                while piece:
                    piece = piece[os.write(number, piece) :]
        if stdout not in open_ones and status is None:
            ended, wait_status = os.waitpid(pid, os.WNOHANG)
            if ended:
                status, until = wait_status, now() + CLOSED_WAIT_S
    if status is None:
        _, status = os.waitpid(pid, 0)
    return captured, status


def now() -> float:
    """Return the monotonic clock in seconds."""
    return time.monotonic()


def complete(
    stem: str, outputs: "dict[int, bytearray]", status: int, began_ns: int, took_ns: int
) -> None:
    """Write the rest of an invocation's files; the last one makes it complete."""
    write(f"{stem}.out", bytes(outputs[1][: CAPTURED_MAX[1]]))
    if outputs[2]:
        write(f"{stem}.err", bytes(outputs[2][: CAPTURED_MAX[2]]))
    facts = {
        "status": os.waitstatus_to_exitcode(status),
        "began_ns": began_ns,
        "took_ns": took_ns,
        "held_ns": time.monotonic_ns() - BEGAN - took_ns,
        # The sum of the descriptors whose output is longer than what is spooled.
        "cut": sum(number for number, data in outputs.items() if len(data) > CAPTURED_MAX[number]),
    }
    write(f"{stem}.v1", json.dumps(facts).encode())


def finish(status: int) -> None:
    """End with the plugin's status, or by the signal that ended it."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


if __name__ == "__main__":
    main()
