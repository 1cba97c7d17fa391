# SPDX-License-Identifier: Apache-2.0
"""The queue to the writer process: ordered, bounded, with counted losses."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.capture import queue
from nri_scope.capture.queue import pack, unpack
from nri_scope.capture.sink import Begin, End, Queued, RecorderCounters
from nri_scope.entries import CallsByMetrics
from nri_scope.errors import RecordingError, UsageError
from nri_scope.events import CapturedCall, Gap, Note
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.plugin_calls import plugin_calls
from nri_scope.recording.reading.reader import Recording
from nri_scope.wire import Code
from nri_scope.writer import supervisor
from nri_scope.writer.messages import (
    Progress,
    RecordingOptions,
    encode_report,
    error_of,
    failure_values,
)
from nri_scope.writer.metrics_reader import FirstReading
from nri_scope.writer.supervisor import NOT_OPEN, NOT_TAKEN, WriterProcess
from tests.cli.runtime_metrics import OURS, Metrics, served
from tests.recording.traffic import NOW, a_start, an_item
from tests.writer.killed_writer import PATIENCE, kill, pid_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.nriscope.db"


def item(number: int, size: int = 10) -> CapturedCall:
    return an_item(request=b"\xff" * size, wall_ns=NOW + number)


def writer(path: Path, messages: list[str] | None = None, module: str = "") -> WriterProcess:
    say = (messages if messages is not None else []).append
    options = RecordingOptions(path, existed=False)
    return WriterProcess(options, say, module) if module else WriterProcess(options, say)


@contextlib.asynccontextmanager
async def stopped(process: WriterProcess) -> AsyncIterator[None]:
    """Stop the process in the context with SIGSTOP."""
    pid = pid_of(process)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def contents(path: Path) -> tuple[list[int], list[Gap]]:
    """Return the times of the events relative to `NOW`, and the gaps."""
    with Recording.open(path) as recording:
        return [event.at_ns - NOW for event in recording.events()], list(recording.gaps())


async def test_entries_before_the_file_is_open_are_written_in_order(path: Path) -> None:
    one = writer(path)
    session = one.begin_session(a_start())
    for number in range(50):
        one.capture(session, item(number))
    one.note(None, NOW, "remark")
    one.note_gap(session, NOW, NOW + 1, "a gap", None)
    await one.open()
    one.capture(session, item(50))
    one.end_session(session, "over", NOW + 99)
    counters = await one.close()
    events, gaps = contents(path)
    assert events == list(range(51))
    assert [(gap.session, gap.reason, gap.lost) for gap in gaps] == [(1, "a gap", None)]
    assert (counters.recorded, counters.lost, counters.gaps, one.failure) == (51, 0, 1, "")
    assert await one.close() == counters


async def test_a_full_queue_before_the_file_is_open_is_one_counted_gap(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "QUEUE_BYTES", 100_000)
    one = writer(path)
    session = one.begin_session(a_start())
    for number in range(200):
        one.capture(session, item(number, 1000))
    await one.open()
    one.end_session(session, "over", NOW + 999)
    counters = await one.close()
    events, (gap,) = contents(path)
    assert events == list(range(len(events)))
    assert (gap.reason, gap.session, gap.lost) == (NOT_OPEN, 1, 200 - len(events))
    assert (gap.from_ns, gap.to_ns) == (NOW + len(events), NOW + 199)
    assert (counters.recorded, counters.lost) == (len(events), gap.lost)
    # The file itself records the losses.
    assert one.failure == ""


async def test_a_recording_with_ended_sessions_is_kept_when_the_writer_is_replaced(
    path: Path,
) -> None:
    one = writer(path)
    await one.open()
    session = one.begin_session(a_start())
    one.capture(session, item(0))
    one.end_session(session, "over", NOW + 9)
    async with asyncio.timeout(PATIENCE):
        while not one.counters.recorded or one._sessions:
            await asyncio.sleep(0.01)
    await kill(one)
    await one.close()
    assert contents(path) == ([0], [])


async def test_events_of_a_killed_writer_are_missing_if_no_other_one_can_be_started(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = writer(path)
    await one.open()
    session = one.begin_session(a_start())
    one.capture(session, item(0))
    async with asyncio.timeout(PATIENCE):
        while not one.counters.recorded:
            await asyncio.sleep(0.01)
    os.kill(pid_of(one), signal.SIGSTOP)
    for number in range(1, 8):
        one.capture(session, item(number))
    async with asyncio.timeout(PATIENCE):
        while one._inbox:
            await asyncio.sleep(0.01)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    await kill(one)
    counters = await one.close()
    assert (counters.recorded, counters.lost) == (1, 7)
    assert "7 events are missing from the file without a gap" in one.failure


async def test_large_error_messages_are_recorded(path: Path) -> None:
    """They count as much as requests and replies in the limits of the queue and of a batch."""
    messages: list[str] = []
    one = writer(path, messages)
    one._batching = queue.Batching(events=32, size=64 << 10)
    await one.open()
    session = one.begin_session(a_start())
    for number in range(20):
        large = item(number)._replace(status_code=2, status_message="x" * (4 << 20))
        one.capture(session, large)
    async with asyncio.timeout(PATIENCE):
        while one._inbox:
            await asyncio.sleep(0.01)
    one.capture(session, item(20))
    one.end_session(session, "over", NOW + 99)
    counters = await one.close()
    events, gaps = contents(path)
    assert len(events) + sum(gap.lost or 0 for gap in gaps) == 21
    assert counters.recorded + counters.lost == 21
    assert messages == []


@pytest.mark.exhaustive
async def test_the_empty_file_of_a_writer_that_is_killed_at_the_start_is_removed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "half_created.py"
    program.write_text(
        "import pathlib, time\n"
        "def main(descriptor):\n"
        f"    pathlib.Path({str(path)!r}).touch()\n"
        f"    pathlib.Path({str(path) + '-journal'!r}).touch()\n"
        "    time.sleep(600)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    one = writer(path, module="half_created")
    with pytest.raises(RecordingError, match="did not open the file within 2 s"):
        await one.open(2)
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(path.name)] == []


async def test_entries_that_a_stopped_process_does_not_receive_are_counted_in_gaps(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "QUEUE_BYTES", 1_000_000)
    one = writer(path)
    await one.open()
    session = one.begin_session(a_start())
    async with stopped(one):
        for number in range(500):
            one.capture(session, item(number, 10_000))
            await asyncio.sleep(0)
    one.end_session(session, "over", NOW + 999)
    counters = await one.close()
    events, gaps = contents(path)
    assert 0 < len(events) < 500
    assert {gap.reason for gap in gaps} == {NOT_TAKEN}
    assert sum(gap.lost or 0 for gap in gaps) == counters.lost == 500 - len(events)
    assert one.failure == ""


async def test_entries_queued_after_a_kill_reach_the_next_process(path: Path) -> None:
    messages: list[str] = []
    one = writer(path, messages)
    await one.open()
    session = one.begin_session(a_start())
    async with stopped(one):
        one.capture(session, item(0))
        # This event was sent to the process, and is lost with it.
        await asyncio.sleep(0.3)
        await kill(one)
    for number in range(1, 100):
        one.capture(session, item(number))
    one.end_session(session, "over", NOW + 999)
    counters = await one.close()
    events, (gap,) = contents(path)
    assert events == list(range(1, 100))
    assert gap.lost == 1
    assert gap.reason == "the writer process ended, killed by SIGKILL"
    assert (counters.recorded, counters.lost) == (99, 1)
    assert one.failure == f"{gap.reason}: 1 events were lost"
    assert messages == [f"warning: {gap.reason}; starting another one"]


async def test_a_replacing_writer_keeps_the_calls_by_the_runtime_s_metrics(path: Path) -> None:
    metrics = Metrics()
    with served(metrics) as url:
        first = FirstReading.of(url)
        before = Recorder.open(path)
        before.put_control(
            CallsByMetrics(first.at_ns, first.at_ns + 1, ((OURS, "StartContainer", 9, 0, 5),))
        )
        before.close()
        one = WriterProcess(RecordingOptions(path, existed=True, metrics=first), print)
        await one.open()
        await kill(one)
        before_the_kill = metrics.read
        async with asyncio.timeout(PATIENCE):
            while metrics.read == before_the_kill:
                await asyncio.sleep(0.01)
        metrics.calls = 4
        await one.close()
    with Recording.open(path) as recording:
        calls = [(call.plugin, call.counts.calls) for call in plugin_calls(recording)]
    assert calls == [(OURS, 9), (OURS, 4), ("50-other", 4)]


async def test_ended_and_open_sessions_each_have_a_gap_for_their_losses(path: Path) -> None:
    one = writer(path)
    await one.open()
    sessions = [one.begin_session(a_start(f"0{number}-probe")) for number in range(3)]
    for session in sessions:
        one.capture(session, item(session))
    await asyncio.sleep(0.5)
    async with stopped(one):
        for session in sessions:
            one.capture(session, item(10 + session))
        one.end_session(sessions[0], "gone", NOW + 20)
        late = one.begin_session(a_start("09-late"))
        one.capture(late, item(30))
        await asyncio.sleep(0.3)
        await kill(one)
    for session in (*sessions[1:], late):
        one.capture(session, item(40 + session))
        one.end_session(session, "over", NOW + 99)
    await one.close()
    with Recording.open(path) as recording:
        ends = {session.plugin: session.end_reason for session in recording.sessions()}
        gaps = {gap.session: gap.lost for gap in recording.gaps()}
        counts = [
            sum(event.session == session.id for event in recording.events())
            for session in recording.sessions()
        ]
    assert ends == {"00-probe": "gone", "01-probe": "over", "02-probe": "over", "09-late": "over"}
    assert gaps == {1: 1, 2: 1, 3: 1, 4: 1}
    assert counts == [1, 2, 2, 1]


async def test_a_file_that_cannot_be_opened_is_reported_and_can_be_opened_later(path: Path) -> None:
    path.write_text("precious")
    one = writer(path)
    session = one.begin_session(a_start())
    one.capture(session, item(1))
    with pytest.raises(RecordingError, match="not an nri-scope recording"):
        await one.open()
    assert path.read_text() == "precious"
    path.unlink()
    await one.open()
    one.end_session(session, "over", NOW + 2)
    assert (await one.close()).recorded == 1


async def test_a_file_without_a_session_is_removed(path: Path) -> None:
    one = writer(path)
    await one.open()
    assert path.exists()
    await one.close()
    assert not path.exists()


async def test_losses_that_cannot_be_written_as_a_gap_are_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    one = writer(path, messages)
    await one.open()
    session = one.begin_session(a_start())
    monkeypatch.setattr(sys, "executable", str(path.parent / "none"))
    os.kill(pid_of(one), signal.SIGKILL)
    one.capture(session, item(1))
    one.end_session(session, "over", NOW + 2)
    counters = await one.close()
    assert counters.lost == 1
    assert "1 events are missing from the file without a gap" in one.failure
    assert any("nothing can be written" in text for text in messages)


async def test_close_waits_until_the_next_process_has_started(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "READY_S", 2 * PATIENCE)
    one = writer(path)
    await one.open()
    session = one.begin_session(a_start())
    await kill(one)
    one.capture(session, item(1))
    async with asyncio.timeout(PATIENCE):
        counters = await one.close()
    assert (counters.recorded, counters.lost) == (1, 0)
    assert contents(path)[0] == [1]


CRASHES = """
import os
def main(descriptor):
    os.kill(os.getpid(), 9)
"""


async def test_an_immediate_crash_is_reported(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "crashes.py").write_text(CRASHES)
    monkeypatch.syspath_prepend(tmp_path)
    one = writer(path, module="crashes")
    with pytest.raises(RecordingError, match="killed by SIGKILL"):
        await one.open()
    assert not path.exists()


GARBLED = """
import os, time
from nri_scope.process.channel import message
def main(descriptor):
    os.write(descriptor, message(4, b"[1"))
    time.sleep(1000)
"""


async def test_a_process_that_sends_invalid_messages_is_killed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "garbled.py").write_text(GARBLED)
    monkeypatch.syspath_prepend(tmp_path)
    one = writer(path, module="garbled")
    with pytest.raises(RecordingError, match="killed by SIGKILL"):
        await one.open()


entries = st.one_of(
    st.builds(
        lambda session, number, data, code, metadata: (
            session,
            item(number)._replace(request=data, status_code=code, metadata=metadata),
        ),
        st.integers(0, 9),
        st.integers(0, 1 << 62),
        st.binary(),
        st.sampled_from([0, 4, Code.DEADLINE_EXCEEDED, Code.INTERNAL]),
        st.lists(st.tuples(st.text(), st.text())).map(tuple),
    ),
    st.builds(Begin, st.integers(), st.just(a_start())),
    st.builds(End, st.integers(), st.text(), st.integers()),
    st.builds(Gap, st.none(), st.integers(), st.integers(), st.text(), st.none()),
    st.builds(Note, st.none(), st.integers(), st.text()),
)


@given(st.lists(entries))
def test_entries_survive_a_round_trip(sent: list[Queued]) -> None:
    assert list(unpack(pack(sent))) == sent


@given(st.lists(st.integers()), st.dictionaries(st.integers(), st.integers()), st.text())
def test_reports_survive_a_round_trip(
    ended: list[int], processed: dict[int, int], words: str
) -> None:
    pairs = list(processed.items())
    progress = Progress(RecorderCounters(1, 2, 3, 4, 5, 6), pairs, ended, 7)
    counters, received, *rest = json.loads(encode_report(progress))
    again = Progress(RecorderCounters(*counters), list(map(tuple, received)), *rest)
    assert again == progress
    for error in (
        RecordingError("/a\udcff", words, "hint"),
        UsageError(words),
        UsageError("a", "b"),
    ):
        failed = error_of(json.loads(encode_report(failure_values(error))))
        assert (str(failed), isinstance(failed, UsageError)) == (
            str(error),
            isinstance(error, UsageError),
        )


@pytest.mark.skipif("config.pluginmanager.hasplugin('_cov')", reason="coverage imports sqlite3")
@pytest.mark.parametrize(
    "modules",
    [
        "nri_scope.cli.main, nri_scope.cli.record, nri_scope.logger.run",
        "nri_scope.cli.main, nri_scope.cli.tap, nri_scope.tap.launched_plugin",
        "nri_scope.cli.main, nri_scope.cli.tap, nri_scope.tap.plugin_socket",
        "nri_scope.tap.wrapped_tap",
        "nri_scope.logger.launched",
    ],
)
def test_a_responder_does_not_import_writer_modules(modules: str) -> None:
    """The writer's modules would take memory twice, and could delay replies."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, {modules}; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    imported = set(done.stdout.split())
    assert "nri_scope.writer.supervisor" in imported
    assert not imported & {"sqlite3", "zstandard", "re2", "yaml", "textual"}
    assert not {one for one in imported if one.startswith("nri_scope.share")}
    assert "nri_scope.recorder.transactions" not in imported
