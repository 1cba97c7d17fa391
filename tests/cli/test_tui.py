# SPDX-License-Identifier: Apache-2.0
"""The ``tui`` command in a real terminal, and without one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import shutil
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from nri_scope.recording.reading.reader import Recording
from tests.amount import sampled
from tests.cli.command import NRI_SCOPE
from tests.recording.timed_events import DAY, START, write
from tests.runtime_emulation.runtime import Runtime
from tests.runtime_emulation.stored_requests import (
    play,
    requests_of_the_first_session,
    split_setup,
)
from tests.tui.screen import RECORDING, RECORDINGS
from tests.tui.terminal import needs_tmux, terminal


def test_without_a_terminal_log_runs_with_a_notice(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["tui", str(RECORDING), "--where", "event:CreateContainer"]) == 0
    out, errors = capfd.readouterr()
    assert out.count("CreateContainer") == 4
    assert errors == f"tui: this is not a terminal; running `log {RECORDING}` instead\n"


def test_without_a_terminal_the_differences_of_two_recordings_are_printed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    other = RECORDINGS / "containerd-2.1-conflict.nriscope.zip"
    assert run(["diff", str(RECORDING), str(other)]) == 1
    out, _ = capfd.readouterr()
    assert run(["tui", str(RECORDING), str(other)]) == 1
    found, errors = capfd.readouterr()
    assert found == out != ""
    assert errors == f"tui: this is not a terminal; running `diff {RECORDING} {other}` instead\n"


@pytest.mark.parametrize("name", ["folder", "missing.db", "text.md"])
def test_without_a_terminal_a_file_that_cannot_be_read_is_one_error(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.md").write_text("# No recording\n")
    for first in ([], [str(RECORDING)]):
        assert run(["tui", *first, str(tmp_path / name)]) == 2
        out, errors = capfd.readouterr()
        assert not out and errors.startswith(f"nri-scope: {tmp_path / name}: ")
        assert errors.count("\n") == 1


def test_live_without_a_terminal_runs_record(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    result = subprocess.run(
        [NRI_SCOPE, "tui", "--live", "--socket", tmp_path / "no.sock", "--where", "ns:a"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert result.returncode == 2
    assert "running `record --print text` instead, without --where" in result.stderr
    assert "no.sock" in result.stderr and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "neither FILE nor --live was given; name a FILE, or use --live"),
        (
            ["--live", "a.db"],
            "--live and FILE exclude each other; use -o to name the recording",
        ),
        (
            ["a.db", "--index", "10"],
            "--index needs --live; add --live, and leave out FILE",
        ),
        (["a.db", "--where", "spod:x"], 'unknown field "spod"'),
        (["a.db", "b.db", "--where", "ns:a"], "OTHER and --where exclude each other"),
        (["a.db", "b.db", "--live"], "--live and FILE exclude each other"),
        (["a.db", "b.db", "c.db"], "unexpected extra argument (c.db)"),
    ],
)
def test_invalid_input_is_rejected(
    capfd: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(["tui", *arguments]) == 2
    assert words in capfd.readouterr().err


@needs_tmux
async def test_a_recording_in_a_real_terminal(tmp_path: Path) -> None:
    async with terminal(tmp_path, f"tui {shlex.quote(str(RECORDING))}", (80, 24)) as window:
        await window.shows("containerd 2.1.9", "CreateContainer", "1 of 32")
        await window.press("f", "ns:jobs", "Enter")
        await window.shows("matches: ns:jobs")
        await window.press("q")
        await window.shows(f"recording: {RECORDING}", "ended with 0")


@pytest.mark.exhaustive
@needs_tmux
@pytest.mark.parametrize(
    ("size", "term", "words"),
    [
        ((39, 20), "tmux-256color", "the terminal is smaller than 40×10"),
        ((100, 9), "tmux-256color", "the terminal is smaller than 40×10"),
        ((100, 40), "dumb", "TERM is unset or dumb"),
    ],
)
async def test_an_unsuitable_terminal_gets_the_log(
    tmp_path: Path, size: tuple[int, int], term: str, words: str
) -> None:
    shutil.copy(RECORDING, tmp_path / "a.db")
    command = "tui a.db --where event:StopPodSandbox"
    async with terminal(tmp_path, command, size, term) as window:
        text = await window.shows("ended with 0")
    # The terminal wraps and cuts lines anywhere.
    assert words.replace(" ", "") in "".join(text.split())
    assert "StopPod" in text


@needs_tmux
async def test_two_recordings_begin_with_their_differences(tmp_path: Path) -> None:
    other = RECORDINGS / "containerd-2.1-conflict.nriscope.zip"
    command = f"tui {shlex.quote(str(RECORDING))} {shlex.quote(str(other))}"
    async with terminal(tmp_path, command, (80, 24)) as window:
        await window.shows(f"A: {RECORDING}"[:70], "containers: 1 differs", "Esc closes")
        await window.press("q")
        await window.shows("events of A; d shows the differences again", "CreateContainer")
        await window.press("d")
        await window.shows("containers: 1 differs")
        await window.press("q", "q")
        await window.shows("ended with 0")


@needs_tmux
@pytest.mark.exhaustive
async def test_two_files_of_which_one_is_no_recording_are_rejected_in_one_line(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.db").write_text("nothing")
    async with terminal(tmp_path, f"tui {shlex.quote(str(RECORDING))} a.db") as window:
        text = await window.shows("ended with 2")
    assert text.startswith("nri-scope: a.db: ")


@needs_tmux
@pytest.mark.exhaustive
async def test_a_file_that_is_not_a_recording_is_rejected_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_text("nothing")
    async with terminal(tmp_path, "tui a.db") as window:
        text = await window.shows("ended with 2")
    assert text.startswith("nri-scope: a.db: ")


@needs_tmux
@pytest.mark.exhaustive
async def test_an_ambiguous_time_is_rejected_in_one_line(tmp_path: Path) -> None:
    write(tmp_path / "a.nriscope.db", START, START + DAY, START + 2 * DAY)
    async with terminal(tmp_path, "tui a.nriscope.db --where time:8:30", (100, 24)) as window:
        text = await window.shows("ended with 2")
    assert "filter: 8:30 occurs on several days of this recording; write" in text


@pytest.mark.exhaustive
@needs_tmux
async def test_live_records_all_events_and_names_the_file(tmp_path: Path) -> None:
    with Recording.open(RECORDING) as recording:
        session = recording.sessions()[0]
        stored = requests_of_the_first_session(recording)
    setup, events = split_setup(stored)
    async with Runtime(setup) as runtime:
        socket = tmp_path / "nri.sock"
        await runtime.listen(socket)
        command = f"tui --live --socket {shlex.quote(str(socket))} -o live.nriscope.db"
        async with terminal(tmp_path, command) as window:
            await runtime.wait_plugins(1)
            await window.shows("live", "following")
            await play(runtime, list(events))
            # Configure and Synchronize are one row.
            await window.shows(f"following · {len(stored) - 1} of {len(stored) - 1}")
            await window.press("Space")
            await window.shows("scrolled")
            await window.press("q")
            text = await window.shows("ended with 0")
    assert session.runtime_name == "containerd"
    assert "recorded 32 events in 1 session" in text and "0 gaps" in text
    with Recording.open(tmp_path / "live.nriscope.db") as recording:
        assert len(list(recording.events())) == len(stored)
        assert not recording.gaps() and recording.sessions()[0].ended_ns is not None


@needs_tmux
async def test_live_without_a_runtime_fails_before_the_screen_starts(tmp_path: Path) -> None:
    async with terminal(tmp_path, "tui --live --socket no.sock") as window:
        text = await window.shows("ended with 2")
    assert "no.sock" in text and "doctor" in text
    assert not list(tmp_path.glob("*.db"))


@pytest.mark.exhaustive
@needs_tmux
async def test_live_with_wait_waits_for_a_runtime(tmp_path: Path) -> None:
    async with terminal(tmp_path, "tui --live --wait --socket no.sock") as window:
        await window.shows("No events yet", "waiting for a runtime")
        await window.press("q")
        await window.shows("nothing recorded: no connection to a runtime", "ended with 0")


@pytest.mark.exhaustive
@pytest.mark.parametrize("gets_sighup", [True, False])
def test_a_closed_terminal_ends_the_tui_with_and_without_sighup(gets_sighup: bool) -> None:
    master, slave = os.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    # SIGHUP is sent only to a session leader, if it has opened the terminal as its first one.
    words = ["sh", "-c", 'exec "$0" "$@" <>"$TTY" >&0 2>&0', str(NRI_SCOPE), "tui", str(RECORDING)]
    with subprocess.Popen(
        words if gets_sighup else words[3:],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color", "TTY": os.ttyname(slave)},
    ) as process:
        os.close(slave)
        output = b""
        while b"RunPodSandbox" not in output:
            output += os.read(master, 65_536)
        os.close(master)
        try:
            process.wait(60)
        finally:
            process.kill()


@pytest.mark.parametrize("keys", sampled([b"", b"2"]), ids=["no key", "a key"])
@pytest.mark.parametrize(
    "number", sampled([signal.SIGTERM, signal.SIGHUP]), ids=["SIGTERM", "SIGHUP"]
)
@pytest.mark.parametrize("delay_s", sampled([0.0, 0.03, 0.06, 0.1]))
def test_a_signal_at_the_start_ends_the_tui_and_restores_the_terminal(
    keys: bytes, number: int, delay_s: float
) -> None:
    master, slave = os.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(master)
    with subprocess.Popen(
        [NRI_SCOPE, "tui", RECORDING],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color"},
    ) as process:
        os.close(slave)
        output = b""
        while b"\x1b[?1049h" not in output:
            output += os.read(master, 65_536)
        time.sleep(delay_s)
        os.write(master, keys)
        process.send_signal(number)
        # Reading fails once no process has the terminal open.
        with contextlib.suppress(OSError):
            while True:
                output += os.read(master, 65_536)
        assert process.wait(60) == 0
    assert termios.tcgetattr(master) == before
    os.close(master)
    assert b"\x1b[?1049l" in output and b"Traceback" not in output
