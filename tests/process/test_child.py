# SPDX-License-Identifier: Apache-2.0
"""Helper processes: start, channel, inherited descriptors, and end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

from nri_scope.errors import UsageError
from nri_scope.process.channel import ThreadChannel
from nri_scope.process.child import START, Child, keep_exit_statuses, spawn
from tests.runtime_emulation.scripts import is_running

PATIENCE = 60.0
MODULE = """
import os, signal, sys, time
from pathlib import Path

at_import = signal.pthread_sigmask(signal.SIG_BLOCK, ())

def main(descriptor, mode="", *more):
    def send(text):
        os.write(descriptor, len(text).to_bytes(4, sys.byteorder) + b"\\0" + text)
    if mode == "ignores SIGTERM":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    send(repr((os.getppid(), os.getpgid(0) == os.getpid(), more)).encode())
    if mode == "reads":
        os.read(descriptor, 1)
        return 3
    if mode == "masks":
        masks = at_import, signal.pthread_sigmask(signal.SIG_BLOCK, ())
        send(repr([sorted(map(int, mask)) for mask in masks]).encode())
    if mode == "fails":
        raise LookupError
    if mode.isdigit():
        os.write(int(mode), b"%d" % len(os.listdir("/proc/self/fd")))
        return
    time.sleep(1000)
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "a_helper_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    former = signal.getsignal(signal.SIGCHLD)
    yield
    signal.signal(signal.SIGCHLD, former)


def helper(*arguments: str, descriptors: tuple[int, ...] = ()) -> tuple[Child, ThreadChannel]:
    """Start a helper process and check its first message."""
    child = spawn(
        "a_helper_module",
        *arguments,
        failure="a helper cannot be started",
        on_parents_death=signal.SIGKILL,
        descriptors=descriptors,
    )
    channel = ThreadChannel(child.socket)
    first = channel.receive()
    assert first is not None
    assert first == (0, repr((os.getpid(), True, arguments[1:])).encode())
    return child, channel


def test_stop_signals_wait_until_the_module_is_imported() -> None:
    """Python ends with status 1 on SIGINT while it imports ``site``."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    child, channel = helper("masks")
    assert channel.receive() == (0, b"[[1, 2, 15], []]")
    child.stop(0)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


@pytest.mark.parametrize("handling", [signal.SIG_DFL, signal.SIG_IGN])
def test_the_exit_status_is_known_even_if_sigchld_was_ignored(
    handling: signal.Handlers,
) -> None:
    signal.signal(signal.SIGCHLD, handling)
    keep_exit_statuses()
    child, _ = helper("reads", "an argument", "é\udcff")
    end = child.stop(PATIENCE)
    assert (end.code, end.stop_signal, end.description) == (3, 0, "exit status 3")
    assert child.stop(PATIENCE) == end


@pytest.mark.parametrize(
    ("mode", "needed"), [("sleeps", signal.SIGTERM), ("ignores SIGTERM", signal.SIGKILL)]
)
def test_a_process_that_does_not_exit_is_killed(mode: str, needed: signal.Signals) -> None:
    child, _ = helper(mode)
    end = child.stop(0, terminate_s=PATIENCE if needed == signal.SIGTERM else 0.1)
    assert (end.code, end.stop_signal) == (-needed, needed)
    assert end.description == f"killed by {needed.name}"


def test_a_receiving_thread_does_not_keep_the_channel_open() -> None:
    child, channel = helper("reads")
    listening = threading.Thread(target=channel.receive)
    listening.start()
    assert child.stop(PATIENCE).stop_signal == 0
    listening.join()


def test_a_stopped_process_is_killed() -> None:
    child, _ = helper("reads")
    child.signal(signal.SIGSTOP)
    assert child.stop(0.1, terminate_s=0.1).stop_signal == signal.SIGKILL


def test_a_failed_process_has_exit_status_1() -> None:
    child, channel = helper("fails")
    assert channel.receive() is None
    assert child.stop(PATIENCE).description == "exit status 1"


def test_only_the_passed_descriptors_are_inherited() -> None:
    reading, writing = os.pipe()
    other = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(other, True)
    child, _ = helper(descriptors=(writing,))
    os.close(writing)
    assert child.stop(PATIENCE).code == 0
    # The standard streams, the channel, this pipe, and the descriptor of the listed folder.
    assert os.read(reading, 100) == b"6"
    os.close(reading)
    os.close(other)


def test_a_helper_exits_if_its_parent_has_died() -> None:
    # As if the parent had died before the helper's first lines ran.
    arguments = ("a_helper_module", str(os.getppid()), "9", "[]", "0")
    ended = subprocess.run([sys.executable, START, *arguments], capture_output=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, b"", b"")


_PARENT = """
import sys, time
from nri_scope.process.child import spawn
child = spawn("a_helper_module", "sleeps", failure="x", on_parents_death=9)
if sys.argv[1:]:
    child.socket.recv(1)
print(child.pid, flush=True)
time.sleep(1000)
"""


_WITHOUT_STANDARD = """
import os
from nri_scope.process.channel import ThreadChannel
from nri_scope.process.child import spawn
os.closerange(0, 3)
pipe = os.pipe()
child = spawn("a_helper_module", failure="x", on_parents_death=9, descriptors=(pipe[1],))
assert ThreadChannel(child.socket).receive()
os._exit(child.stop(30).code + (os.read(pipe[0], 100) != b"6"))
"""


def test_a_helper_starts_if_the_standard_streams_are_closed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", _WITHOUT_STANDARD], env=environment, check=False)
    assert ended.returncode == 0


@pytest.mark.parametrize("stopped", [False, True])
def test_a_helper_dies_with_its_parent(stopped: bool, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    # Stop the helper only after it has requested the signal on its parent's death.
    command = [sys.executable, "-c", _PARENT, *(["wait"] if stopped else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        if stopped:
            os.kill(pid, signal.SIGSTOP)
        # Otherwise the parent may die before; then the helper notices that the parent is gone.
        parent.kill()
    until = monotonic() + PATIENCE
    while is_running(pid):
        assert monotonic() < until, "it was left behind"
        sleep(0.01)


def test_a_failed_start_raises_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for executable, words in (
        ("/nowhere/python", "a helper cannot be started: /nowhere/python: no such file"),
        (None, "a helper cannot be started: the path of the Python interpreter is unknown"),
    ):
        monkeypatch.setattr(sys, "executable", executable)
        with pytest.raises(UsageError, match=words):
            helper()
