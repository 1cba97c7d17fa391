# SPDX-License-Identifier: Apache-2.0
"""The agent's gRPC service."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic, time_ns
from typing import TypeVar

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.errors import NriScopeError, RecordingError, UsageError
from nri_scope.filter import Filter, parse
from nri_scope.filter.moments import interval
from nri_scope.recording.bundle.unpack import MAX_BUNDLE
from nri_scope.recording.file.temporary_files import temporary_folder
from nri_scope.recording.query.event_times import time_span, within
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.bundle import BundleContent, export
from nri_scope.share.extract import NothingSelectedError, Selection
from nri_scope.share.redaction import Redactor

from .call_limits import CALLS_MAX, CopyLimit, Slots
from .event_reader import EventReader
from .node_recordings import FolderError, NodeRecording, NodeRecordings, parse_cursor
from .recorder_status import RecorderStatus
from .selected_parts import EventQuery

COPIES_MAX = 4
"""Maximum number of calls of GetEvents that have temporary copies of recordings; others wait. More
would not be faster, as threads of Python take turns, and each takes up to 50 MiB.
"""
COMPARISONS_MAX = 600
"""Maximum number of comparisons of a filter with one event: they take less time than to send it."""
EXPORTS_MAX = 4
"""Maximum number of concurrent calls of GetRecording."""
HEARTBEAT_S = 5.0
"""Maximum time in seconds between two responses of a stream of events."""
LAST_MAX = 1_000_000
"""Maximum value of ``last``."""
_POLL_S = 0.2
_CHUNK = 256 << 10
_T = TypeVar("_T")


class AgentService(v1.AgentBase):
    """Answers calls about the recordings of one node."""

    def __init__(
        self,
        recordings: NodeRecordings,
        new_redactor: Callable[[], Redactor] | None,
        status: RecorderStatus,
    ) -> None:
        """``new_redactor``: None to send events as recorded."""
        self._recordings = recordings
        self._new_redactor = new_redactor
        self._status = status
        self._streams = Slots(CALLS_MAX, "streams of events")
        self._exports = Slots(EXPORTS_MAX, "exports")
        self._copies = CopyLimit(COPIES_MAX, recordings)
        self._status_thread = ThreadPoolExecutor(1, "status")

    async def get_status(self, message: v1.GetStatusRequest) -> v1.GetStatusResponse:
        """Return the state of the recordings and their recorders. Raises GRPCError."""
        with _grpc_errors():
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._status_thread, self._status.read)

    async def get_events(self, message: v1.GetEventsRequest) -> AsyncIterator[v1.GetEventsResponse]:
        """Yield events, with heartbeats while there are none. Raises GRPCError."""
        with _grpc_errors():
            query = _query(message)
        reader = EventReader(self._recordings, query, self._new_redactor, self._copies)
        thread = _CallThread(self._streams, reader.interrupt, reader.close)
        cursor = message.after
        yield _heartbeat(cursor, caught_up=False)
        caught_up = False
        sent = monotonic()
        while True:
            reading = thread.run(reader.batch)
            while not await _ends_in_time(reading):
                yield _heartbeat(cursor, caught_up=False)
            with _grpc_errors():
                responses, is_all = reading.result()
            for response in responses:
                cursor = response.cursor
                yield response
            now = monotonic()
            if responses:
                sent, caught_up = now, False
            if is_all and (not caught_up or now >= sent + HEARTBEAT_S):
                sent, caught_up = now, True
                cursor = reader.cursor()
                yield _heartbeat(cursor, caught_up=True)
            if is_all and not query.follow:
                return
            if is_all:
                await asyncio.sleep(_POLL_S)

    async def get_recording(
        self, message: v1.GetRecordingRequest
    ) -> AsyncIterator[v1.GetRecordingResponse]:
        """Yield the recordings as bundles, in chunks, with empty chunks as heartbeats.

        Raises GRPCError.
        """
        with _grpc_errors():
            where = _where(message.where)
            interval(message.since, message.until)
        stopped = threading.Event()
        files = ExitStack()
        thread = _CallThread(self._exports, stopped.set, files.close)
        exported = False
        problems: dict[str, str] = {}
        with _grpc_errors():
            folder = await thread.run(partial(files.enter_context, temporary_folder()))
            recordings = await thread.run(self._recordings.all)
        for file in recordings:
            output = folder / f"{file.name}.nriscope.zip"
            export_file = partial(self._export, file, output, where, message, stopped)
            exporting = thread.run(export_file)
            while not await _ends_in_time(exporting):
                yield v1.GetRecordingResponse(recording=file.name)
            try:
                with _grpc_errors():
                    is_exported = exporting.result()
            except GRPCError as error:
                if error.status is not Status.DATA_LOSS:
                    raise
                # The other recordings are sent.
                problems[file.name] = error.message or ""
                continue
            if not is_exported:
                continue
            exported = True
            chunks = _chunks(output)
            while data := await thread.run(partial(next, chunks, b"")):
                yield v1.GetRecordingResponse(recording=file.name, data=data)
        for name, problem in problems.items():
            if not exported:
                raise GRPCError(Status.DATA_LOSS, f"{name}: {problem}")
            yield v1.GetRecordingResponse(recording=name, problem=problem)
        if not exported:
            raise GRPCError(Status.NOT_FOUND, "no recording of this node has such events")

    def _export(
        self,
        file: NodeRecording,
        output: Path,
        where: Filter | None,
        message: v1.GetRecordingRequest,
        stopped: threading.Event,
    ) -> bool:
        def go_on(_: float = 0) -> None:
            if stopped.is_set():
                raise NriScopeError("the call has ended")
            self._copies.check()

        with Recording.open(file.path) as recording:
            since_ns, until_ns = interval(message.since, message.until, time_span(recording))
            selection = Selection(
                within(recording, where),
                since_ns,
                until_ns,
                namespaces=frozenset(message.namespaces),
            )
            try:
                redactor = None if self._new_redactor is None else self._new_redactor()
                content = BundleContent(selection, redactor, marks=())
                export(recording, output, content, max_bytes=MAX_BUNDLE, on_progress=go_on)
            except NothingSelectedError:
                return False
        return True


class _CallThread:
    """Thread of one call. It may work on after the call has ended, and has its slot until then."""

    def __init__(self, slots: Slots, stop: Callable[[], None], close: Callable[[], None]) -> None:
        """Take a slot. At the end of the call, ``stop`` is called, then ``close`` in the thread.

        Raises GRPCError without a free slot.
        """
        slots.take()
        self._thread = thread = ThreadPoolExecutor(1, "call")

        def end(_: object) -> None:
            stop()
            thread.submit(close).add_done_callback(slots.release)
            thread.shutdown(wait=False)

        # A generator's own finally block runs late: after a cancelled call, at the next collection
        # of garbage.
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(end)

    def run(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        """Start ``work`` in the thread; return its result or exception as a future."""
        return asyncio.get_running_loop().run_in_executor(self._thread, work)


def _chunks(file: Path) -> Iterator[bytes]:
    """Yield the content of a file in chunks, and remove it."""
    with file.open("rb") as content:
        while data := content.read(_CHUNK):
            yield data
    file.unlink()


async def _ends_in_time(work: asyncio.Future[_T]) -> bool:
    """Wait for the end of ``work`` until a heartbeat is due; return whether it has ended."""
    return bool((await asyncio.wait({work}, timeout=HEARTBEAT_S))[0])


def _heartbeat(cursor: str, *, caught_up: bool) -> v1.GetEventsResponse:
    heartbeat = v1.Heartbeat(at_ns=time_ns(), caught_up=caught_up)
    return v1.GetEventsResponse(cursor=cursor, heartbeat=heartbeat)


def _where(text: str) -> Filter | None:
    where = parse(text) if text else None
    if where is not None and "outcome" in where.fields:
        raise UsageError("outcome: not known to an agent", "pull the events, and filter them")
    if where is not None and where.comparisons > COMPARISONS_MAX:
        raise UsageError(
            f"the filter makes {where.comparisons:,} comparisons with each event; an agent makes "
            f"at most {COMPARISONS_MAX}",
            "shorten it, or pull the events, and filter them",
        )
    return where


def _query(message: v1.GetEventsRequest) -> EventQuery:
    if message.last > LAST_MAX:
        raise UsageError(f"last: more than {LAST_MAX:,}", "give a smaller number")
    interval(message.since, message.until)
    return EventQuery(
        where=_where(message.where),
        since=message.since,
        until=message.until,
        last=message.last,
        follow=message.follow,
        after=parse_cursor(message.after),
        context=message.context,
        namespaces=frozenset(message.namespaces),
    )


@contextmanager
def _grpc_errors() -> Iterator[None]:
    """Translate errors to gRPC's."""
    try:
        yield
    except UsageError as error:
        raise GRPCError(Status.INVALID_ARGUMENT, str(error)) from error
    except FolderError as error:
        raise GRPCError(Status.FAILED_PRECONDITION, str(error)) from error
    except RecordingError as error:
        raise GRPCError(Status.DATA_LOSS, error.problem) from error
    except NriScopeError as error:
        raise GRPCError(Status.INTERNAL, str(error)) from error
