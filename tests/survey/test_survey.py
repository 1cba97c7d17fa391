# SPDX-License-Identifier: Apache-2.0
"""Survey of a recording: attributed changes and problems by event, and findings."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from nri_scope.cli.main import run
from nri_scope.differ.operations import Operation
from nri_scope.errors import RecordingError, UsageError
from nri_scope.events import HAPPENED, OutcomeKind
from nri_scope.filter import parse
from nri_scope.filter.tree import quote
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.display import changes_words
from nri_scope.recording.query import attribution_file
from nri_scope.recording.query.attribution_file import AttributionFile, Request, paths_changed_by
from nri_scope.recording.query.lookup import event_range
from nri_scope.recording.reading.reader import Recording
from nri_scope.survey.process import SurveyProcess, SurveyState
from nri_scope.survey.survey import survey, survey_some
from tests.amount import amount
from tests.recording.recordings import PLUGIN, a_start, captured, heartbeat_beside

NO_PLACE = "no container"
RECORDINGS = sorted((Path(__file__).parents[2] / "recordings").glob("*.nriscope.*"))
CASES = sorted((Path(__file__).parents[1] / "data" / "cases").glob("*.zip"))
SLOW = next(one for one in RECORDINGS if one.name.startswith("containerd-2.1-slow"))
TIMEOUT_S = 30


def attached(path: Path, folder: Path) -> Recording:
    survey(path, folder / "a.db")
    recording = Recording.open(path)
    recording.attach(folder / "a.db")
    return recording


@pytest.mark.parametrize("path", [*RECORDINGS, *CASES], ids=lambda path: path.name)
def test_events_have_the_requests_that_diff_shows(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["diff", str(path), "--format", "json"])
    expected: defaultdict[int, set[tuple[str, ...]]] = defaultdict(set)
    with attached(path, tmp_path) as recording:
        own = {event.id: event.container_id for event in recording.events()}
        # Without an event of a container, `diff` prints an error only.
        for step in _steps(capsys.readouterr().out or '{"changes": [], "requests": []}'):
            if step["owner"] not in ("runtime", "unknown"):
                is_own = step["container_id"] == own[step["event"]]
                place = "" if is_own else step["container"] if step["container_id"] else NO_PLACE
                path_asked, kind = step["path"] or "/", step["outcome"]["kind"]
                expected[step["event"]].add((path_asked, step["owner"], kind, place))
        found = {
            one.id: set(zip(one.changed, one.owners, one.outcomes, one.targets, strict=True))
            for one in recording.events()
        }
    assert {number: each for number, each in found.items() if each} == expected


def _steps(document: str) -> list[dict[str, Any]]:
    """Return the changes, then the other requests, of the output of `diff`."""
    found = json.loads(document)
    return [*found["changes"], *found["requests"]]


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", [*RECORDINGS, *CASES], ids=lambda path: path.name)
def test_some_events_have_the_same_changes_as_in_a_whole_survey(path: Path, tmp_path: Path) -> None:
    chance = Random(path.name)
    with attached(path, tmp_path) as whole, Recording.open(path) as recording:
        expected = list(whole.events())
        events = list(recording.events())
        for number in range(amount(20, 4)):
            size = chance.choice([1, 4, 12, 40])
            at = len(events) - size if number % 2 else chance.randrange(len(events))
            part = slice(max(0, at), max(0, at) + size)
            survey_some(recording, events[part], tmp_path / f"{number}.db")
            with Recording.open(path) as other:
                other.attach(tmp_path / f"{number}.db")
                numbers = [one.id for one in events[part]]
                assert list(other.events(among=numbers)) == expected[part]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_owners_have_the_paths_that_diff_shows(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["diff", str(path), "--format", "json"])
    expected: defaultdict[str, defaultdict[tuple[str, bool], set[int]]]
    expected = defaultdict(lambda: defaultdict(set))
    of_container: defaultdict[str, defaultdict[tuple[str, bool], set[int]]]
    of_container = defaultdict(lambda: defaultdict(set))
    with attached(path, tmp_path) as recording:
        some = recording.containers()[-1]
        for change in _steps(capsys.readouterr().out):
            place = change["path"], change["outcome"]["kind"] in HAPPENED
            expected[change["owner"]][place].add(change["event"])
            if change["container_id"] == some.id:
                of_container[change["owner"]][place].add(change["event"])
        for owner, paths in expected.items():
            if owner in ("runtime", "unknown"):
                continue
            where = parse(f"owner:{quote(owner)}")
            for condition, about, known in (
                (None, None, paths),
                (where, None, paths),
                (None, some, of_container[owner]),
            ):
                found = paths_changed_by(recording, owner, 1_000, condition, about)
                assert found is not None and found.total == len(known)
                counts = {
                    (path.path, path.is_change): (path.events, path.newest) for path in found.paths
                }
                assert counts == {
                    each: (len(events), max(events)) for each, events in known.items()
                }
        none = paths_changed_by(recording, "no-plugin", 10)
        assert none is not None and (none.paths, none.total) == ((), 0)


def test_changes_by_owner_are_unknown_without_a_survey() -> None:
    with Recording.open(SLOW) as recording:
        assert paths_changed_by(recording, "one of 01–29", 10) is None


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_findings_are_those_of_the_report(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["report", str(path), "--diagnose", "--format", "json"])
    expected = json.loads(capsys.readouterr().out)["findings"]
    found = survey(path, tmp_path / "a.db")
    assert json.loads(json.dumps([finding.record() for finding in found.findings])) == expected


@pytest.mark.parametrize(
    ("name", "where", "events"),
    [
        ("containerd-2.1-conflict", "problem:failed", [29, 39]),
        ("containerd-2.1-conflict", "changed:/process/env/FOO", [30, 40]),
        ("containerd-2.1-slow-plugin", "problem:slow", [15]),
        ("containerd-1.7-slow-plugin", "problem:slow", [15]),
        ("containerd-1.7-conflict", "problem:failed", [29, 39]),
        ("containerd-2.1-normal-life", 'owner:"one of 31–49"', [15]),
    ],
)
def test_a_filter_finds_what_only_several_connections_show(
    name: str, where: str, events: list[int], tmp_path: Path
) -> None:
    path = next(one for one in RECORDINGS if one.name.startswith(f"{name}."))
    with Recording.open(path) as recording:
        assert list(recording.events(where=parse(where))) == []
    with attached(path, tmp_path) as recording:
        found = [event.id for event in recording.events(where=parse(where))]
    assert found[: len(events)] == events


def test_an_incomplete_file_leaves_later_events_as_recorded(tmp_path: Path) -> None:
    path = next(one for one in RECORDINGS if one.name.startswith("containerd-2.4"))
    with Recording.open(path) as recording:
        recorded = {event.id: event.changed for event in recording.events() if event.changed}
        file = AttributionFile(tmp_path / "a.db")
        first, second, *_ = recorded
        file.add(first, [Request("20-x", "/process/args", OutcomeKind.SEEN)])
        file.commit(second - 1)
        recording.attach(tmp_path / "a.db")
        found = {event.id: event.changed for event in recording.events() if event.changed}
        assert found == {**recorded, first: ("/process/args",)}
        file.commit(max(recorded))
        file.close()
        assert [event.id for event in recording.events() if event.changed] == [first]


def test_an_attached_file_is_replaced_and_no_query_attaches_another(tmp_path: Path) -> None:
    for name, path in (("a", "/process/args"), ("b", "/process/cwd")):
        file = AttributionFile(tmp_path / f"{name}.db")
        file.add(1, [Request("20-x", path, OutcomeKind.SEEN)])
        file.commit(1)
        file.close()
    with Recording.open(SLOW) as recording:
        for name, changed in (("a", "/process/args"), ("b", "/process/cwd")):
            recording.attach(tmp_path / f"{name}.db")
            event = recording.event(1)
            assert event is not None
            assert event.changed == (changed,)
        with pytest.raises(sqlite3.OperationalError, match="too many attached"):
            recording.connection.execute("ATTACH ? AS other", (str(tmp_path / "a.db"),))
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            recording.connection.execute("DELETE FROM attribution.event")


def test_outcomes_of_more_requests_than_are_shown_are_not_known(tmp_path: Path) -> None:
    file = AttributionFile(tmp_path / "a.db")
    paths = [f"/process/env/{number:0100}" for number in range(1000)]
    file.add(1, [Request("20-x", path, OutcomeKind.SEEN) for path in paths])
    file.commit(1)
    file.close()
    with Recording.open(SLOW) as recording:
        recording.attach(tmp_path / "a.db")
        event = recording.event(1)
        assert event is not None
        assert len(event.changed) == 1 and event.changed[0].startswith("… (")
        assert event.outcomes == event.targets == ()
        summary = Operation.of([event], {}).summary()
        assert changes_words(summary, str).startswith("asked for … (")


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a temporary file: cannot be written"):
        survey(SLOW, tmp_path / "no" / "a.db")
    (tmp_path / "not.db").write_text("no database")
    with pytest.raises(RecordingError), Recording.open(SLOW) as recording:
        recording.attach(tmp_path / "not.db")


def test_a_full_file_leaves_later_events_as_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attribution_file, "MAX_BYTES", 500)
    path = next(one for one in RECORDINGS if one.name.startswith("containerd-2.4"))
    found = survey(path, tmp_path / "a.db")
    assert found.cut == "it has more changes than can be analysed"
    with Recording.open(path) as recording:
        recorded = {event.id: event for event in recording.events()}
        recording.attach(tmp_path / "a.db")
        read = [event.id for event in recording.events() if event == recorded[event.id]]
    assert 0 < found.until < max(recorded)
    assert {one for one in recorded if one > found.until} <= set(read)


# -- the process ----------------------------------------------------------------------------


def use_as_temporary(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process and its children create temporary files in a folder."""
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)


@asynccontextmanager
async def surveying(path: Path) -> AsyncIterator[tuple[SurveyProcess, list[SurveyState]]]:
    states: list[SurveyState] = []
    process = SurveyProcess(path, states.append)
    try:
        yield process, states
    finally:
        process.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_process_removes_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_as_temporary(tmp_path, monkeypatch)
    async with surveying(SLOW) as (process, states):
        for _ in range(2):
            states.clear()
            process.run()
            await until(lambda: bool(states) and states[-1].is_over)
            assert [finding.kind for finding in states[-1].findings] == ["deadline", "disconnected"]
            assert (states[-1].until, states[-1].share, states[-1].problem) == (70, 1.0, "")
            assert states[-1].file is not None
            assert [*tmp_path.glob("*/*.db")] == [states[-1].file]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
async def test_a_process_goes_on_with_the_new_events(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    calls = [call for plugin, call in captured() if plugin == PLUGIN]
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start())

    async def surveyed(newest: int, *, may_restart: bool = True) -> SurveyState:
        await until(lambda: newest_event(path) == newest)
        states.clear()
        process.run(may_restart=may_restart)
        await until(lambda: bool(states) and states[-1].is_over)
        assert not states[-1].problem
        return states[-1]

    async with surveying(path) as (process, states):
        try:
            with heartbeat_beside(path):
                for call in calls[:8]:
                    recorder.capture(session, call)
                first = await surveyed(8)
                recorder.capture(session, calls[8]._replace(took_ns=1_900_000_000))
                second = await surveyed(9)
            assert (first.findings, second.until) == ((), 9)
            assert [finding.kind for finding in second.findings] == ["deadline"]
            assert second.file == first.file
        finally:
            recorder.close()
        assert (await surveyed(9)).file == first.file
        # After the end of a recording, another recorder may continue it.
        recorder = Recorder.open(path)
        try:
            session = recorder.begin_session(a_start())
            recorder.capture(session, calls[0])
            with heartbeat_beside(path):
                kept = await surveyed(10, may_restart=False)
                assert (kept.file, kept.until) == (first.file, 9)
                again = await surveyed(10)
            assert again.until == 10
            assert first.file is not None and again.file is not None
            former = first.file
            await until(lambda: not former.exists())
            assert again.file.exists()
        finally:
            recorder.close()


def newest_event(path: Path) -> int:
    try:
        with Recording.open(path) as recording:
            return event_range(recording)[1]
    except RecordingError:
        return 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("while_it_reads", [True, False])
async def test_a_killed_process_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, while_it_reads: bool
) -> None:
    use_as_temporary(tmp_path, monkeypatch)
    async with surveying(SLOW) as (process, states):
        process.run()
        await until(lambda: bool(states) and states[-1].is_over)
        assert [*tmp_path.iterdir()]
        if while_it_reads:
            # Stopped, so that it cannot end its work before it is killed.
            os.kill(process.pid, signal.SIGSTOP)
            process.run()
        os.kill(process.pid, signal.SIGKILL)
        if not while_it_reads:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            await asyncio.sleep(0.1)
            assert not states[-1].problem
            process.run()
        await until(lambda: "killed by SIGKILL" in states[-1].problem)
        assert states[-1].is_over
    assert list(tmp_path.iterdir()) == []


async def test_the_files_of_a_process_killed_before_its_first_result_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_as_temporary(tmp_path, monkeypatch)
    # A bundle would be unpacked into another folder.
    path = next(one for one in RECORDINGS if one.suffix == ".db")
    async with surveying(path) as (process, states):
        process.run()
        # Without a turn of the event loop, no result is received.
        end_s = time.monotonic() + TIMEOUT_S
        while not [*tmp_path.glob("*/*.db")] and time.monotonic() < end_s:
            time.sleep(0.001)
        assert [*tmp_path.glob("*/*.db")]
        os.kill(process.pid, signal.SIGKILL)
        assert states == []
    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_is_no_recording_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    path.write_text("no recording")
    async with surveying(path) as (process, states):
        process.run()
        await until(lambda: bool(states) and states[-1].is_over)
        assert "not an nri-scope recording" in states[-1].problem
