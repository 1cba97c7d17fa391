# SPDX-License-Identifier: Apache-2.0
"""The demo as a whole: the command, the ``record`` it starts, and the commands it names."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri_scope._gen.nri.api_pb2 import ConfigureRequest
from nri_scope.cli import demo, demo_runtime
from nri_scope.cli.main import run
from nri_scope.errors import UsageError
from nri_scope.events import CapturedCall, Role, SessionStart
from nri_scope.nri.methods import PLUGIN_SERVICE
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reader import Recording
from nri_scope.runtime import Stored
from tests.runtime_emulation.captures import exchanges
from tests.tui.terminal import needs_tmux, terminal

PLAY = """
from pathlib import Path
from nri_scope.cli import demo, demo_runtime
from nri_scope.cli.main import main
demo.bundled_path = lambda: Path({path!r})
main()
"""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of the captured containerd 1.7, as `record` writes it."""
    path = tmp_path_factory.mktemp("recordings") / demo.RECORDING
    stream = [one for one in exchanges("containerd-1.7.24") if one.stored.plugin == "00-probe-a"]
    configure = ConfigureRequest.FromString(stream[0].stored.request)
    recorder = Recorder.open(path)
    session = recorder.begin_session(
        SessionStart(
            role=Role.LOGGER,
            plugin_name="probe-a",
            plugin_index="00",
            runtime_name=configure.runtime_name,
            runtime_version=configure.runtime_version,
            nri_version="0.6.1",
            nri_version_inferred=True,
            mask=0x7FF,
            registration_timeout_ms=0,
            request_timeout_ms=0,
            started_ns=stream[0].stored.at_ns,
        )
    )
    for stored, reply in stream:
        recorder.capture(
            session,
            CapturedCall(stored.at_ns, stored.at_ns, stored.method, stored.request, reply, 0, "",
                     50_000, stored.timeout_ns),
        )  # fmt: skip
    recorder.end_session(session, "closed", stream[-1].stored.at_ns)
    recorder.close()
    return path


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(sample: Path, tmp_path: Path) -> Iterator[Start]:
    """Start the demo with ``sample`` as the bundled recording, away from any terminal.

    It is the leader of a process group, as at a terminal; its temporary files go to tmp_path.
    """
    running: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, temporary: Path = tmp_path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PLAY.format(path=str(sample)), "demo", *arguments],
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
    start: Start, sample: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output, errors = start("--speed", "1000").communicate(timeout=60)

    assert "recording of containerd 1.7.24~ds1, NRI 0.6.1 (inferred)" in output
    assert "emulated runtime" in output
    lines = [line for line in output.splitlines() if re.match(r" +\d+ \d\d:\d\d:\d\d\.", line)]
    assert f"\n{len(lines)} events follow in about" in output
    (folder,) = tmp_path.iterdir()
    (file,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert errors.splitlines()[-1].endswith(str(file))

    with Recording.open(file) as recorded, Recording.open(sample) as played:
        events = list(recorded.events())
        (session,) = recorded.sessions()
        assert session.runtime_version == "1.7.24~ds1"
        assert [recorded.request(event.id) for event in events] == [
            played.request(event.id) for event in played.events()
        ]
    live = [line for line in output.splitlines() if "shop/web/app" in line and "show" not in line]
    assert len(live) == sum((event.pod, event.container) == ("web", "app") for event in events)
    assert output.index("CreateContainer") < output.index("Recorded in")

    named = commands(output)
    assert [words[0] for words in named] == ["tui", "log", "log", "show", "stats", "sql", "doctor",
                                             "record"]  # fmt: skip
    capfd.readouterr()
    for words in named[:6]:
        assert str(file) in words
        assert run(words) == 0, words
        captured = capfd.readouterr()
        assert captured.out
        assert not captured.err or words[0] == "tui"


def test_output_can_be_named(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "a name.nriscope.db"
    output, _ = start("--speed", "1000", "-o", str(file)).communicate(timeout=60)
    assert file.exists()
    assert {str(file)} == {words[1] for words in commands(output) if words[0] == "log"}
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


def test_failed_record_ends_the_demo(start: Start, tmp_path: Path) -> None:
    process = start("-o", str(tmp_path / "missing" / "demo.nriscope.db"))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    _, why, then = errors.splitlines()
    assert str(tmp_path / "missing") in why
    assert then == "nri-scope: record ended with status 2; see its message above"
    assert not list(tmp_path.iterdir())


# ^C in a terminal is sent to all of its processes, `kill` to one.
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
        if "RunPodSandbox" in line:
            break
    assert len(list(tmp_path.iterdir())) == 2
    (os.killpg if to_group else os.kill)(process.pid, number)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert "Stopped early; the events so far are in" in output
    # The folder of the socket is gone.
    (folder,) = tmp_path.iterdir()
    (file,) = folder.iterdir()
    with Recording.open(file) as recording:
        assert "RunPodSandbox" in [event.event for event in recording.events()]
        assert len(recording.sessions()) == 1


def test_without_a_terminal_the_log_is_printed_with_a_notice(start: Start) -> None:
    output, errors = start("--speed", "1000").communicate(timeout=60)
    assert errors.startswith("demo: this is not a terminal; printing the log instead\n")
    assert "CreateContainer" in output


@needs_tmux
async def test_terminal_shows_events_while_they_are_played(tmp_path: Path) -> None:
    command = "demo --speed 5 -o d.nriscope.db"
    async with terminal(tmp_path, command, (150, 50)) as window:
        await window.shows("containerd 1.7", " demo ", "being recorded", "following")
        await window.shows("recording ended: all events were played; q quits", "34 of 34")
        await window.press("q")
        text = await window.shows("ended with 0", "doctor")
    assert f"tui {tmp_path}/d.nriscope.db" in "".join(text.split("\n"))
    assert "recorded 32 events in 1 session" in text
    with Recording.open(tmp_path / "d.nriscope.db") as recording:
        assert len(list(recording.events())) == 32 and not recording.gaps()


@needs_tmux
async def test_quitting_stops_the_demo(tmp_path: Path) -> None:
    async with terminal(tmp_path, "demo --speed 0.1 -o d.nriscope.db", (100, 60)) as window:
        await window.shows("being recorded", "RunPodSandbox")
        await window.press("q")
        await window.shows("q quits", "Stopped early; the events so far are in", "ended with 0")
    with Recording.open(tmp_path / "d.nriscope.db") as recording:
        (session,) = recording.sessions()
        assert session.ended_ns is not None


@needs_tmux
async def test_log_option_prints_the_log_in_a_terminal(tmp_path: Path) -> None:
    command = "demo --log --speed 1000 -o d.nriscope.db"
    async with terminal(tmp_path, command, (120, 90)) as window:
        text = await window.shows("RemovePodSandbox", "Recorded in", "ended with 0")
    assert "^C ends the demo earlier" in text and "printing the log instead" not in text


@needs_tmux
async def test_failed_recorder_is_reported_without_the_tui(tmp_path: Path) -> None:
    async with terminal(tmp_path, "demo -o missing/d.nriscope.db") as window:
        text = await window.shows("ended with 2")
    assert "missing" in text and "record ended with status 2" in text


def test_deep_temporary_folder_is_valid(start: Start, tmp_path: Path) -> None:
    """A socket's path has to fit into 107 bytes."""
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    process = start("--speed", "1000", temporary=deep)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert len(list(deep.glob("*/demo.nriscope.db"))) == 1


# -- the recording it plays -----------------------------------------------------------------------


def test_recording_is_in_this_checkout() -> None:
    with Recording.open(demo.bundled_path()) as recording:
        (session, *_) = recording.sessions()
        assert session.runtime_name == "containerd"
        assert session.runtime_version.startswith("1.7")


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


# -- details --------------------------------------------------------------------------------------


def stored_at(*seconds: float) -> list[Stored]:
    return [Stored(int(at * 1e9), "StateChange", b"", 0, PLUGIN_SERVICE) for at in seconds]


def test_pauses_between_events_are_bounded() -> None:
    burst, day = stored_at(0, 0.001, 0.002), stored_at(0, 3600, 7200)
    assert demo_runtime.demo_pace(burst, 1.0)[1] == pytest.approx(2 * demo_runtime.PAUSE_MIN_S)
    assert demo_runtime.demo_pace(day, 1.0)[1] == pytest.approx(2 * demo_runtime.PAUSE_MAX_S)
    assert demo_runtime.demo_pace(burst, 2.0)[1] == pytest.approx(demo_runtime.PAUSE_MIN_S)
    assert demo_runtime.demo_pace([], 1.0)[1] == 0


def test_long_recording_is_played_faster() -> None:
    events = stored_at(*itertools.accumulate([0.001] * 500))
    assert demo_runtime.demo_pace(events, 1.0)[1] == pytest.approx(demo_runtime.TOTAL_MAX_S)
    assert demo_runtime.demo_pace(events, 3.0)[1] == pytest.approx(demo_runtime.TOTAL_MAX_S / 3)


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
    monkeypatch.setattr(sys, "argv", ["/usr/lib/nri_scope/__main__.py", "demo"])
    assert demo.program_name() == f"{shlex.quote(sys.executable)} -m nri_scope"
