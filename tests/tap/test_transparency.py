# SPDX-License-Identifier: Apache-2.0
"""A recording tap relays any bytes between two peers unchanged."""

from __future__ import annotations

import asyncio
import socket
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri.api_pb2 import ConfigureRequest, ConfigureResponse
from nri_scope._gen.ttrpc.ttrpc_pb2 import Request, Response
from nri_scope.nri.events import METHODS, PLUGIN_SERVICE, RUNTIME_SERVICE
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.reader import Recording
from nri_scope.tap.connection import TappedConnection
from nri_scope.transport.loop import loop_factory
from tests.amount import amount
from tests.tap.sink import ListSink


def frame(conn_id: int, payload: bytes) -> bytes:
    return struct.pack(">II", conn_id, len(payload)) + payload


def message(stream_id: int, kind: int, flags: int, data: bytes) -> bytes:
    return struct.pack(">IIBB", len(data), stream_id, kind, flags) + data


_REQUESTS = st.builds(
    lambda service, method, payload, timeout: Request(
        service=service, method=method, payload=payload, timeout_nano=timeout
    ).SerializeToString(),
    st.sampled_from((PLUGIN_SERVICE, RUNTIME_SERVICE, "other.Service")),
    st.sampled_from((*METHODS, "NextYears")),
    st.binary(max_size=40),
    st.integers(-(2**63), 2**63 - 1),
)
_RESPONSES = st.binary(max_size=40).map(lambda data: Response(payload=data).SerializeToString())
_MESSAGES = st.builds(
    message,
    st.integers(1, 5),
    st.integers(0, 4),
    st.sampled_from((0, 0, 255)),
    _REQUESTS | _RESPONSES | st.binary(max_size=60),
)
_FRAMES = st.builds(frame, st.sampled_from((1, 1, 2, 2, 3)), _MESSAGES | st.binary(max_size=60))
_STREAMS = st.lists(
    st.lists(_FRAMES, max_size=10).map(b"".join) | st.binary(max_size=300), max_size=4
)
_CUTS = st.lists(st.integers(1, 400), min_size=1, max_size=5)


async def _exchange(sock: socket.socket, data: bytes, cuts: list[int]) -> bytes:
    """Send ``data`` in pieces of ``cuts`` bytes in turn; return all that is received."""
    loop = asyncio.get_running_loop()
    sock.setblocking(False)

    async def send() -> None:
        start, number = 0, 0
        while start < len(data):
            size = cuts[number % len(cuts)]
            await loop.sock_sendall(sock, data[start : start + size])
            await asyncio.sleep(0)
            start, number = start + size, number + 1
        sock.shutdown(socket.SHUT_WR)

    sending = asyncio.create_task(send())
    received = bytearray()
    while chunk := await loop.sock_recv(sock, 1 << 16):
        received += chunk
    await sending
    return bytes(received)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """Event loop shared by consecutive taps."""
    with asyncio.Runner(loop_factory=loop_factory()) as started:
        yield started


@settings(max_examples=amount(100, 100), deadline=None)
@given(by_runtime=_STREAMS, by_plugin=_STREAMS, first=_CUTS, second=_CUTS)
def test_any_bytes_are_relayed_unchanged_without_internal_errors(
    runner: asyncio.Runner,
    by_runtime: list[bytes],
    by_plugin: list[bytes],
    first: list[int],
    second: list[int],
) -> None:
    forth, back = b"".join(by_runtime), b"".join(by_plugin)

    async def main() -> ListSink:
        sink = ListSink()
        (runtime, ours), (theirs, plugin) = socket.socketpair(), socket.socketpair()
        connection = TappedConnection(sink, None, lambda start, policy: None)
        relaying = asyncio.create_task(connection.relay(ours, theirs))
        at_runtime, at_plugin = await asyncio.gather(
            _exchange(runtime, forth, first), _exchange(plugin, back, second)
        )
        assert at_plugin == forth
        assert at_runtime == back
        await asyncio.wait_for(relaying, 10)
        connection.finish("over")
        runtime.close()
        plugin.close()
        return sink

    sink = runner.run(main())
    assert not any("an internal error" in text for _, text in sink.notes)
    assert len(sink.ends) == len(sink.starts)


async def test_a_recorder_that_cannot_write_does_not_stop_the_relay() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.nriscope.db"
        recorder = Recorder.open(path)
        # The writer can neither write to its file nor create it again.
        path.unlink()
        path.mkdir()
        (runtime, ours), (theirs, plugin) = socket.socketpair(), socket.socketpair()
        connection = TappedConnection(recorder, None, lambda start, policy: None)
        relaying = asyncio.create_task(connection.relay(ours, theirs))
        configure = Request(
            service=PLUGIN_SERVICE,
            method="Configure",
            payload=ConfigureRequest(runtime_name="containerd").SerializeToString(),
        ).SerializeToString()
        reply = Response(payload=ConfigureResponse(events=1).SerializeToString())
        events = [
            Request(service=PLUGIN_SERVICE, method="StartContainer").SerializeToString()
            for _ in range(20)
        ]
        forth = b"".join(
            frame(1, message(2 * number + 1, 1, 0, data))
            for number, data in enumerate([configure, *events])
        )
        back = b"".join(
            frame(1, message(2 * number + 1, 2, 0, data))
            for number, data in enumerate([reply.SerializeToString(), *[b""] * len(events)])
        )
        at_plugin = asyncio.create_task(_exchange(plugin, back, [50]))
        assert await _exchange(runtime, forth, [100]) == back
        assert await at_plugin == forth
        await asyncio.wait_for(relaying, 10)
        connection.finish("over")
        runtime.close()
        plugin.close()
        counters = recorder.close(0.1)
        assert counters.recorded == 0
        assert counters.lost > 0


async def test_relayed_calls_and_output_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    recorder = Recorder.open(path)
    (runtime, ours), (theirs, plugin) = socket.socketpair(), socket.socketpair()
    connection = TappedConnection(recorder, None, lambda start, policy: None)
    relaying = asyncio.create_task(connection.relay(ours, theirs))
    loop = asyncio.get_running_loop()
    for sock in (runtime, plugin):
        sock.setblocking(False)
    configure = ConfigureRequest(runtime_name="containerd", runtime_version="v1.7.22")
    replies = {"Configure": ConfigureResponse(events=1).SerializeToString()}
    for number, (method, payload) in enumerate(
        [("Configure", configure.SerializeToString()), ("NextYears", b"raw"), ("Shutdown", b"")]
    ):
        request = Request(service=PLUGIN_SERVICE, method=method, payload=payload)
        request.metadata.add(key="k", value=method)
        await loop.sock_sendall(
            runtime, frame(1, message(2 * number + 1, 1, 0, request.SerializeToString()))
        )
        await loop.sock_recv(plugin, 1 << 16)
        response = Response(payload=replies.get(method, b"")).SerializeToString()
        await loop.sock_sendall(plugin, frame(1, message(2 * number + 1, 2, 0, response)))
        await loop.sock_recv(runtime, 1 << 16)
    connection.printed("stderr", "a line", 0)
    plugin.close()
    end = await asyncio.wait_for(relaying, 10)
    assert end.reason == "the plugin closed the connection"
    connection.finish("exited with status 0")
    runtime.close()
    assert recorder.close().recorded == 3
    with Recording.open(path) as recording:
        (session,) = recording.sessions()
        assert (session.role, session.end_reason) == ("tap", "exited with status 0")
        events = list(recording.events())
        assert [event.method for event in events] == ["Configure", "NextYears", "Shutdown"]
        assert recording.request(events[1].id) == b"raw"
        assert recording.rows("SELECT event, metadata FROM tapped ORDER BY event") == [
            (event.id, f'[["k", "{event.method}"]]') for event in events
        ]
        assert recording.rows("SELECT session, stream, text FROM output") == [
            (session.id, "stderr", "a line")
        ]
