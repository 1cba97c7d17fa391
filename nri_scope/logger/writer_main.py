# SPDX-License-Identifier: Apache-2.0
"""The process that writes a recording for the one that answers: decodes, redacts, stores.

It belongs to the answering process, which orders it to end. It ignores stop signals, which are sent
to both. When the answering process is gone, it writes all queued entries, and ends.
"""

from __future__ import annotations

import os
import pickle
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import time_ns
from typing import Any

from nri_scope.errors import NriScopeError, RecordingError
from nri_scope.events import CapturedCall, Event
from nri_scope.filter import parse
from nri_scope.process.channel import ThreadChannel
from nri_scope.process.signals import ignore_stop_signals
from nri_scope.recorder.inbox import Begin, End, Entry, GapEntry, NoteEntry
from nri_scope.recorder.transactions import BatchResult
from nri_scope.recorder.worker import NICER
from nri_scope.recorder.writer import Recorder, WriterLimits
from nri_scope.recording.writable_file import BUSY
from nri_scope.share.source_redaction import opened

from .writer_messages import (
    Opening,
    Order,
    Progress,
    RecordingOptions,
    Report,
    counted,
    failure,
    report,
    unpacked,
)

FAILED = 2
"""Exit status of a writer that failed."""
ORPHANED_SECONDS = 5.0
"""Maximum time to write the remaining entries after the process that sets this time is gone."""
OPENING_SECONDS = 2.0
"""Maximum time to wait for the file, to which the writer of a dead parent may still write."""
_AGAIN_SECONDS = 0.05
SWITCH_SECONDS = 0.0005
"""Interpreter switch interval, after which the writer's thread yields to the one that reads the
channel. With Python's 5 ms that thread would read only 6 MB a second under load, and other data
would wait in the channel.
"""
ENDED_MAX = 1000
"""Maximum number of ended sessions whose numbers are kept, as entries on them may still come."""
ORPHANED = "the process that answered the runtime is gone"

OnEvent = Callable[[Event, CapturedCall], None]


def main(descriptor: int) -> int:
    """Write the entries received through a channel; return the exit status."""
    return serve(descriptor)


def serve(
    descriptor: int, on_event: OnEvent | None = None, finish: Callable[[], None] = lambda: None
) -> int:
    """Write the entries received through a channel; return the exit status.

    ``on_event`` gets each event once it is in the file; ``finish`` is called after the last one.
    """
    if threading.current_thread() is threading.main_thread():
        ignore_stop_signals()
    # Closed after the last report: for a thread, nothing else shows the other end that it is over.
    with socket.socket(fileno=descriptor) as theirs:
        return _serve(ThreadChannel(theirs), on_event, finish)


def _serve(channel: ThreadChannel, on_event: OnEvent | None, finish: Callable[[], None]) -> int:
    told = channel.receive()
    if told is None:
        return 0
    opening: Opening = pickle.loads(told[1])
    try:
        work = _Work(channel, opening, on_event)
        if threading.current_thread() is threading.main_thread():
            # Same niceness as the writer's thread, which has started by now.
            os.nice(NICER)
            sys.setswitchinterval(SWITCH_SECONDS)
        work.run(finish)
    except NriScopeError as error:
        channel.send(Report.FAILED, report(failure(error)))
    except Exception as error:  # noqa: BLE001 - there is no other place to report it
        words = "".join(traceback.format_exception_only(error)).strip()
        channel.send(Report.SAID, report(f"internal error of the process that writes: {words}"))
    else:
        return 0
    return FAILED


class _Work:
    def __init__(self, channel: ThreadChannel, opening: Opening, on_event: OnEvent | None) -> None:
        self._channel = channel
        self._options, resumed = opening
        self._handles: dict[int, int] = {}
        self._numbers: dict[int, int] = {}
        self._ended: deque[int] = deque()
        self._lost_before = 0
        self._recorder = self._open(self._options, on_event)
        for handle, session in sorted(resumed, key=lambda one: -one[1].session):
            # Sessions without a number come last: the killed writer cannot have begun them.
            number = session.session or self._number(handle)
            self._handles[number] = handle
            self._numbers[handle] = number
            self._recorder.resume_session(replace(session, session=number))
        self._needless = not (self._options.existed or resumed)
        self._tell(Report.OPENED, None)

    def run(self, finish: Callable[[], None]) -> None:
        seconds: float | None = None
        while seconds is None and (told := self._channel.receive()) is not None:
            kind, payload = told
            if kind == Order.FINISH:
                seconds = pickle.loads(payload)
            else:
                for entry in unpacked(payload):
                    self._take(entry)
                if not self._recorder.is_writing:
                    raise RuntimeError("the thread that writes is gone")
        if seconds is None:
            for number in list(self._handles):
                self._recorder.end_session(number, ORPHANED, time_ns())
            seconds = ORPHANED_SECONDS
        counters = self._recorder.close(seconds)
        if self._needless:
            # Never connected: leave no empty recording behind.
            self._options.path.unlink(missing_ok=True)
        finish()
        self._tell(Report.CLOSED, counted(counters))

    def _open(self, options: RecordingOptions, on_event: OnEvent | None) -> Recorder:
        if options.makes_folder:
            # `open` reports why the folder is missing.
            with suppress(OSError):
                options.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return opened(
            options.path,
            options.redact,
            lambda redaction: _opened(
                options.path,
                limits=WriterLimits(max_size=options.max_size, max_age_seconds=options.max_age),
                keep=parse(options.where).matches if options.where is not None else None,
                on_event=on_event,
                on_problem=lambda text: self._tell(Report.SAID, text),
                redaction=redaction,
                alone=True,
                on_written=self._written,
            ),
        )

    def _take(self, entry: Entry) -> None:
        recorder = self._recorder
        match entry:
            case (handle, item):
                recorder.capture(self._numbers[handle], item)
            case Begin(handle, start):
                number = self._number(handle)
                self._handles[number] = handle
                self._numbers[handle] = number
                self._needless = False
                recorder.begin_session(start)
            case End(handle):
                recorder.put_control(replace(entry, session=self._numbers[handle]))
                self._ended.append(handle)
                if len(self._ended) > ENDED_MAX:
                    del self._numbers[self._ended.popleft()]
            case GapEntry(int(handle)) | NoteEntry(int(handle)):
                recorder.put_control(replace(entry, session=self._numbers.get(handle)))
            case GapEntry() | NoteEntry():
                recorder.put_control(entry)
            case _:
                pass

    def _number(self, handle: int) -> int:
        """Report the number of the next session, before the session can be in the file."""
        number = self._recorder.next_session
        self._tell(Report.NUMBERED, (handle, number))
        return number

    def _written(self, written: BatchResult) -> None:
        """Report progress. Called in the writer's thread."""
        self._lost_before += written.lost_before
        handles = self._handles
        came = {handles[number]: came for number, came in written.received.items()}
        ended = [handles.pop(number) for number in written.ended if number in handles]
        progress = Progress(self._recorder.counters, came, ended, self._lost_before)
        self._tell(Report.WRITTEN, progress.values())

    def _tell(self, kind: Report, value: object) -> None:
        self._channel.send(kind, report(value))


def _opened(path: Path, **arguments: Any) -> Recorder:
    until = time.monotonic() + OPENING_SECONDS
    while True:
        try:
            return Recorder.open(path, **arguments)
        except RecordingError as error:
            if error.problem != BUSY or time.monotonic() > until:
                raise
            time.sleep(_AGAIN_SECONDS)
