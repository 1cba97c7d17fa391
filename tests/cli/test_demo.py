# SPDX-License-Identifier: Apache-2.0
"""The demo as a whole: the command, the recording it makes, and the commands it names."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope.cli import demo, demo_playback, new_plugin
from nri_scope.cli.main import run
from nri_scope.errors import UsageError
from nri_scope.events import Session
from nri_scope.recording.reader import Recording
from nri_scope.recording.tap_tables import tapped
from tests.tui.terminal import needs_tmux, terminal

ROOT = Path(__file__).parents[2]

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start the demo away from any terminal.

    It is the leader of a process group, as at a terminal; its temporary files go to tmp_path.
    """
    running: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, temporary: Path = tmp_path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "nri_scope", "demo", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "TMPDIR": str(temporary)},
            start_new_session=True,
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def commands(output: str) -> list[list[str]]:
    """Return the arguments of the commands that the demo names, as a shell parses them."""
    lines = [shlex.split(line) for line in output.splitlines() if " -m nri_scope " in line]
    return [words[words.index("nri_scope") + 1 :] for words in lines]


def test_demo_plays_and_names_commands_that_work(
    start: Start, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output, errors = start("--speed", "1000").communicate(timeout=60)

    assert "recording of six plugins at containerd 2.1" in output
    lines = [line for line in output.splitlines() if re.match(r" +\d+ \d\d:\d\d:\d\d\.", line)]
    assert f"\n{len(lines)} events follow in about" in output
    assert errors == "demo: this is not a terminal; printing the log instead\n"
    (folder,) = tmp_path.iterdir()
    (file,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert output.index("CreateContainer") < output.index("Recorded in")

    named = commands(output)
    assert [words[0] for words in named] == ["tui", "blame", "diff", "report", "new-plugin",
                                             "replay", "doctor", "record"]  # fmt: skip
    monkeypatch.chdir(tmp_path)
    capfd.readouterr()
    printed: dict[str, str] = {}
    for words in named[:6]:
        assert str(file) in words or words[0] == "new-plugin"
        assert run(words) == (words[0] in ("diff", "report")), words
        printed[words[0]] = capfd.readouterr().out
    # What the plugins did is in the output of the commands that tell it.
    assert re.search(r"30-env-injector +T ~│ +- FOO=overridden +# was bar\n", printed["blame"])
    assert "by 60-cpu-policy (tap)" in printed["diff"]
    assert "40-image-check was disconnected" in printed["report"]
    assert 'Conflict: plugins "50-batch-env" and "30-env-injector"' in printed["report"]
    assert "POD_OWNER" in printed["replay"]


def test_the_new_recording_is_the_played_one_with_new_times(start: Start, tmp_path: Path) -> None:
    began = time.time_ns()
    file = tmp_path / "new.nriscope.db"
    start("--speed", "1000", "-o", str(file)).communicate(timeout=60)

    with Recording.open(file) as recorded, Recording.open(demo.bundled_path()) as played:
        (new, *_), (old, *_) = recorded.sessions(), played.sessions()
        shift = new.started_ns - old.started_ns
        assert [_shifted(one, shift) for one in played.sessions()] == recorded.sessions()
        events = list(recorded.events())
        assert [one.at_ns + shift for one in played.events()] == [one.at_ns for one in events]
        for one, other in zip(played.exchanges(), recorded.exchanges(), strict=True):
            event = replace(one[0], at_ns=other[0].at_ns, mono_ns=other[0].mono_ns)
            assert (event, *one[1:]) == other
        numbers = [event.id for event in events]
        assert tapped(recorded, numbers) == tapped(played, numbers)
    # None is in the future, and the last one is new.
    assert began <= events[-1].at_ns <= time.time_ns()


def _shifted(session: Session, shift_ns: int) -> Session:
    assert session.ended_ns is not None
    return replace(
        session,
        started_ns=session.started_ns + shift_ns,
        ended_ns=session.ended_ns + shift_ns,
    )


def test_output_can_be_named(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "a name.nriscope.db"
    output, _ = start("--speed", "1000", "-o", str(file)).communicate(timeout=60)
    assert file.exists()
    assert {str(file)} == {words[1] for words in commands(output) if words[0] == "blame"}
    assert list(tmp_path.iterdir()) == [file]


def test_existing_file_is_not_overwritten(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "precious"
    file.write_text("precious")
    process = start("-o", str(file))
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors == f"nri-scope: {file}: file exists; choose a new name\n"
    assert output == ""
    assert file.read_text() == "precious"


def test_file_that_cannot_be_created_is_an_error(start: Start, tmp_path: Path) -> None:
    process = start("-o", str(tmp_path / "missing" / "demo.nriscope.db"))
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    (line,) = errors.splitlines()
    assert str(tmp_path / "missing") in line
    assert output == "" and not list(tmp_path.iterdir())


# ^C in a terminal is sent to all of its processes, `kill` to one.
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("number", "to_group"),
    [(signal.SIGINT, True), (signal.SIGTERM, False)],
    ids=["all", "demo only"],
)
def test_interrupted_demo_keeps_the_events_so_far(
    start: Start, tmp_path: Path, number: signal.Signals, to_group: bool
) -> None:
    process = start("--speed", "0.1")
    assert process.stdout is not None
    for line in process.stdout:
        if "20-device-injector Configure" in line:
            break
    (os.killpg if to_group else os.kill)(process.pid, number)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert "Stopped early; the events so far are in" in output
    (folder,) = tmp_path.iterdir()
    (file,) = folder.iterdir()
    with Recording.open(file) as recording:
        first, second = recording.sessions()
        assert "Configure" in [event.event for event in recording.events()]
    assert first.end_reason == second.end_reason == "the demo was stopped"
    assert first.ended_ns is not None and first.ended_ns >= first.started_ns


def test_without_a_terminal_the_log_is_printed_with_a_notice(start: Start) -> None:
    output, errors = start("--speed", "1000").communicate(timeout=60)
    assert errors.startswith("demo: this is not a terminal; printing the log instead\n")
    assert "CreateContainer" in output


@needs_tmux
async def test_terminal_shows_events_while_they_are_played(tmp_path: Path) -> None:
    command = "demo --speed 5 -o d.nriscope.db"
    async with terminal(tmp_path, command, (150, 50)) as window:
        await window.shows("containerd 2.1", " demo ", "following")
        await window.shows("recording ended: all events were played; q quits", "3 problems")
        await window.press("q")
        text = await window.shows("ended with 0", "doctor")
    assert f"tui {tmp_path}/d.nriscope.db" in "".join(text.split("\n"))
    with Recording.open(tmp_path / "d.nriscope.db") as recording:
        assert len(list(recording.events())) == 88 and not recording.gaps()


@needs_tmux
async def test_quitting_stops_the_demo(tmp_path: Path) -> None:
    async with terminal(tmp_path, "demo --speed 0.1 -o d.nriscope.db", (100, 60)) as window:
        await window.shows("Synchronize")
        await window.press("q")
        await window.shows("Stopped early; the events so far are in", "ended with 0")
    with Recording.open(tmp_path / "d.nriscope.db") as recording:
        assert recording.sessions()[0].ended_ns is not None


@needs_tmux
async def test_log_option_prints_the_log_in_a_terminal(tmp_path: Path) -> None:
    command = "demo --log --speed 1000 -o d.nriscope.db"
    async with terminal(tmp_path, command, (120, 160)) as window:
        text = await window.shows("RemovePodSandbox", "Recorded in", "ended with 0")
    assert "^C ends the demo earlier" in text and "printing the log instead" not in text


# -- the recording it plays -----------------------------------------------------------------------


def test_recording_is_found_in_a_package_and_in_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "nri_scope"
    monkeypatch.setattr(demo, "__file__", str(package / "cli" / "demo.py"))
    with pytest.raises(UsageError, match="missing from this installation"):
        demo.bundled_path()
    for folder in (package.parent / "recordings", package / "recordings"):
        folder.mkdir(parents=True)
        (folder / demo.RECORDING).write_bytes(b"")
        assert demo.bundled_path() == folder / demo.RECORDING


@pytest.mark.parametrize("name", [demo.RECORDING, new_plugin.RECORDING])
def test_recording_is_part_of_the_wheel(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert f"/recordings/{name}" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["include"]
    assert demo.bundled_path(name) == ROOT / "recordings" / name


# -- details --------------------------------------------------------------------------------------


def at(*seconds: float) -> list[int]:
    return [int(one * 1e9) for one in seconds]


def test_pauses_between_events_are_bounded() -> None:
    slow, fast, day = at(0, 0.01, 0.02), at(0, 0.001, 0.002), at(0, 3600, 7200)
    minimum, maximum = demo_playback.PAUSE_MIN_S, demo_playback.PAUSE_MAX_S
    assert demo_playback.demo_pauses(slow, 1.0) == [0, minimum, minimum]
    assert demo_playback.demo_pauses(fast, 1.0) == [0, 0, 0]
    assert demo_playback.demo_pauses(day, 1.0) == [0, maximum, maximum]
    assert demo_playback.demo_pauses(slow, 2.0) == [0, minimum / 2, minimum / 2]
    assert demo_playback.demo_pauses([], 1.0) == [0]


def test_long_recording_is_played_faster() -> None:
    times = at(*itertools.accumulate([0.01] * 500))
    total = demo_playback.TOTAL_MAX_S
    assert sum(demo_playback.demo_pauses(times, 1.0)) == pytest.approx(total)
    assert sum(demo_playback.demo_pauses(times, 3.0)) == pytest.approx(total / 3)


def test_named_commands_use_the_program_name_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "bin dir" / "nri-scope"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(script), "demo"])
    assert demo.program_name() == f"'{script}'"
    monkeypatch.setenv("PATH", str(script.parent))
    assert demo.program_name() == "nri-scope"
    with Recording.open(demo.bundled_path()) as recording:
        playback = demo_playback.Playback(recording, tmp_path / "r.nriscope.db", 1.0)
    assert f"  sudo '{script}' record --print text" in [*demo.conclusion(playback)]
    monkeypatch.setattr(sys, "argv", ["/usr/lib/nri_scope/__main__.py", "demo"])
    assert demo.program_name() == f"{shlex.quote(sys.executable)} -m nri_scope"
