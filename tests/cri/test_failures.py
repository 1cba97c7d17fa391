# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from grpclib.const import Cardinality, Handler
from grpclib.server import Server, Stream

from nri_scope._gen.cri.runtime import v1
from nri_scope.cri.client import MessageCodec
from nri_scope.errors import ConnectError, ConnectionClosed, DeadlineExceeded, RpcError
from tests.cri.driver import CriDriver, PodSpec
from tests.cri.fake_runtime import FakeRuntime, listening
from tests.cri.peers import Relay, replying

POD = PodSpec("web", "shop")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c.sock"


async def test_a_missing_socket_is_reported_with_path_and_advice(path: Path) -> None:
    with pytest.raises(ConnectError, match=r"no such socket.*start the runtime") as caught:
        await CriDriver.connect(path)
    assert caught.value.path == str(path)


async def test_a_regular_file_is_reported(path: Path) -> None:
    path.write_text("nothing")
    with pytest.raises(ConnectError, match="no process listens there, or it is not a socket"):
        await CriDriver.connect(path)


async def test_a_socket_without_a_listener_is_reported(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as abandoned:
        abandoned.bind(str(path))
    with pytest.raises(ConnectError, match="no process listens there"):
        await CriDriver.connect(path)


async def test_a_path_too_long_for_a_socket_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match="too long"):
        await CriDriver.connect(tmp_path / ("x" * 120))


async def test_a_file_as_parent_folder_is_reported(path: Path) -> None:
    path.write_text("a file where a folder should be")
    with pytest.raises(ConnectError, match="Not a directory"):
        await CriDriver.connect(path / "c.sock")


@pytest.mark.parametrize(
    "reply",
    [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(range(256)) * 8],
    ids=["closes", "http1", "noise"],
)
async def test_a_peer_without_grpc_is_reported(path: Path, reply: bytes) -> None:
    async with replying(reply, path):
        with pytest.raises(ConnectError, match="does not speak gRPC"):
            await CriDriver.connect(path)


async def test_a_silent_peer_is_reported(path: Path) -> None:
    async with replying(None, path):
        with pytest.raises(ConnectError, match=r"no CRI runtime answered within 0.05 s"):
            await CriDriver.connect(path, timeout=0.05)


async def test_a_runtime_with_disabled_cri_is_reported(path: Path) -> None:
    server = Server([v1.RuntimeServiceBase()])
    await server.start(path=str(path))
    try:
        with pytest.raises(ConnectError, match=r"not CRI v1.*disabled_plugins"):
            await CriDriver.connect(path)
    finally:
        server.close()
        await server.wait_closed()


async def test_a_connection_cut_during_a_call_is_closed(path: Path, tmp_path: Path) -> None:
    runtime, relay = FakeRuntime(), Relay(path)
    runtime.hang = True
    async with (
        listening(runtime, path),
        relay.listening(tmp_path / "r.sock"),
        await CriDriver.connect(tmp_path / "r.sock") as cri,
    ):
        call = asyncio.ensure_future(cri.run_pod(POD))
        await runtime.called.wait()
        relay.cut()
        with pytest.raises(ConnectionClosed, match="RunPodSandbox: the runtime closed"):
            await call


async def test_the_next_call_reaches_a_restarted_runtime(path: Path, tmp_path: Path) -> None:
    runtime, relay, front = FakeRuntime(), Relay(path), tmp_path / "r.sock"
    async with listening(runtime, path):
        async with relay.listening(front):
            cri = await CriDriver.connect(front)
        front.unlink(missing_ok=True)  # Python 3.13 and later remove it with the server
        async with cri:
            with pytest.raises((ConnectError, ConnectionClosed)):
                await cri.version()
            async with relay.listening(front):
                assert (await cri.version()).name == "containerd"


class Resetting:
    """Server that resets the stream of a call, as one in Go does at the call's deadline."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s

    def __mapping__(self) -> dict[str, Handler]:
        requests, replies = v1.VersionRequest, v1.VersionResponse
        handler = Handler(self._version, Cardinality.UNARY_UNARY, requests, replies)
        return {"/runtime.v1.RuntimeService/Version": handler}

    async def _version(self, stream: Stream[v1.VersionRequest, v1.VersionResponse]) -> None:
        await stream.recv_message()
        await asyncio.sleep(self._wait_s)
        await stream.cancel()


@pytest.mark.parametrize(
    ("wait_s", "timeout", "error", "words"),
    [
        (0.0, 60.0, RpcError, "the runtime reset the call's stream: error_code: 0"),
        (0.97, 1.0, DeadlineExceeded, "Version: no answer within 1 s"),
    ],
)
async def test_a_reset_stream_is_not_a_closed_connection(
    wait_s: float, timeout: float, error: type[Exception], words: str, path: Path
) -> None:
    server = Server([Resetting(wait_s)], codec=MessageCodec())
    await server.start(path=str(path))
    try:
        async with CriDriver(str(path)) as cri:
            with pytest.raises(error, match=words):
                await cri.version(timeout=timeout)
    finally:
        server.close()
        await server.wait_closed()
