# SPDX-License-Identifier: Apache-2.0
"""Marks written into a recording: all or none, and only if it is safe."""

from __future__ import annotations

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from nri_scope.errors import RecordingError
from nri_scope.events import MAX_COMMENT, Mark
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.marks.recorder_lock import RecorderLockProbe
from nri_scope.recording.marks.table import Refused, marks_in, may_write, put, settle
from nri_scope.recording.opening import is_settled
from nri_scope.recording.reader import Recording
from tests.recording.marks.recordings import a_copy, a_mark, alter, events_of, inside
from tests.recording.other_user import journal_naming
from tests.recording.traffic import lifecycles, record
from tests.share.bundle.bundles import a_bundle

ROOT = Path(__file__).parents[3]
_TABLE = (
    "CREATE TABLE mark (event INTEGER PRIMARY KEY REFERENCES event(id), "
    "made_ns INTEGER NOT NULL, comment TEXT NOT NULL"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return a_copy(tmp_path)


@pytest.fixture
def watch(path: Path) -> Iterator[RecorderLockProbe]:
    watch = RecorderLockProbe(path)
    yield watch
    watch.close()


def test_marks_are_stored_changed_and_removed(path: Path, watch: RecorderLockProbe) -> None:
    assert inside(path) == []
    one, other = a_mark(5, "why here?"), a_mark(9)
    assert put(path, [one, other], watch) == {one.key, other.key}
    assert inside(path) == [one, other]
    changed = replace(one, comment="because", made_ns=2)
    put(path, [changed, a_mark(9, made_ns=2, gone=True)], watch)
    assert inside(path) == [changed]
    # No companion is left, and the file's mode is unchanged.
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o777 == a_copy(path.parent.parent).stat().st_mode & 0o777


def test_an_older_mark_does_not_replace_a_newer_one(path: Path, watch: RecorderLockProbe) -> None:
    put(path, [a_mark(5, "newer", 10)], watch)
    put(path, [a_mark(5, "older", 9)], watch)
    put(path, [a_mark(5, made_ns=9, gone=True)], watch)
    assert inside(path) == [a_mark(5, "newer", 10)]


def test_a_mark_of_another_recording_is_not_written(path: Path, watch: RecorderLockProbe) -> None:
    one = a_mark(5)
    assert put(path, [replace(one, at_ns=1), Mark(10**6, 1), one], watch) == {one.key}
    assert inside(path) == [one]


def test_events_are_unchanged(path: Path, watch: RecorderLockProbe) -> None:
    before = events_of(path)
    put(path, [a_mark(5, "x" * MAX_COMMENT)], watch)
    assert events_of(path) == before
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_removed_mark_s_text_is_erased_from_the_file(
    path: Path, watch: RecorderLockProbe
) -> None:
    put(path, [a_mark(5, "not for everybody")], watch)
    assert b"not for everybody" in path.read_bytes()
    put(path, [a_mark(5, made_ns=2, gone=True)], watch)
    assert b"not for everybody" not in path.read_bytes()


def test_an_open_reader_continues_while_marks_are_written(
    path: Path, watch: RecorderLockProbe
) -> None:
    with Recording.open(path) as recording:
        events = recording.events()
        first = next(events)
        put(path, [a_mark(5)], watch)
        assert [first, *events] == events_of(path)
        assert marks_in(recording) == [a_mark(5)]


def test_marks_are_not_written_during_recording(path: Path, watch: RecorderLockProbe) -> None:
    recorder = Recorder.open(path)
    try:
        with pytest.raises(Refused, match="being recorded"):
            put(path, [a_mark(5)], watch)
    finally:
        recorder.close()
    put(path, [a_mark(5)], watch)
    assert inside(path) == [a_mark(5)]


def test_another_process_that_records_is_detected_and_not_disturbed(path: Path) -> None:
    recording = """
        import sys
        from pathlib import Path
        from nri_scope.recorder.writer import Recorder
        recorder = Recorder.open(Path(sys.argv[1]))
        print("ready", flush=True)
        sys.stdin.read()
        recorder.close()
    """
    command = [sys.executable, "-c", textwrap.dedent(recording), str(path)]
    watch = RecorderLockProbe(path)
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        assert watch.is_recorder_active()
        with pytest.raises(Refused, match="being recorded"):
            put(path, [a_mark(5)], watch)
        other.communicate("")
    assert other.returncode == 0
    assert not watch.is_recorder_active()
    assert put(path, [a_mark(5)], watch)
    watch.close()
    # The probe does not prevent a later recorder.
    Recorder.open(path).close()
    assert inside(path) == [a_mark(5)]


def test_probes_take_no_lock_from_recorders_or_each_other(path: Path) -> None:
    watches = [RecorderLockProbe(path) for _ in range(2)]
    assert [watch.is_recorder_active() for watch in watches] == [False, False]
    recorder = Recorder.open(path)
    assert [watch.is_recorder_active() for watch in watches] == [True, True]
    recorder.close()
    for watch in watches:
        watch.close()


def test_a_recorder_that_starts_during_a_probe_waits_and_opens(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = os.open(path, os.O_RDONLY)
    fcntl.flock(asked, fcntl.LOCK_SH)
    waited = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        fcntl.flock(asked, fcntl.LOCK_UN)

    monkeypatch.setattr("nri_scope.recording.writable_file.time.sleep", wait)
    recorder = Recorder.open(path)
    assert len(waited) == 1
    monkeypatch.undo()
    recorder.close()
    os.close(asked)


def test_a_killed_recorder_s_write_ahead_log_is_merged(tmp_path: Path) -> None:
    path = tmp_path / "killed.nriscope.db"
    killed = """
        import os, sys
        from pathlib import Path
        from nri_scope.recording.writable_file import RecordingFile
        from nri_scope.recorder.inbox import Begin
        from nri_scope.recorder.ring import Ring
        from nri_scope.recorder.transactions import TransactionWriter
        from tests.recording.traffic import a_start, lifecycles
        writing = TransactionWriter(RecordingFile.open(Path(sys.argv[1])), Ring(None, None))
        writing.write([Begin(1, a_start()), *((1, item) for item in lifecycles(2))])
        os.kill(os.getpid(), 9)
    """
    command = [sys.executable, "-c", textwrap.dedent(killed), str(path)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    assert not is_settled(path)
    events = events_of(path)
    watch = RecorderLockProbe(path)
    mark = Mark(events[3].id, events[3].at_ns, "here", 1)
    # An open reader keeps the log, which `settle` merges after the reader has closed.
    with Recording.open(path) as recording:
        assert put(path, [mark], watch) == {mark.key}
        assert marks_in(recording) == [mark]
    settle(path)
    assert is_settled(path)
    watch.close()
    assert inside(path) == [mark]
    assert events_of(path) == events


def test_a_bundle_is_unchanged(tmp_path: Path) -> None:
    bundle = a_bundle(tmp_path / "r.nriscope.zip")
    before = bundle.read_bytes()
    with pytest.raises(Refused):
        put(bundle, [a_mark(5)], RecorderLockProbe(bundle))
    assert bundle.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [bundle.name]


@pytest.mark.parametrize("mode", [0o400, 0o444])
def test_a_read_only_file_is_not_written_to_even_by_root(
    path: Path, watch: RecorderLockProbe, mode: int
) -> None:
    path.chmod(mode)
    before = path.read_bytes()
    assert not may_write(path)
    with pytest.raises(Refused, match="not writable"):
        put(path, [a_mark(5)], watch)
    assert path.read_bytes() == before


def test_a_file_in_a_read_only_folder_is_not_written_to(
    path: Path, watch: RecorderLockProbe
) -> None:
    path.parent.chmod(0o500)
    try:
        with pytest.raises(Refused, match="not writable"):
            put(path, [a_mark(5)], watch)
    finally:
        path.parent.chmod(0o700)


def test_links_and_special_files_are_not_written_to(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.nriscope.db"
    link.symlink_to(path)
    for each in (link, tmp_path, tmp_path / "nothing"):
        with pytest.raises(Refused):
            put(each, [a_mark(5)], RecorderLockProbe(each))
    assert inside(path) == []


@pytest.mark.parametrize(
    "statement",
    [
        f"{_TABLE}, CHECK (length(hex(zeroblob(9))) > 0))",
        f"{_TABLE}, more TEXT DEFAULT (hex(1)))",
        f"{_TABLE}, UNIQUE (comment))",
        f"{_TABLE}, more TEXT AS (upper(comment)))",
        f"{_TABLE} COLLATE nocase)",
        "CREATE TABLE mark (event INTEGER PRIMARY KEY, made_ns, comment)",
    ],
)
def test_a_mark_table_with_another_definition_is_not_written_to(
    path: Path, watch: RecorderLockProbe, statement: str
) -> None:
    alter(path, statement)
    with pytest.raises(Refused, match="another definition"):
        put(path, [a_mark(5)], watch)
    assert inside(path) == []


def test_a_table_with_an_index_or_a_trigger_is_not_written_to(
    path: Path, watch: RecorderLockProbe
) -> None:
    put(path, [a_mark(5)], watch)
    alter(path, "CREATE INDEX slow ON mark(length(comment))")
    with pytest.raises(Refused, match="another definition"):
        put(path, [a_mark(9)], watch)
    assert inside(path) == [a_mark(5)]
    alter(
        path,
        "DROP INDEX slow",
        "CREATE TRIGGER t AFTER INSERT ON mark BEGIN DELETE FROM event; END",
    )
    with pytest.raises(Refused, match="trigger"):
        put(path, [a_mark(9)], watch)
    alter(path, "DROP TRIGGER t")
    assert len(events_of(path)) == len(events_of())


@pytest.mark.parametrize(
    ("row", "is_damaged"),
    [
        ("5, 1, x'00'", True),
        ("5, 'soon', ''", True),
        ("5, 1, printf('%.*c', 100000, 'x')", False),
        # Missing events.
        ("1000000, 1, ''", False),
        ("-5, 1, ''", False),
    ],
)
def test_invalid_rows_do_no_harm(
    path: Path, watch: RecorderLockProbe, row: str, is_damaged: bool
) -> None:
    put(path, [a_mark(9)], watch)
    alter(path, f"INSERT INTO mark VALUES ({row})")
    if is_damaged:
        with pytest.raises(RecordingError, match="a mark has values of a wrong type"):
            inside(path)
    else:
        marks = inside(path)
        assert a_mark(9) in marks
        assert all(len(mark.comment) <= MAX_COMMENT for mark in marks)


def test_a_lasting_lock_times_out(
    path: Path, watch: RecorderLockProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri_scope.recording.marks.table._BUSY_MS", 20)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Refused, match="locked"):
            put(path, [a_mark(5)], watch)
        other.execute("ROLLBACK")
    assert put(path, [a_mark(5)], watch)


def test_concurrent_marks_are_all_stored(path: Path) -> None:
    events = events_of(path)[:24]
    watches = [RecorderLockProbe(path) for _ in range(4)]

    def some(number: int) -> None:
        for event in events[number::4]:
            put(path, [Mark(event.id, event.at_ns, f"{number}", 1)], watches[number])

    threads = [threading.Thread(target=some, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [mark.event for mark in inside(path)] == [event.id for event in events]
    for watch in watches:
        watch.close()


@pytest.mark.parametrize(
    ("when", "kept"), [("INSERT", False), ("COMMIT", False), ("PRAGMA journal_mode", True)]
)
def test_a_killed_writer_leaves_all_marks_or_none(path: Path, when: str, kept: bool) -> None:
    killed = """
        import os, sys
        from pathlib import Path
        from nri_scope.recording.marks import table
        from nri_scope.recording.marks.recorder_lock import RecorderLockProbe
        from nri_scope.events import Mark
        from tests.recording.marks.recordings import events_of
        path, when = Path(sys.argv[1]), sys.argv[2]
        set_up = table._set_up
        def die_when(statement):
            if statement.strip().startswith(when):
                os.kill(os.getpid(), 9)
        def with_an_end(connection, file):
            set_up(connection, file)
            # Write pages to the file long before the commit.
            connection.execute("PRAGMA cache_size = 1")
            connection.set_trace_callback(die_when)
        table._set_up = with_an_end
        marks = [Mark(event.id, event.at_ns, "x" * 2000, 1) for event in events_of()]
        table.put(path, marks, RecorderLockProbe(path))
    """
    before, events = path.read_bytes(), events_of()
    command = [sys.executable, "-c", textwrap.dedent(killed), str(path), when]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    assert path.read_bytes() != before
    assert is_settled(path) == kept
    assert [mark.event for mark in inside(path)] == [event.id for event in events if kept]
    assert events_of(path) == events
    assert is_settled(path)


def test_a_continued_recording_keeps_its_marks(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    record(path, lifecycles(2))
    event = events_of(path)[2]
    mark = Mark(event.id, event.at_ns, "kept", 1)
    put(path, [mark], RecorderLockProbe(path))
    record(path, lifecycles(2))
    assert inside(path) == [mark]
    assert len(events_of(path)) > event.id
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


class TestWhereOthersCanWrite:
    @pytest.mark.parametrize("mode", [0o777, 0o1777])
    def test_marks_are_not_written(self, path: Path, watch: RecorderLockProbe, mode: int) -> None:
        before = path.read_bytes()
        path.parent.chmod(mode)
        with pytest.raises(Refused, match="not writable"):
            put(path, [a_mark(3)], watch)
        settle(path)
        assert path.read_bytes() == before

    @pytest.mark.exhaustive
    def test_an_interrupted_write_is_not_rolled_back(
        self, path: Path, watch: RecorderLockProbe
    ) -> None:
        victim = path.with_name("victim")
        victim.touch()
        journal = path.with_name(f"{path.name}-journal")
        journal.write_bytes(journal_naming(victim, path.stat().st_size))
        with pytest.raises(Refused, match="interrupted"):
            put(path, [a_mark(3)], watch)
        settle(path)
        assert victim.exists() and journal.exists()
