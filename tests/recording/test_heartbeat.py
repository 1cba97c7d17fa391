# SPDX-License-Identifier: Apache-2.0
"""A recorder is known by the lock of its heartbeat, which tells whether it works in time."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nri_scope.events import UNRESPONSIVE, UNWRITTEN, Gap, Role, Session
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.file.heartbeat import (
    LATE_NS,
    Heartbeat,
    HeartbeatFile,
    heartbeat_of,
    read_heartbeat,
)
from nri_scope.recording.file.sqlite_text import HIGHEST
from nri_scope.recording.reading.sessions import gap_until
from tests.amount import amount
from tests.recording.marks.recordings import a_copy

ROOT = Path(__file__).parents[2]
NOW = 10**18
numbers = st.integers(0, HIGHEST)
problems = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=90)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return a_copy(tmp_path)


def test_a_recorder_in_another_process_is_known_until_it_ends(path: Path) -> None:
    beating = """
        import sys
        from pathlib import Path
        from nri_scope.recording.file.heartbeat import Heartbeat, HeartbeatFile
        HeartbeatFile(Path(sys.argv[1])).write(Heartbeat(1, 2, 3, 1, "no space"))
        print("ready", flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(beating), str(path)]
    assert read_heartbeat(path) is None
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        found = read_heartbeat(path)
        other.kill()
    assert found is not None
    assert replace(found, at_ns=0) == Heartbeat(1, 2, 3, 1, "no space")
    # It was killed: the file stays, without a lock.
    assert heartbeat_of(path).exists()
    assert read_heartbeat(path) is None


@given(numbers, numbers, numbers, problems)
@settings(max_examples=amount(100, 30), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_heartbeat_is_read_as_it_was_written(
    path: Path, queued: int, oldest_ns: int, lost: int, problem: str
) -> None:
    file = HeartbeatFile(path)
    file.write(Heartbeat(1, 1, 1, 1, "an earlier problem, with more words than the next " * 20))
    file.write(Heartbeat(queued, oldest_ns, lost, 1, problem))
    found = read_heartbeat(path)
    file.close()
    assert found is not None
    assert replace(found, at_ns=0) == Heartbeat(queued, oldest_ns, lost, 1, problem.rstrip(" "))
    assert not heartbeat_of(path).exists()


@given(st.binary(max_size=600) | st.from_regex(rb"(\d{1,25} ){4}.*", fullmatch=True))
@settings(max_examples=amount(200, 50), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_content_is_a_bounded_heartbeat(path: Path, content: bytes) -> None:
    heartbeat_of(path).write_bytes(content)
    with heartbeat_of(path).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = read_heartbeat(path)
    assert found is not None
    assert all(0 <= each <= HIGHEST for each in (found.queued, found.oldest_ns, found.lost))
    assert len(found.problem) <= 512


def test_other_files_are_no_heartbeats(path: Path, tmp_path: Path) -> None:
    place = heartbeat_of(path)
    os.mkfifo(place)
    assert read_heartbeat(path) is None
    place.unlink()
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    place.symlink_to(target)
    assert read_heartbeat(path) is None
    # A recorder replaces what is in its place, and follows no link.
    file = HeartbeatFile(path)
    file.write(Heartbeat(0, 0, 0, 1, ""))
    assert target.read_bytes() == b"precious"
    assert not place.is_symlink()
    assert place.stat().st_mode & 0o777 == 0o600
    # One that was removed is there again.
    place.unlink()
    file.write(Heartbeat(7, 0, 0, 1, ""))
    found = read_heartbeat(path)
    assert found is not None
    assert found.queued == 7
    file.close()


def test_only_the_owner_of_a_recording_tells_about_it(path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can change the owner of a file")
    file = HeartbeatFile(path)
    file.write(Heartbeat(0, 0, 0, 1, ""))
    os.chown(heartbeat_of(path), 65534, 65534)
    assert read_heartbeat(path) is None
    os.chown(path, 65534, 65534)
    assert read_heartbeat(path) is not None
    file.close()


def test_a_disk_that_takes_no_content_takes_the_time(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    file = HeartbeatFile(path)
    file.write(Heartbeat(5, 0, 0, 1, ""))
    os.utime(heartbeat_of(path), ns=(1, 1))
    monkeypatch.setattr("nri_scope.recording.file.heartbeat.os.pwrite", full)
    file.write(Heartbeat(6, 0, 0, 1, ""))
    found = read_heartbeat(path)
    assert found is not None
    assert found.queued == 5
    assert found.at_ns > 1
    file.close()


def test_a_recorder_that_was_stopped_wrote_what_came_before_its_last_heartbeat_but_one() -> None:
    assert Heartbeat(0, 0, 0, 5, "", 9).written_ns == 5
    assert Heartbeat(1, 4, 0, 5, "", 9).written_ns == 4


times = st.integers(NOW - 5 * LATE_NS, NOW)


@given(times, times | st.just(0), st.sampled_from(["", "the disk is full"]), times, st.booleans())
def test_the_gap_up_to_now_begins_after_all_that_is_written(
    at_ns: int, oldest_ns: int, problem: str, newest_ns: int, alone: bool
) -> None:
    beat = Heartbeat(0, oldest_ns, 0, at_ns, problem, at_ns)
    late = NOW - at_ns > LATE_NS
    waits = bool(oldest_ns) and NOW - oldest_ns > LATE_NS
    why = beat.trouble(NOW)
    assert bool(why) == (late or waits or bool(problem))
    assert (why == UNRESPONSIVE) == late
    assert late or not why or why.startswith(UNWRITTEN)
    found = gap_until(NOW, beat, [_session(1), *([] if alone else [_session(2)])], newest_ns)
    assert isinstance(found, Gap)
    assert (found.id, found.to_ns, found.reason) == (0, NOW, why)
    assert found.session == (1 if alone else None)
    assert newest_ns <= found.from_ns <= NOW
    # Nothing after this time is certainly written.
    assert found.from_ns <= max(newest_ns, at_ns, oldest_ns)
    assert found.from_ns == newest_ns or found.from_ns in (at_ns, oldest_ns)


def _session(number: int) -> Session:
    return Session(
        number, Role.LOGGER, "scope", "10", "containerd", "2.1", "", False, 0, 0, 0, 0, None, ""
    )  # fmt: skip


def test_a_recorder_waits_while_the_lock_of_its_recording_is_checked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = os.open(path, os.O_RDONLY)
    fcntl.flock(asked, fcntl.LOCK_SH)
    waited = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        fcntl.flock(asked, fcntl.LOCK_UN)

    monkeypatch.setattr("nri_scope.recording.file.trusted_location.time.sleep", wait)
    recorder = Recorder.open(path)
    assert len(waited) == 1
    monkeypatch.undo()
    recorder.close()
    os.close(asked)
