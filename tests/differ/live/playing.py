# SPDX-License-Identifier: Apache-2.0
"""Rewriting a recording with its original timing while a live viewer follows it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Self

from nri_scope.capture.sink import Begin, End, Queued
from nri_scope.differ import recording_differ
from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.live import Follower, ReadPosition, Seen
from nri_scope.differ.recording_differ import excerpt_of_container
from nri_scope.entries import RecordedCall
from nri_scope.events import Event
from nri_scope.recorder.complete_recording import start_of
from nri_scope.recorder.ring import Ring
from nri_scope.recorder.transactions import TransactionWriter
from nri_scope.recording.file.writable_file import RecordingFile
from nri_scope.recording.reading.reader import Recording

Timed = tuple[int, Queued]
"""Wall clock time at which the recorder received the entry."""


class Playing:
    """Writer of timed entries, with a follower that reads the new ones."""

    def __init__(self, path: Path, entries: Iterable[Timed], *, wall_minus_mono_ns: int) -> None:
        self.path = path
        self.reported_waits: list[str] = []
        self._entries = list(entries)
        self._offset = wall_minus_mono_ns
        self._now_ns = 0
        self._writing = TransactionWriter(RecordingFile.open(path), Ring(None, None))
        self._recording = Recording.open(path)
        self._follower = Follower(
            self._recording, ReadPosition(0, 0), monotonic_ns=lambda: self._now_ns - self._offset
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._recording.close()
        self._writing.close()

    def until(self, now_ns: int) -> list[RoundDiff]:
        """Write the entries due until `now_ns`, read once and return the new rounds."""
        self._now_ns = now_ns
        count = sum(1 for at_ns, _ in self._entries if at_ns <= now_ns)
        due, self._entries = self._entries[:count], self._entries[count:]
        if due:
            self._writing.write([entry for _, entry in due])
        found = _rounds(self._follower.read())
        words = self._follower.describe_open_round()
        if words:
            self.reported_waits.append(words)
        return found

    def end(self) -> list[RoundDiff]:
        """Return the rounds completed by the end of the recording."""
        assert not self._entries
        return _rounds(self._follower.finish())

    def afterwards(self) -> list[RoundDiff]:
        """Return the rounds of the finished recording."""
        with Recording.open(self.path) as recording:
            differ = recording_differ.differ_of(recording, keep=False)
            found: list[RoundDiff] = []
            for event, request, reply in recording.exchanges():
                found += differ.feed(event, request, reply)
            return [*found, *differ.flush()]

    def excerpts(self) -> list[RoundDiff]:
        """Return each container's rounds, computed from its own events only."""
        with Recording.open(self.path) as recording:
            return [
                one
                for container in recording.containers()
                for one in excerpt_of_container(recording, container, lambda: None).rounds
                if one.container == container.id
            ]

    def failures(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return creation failures from the whole recording and from each container's events."""
        with Recording.open(self.path) as recording:
            whole = {one.id: one.failure for one in recording_differ.histories(recording).values()}
            alone = {
                container.id: recording_differ.history_of(recording, container).failure
                for container in recording.containers()
            }
        return whole, alone


def _rounds(seen: Iterable[Seen]) -> list[RoundDiff]:
    return [one for each in seen for one in each.rounds]


def entries_of(recording: Recording) -> tuple[list[Timed], int]:
    """Return all entries of the recorder, and wall clock minus monotonic clock in ns."""
    timed: list[Timed] = []
    offset = 0
    for session in recording.sessions():
        timed.append((session.started_ns, Begin(session.id, start_of(session))))
        if session.ended_ns is not None:
            timed.append((session.ended_ns, End(session.id, session.end_reason, session.ended_ns)))
    for event, request, reply in recording.exchanges():
        offset = event.at_ns - event.mono_ns
        timed.append((event.at_ns + event.took_ns, _captured(event, request, reply)))
    return sorted(timed, key=lambda one: one[0]), offset


def _captured(event: Event, request: bytes, reply: bytes) -> Queued:
    return event.session, RecordedCall(event, request, reply).call
