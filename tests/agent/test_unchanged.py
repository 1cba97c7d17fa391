# SPDX-License-Identifier: Apache-2.0
"""Recordings that are not written to are not read again, and nothing written is missed."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.exposition import generate_latest

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.agent.metrics import NodeMetrics
from nri_scope.agent.node_recordings import NodeRecordings
from nri_scope.agent.recorder_status import RecorderStatus
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.reader import Recording
from tests.agent.changing_folder import METHODS, Node
from tests.amount import amount
from tests.recording.traffic import a_start, an_item

NAMES = ("a", "b")


def age(path: Path) -> None:
    """Make a file and its write-ahead log look as if written to a minute earlier."""
    for one in (path, path.with_name(f"{path.name}-wal")):
        if one.exists():
            before_ns = one.stat().st_mtime_ns - 60 * 10**9
            os.utime(one, ns=(before_ns, before_ns))


def newest_ns(recording: Recording) -> int:
    return max((event.at_ns for event in recording.events(last=1)), default=0)


def state(reader: RecorderStatus) -> v1.GetStatusResponse:
    return replace(reader.read(), now_ns=0, free_bytes=0)


def exposed(metrics: NodeMetrics) -> str:
    """Return the text of all metrics but that of free space, which other programs change."""
    lines = generate_latest(metrics.registry).decode().splitlines()
    return "\n".join(line for line in lines if not line.startswith("nri_scope_free_bytes"))


class Recorders:
    """Recorders of two recordings, each of which is or is not running."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.running: dict[str, tuple[Recorder, int]] = {}

    def do(self, what: str, name: str) -> None:
        if what == "age":
            age(self.node.path(name))
        elif what == "remove" and name not in self.running:
            self.node.remove(name)
        elif what == "replace" and name not in self.running:
            self.node.replace(name, 2)
        elif what == "overrun" and name not in self.running:
            self.node.overrun(name, 1)
        elif what == "start" and name not in self.running:
            recorder = Recorder.open(self.node.path(name))
            at_ns = next(self.node.clock)
            session = recorder.begin_session(a_start(started_ns=at_ns))
            self.running[name] = recorder, session
            self.wait(name, lambda recording: recording.sessions()[-1].started_ns == at_ns)
        elif what == "write":
            self.do("start", name)
            recorder, session = self.running[name]
            at_ns = next(self.node.clock)
            recorder.capture(session, an_item(METHODS[0], wall_ns=at_ns))
            self.wait(name, lambda recording: newest_ns(recording) == at_ns)
        elif what == "stop" and name in self.running:
            recorder, session = self.running.pop(name)
            recorder.end_session(session, "over", next(self.node.clock))
            recorder.close()

    def wait(self, name: str, is_written: Callable[[Recording], bool]) -> None:
        """Wait until the recorder's thread has written something."""
        while True:
            with Recording.open(self.node.path(name)) as recording:
                if recording.sessions() and is_written(recording):
                    return
            time.sleep(0.001)

    def stop(self) -> None:
        for name in tuple(self.running):
            self.do("stop", name)


WRITING = ("age", "start", "write", "stop")
REMOVING = ("remove", "replace", "overrun")


def steps_of(what: Sequence[str]) -> st.SearchStrategy[list[tuple[str, str]]]:
    return st.lists(st.tuples(st.sampled_from(what), st.sampled_from(NAMES)), max_size=25)


@pytest.mark.exhaustive
@settings(max_examples=amount(25, 25))
@given(steps=steps_of(WRITING + REMOVING))
def test_a_long_running_agent_tells_what_a_new_one_does(steps: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as folder:
        node = Node(Path(folder))
        old = RecorderStatus(node.recordings, "node1", None)
        recorders = Recorders(node)
        try:
            for what, name in steps:
                recorders.do(what, name)
                new = RecorderStatus(NodeRecordings(node.folder), "node1", None)
                assert state(old) == state(new)
        finally:
            recorders.stop()


@pytest.mark.exhaustive
@settings(max_examples=amount(15, 15))
@given(steps=steps_of(WRITING))
def test_metrics_count_each_event_once(steps: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as folder:
        node = Node(Path(folder))
        status = RecorderStatus(node.recordings, "node1", None)
        metrics = NodeMetrics(node.recordings, status, None, by_namespace=False)
        metrics.update()
        recorders = Recorders(node)
        written = 0
        try:
            for what, name in steps:
                written += what == "write"
                recorders.do(what, name)
                metrics.update()
                counted = metrics.registry.get_sample_value
                assert (counted("nri_scope_events_total", {"event": METHODS[0]}) or 0) == written
        finally:
            recorders.stop()


def test_an_idle_agent_opens_no_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path)
    node.write("a", 3)
    node.write("b", 3)
    status = RecorderStatus(node.recordings, "node1", None)
    metrics = NodeMetrics(node.recordings, status, None, by_namespace=False)
    opened: list[Path] = []
    original = Recording.open

    def counting(path: Path, *arguments: Any, **options: Any) -> Recording:
        opened.append(path)
        return original(path, *arguments, **options)

    monkeypatch.setattr(Recording, "open", counting)
    metrics.update()
    assert {*opened} == {node.path("a"), node.path("b")}
    opened.clear()
    # What was written within the last seconds may not be all that will be seen.
    metrics.update()
    assert {*opened} == {node.path("a"), node.path("b")}
    age(node.path("a"))
    age(node.path("b"))
    metrics.update()
    text = exposed(metrics)
    opened.clear()
    assert metrics.update().recordings[0].events == 3
    assert not opened
    assert exposed(metrics) == text
    with closing(sqlite3.connect(node.path("b"))) as connection, connection:
        connection.execute("DELETE FROM event WHERE id = 1")
    assert [recording.events for recording in metrics.update().recordings] == [3, 2]
    assert {*opened} == {node.path("b")}
