# SPDX-License-Identifier: Apache-2.0
"""The writer process, which decodes, redacts and stores what the responder has captured.

The responder, its parent, orders it to exit. It ignores stop signals, which a terminal sends to
both processes. If the responder has ended, the writer deregisters a validator, writes all queued
entries and exits.
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
from typing import TYPE_CHECKING, Any

from nri_scope.capture.queue import Order, unpack
from nri_scope.capture.sink import Begin, ControlEntry, End, Queued, RecorderCounters, ShownLine
from nri_scope.end_reasons import ORPHANED
from nri_scope.errors import NriScopeError, RecordingError
from nri_scope.events import FILTERED, REDACTED, CapturedCall, Event, Gap, Note, Printed
from nri_scope.filter import parse
from nri_scope.process.channel import ThreadChannel
from nri_scope.process.private_folders import make_private_folder
from nri_scope.process.signals import ignore_stop_signals
from nri_scope.recorder.entry_writer import BatchResult
from nri_scope.recorder.writer import NICER, Recorder, WriterLimits
from nri_scope.recording.file.heartbeat import heartbeat_of
from nri_scope.recording.file.writable_file import BUSY
from nri_scope.recording.reading.event_messages import is_container_status
from nri_scope.share.source_redaction import source_redaction

from .messages import (
    Opening,
    Progress,
    RecordingOptions,
    Report,
    encode_report,
    failure_values,
)

if TYPE_CHECKING:
    from nri_scope.plugin import Identity

    from .cri_thread import CriThread
    from .metrics_reader import MetricsReader

FAILED = 2
"""Exit status of a writer that failed."""
ORPHANED_SECONDS = 5.0
"""Maximum time to write the queued entries if the responder has ended."""
OPENING_SECONDS = 2.0
"""Maximum time to wait for the file while the writer of a dead responder still writes to it."""
_RETRY_SECONDS = 0.05
SWITCH_SECONDS = 0.0005
"""Interpreter switch interval, after which the thread that writes yields to the thread that reads
the channel. With Python's 5 ms, only 6 MB/s are read under load, and the channel fills up.
"""
ENDED_MAX = 1000
"""Maximum number of ended sessions whose numbers are kept for late entries."""
FORGOTTEN = (
    "a new writer process redacts from here on: it does not know the secrets that the previous one "
    "had found in containers"
)

OnEvent = Callable[[Event, CapturedCall], None]
OnLine = Callable[[ShownLine], None]


def serve(
    descriptor: int,
    on_event: OnEvent | None = None,
    on_line: OnLine = lambda line: None,
    finish: Callable[[], None] = lambda: None,
) -> int:
    """Write the entries received through a channel; return the exit status.

    ``on_event`` is called with each event in the file, ``on_line`` with each line to print, and
    ``finish`` after the last one.
    """
    ignore_stop_signals()
    channel = ThreadChannel(socket.socket(fileno=descriptor))
    message = channel.receive()
    if message is None:
        return 0
    opening: Opening = pickle.loads(message[1])
    try:
        work = _Work(channel, opening, on_event, on_line)
        # Same niceness as the thread that writes, which has already started.
        os.nice(NICER)
        sys.setswitchinterval(SWITCH_SECONDS)
        work.run(finish)
    except NriScopeError as error:
        channel.send(Report.FAILED, encode_report(failure_values(error)))
    except Exception as error:  # noqa: BLE001 - there is no other place to report it
        problem = "".join(traceback.format_exception_only(error)).strip()
        channel.send(Report.SAID, encode_report(f"internal error of the writer process: {problem}"))
    else:
        return 0
    return FAILED


main = serve


class _Work:
    def __init__(
        self,
        channel: ThreadChannel,
        opening: Opening,
        on_event: OnEvent | None,
        on_line: OnLine,
    ) -> None:
        self._channel = channel
        self._on_line = on_line
        self._options, resumed = opening
        self._handles: dict[int, int] = {}
        self._numbers: dict[int, int] = {}
        self._ended: deque[int] = deque()
        self._lost_before = 0
        self._cri = self._query_cri()
        if self._cri is not None:
            on_event = _all_of(on_event, self._cri.event)
        self._lock = threading.Lock()
        """Held while the recorder is called: threads other than this one also record."""
        self._recorder = self._open(self._options, on_event)
        if self._cri is not None:
            self._cri.sessions.record_to(self._recorder, self._lock)
        # A killed writer may have stored sessions that ended before this one was started.
        is_new = not self._options.existed and self._recorder.next_session == 1
        for handle, session in sorted(resumed, key=lambda pair: -pair[1].session):
            # Sessions without a number come last: the killed writer had not begun them.
            number = session.session or self._number(handle)
            self._handles[number] = handle
            self._numbers[handle] = number
            self._recorder.resume_session(replace(session, session=number))
            if not session.session:
                self._note_filter(number, session.start.started_ns)
        if resumed and self._options.redact is not None:
            self._recorder.note(None, time_ns(), FORGOTTEN)
        self._removes_file = is_new and not resumed
        self._metrics = self._read_metrics()
        self._report(Report.OPENED, None)

    def run(self, finish: Callable[[], None]) -> None:
        seconds: float | None = None
        while seconds is None and (message := self._channel.receive()) is not None:
            kind, payload = message
            if kind == Order.FINISH:
                seconds = pickle.loads(payload)
            else:
                with self._lock:
                    for entry in unpack(payload):
                        self._process(entry)
                if not self._recorder.is_writing:
                    raise RuntimeError("the thread that writes has ended")
        if seconds is None:
            if self._options.validator is not None:
                # First: the next creation of a container may begin at any time.
                _deregister(*self._options.validator)
            for number, handle in list(self._handles.items()):
                if handle not in self._ended:
                    self._recorder.end_session(number, ORPHANED, time_ns())
            seconds = ORPHANED_SECONDS
            if self._cri is not None:
                self._cri.sessions.end(ORPHANED)
        else:
            if self._metrics is not None:
                self._metrics.finish()
            if self._cri is not None:
                self._cri.finish()
        self._recorder.close(seconds)
        if self._removes_file:
            # Leave no empty recording behind, nor the heartbeat of a killed recorder.
            for path in (self._options.path, heartbeat_of(self._options.path)):
                path.unlink(missing_ok=True)
        finish()
        self._report(Report.CLOSED, self._counters())

    def _open(self, options: RecordingOptions, on_event: OnEvent | None) -> Recorder:
        if options.makes_folder:
            # `open` reports why the folder is missing.
            with suppress(OSError):
                make_private_folder(options.path.parent)
        redaction = source_redaction(options.path, options.redact)
        recorder = _open_when_free(
            options.path,
            limits=WriterLimits(
                max_size=options.max_size,
                max_age_seconds=options.max_age,
                max_folder_bytes=options.max_folder_size,
            ),
            keep=_keeping(options.where) if options.where is not None else None,
            on_event=on_event,
            on_problem=self._say,
            redaction=redaction,
            alone=True,
            on_written=self._on_written,
        )
        if redaction is not None:
            recorder.note(None, time_ns(), REDACTED)
        return recorder

    def _process(self, entry: Queued) -> None:
        recorder = self._recorder
        match entry:
            case (handle, item):
                recorder.capture(self._numbers[handle], item)
            case Begin(handle, start):
                number = self._number(handle)
                self._handles[number] = handle
                self._numbers[handle] = number
                self._removes_file = False
                recorder.begin_session(start)
                self._note_filter(number, start.started_ns)
            case End(handle):
                recorder.put_control(replace(entry, session=self._numbers[handle]))
                self._ended.append(handle)
                if len(self._ended) > ENDED_MAX:
                    del self._numbers[self._ended.popleft()]
            case Gap(session=int(handle)) | Note(session=int(handle)):
                recorder.put_control(replace(entry, session=self._numbers.get(handle)))
            case Printed(session=handle) if handle in self._numbers:
                recorder.put_control(replace(entry, session=self._numbers[handle]))
            case Gap() | Note() | ShownLine():
                recorder.put_control(entry)
            case _:
                pass

    def _note_filter(self, session: int, at_ns: int) -> None:
        """Note that events without a trace in the recording may have happened."""
        condition = self._options.where
        if condition is not None:
            # A filter may contain names that rules of redaction hide.
            text = f": {condition}" if self._options.redact is None else ""
            self._recorder.note(session, at_ns, f"{FILTERED}{text}")

    def _number(self, handle: int) -> int:
        """Return the number of the next session, and report it before the session is written."""
        number = self._recorder.next_session
        self._report(Report.NUMBERED, (handle, number))
        return number

    def _on_written(self, written: BatchResult) -> None:
        """Report progress. Called in the thread that writes."""
        self._lost_before += written.lost_before
        handles = self._handles
        # The responder does not know the sessions of the CRI.
        received = written.received.items()
        processed = [(handles[number], count) for number, count in received if number in handles]
        ended = [handles.pop(number) for number in written.ended if number in handles]
        counters, before = self._counters(), self._lost_before
        self._report(Report.WRITTEN, Progress(counters, processed, ended, before, written.failure))
        for line in written.shown:
            self._on_line(line)

    def _read_metrics(self) -> MetricsReader | None:
        first = self._options.metrics
        if first is None:
            return None
        # An HTTP client takes memory, which most recordings do not need.
        from .metrics_reader import MetricsReader

        return MetricsReader(first, self._put, self._say)

    def _query_cri(self) -> CriThread | None:
        if self._options.cri is None:
            return None
        # A gRPC client takes memory, which most recordings do not need.
        from .cri_thread import CriThread

        return CriThread(self._options.cri, self._say)

    def _put(self, entry: ControlEntry) -> None:
        with self._lock:
            self._recorder.put_control(entry)

    def _counters(self) -> RecorderCounters:
        """Return the counters, without the answers of the CRI."""
        counters = self._recorder.counters
        answers = self._cri.sessions.answers if self._cri is not None else 0
        return counters._replace(recorded=max(0, counters.recorded - answers))

    def _say(self, text: str) -> None:
        self._report(Report.SAID, text)

    def _report(self, kind: Report, value: object) -> None:
        self._channel.send(kind, encode_report(value))


def _all_of(first: OnEvent | None, second: OnEvent) -> OnEvent:
    def both(event: Event, call: CapturedCall) -> None:
        if first is not None:
            first(event, call)
        second(event, call)

    return both


def _keeping(condition: str) -> Callable[[Event], bool]:
    matches = parse(condition).matches
    # Only containers of matching events are asked about.
    return lambda event: is_container_status(event) or matches(event)


def _deregister(socket: Path, identity: Identity) -> None:
    import asyncio

    from nri_scope.plugin import deregister, unix_socket

    asyncio.run(deregister(unix_socket(socket), identity))


def _open_when_free(path: Path, **arguments: Any) -> Recorder:
    until = time.monotonic() + OPENING_SECONDS
    while True:
        try:
            return Recorder.open(path, **arguments)
        except RecordingError as error:
            if error.problem != BUSY or time.monotonic() > until:
                raise
            time.sleep(_RETRY_SECONDS)
