# SPDX-License-Identifier: Apache-2.0
"""A recording with a maximum size, written step by step."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.capture.sink import Queued
from nri_scope.events import CapturedCall
from nri_scope.recorder.ring import Ring
from nri_scope.recorder.transactions import TransactionWriter
from nri_scope.recording.file.writable_file import RecordingFile
from nri_scope.recording.reading.reader import Recording
from tests.recording.traffic import canonical, lifecycle


def noisy(number: int, size: int = 300) -> list[CapturedCall]:
    """Return a lifecycle with ``size`` random bytes per event, which fills the file quickly."""
    chance = random.Random(number)
    items = []
    for item in lifecycle(number):
        reply = api.CreateContainerResponse()
        reply.adjust.annotations["noise"] = chance.randbytes(size).hex()
        items.append(item._replace(reply=reply.SerializeToString()))
    return items


def size_of(path: Path) -> int:
    return sum(
        file.stat().st_size for file in path.parent.glob(path.name + "*") if file.exists()
    ) - (32_768 if path.with_name(path.name + "-shm").exists() else 0)


class Written:
    """Recording that the test's thread writes step by step."""

    def __init__(self, path: Path, ring: Ring) -> None:
        self.path = path
        self.writing = TransactionWriter(RecordingFile.open(path), ring)
        self.sent: list[CapturedCall] = []
        self.largest = 0

    def write(self, *entries: Queued) -> None:
        self.writing.write(list(entries))
        while self.writing.tidy():
            pass
        self.largest = max(self.largest, size_of(self.path))

    def send(self, items: list[CapturedCall], session: int = 1) -> None:
        self.sent += items
        self.write(*((session, item) for item in items))

    def close(self) -> None:
        self.writing.close()

    def check(self) -> None:
        """Check that the file contains exactly the newest events sent, with all their data."""
        with Recording.open(self.path) as recording:
            events = list(recording.events())
            assert [event.id for event in events] == list(
                range(len(self.sent) - len(events) + 1, len(self.sent) + 1)
            )
            assert [event for event, _, _ in recording.exchanges()] == events
            for event, item in zip(events, self.sent[len(self.sent) - len(events) :], strict=True):
                assert recording.request(event.id) == canonical(item.method, item.request)
                assert recording.reply(event.id) == item.reply
            connection = recording.connection
            for table, key in (("pod", "pod"), ("container", "container")):
                named = {row[0] for row in connection.execute(f"SELECT key FROM {table}")}
                used = {
                    row[0]
                    for row in connection.execute(
                        f"SELECT {key} FROM event UNION SELECT {key} FROM state"
                    )
                }
                assert named == used - {None}
            (missing,) = connection.execute(
                "SELECT count(*) FROM stretch WHERE first_event > ?", (len(self.sent) + 1,)
            ).fetchone()
            assert missing == 0
        with closing(sqlite3.connect(self.path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
