# SPDX-License-Identifier: Apache-2.0
"""Replies and records of the passive plugin, against the runtime's end of a real socket."""

from __future__ import annotations

import asyncio
import itertools
import struct
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import ConnectError, RpcError, UsageError
from nri_scope.logger import logger as logger_module
from nri_scope.logger.logger import Logger, LoggerService, SessionReport, watch_clock
from nri_scope.nri.events import PLUGIN_SERVICE, EventKind
from nri_scope.plugin import Identity, SessionEnd, unix_socket
from nri_scope.transport import sockets
from tests.logger.list_sink import ListSink, exchange
from tests.plugin.runtime_end import RuntimeEnd, call, configure, synchronize

IDENTITY = Identity(index="00", name="nri-scope")


class Running:
    """A logger service against a `RuntimeEnd`."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        self.sink = ListSink()
        self.reports: list[SessionReport] = []
        service_options = {key: options.pop(key) for key in ("wait", "once") if key in options}
        logger = Logger(self.sink, IDENTITY, on_session=self.reports.append, **options)
        self.service = LoggerService(logger, unix_socket(path), **service_options)
        self.task = asyncio.create_task(self.service.run())


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[RuntimeEnd]:
    end = RuntimeEnd()
    await end.listen(tmp_path / "nri.sock")
    yield end
    await end.close()


async def finish(running: Running) -> None:
    running.service.stop("enough")
    async with asyncio.timeout(10):
        await running.task


@pytest.mark.parametrize(
    ("version", "options", "mask"),
    [
        ({}, {}, 0x07FF),
        ({"runtime_version": "v2.1.9"}, {}, 0x07FF),
        ({"runtime_version": "v2.2.0"}, {}, 0x1FFF),
        ({"NRI_version": "v0.12.2"}, {}, 0x1FFF),
        ({"NRI_version": "v0.12.2"}, {"validate": True}, 0x3FFF),
        ({"runtime_name": "podhouse", "runtime_version": "1"}, {}, 0x07FF),
        ({}, {"validate": True}, 0x07FF),
        (
            {},
            {"events": frozenset({EventKind.CreateContainer, EventKind.UpdatePodSandbox})},
            0x0008,
        ),
    ],
)
async def test_the_mask_contains_only_events_of_the_runtimes_version(
    runtime: RuntimeEnd,
    tmp_path: Path,
    version: dict[str, str],
    options: dict[str, Any],
    mask: int,
) -> None:
    running = Running(tmp_path / "nri.sock", **options)
    link, _ = await runtime.registered()
    assert await configure(link, **version) == mask
    await finish(running)
    assert running.sink.sessions[0].mask == mask


async def test_every_request_is_answered_and_recorded(runtime: RuntimeEnd, tmp_path: Path) -> None:
    running = Running(tmp_path / "nri.sock")
    link, _ = await runtime.registered()
    await configure(link, request_timeout=2000, registration_timeout=5000)
    await synchronize(link)
    request = api.CreateContainerRequest()
    request.container.id = "c1"
    payload = request.SerializeToString()
    assert await call(link, "CreateContainer", payload, timeout=2) == b"\x0a\x00"
    assert await call(link, "FromTheFuture", b"\xff\xfe") == b""
    assert await link.call("some.other.Service", "Ping", b"x") == b""
    link.close()
    await asyncio.sleep(0)
    while not running.sink.ends:
        await asyncio.sleep(0.001)
    await finish(running)
    items = [item for _, item in running.sink.captured]
    assert [(item.method, item.service) for item in items] == [
        ("Configure", ""),
        ("Synchronize", ""),
        ("CreateContainer", ""),
        ("FromTheFuture", ""),
        ("Ping", "some.other.Service"),
    ]
    assert items[2].request == payload
    assert items[2].timeout_ns == 2_000_000_000
    assert items[0].reply == api.ConfigureResponse(events=0x7FF).SerializeToString()
    assert {item.status_code for item in items} == {0}
    assert all(a.wall_ns <= b.wall_ns for a, b in itertools.pairwise(items))
    start = running.sink.sessions[0]
    assert (start.runtime_name, start.runtime_version) == ("containerd", "v1.7.24")
    assert (start.nri_version, start.nri_version_inferred) == ("0.6.1", True)
    assert (start.registration_timeout_ms, start.request_timeout_ms) == (5000, 2000)
    assert running.sink.ends == [(1, "closed by the runtime")]


async def test_only_trace_context_of_the_metadata_is_recorded(
    runtime: RuntimeEnd, tmp_path: Path
) -> None:
    running = Running(tmp_path / "nri.sock")
    link, _ = await runtime.registered()
    await configure(link)
    parent = ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    sent = (("containerd-namespace-ttrpc", "k8s.io"), ("baggage", "user=ann"), parent)
    request = api.StateChangeEvent(event=api.RUN_POD_SANDBOX).SerializeToString()
    for metadata in (sent, sent[:2], ()):
        await link.call(PLUGIN_SERVICE, "StateChange", request, metadata=metadata)
    link.close()
    while not running.sink.ends:
        await asyncio.sleep(0.001)
    await finish(running)
    assert [item.metadata for _, item in running.sink.captured[1:]] == [(parent,), (), ()]


async def test_replies_to_a_split_synchronize_echo_more(
    runtime: RuntimeEnd, tmp_path: Path
) -> None:
    running = Running(tmp_path / "nri.sock")
    link, _ = await runtime.registered()
    await configure(link)
    for more in (True, True, False):
        pods = [api.PodSandbox(id="p")]
        reply = await call(link, "Synchronize", api.SynchronizeRequest(pods=pods, more=more))
        response = api.SynchronizeResponse.FromString(reply)
        assert response.more is more
        assert not response.update
    assert await call(link, "Synchronize", b"\xff\xff\xff") == b""
    await finish(running)
    assert [item.method for _, item in running.sink.captured].count("Synchronize") == 4


async def test_a_restart_of_the_runtime_begins_a_session_after_a_gap(
    runtime: RuntimeEnd, tmp_path: Path
) -> None:
    running = Running(tmp_path / "nri.sock")
    for _ in range(2):
        link, _registration = await runtime.registered()
        await configure(link)
        await synchronize(link)
        link.abort()
    link, _registration = await runtime.registered()
    await configure(link)
    await finish(running)
    sink = running.sink
    assert len(sink.sessions) == 3
    assert [session for session, _ in sink.captured] == [1, 1, 2, 2, 3]
    assert sink.gaps == [(None, "not connected to the runtime: closed by the runtime", None)] * 2
    assert [session for session, _ in sink.ends] == [1, 2, 3]
    assert sink.ends[-1] == (3, "enough")


@pytest.mark.parametrize("removal", ["unlink", "rename"])
async def test_a_socket_made_anew_begins_a_session_after_a_gap(
    runtime: RuntimeEnd, tmp_path: Path, removal: str
) -> None:
    """Docker Engine leaves older connections open when it reloads its configuration."""
    path = tmp_path / "nri.sock"
    running = Running(path)
    first, _registration = await runtime.registered()
    await configure(first)
    await synchronize(first)
    if removal == "unlink":
        path.unlink()
    else:
        path.rename(tmp_path / "old.sock")
    second = RuntimeEnd()
    await second.listen(path)
    # An event of the old connection still counts.
    await synchronize(first)
    link, _registration = await second.registered()
    await configure(link)
    await finish(running)
    await second.close()
    sink = running.sink
    assert [session for session, _ in sink.captured] == [1, 1, 1, 2]
    assert sink.gaps == [
        (None, "not connected to the runtime: the runtime's socket was made anew", None)
    ]
    assert sink.ends[0] == (1, "the runtime's socket was made anew")
    ((from_ns, to_ns),) = sink.gap_times
    last = sink.captured[2][1]
    assert from_ns == last.wall_ns + last.took_ns == sink.ended_ns[0] < to_ns
    assert first.closed


async def test_a_changed_mode_or_a_missing_file_is_no_new_socket(
    runtime: RuntimeEnd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "CHECK_S", 0.01)
    path = tmp_path / "nri.sock"
    running = Running(path)
    link, _registration = await runtime.registered()
    await configure(link)
    await synchronize(link)
    path.chmod(0o666)
    await asyncio.sleep(0.1)
    path.unlink()
    await asyncio.sleep(0.1)
    await synchronize(link)
    await finish(running)
    assert len(running.sink.sessions) == 1
    assert not running.sink.gaps


async def test_once_ends_with_the_session(runtime: RuntimeEnd, tmp_path: Path) -> None:
    running = Running(tmp_path / "nri.sock", once=True)
    link, _ = await runtime.registered()
    await configure(link)
    link.close()
    async with asyncio.timeout(10):
        await running.task
    assert len(running.sink.ends) == 1


async def test_a_session_lost_after_configure_reduces_the_next_subscription(
    runtime: RuntimeEnd, tmp_path: Path
) -> None:
    running = Running(tmp_path / "nri.sock")
    link, _ = await runtime.registered()
    assert await configure(link, NRI_version="v0.12.0") == 0x1FFF
    link.abort()
    link, _ = await runtime.registered()
    assert await configure(link, NRI_version="v0.12.0") == 0x07FF
    await finish(running)
    assert "events 1 to 11 only" in running.reports[1].warnings[0]


async def test_stopping_while_waiting_for_the_runtime(tmp_path: Path) -> None:
    running = Running(tmp_path / "none.sock", wait=True)
    await asyncio.sleep(0.01)
    await finish(running)
    assert running.sink.sessions == []


async def test_a_missing_runtime_and_refusals_raise(runtime: RuntimeEnd, tmp_path: Path) -> None:
    with pytest.raises(ConnectError):
        await Running(tmp_path / "none.sock").task
    runtime.refuse = (3, "bad index")
    with pytest.raises(RpcError, match="bad index"):
        await Running(tmp_path / "nri.sock").task
    runtime.refuse = None
    running = Running(tmp_path / "nri.sock", events=frozenset({EventKind.UpdatePodSandbox}))
    await runtime.registrations.get()
    link, _ = await runtime.registered()
    with pytest.raises(RpcError, match="none of the chosen events"):
        await configure(link)
    link.close()
    with pytest.raises(UsageError, match="none of the chosen events"):
        await running.task


async def test_frames_for_unknown_connections_become_notes(
    runtime: RuntimeEnd, tmp_path: Path
) -> None:
    running = Running(tmp_path / "nri.sock")
    link, _ = await runtime.registered()
    await configure(link)
    transport = link._transport
    assert transport is not None
    transport.write(struct.pack(">II", 9, 4) + b"what")
    await synchronize(link)
    await finish(running)
    ((session, text),) = running.sink.notes
    assert session == 1
    assert "conn_id=9" in text


def test_a_stall_is_a_gap_of_the_session() -> None:
    sink = ListSink()
    logger = Logger(sink, IDENTITY)
    logger.report_stall(3)
    assert sink.gaps == []
    logger.configure(api.ConfigureRequest(runtime_name="containerd", runtime_version="2.1.0"))
    logger.answered(exchange("Configure"))
    logger.report_stall(3.21)
    ((session, reason, lost),) = sink.gaps
    assert (session, lost) == (1, None)
    assert reason == "the recorder stalled for 3.2 s; replies may have been late"


def test_a_stall_begins_after_the_last_event_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    sink = ListSink()
    monkeypatch.setattr(sink, "note_gap", lambda _, from_ns, *__: begun.append(from_ns))
    logger = Logger(sink, IDENTITY)
    logger.configure(api.ConfigureRequest(runtime_name="containerd", runtime_version="2.1.0"))
    logger.answered(exchange("Configure"))
    before_ns = time.monotonic_ns()
    # The clock was checked 3.2 s ago; these came 0.2 s after that, and at the end of the stall.
    for arrived_ns in (before_ns - 3_000_000_000, before_ns):
        logger.answered(exchange("StartContainer")._replace(arrived_ns=arrived_ns))
    checked_ns = time.time_ns() - 3_200_000_000
    logger.report_stall(3.2)
    assert 150_000_000 < begun[0] - checked_ns < 250_000_000


async def test_late_heartbeats_are_reported_as_stalls() -> None:
    stalls: list[float] = []
    clock = iter([0.0, 0.1, 0.2, 3.2, 3.3, 3.8, 10.0])
    with pytest.raises(RuntimeError):
        await watch_clock(stalls.append, clock=lambda: next(clock), heartbeat=0.0)
    assert stalls == pytest.approx([3.0, 6.2])


def test_a_second_configure_ends_the_session_and_begins_another() -> None:
    sink = ListSink()
    logger = Logger(sink, IDENTITY)
    for _ in range(2):
        logger.configure(api.ConfigureRequest(runtime_name="containerd", runtime_version="2.1.0"))
        logger.answered(exchange("Configure"))
    assert len(sink.sessions) == 2
    assert sink.ends == [(1, "configured again")]


def test_a_reply_after_the_deadline_is_recorded_as_late() -> None:
    sink = ListSink()
    logger = Logger(sink, IDENTITY)
    logger.configure(api.ConfigureRequest(runtime_name="containerd", runtime_version="2.1.0"))
    logger.answered(exchange("Configure"))
    logger.answered(exchange("CreateContainer", timeout_ns=100, took_ns=100))
    logger.answered(exchange("CreateContainer", timeout_ns=100, took_ns=101))
    assert [item.status_code for _, item in sink.captured] == [0, 0, 4]


def test_events_before_configure_leave_a_note() -> None:
    sink = ListSink()
    logger = Logger(sink, IDENTITY)
    logger.answered(exchange("CreateContainer"))
    assert sink.notes == [(None, "CreateContainer arrived before Configure")]
    logger.ended(SessionEnd("gone", configured=False, synchronized=False))
    assert sink.gaps == []


async def test_a_stop_right_after_the_connection_closed_ends_the_session_once(
    runtime: RuntimeEnd, tmp_path: Path
) -> None:
    running = Running(tmp_path / "nri.sock")
    link, _ = await runtime.registered()
    await configure(link)
    session = running.service._session
    assert session is not None
    session.close("the runtime went away")
    running.service.stop("interrupted")
    async with asyncio.timeout(10):
        await running.task
    assert [number for number, _ in running.sink.ends] == [1]


def test_sessions_that_begin_together_have_the_same_clock() -> None:
    sink = ListSink()
    for slow in (True, False):
        logger = Logger(sink, IDENTITY)
        logger.configure(api.ConfigureRequest(runtime_name="containerd", runtime_version="2.1.0"))
        if slow:
            # Delay between the reply to Configure and the recorded beginning of the session.
            time.sleep(0.02)
        logger.answered(exchange("Configure"))
    first, second = (item.wall_ns for _, item in sink.captured)
    assert abs(first - second) < 10_000_000


def test_a_clock_set_back_never_ends_a_session_before_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = ListSink()
    logger = Logger(sink, IDENTITY)
    logger.configure(api.ConfigureRequest(runtime_name="containerd", runtime_version="2.1.0"))
    logger.answered(exchange("Configure"))
    hour_ago = time.time_ns() - 3600 * 10**9
    monkeypatch.setattr(logger_module, "time_ns", lambda: hour_ago)
    logger.ended(SessionEnd("closed", configured=True, synchronized=True))
    assert sink.ended_ns[0] >= sink.sessions[0].started_ns
    # The sink refuses a gap that ends before it begins.
    monkeypatch.setattr(logger_module, "time_ns", lambda: hour_ago - 3600 * 10**9)
    logger.configure(api.ConfigureRequest(runtime_name="containerd", runtime_version="2.1.0"))
    logger.answered(exchange("Configure"))
    assert len(sink.gaps) == 1
