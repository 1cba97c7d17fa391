# SPDX-License-Identifier: Apache-2.0
"""Printing to terminals, pipes and closed outputs."""

from __future__ import annotations

import array
import fcntl
import io
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from nri_scope.cli.output import Output
from nri_scope.errors import UsageError
from tests.cli.command import NRI_SCOPE
from tests.recording.recordings import record

COMMANDS = {"log": [], "show": ["4"], "sql": ["SELECT 1"], "report": [], "diff": []}


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def to_terminal() -> tuple[int, io.TextIOWrapper]:
    ours, theirs = pty.openpty()
    return ours, open(theirs, "w", encoding="utf-8")  # noqa: PTH123 - a descriptor


def test_a_terminal_gets_colour_and_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, stream = to_terminal()
    with stream:
        assert Output(stream).colour
        assert Output(stream).width is not None
        monkeypatch.setenv("NO_COLOR", "1")
        assert not Output(stream).colour
        monkeypatch.setenv("NO_COLOR", "")
        assert Output(stream).colour
        monkeypatch.setenv("TERM", "dumb")
        assert not Output(stream).colour
    os.close(ours)


def test_a_pipe_gets_no_colour_and_no_width_unless_columns_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.TextIOWrapper(io.BytesIO())
    assert not Output(stream).colour
    assert Output(stream).width is None
    monkeypatch.setenv("COLUMNS", "70")
    assert Output(stream).width == 70
    monkeypatch.setenv("COLUMNS", "wide")
    assert Output(stream).width is None


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_stopped_process_loses_no_output(stream: str, unbuffered: str) -> None:
    """A stop ends a write to a full pipe early, and Python's text streams ignore that."""
    code = (
        "import sys; from nri_scope.cli.main import prepare_streams; prepare_streams();"
        f" sys.{stream}.write('x' * 1_000_000); sys.{stream}.flush()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        stdout=subprocess.PIPE if stream == "stdout" else None,
        stderr=subprocess.PIPE if stream == "stderr" else None,
    )
    pipe = getattr(process, stream)
    capacity = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
    waiting = array.array("i", [0])
    while waiting[0] < capacity:
        time.sleep(0.01)
        fcntl.ioctl(pipe, termios.FIONREAD, waiting)
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    process.send_signal(signal.SIGCONT)
    os.waitid(os.P_PID, process.pid, os.WCONTINUED)
    with process:
        assert pipe.read() == b"x" * 1_000_000
    assert process.returncode == 0


def test_characters_outside_the_encoding_are_escaped() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with Output(stream) as output:
        output.line("91µs")
    assert stream.buffer.getvalue() == b"91\\xb5s\n"


def test_lines_text_and_bytes_keep_their_order() -> None:
    stream = io.TextIOWrapper(io.BytesIO())
    with Output(stream) as output:
        output.line("one")
        output.text("two\n")
        output.line("three")
        output.bytes(b"\xff")
    assert stream.buffer.getvalue() == b"one\ntwo\nthree\n\xff"


def to_pipe() -> tuple[int, io.TextIOWrapper]:
    reader, writer = os.pipe()
    return reader, open(writer, "w", encoding="utf-8")  # noqa: PTH123 - a descriptor


def test_long_lines_are_written_immediately() -> None:
    stream = io.StringIO()
    with Output(stream) as output:
        output.line("short")
        assert stream.getvalue() == ""
        output.line("x" * (1 << 20))
        assert stream.getvalue() == f"short\n{'x' * (1 << 20)}\n"


def test_a_closed_pipe_ends_the_block_quietly() -> None:
    reader, stream = to_pipe()
    os.close(reader)
    reached = False
    with stream, Output(stream) as output:
        for number in range(100_000):
            output.line(f"line {number}")
        reached = True
    assert not reached


def test_an_error_of_the_block_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError), Output(io.TextIOWrapper(io.BytesIO())):
        raise ZeroDivisionError


def test_waiting_ends_when_the_pipe_is_closed() -> None:
    reader, stream = to_pipe()
    with stream:
        output = Output(stream)
        assert not output.wait(0.001)
        os.close(reader)
        assert output.wait(60)


def test_waiting_works_without_a_descriptor() -> None:
    assert not Output(io.StringIO()).wait(0.001)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("output") / "x.nriscope.db")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("where", "words"),
    [
        (">&-", "standard output is closed; redirect it, for example > /dev/null"),
        ("> /dev/full", "cannot write to standard output: no space left on device"),
    ],
)
def test_an_unwritable_output_gives_one_line_and_status_2(
    name: str, where: str, words: str, path: Path
) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$@" {where}', "sh", NRI_SCOPE, name, str(path), *COMMANDS[name]],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, f"nri-scope: {words}\n")


def test_an_os_error_of_the_block_is_not_a_write_error() -> None:
    with pytest.raises(FileNotFoundError), Output(io.TextIOWrapper(io.BytesIO())):
        raise FileNotFoundError


def test_a_full_disk_at_the_last_write_is_reported() -> None:
    with (
        open("/dev/full", "w", encoding="utf-8") as stream,  # noqa: PTH123
        pytest.raises(UsageError, match="no space left"),
        Output(stream) as output,
    ):
        output.line("one")


def test_a_small_width_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert Output(io.TextIOWrapper(io.BytesIO())).width == 20
