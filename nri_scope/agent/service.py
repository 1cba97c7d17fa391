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
from nri_scope.recording.event_times import time_span, within
from nri_scope.recording.reader import Recording
from nri_scope.recording.temporary_files import temporary_folder
from nri_scope.share.bundle import export
from nri_scope.share.extract import NothingSelectedError, Selection
from nri_scope.share.redaction import Redactor

from .call_limits import CALLS_MAX, Copies, Slots
from .event_reader import EventReader
from .node_recordings import FolderError, NodeRecording, NodeRecordings, parse_cursor
from .recorder_status import RecorderStatus
from .selected_parts import EventQuery

COPIES_MAX = 8
"""Maximum number of these calls that have temporary copies of recordings; others wait."""
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
        self._copies = Copies(COPIES_MAX, recordings)
        self._status_thread = ThreadPoolExecutor(1, "status")

    async def get_status(self, message: v1.GetStatusRequest) -> v1.GetStatusResponse:
        """Answer a call."""
        with _grpc_errors():
            return await _run(self._status_thread, self._status.read)

    async def get_events(self, message: v1.GetEventsRequest) -> AsyncIterator[v1.GetEventsResponse]:
        """Yield events, with heartbeats while there are none."""
        with _grpc_errors():
            query = _query(message)
        reader = EventReader(self._recordings, query, self._new_redactor, self._copies)
        self._streams.take()
        thread = ThreadPoolExecutor(1, "events")

        def end() -> None:
            reader.interrupt()
            # Its thread may still work, and counts until it ends.
            thread.submit(reader.close).add_done_callback(self._streams.release)
            thread.shutdown(wait=False)

        _at_end_of_call(end)
        cursor = message.after
        yield _heartbeat(cursor, caught_up=False)
        caught_up = False
        sent = monotonic()
        while True:
            reading = asyncio.ensure_future(_run(thread, reader.batch))
            while not (await asyncio.wait({reading}, timeout=HEARTBEAT_S))[0]:
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
        """Answer a call."""
        with _grpc_errors():
            where = _where(message.where)
            interval(message.since, message.until)
        self._exports.take()
        thread = ThreadPoolExecutor(1, "export")
        stopped = threading.Event()
        files = ExitStack()

        def end() -> None:
            stopped.set()
            # Its thread may still work, and counts until it ends.
            thread.submit(files.close).add_done_callback(self._exports.release)
            thread.shutdown(wait=False)

        _at_end_of_call(end)
        exported = False
        problems: dict[str, str] = {}
        with _grpc_errors():
            folder = files.enter_context(temporary_folder())
            found = await _run(thread, self._recordings.all)
        for file in found:
            output = folder / f"{file.name}.nriscope.zip"
            export_file = partial(self._export, file, output, where, message, stopped)
            exporting = asyncio.ensure_future(_run(thread, export_file))
            while not (await asyncio.wait({exporting}, timeout=HEARTBEAT_S))[0]:
                yield v1.GetRecordingResponse(recording=file.name)
            try:
                with _grpc_errors():
                    is_exported = exporting.result()
            except GRPCError as error:
                if error.status is not Status.DATA_LOSS:
                    raise
                # The others are sent.
                problems[file.name] = error.message or ""
                continue
            if not is_exported:
                continue
            exported = True
            with output.open("rb") as bundle:
                while data := bundle.read(_CHUNK):
                    yield v1.GetRecordingResponse(recording=file.name, data=data)
            output.unlink()
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
            selection = Selection(within(recording, where), since_ns, until_ns)
            make = partial(export, recording, output, selection, max_bytes=MAX_BUNDLE, marks=())
            try:
                redactor = None if self._new_redactor is None else self._new_redactor()
                make(redactor=redactor, on_progress=go_on)
            except NothingSelectedError:
                return False
        return True


def _at_end_of_call(end: Callable[[], None]) -> None:
    """Call ``end`` when the task of this call has ended.

    A generator's own finally block runs late: after a cancelled call, at the next collection of
    garbage.
    """
    task = asyncio.current_task()
    assert task is not None
    task.add_done_callback(lambda _: end())


def _heartbeat(cursor: str, *, caught_up: bool) -> v1.GetEventsResponse:
    heartbeat = v1.Heartbeat(at_ns=time_ns(), caught_up=caught_up)
    return v1.GetEventsResponse(cursor=cursor, heartbeat=heartbeat)


def _where(text: str) -> Filter | None:
    where = parse(text) if text else None
    if where is not None and "outcome" in where.fields:
        raise UsageError("outcome: not known to an agent", "pull the events, and filter them")
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
    )


async def _run(thread: ThreadPoolExecutor, work: Callable[[], _T]) -> _T:
    return await asyncio.get_running_loop().run_in_executor(thread, work)


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
