# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from nri_scope import filter as filters
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.entries import CallsByMetrics
from nri_scope.errors import RecordingError
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.file.schema import APPLICATION_ID, TABLES, VERSION
from nri_scope.recording.reading import opening, table_reader
from nri_scope.recording.reading.plugin_calls import plugin_calls
from nri_scope.recording.reading.reader import Recording
from tests.recording.traffic import (
    a_container,
    a_pod,
    a_start,
    a_synchronize,
    an_item,
    lifecycle,
    lifecycles,
    one_stream,
    record,
)

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "data" / "recordings"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "r.nriscope.db"
    record(path, lifecycles(120))
    return path


@pytest.fixture
def path(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(template, tmp_path))


class TestEvents:
    def test_are_read_in_order_over_many_pages(self, path: Path) -> None:
        with Recording.open(path) as recording:
            assert [event.id for event in recording.events()] == list(range(1, 1321))

    def test_after_an_id_and_the_last_ones(self, path: Path) -> None:
        with Recording.open(path) as recording:
            assert [event.id for event in recording.events(after_id=1318)] == [1319, 1320]
            assert [event.id for event in recording.events(last=3)] == [1318, 1319, 1320]
            assert [event.id for event in recording.events(last=3, after_id=1319)] == [1320]
            assert list(recording.events(last=0)) == []
            for last in (10_000, 1 << 63):
                assert len(list(recording.events(last=last))) == 1320

    def test_from_a_time_until_before_another(self, path: Path) -> None:
        with Recording.open(path) as recording:
            events = list(recording.events())
            some = list(recording.events(since_ns=events[7].at_ns, until_ns=events[9].at_ns))
            assert some == events[7:9]

    def test_matching_a_filter(self, path: Path) -> None:
        where = filters.parse("event:CreateContainer pod:~web-1.")
        with Recording.open(path) as recording:
            found = list(recording.events(where=where))
            assert found == [event for event in recording.events() if where.matches(event)]
            assert len(found) == 30
            assert list(recording.events(where=where, last=2)) == found[-2:]

    @pytest.mark.parametrize(
        "text", ["took:>30us", "size:<400", "status:error", "id:0", "-event:stop*"]
    )
    def test_are_filtered_equally_by_sql_and_python(self, path: Path, text: str) -> None:
        where = filters.parse(text)
        with Recording.open(path) as recording:
            assert [event.id for event in recording.events(where=where)] == [
                event.id for event in recording.events() if where.matches(event)
            ]

    def test_by_number(self, path: Path) -> None:
        with Recording.open(path) as recording:
            event = recording.event(2)
            assert event is not None
            assert (event.id, event.event, event.plugin) == (2, "CreateContainer", "00-nri-scope")
            assert recording.event(0) is None
            assert recording.event(1 << 62) is None
            assert _newest(recording) == 1320

    def test_that_do_not_exist_have_no_messages(self, path: Path) -> None:
        with Recording.open(path) as recording:
            with pytest.raises(RecordingError, match="no event 5000"):
                recording.request(5000)
            with pytest.raises(RecordingError, match="no event 5000"):
                recording.reply(5000)

    @pytest.mark.parametrize("text", ["size:>0", "event:CreateContainer", "id:9999"])
    def test_with_their_messages(self, path: Path, text: str) -> None:
        where = filters.parse(text)
        with Recording.open(path) as recording:
            assert list(recording.exchanges(where=where)) == [
                (event, recording.request(event.id), recording.reply(event.id))
                for event in recording.events(where=where)
            ]

    @pytest.mark.parametrize("numbers", [[], [9999], [7, 3, 700, 9999], list(range(1, 1200, 2))])
    def test_among_given_numbers(self, path: Path, numbers: list[int]) -> None:
        with Recording.open(path) as recording:
            everything = [event.id for event in recording.events()]
            assert [event.id for event, _, _ in recording.exchanges(among=numbers)] == [
                number for number in everything if number in numbers
            ]

    def test_without_the_messages_that_are_not_needed(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE event SET container_object = 999999 WHERE id = 700")
            connection.commit()
        with Recording.open(path) as recording:
            assert list(recording.exchanges(needed=lambda event: event.id % 7 == 1)) == [
                (event, recording.request(event.id), recording.reply(event.id))
                if event.id % 7 == 1
                else (event, b"", b"")
                for event in recording.events()
            ]

    def test_with_their_messages_up_to_a_damaged_one(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE event SET container_object = 999999 WHERE id = 700")
            connection.commit()
        with Recording.open(path) as recording:
            exchanges = recording.exchanges()
            for number in range(1, 700):
                event, _, _ = next(exchanges)
                assert event.id == number
            with pytest.raises(RecordingError, match="at event 700"):
                next(exchanges)

    def test_have_the_statuses_of_filters(self, tmp_path: Path) -> None:
        path = tmp_path / "r.db"
        codes = [0, 4, 12]
        record(path, [an_item(status_code=code, status_message="x" * bool(code)) for code in codes])
        with Recording.open(path) as recording:
            assert [(event.status, event.status_message) for event in recording.events()] == [
                ("ok", ""),
                ("timeout", "x"),
                ("error", "x"),
            ]


class TestWhileItIsWritten:
    def test_committed_events_are_read(self, tmp_path: Path) -> None:
        path = tmp_path / "r.db"
        recorder = Recorder.open(path, on_event=lambda event, item: None)
        session = recorder.begin_session(a_start())
        with Recording.open(path) as recording:
            last_id = 0
            for number in range(5):
                for item in lifecycle(number):
                    recorder.capture(session, item)
                _until_recorded(recorder, 11 * (number + 1))
                new = [event.id for event in recording.events(after_id=last_id)]
                assert new == list(range(last_id + 1, 11 * (number + 1) + 1))
                last_id = new[-1]
            assert recording.sessions()[0].ended_ns is None
            recorder.close()
            assert _newest(recording) == 55

    def test_a_finished_recording_that_is_continued_is_followed(self, path: Path) -> None:
        with Recording.open(path) as recording:
            assert _newest(recording) == 1320
            recorder = Recorder.open(path)
            session = recorder.begin_session(a_start())
            for item in lifecycle(500):
                recorder.capture(session, item)
            _until_recorded(recorder, 11)
            assert _newest(recording) == 1331
            assert len(recording.request(1331)) > 0
            recorder.close()
            assert len(recording.sessions()) == 2

    def test_a_slow_reader_does_not_block_the_writer(self, path: Path) -> None:
        with Recording.open(path) as recording:
            events = recording.events()
            next(events)
            record(path, lifecycles(100, first=200))
            assert sum(1 for _ in events) == 1319 + 1100

    def test_a_recording_is_read_through_a_symbolic_link(self, tmp_path: Path) -> None:
        path = tmp_path / "r.db"
        link = tmp_path / "elsewhere" / "link.db"
        link.parent.mkdir()
        link.symlink_to(path)
        recorder = Recorder.open(path)
        session = recorder.begin_session(a_start())
        recorder.capture(session, an_item())
        _until_recorded(recorder, 1)
        with Recording.open(link) as recording:
            assert _newest(recording) == 1
        recorder.close()


def _newest(recording: Recording) -> int:
    return max((event.id for event in recording.events()), default=0)


def _until_recorded(recorder: Recorder, events: int) -> None:
    from threading import Event

    for _ in range(3000):
        if recorder.counters.recorded >= events:
            return
        Event().wait(0.01)
    raise AssertionError(f"{events} events were not recorded in time")


class TestRefuses:
    def _assert_rejected(self, path: Path, *words: str) -> None:
        with pytest.raises(RecordingError) as caught:
            Recording.open(path)
        assert caught.value.path == str(path)
        assert "\n" not in str(caught.value)
        for word in words:
            assert word in str(caught.value)

    def test_a_missing_file(self, tmp_path: Path) -> None:
        self._assert_rejected(tmp_path / "nothing.db", "no such file")

    def test_a_folder(self, tmp_path: Path) -> None:
        self._assert_rejected(tmp_path, "folder")

    def test_a_pipe_without_blocking(self, tmp_path: Path) -> None:
        path = tmp_path / "pipe"
        os.mkfifo(path)
        self._assert_rejected(path, "not a regular file")

    def test_a_link_to_itself(self, tmp_path: Path) -> None:
        path = tmp_path / "link"
        path.symlink_to(path)
        self._assert_rejected(path)

    def test_an_empty_file(self, tmp_path: Path) -> None:
        path = tmp_path / "r.db"
        path.touch()
        self._assert_rejected(path, "empty")

    def test_text(self, tmp_path: Path) -> None:
        path = tmp_path / "r.db"
        path.write_text("hello\n" * 500)
        self._assert_rejected(path, "not an nri-scope recording")

    def test_a_zip(self, tmp_path: Path) -> None:
        path = tmp_path / "r.nriscope.zip"
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("x", "y" * 1000)
        self._assert_rejected(path, "not a bundle", "manifest.json")

    def test_another_programs_database(self, tmp_path: Path) -> None:
        path = tmp_path / "r.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE event (id)")
        self._assert_rejected(path, "some other SQLite database")

    def test_a_newer_version(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA user_version = {VERSION + 1}")
        self._assert_rejected(path, f"version {VERSION + 1}", f"up to {VERSION}", "upgrade")

    def test_version_0(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA user_version = 0")
        self._assert_rejected(path, "version is 0")

    def test_a_recording_without_a_table(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DROP TABLE gap")
        self._assert_rejected(path, "table gap")

    def test_a_database_with_our_application_id_and_no_tables(self, tmp_path: Path) -> None:
        path = tmp_path / "r.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        self._assert_rejected(path, "not an nri-scope recording")

    @pytest.mark.parametrize("size", [50, 100, 4096, 20_000])
    def test_a_truncated_recording(self, path: Path, size: int) -> None:
        os.truncate(path, size)
        self._assert_rejected(path)


def test_a_truncated_recording_is_reported_as_damaged(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 4096 // 2 * 4096)
    with pytest.raises(RecordingError, match="damaged"):
        with Recording.open(path) as recording:
            list(recording.events())


def test_a_damaged_page_s_error_names_the_first_damaged_event(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute(
            "SELECT pageno FROM dbstat WHERE name = 'event' AND pagetype = 'leaf' "
            "ORDER BY path LIMIT 1 OFFSET 10"
        ).fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    with Recording.open(path) as recording:
        events = recording.events()
        read = []
        with pytest.raises(RecordingError, match=r"damaged from event \d+ on") as caught:
            read += [event.id for event in events]
        assert caught.value.path == str(path)
        assert recording.sessions()
        assert recording.event(1) is not None


class TestAColumnAddedLater:
    def test_is_ignored(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("ALTER TABLE event ADD COLUMN mood TEXT")
            connection.execute("CREATE TABLE weather (id INTEGER PRIMARY KEY)")
            connection.execute("CREATE INDEX more ON event(took_ns)")
        with Recording.open(path) as recording:
            assert _newest(recording) == 1320

    def test_does_not_prevent_more_events(self, tmp_path: Path) -> None:
        path = tmp_path / "r.db"
        items = [an_item("Synchronize", a_synchronize(pods=2)), *lifecycles(2)]
        record(path, items)
        with closing(sqlite3.connect(path)) as connection:
            for table in TABLES:
                connection.execute(f"ALTER TABLE {table.name} ADD COLUMN mood TEXT")
            connection.commit()

        with closing(Recorder.open(path)) as recorder:
            session = recorder.begin_session(a_start())
            for item in [items[0], *lifecycles(2, first=500)]:
                recorder.capture(session, item)
            recorder.put_control(CallsByMetrics(1, 2, (("10-a", "Synchronize", 3, 0, 4),)))

        with Recording.open(path) as recording:
            assert len(list(recording.events())) == 2 * len(items)
            assert len(plugin_calls(recording)) == 1
            assert not list(recording.gaps())


class TestReadOnlyFolder:
    """Read as a user without write permission; root, who can write anywhere, changes its user."""

    @pytest.fixture
    def folder(self) -> Iterator[Path]:
        folder = Path(tempfile.mkdtemp(prefix="nri-scope-"))
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)
        shutil.rmtree(folder)

    @contextmanager
    def _without_write_permission(self, path: Path) -> Iterator[None]:
        path.parent.chmod(0o555)
        for file in path.parent.iterdir():
            file.chmod(0o444)
        own_uid = os.geteuid()
        if own_uid == 0:
            os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(own_uid)
            path.parent.chmod(0o755)

    def test_a_finished_recording_can_be_read(self, folder: Path) -> None:
        path = folder / "r.db"
        record(path, list(lifecycle(1)))
        with self._without_write_permission(path), Recording.open(path) as recording:
            assert _newest(recording) == 11
            assert recording.request(1)
        assert list(folder.iterdir()) == [path]

    def test_a_recording_with_a_write_ahead_log_is_rejected_with_a_hint(self, folder: Path) -> None:
        path = folder / "r.db"
        recorder = Recorder.open(path)
        session = recorder.begin_session(a_start())
        for item in lifecycle(1):
            recorder.capture(session, item)
        _until_recorded(recorder, 11)
        killed = folder / "killed" / "r.db"
        killed.parent.mkdir()
        for kind in ("", "-wal"):
            shutil.copy(f"{path}{kind}", f"{killed}{kind}")
        recorder.close()
        with self._without_write_permission(killed):
            with pytest.raises(RecordingError, match=r"newest events are in r\.db-wal.*copy both"):
                Recording.open(killed)
        with Recording.open(killed) as recording:
            assert _newest(recording) == 11

    def test_a_file_without_read_permission_is_reported(self, folder: Path) -> None:
        path = folder / "r.db"
        record(path, [])
        path.chmod(0o600 if os.geteuid() == 0 else 0o000)
        own_uid = os.geteuid()
        if own_uid == 0:
            os.seteuid(65534)
        try:
            with pytest.raises(RecordingError, match="permission denied; only its owner"):
                Recording.open(path)
        finally:
            os.seteuid(own_uid)


def test_the_connection_is_read_only(path: Path, tmp_path: Path) -> None:
    with Recording.open(path) as recording:
        for statement in (
            "DELETE FROM event",
            "CREATE TABLE t (x)",
            f"ATTACH '{tmp_path}/other.db' AS other",
            f"VACUUM INTO '{tmp_path}/copy.db'",
            "PRAGMA user_version = 7",
        ):
            with pytest.raises(sqlite3.OperationalError):
                recording.connection.execute(statement)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_recording_of_a_real_runtime_has_names_of_pods_and_containers(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    record(path, one_stream("cri-o-1.37"))
    with Recording.open(path) as recording:
        names = {
            (container.pod.namespace, container.pod.name, container.name)
            for container in recording.containers()
            if container.pod
        }
        assert {
            ("shop", "web", "app"),
            ("shop", "web", "sidecar"),
            ("jobs", "batch", "job"),
        } <= names
        assert {"web", "batch"} <= {pod.name for pod in recording.pods()}


@pytest.mark.parametrize("is_settled", [True, False])
def test_gaps_are_read_again_after_each_change(tmp_path: Path, is_settled: bool) -> None:
    record(path := tmp_path / "r.nriscope.db", lifecycles(1))
    with closing(sqlite3.connect(path)) as writer:
        if not is_settled:
            writer.execute("PRAGMA journal_mode = wal")
            writer.execute("CREATE TABLE more (value)")
        with Recording.open(path) as recording:
            for number in range(4):
                assert len(recording.gaps()) == number
                # Callers own the list.
                recording.gaps().clear()
                assert len(recording.gaps()) == number
                insert = "INSERT INTO gap (from_ns, to_ns, reason) VALUES (1, 2, 'why')"
                writer.execute(insert)
                writer.commit()


def test_a_file_moved_while_it_is_opened_is_opened(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(
        real_path: Path, *, known_fingerprint: tuple[int, ...] | None
    ) -> opening.OpenedFile:
        opened = opening.connect(real_path, known_fingerprint=known_fingerprint)
        real_path.rename(real_path.with_name("elsewhere"))
        return opened

    monkeypatch.setattr("nri_scope.recording.reading.connection.connect", connect)
    with Recording.open(path) as recording:
        # Opening succeeded; later reads detect that the path has changed.
        with pytest.raises(RecordingError, match="no such file"):
            recording.sessions()


def test_a_file_that_is_written_while_it_is_opened_is_not_damaged(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = tmp_path / "later.db"
    shutil.copy(path, later)
    with closing(sqlite3.connect(later)) as writer:
        writer.execute("CREATE TABLE other AS SELECT zeroblob(100000) AS x")
        writer.commit()
    with Recording.open(path) as recording:
        before = list(recording.events())
    journal = path.with_name(f"{path.name}-journal")
    states: list[bool] = []

    def connect(
        real_path: Path, *, known_fingerprint: tuple[int, ...] | None
    ) -> opening.OpenedFile:
        states.append(journal.exists())
        if len(states) == 1:
            # SQLite writes the first page first: its header states the new size of the file.
            journal.touch()
            with real_path.open("r+b") as file:
                file.write(later.read_bytes()[:4096])
        try:
            return opening.connect(real_path, known_fingerprint=known_fingerprint)
        finally:
            if len(states) == 1:
                real_path.write_bytes(later.read_bytes())
                journal.unlink()

    monkeypatch.setattr("nri_scope.recording.reading.connection.connect", connect)
    with Recording.open(path) as recording:
        assert list(recording.events()) == before
    assert states == [False, False]


@pytest.mark.parametrize(
    "fixture", sorted(FIXTURES.glob("version-*.nriscope.db")), ids=lambda p: p.stem
)
def test_every_version_ever_released_can_be_read(fixture: Path, tmp_path: Path) -> None:
    copy = tmp_path / fixture.name
    shutil.copy(fixture, copy)
    with Recording.open(copy) as recording:
        events = list(recording.events())
        assert [event.event for event in events[:4]] == [
            "Configure",
            "Synchronize",
            "RunPodSandbox",
            "RunPodSandbox",
        ]
        assert len(events) == 33
        for event, item in zip(events, one_stream("containerd-1.7.24"), strict=False):
            assert len(recording.request(event.id)) <= len(item.request)
        assert recording.state(1).complete
        assert [gap.lost for gap in recording.gaps()] == [3]
        assert [note.text for note in recording.notes()] == ["a remark"]
    assert list(tmp_path.iterdir()) == [copy]


def test_a_page_ends_after_long_lists_of_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.nriscope.db"
    pod = a_pod()
    request = api.CreateContainerRequest(pod=pod, container=a_container(pod))
    reply = api.CreateContainerResponse()
    reply.adjust.annotations["key"] = "value"
    record(path, [an_item("CreateContainer", request, reply.SerializeToString())] * 3)
    monkeypatch.setattr(table_reader, "PAGE_CHARACTERS", len("[]") * 4)
    with Recording.open(path) as recording:
        pages = list(recording._pages(table_reader.EventCondition.of()))
    assert [len(page) for page in pages if page] == [1, 1, 1]
