# SPDX-License-Identifier: Apache-2.0
"""Hostile clients leave the agent healthy."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.agent import run
from nri_scope.agent.http_server import AgentState, HttpConnection
from nri_scope.agent.listener import Listener
from nri_scope.agent.node_recordings import NodeRecordings
from nri_scope.agent.recorder_status import RecorderStatus
from nri_scope.agent.service import COMPARISONS_MAX, AgentService
from nri_scope.cluster.agent_pods import NamedPod
from nri_scope.cluster.gather import pods_filters
from nri_scope.filter import parse
from nri_scope.filter.parser import MAX_LENGTH
from tests.agent.agent_process import Agent, agent
from tests.agent.certificates import Certificates
from tests.agent.raw_client import SERVICE, RawClient, message
from tests.cli.running import PATIENCE, running
from tests.demo_recording import DEMO_EVENTS

RECORDING = Path(__file__).parents[2] / "recordings" / "demo.nriscope.db"
MANY = 1_000
GROWTH_MAX = 200 << 20
"""Bytes by which many idle clients may increase the memory of an agent; 130 MB were measured."""
STATUS = f"{SERVICE}/GetStatus"
EVENTS = f"{SERVICE}/GetEvents"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "node"
    path.mkdir()
    shutil.copy(RECORDING, path)
    return path


@pytest.fixture
async def served(folder: Path) -> AsyncIterator[Agent]:
    async with agent(folder) as one:
        yield one


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


async def assert_healthy(one: Agent) -> None:
    """Check that good clients get answers."""
    for path in ("healthz", "metrics"):
        answer = await asyncio.to_thread(http, one, path)
        assert answer.startswith("ok" if path == "healthz" else "# HELP")
    async with one.client() as stub, asyncio.timeout(PATIENCE):
        status = await stub.get_status(v1.GetStatusRequest())
    assert [each.events for each in status.recordings] == [DEMO_EVENTS]
    events = await one.events(v1.GetEventsRequest())
    assert sum(each.event is not None for each in events) == DEMO_EVENTS


def http(one: Agent, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{one.http}/{path}", timeout=PATIENCE) as got:
        content: bytes = got.read()
        return content.decode()


def memory(one: Agent) -> int:
    """Return the resident memory of an agent in bytes."""
    pages = int(Path(f"/proc/{one.process.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def assert_memory_bounded(one: Agent, before: int) -> None:
    assert memory(one) - before < GROWTH_MAX


# -- requests -------------------------------------------------------------------------------


BAD_REQUESTS = [
    (STATUS, message(b""), "0"),
    (STATUS, message(b"", length=0xFFFFFFFF), "8"),
    (STATUS, message(b"\0" * 70_000), "8"),
    (STATUS, message(b"x", compressed=True), "12"),
    (EVENTS, message(b"\x0a\x01\xff"), "3"),
    (STATUS, b"\0\0", "3"),
    (STATUS, message(b"xx", length=9), "3"),
    (STATUS, b"", "3"),
    (f"{SERVICE}/Delete", message(b""), "12"),
    ("/", message(b""), "12"),
    (EVENTS, message(v1.GetEventsRequest(where="(" * 60_000).SerializeToString()), "3"),
    (EVENTS, message(v1.GetEventsRequest(where="outcome:seen").SerializeToString()), "3"),
    (EVENTS, message(v1.GetEventsRequest(after="a:1:1,a:1:1").SerializeToString()), "3"),
    (EVENTS, message(v1.GetEventsRequest(last=2**32 - 1).SerializeToString()), "3"),
    (EVENTS, message(v1.GetEventsRequest(since="yesterdayish").SerializeToString()), "3"),
    (f"{SERVICE}/GetRecording", message(b"\x0a\x01("), "3"),
]


async def test_bad_requests_are_refused(served: Agent) -> None:
    for method, data, status in BAD_REQUESTS:
        client = await RawClient.connect(served.port)
        stream = client.begin(method)
        for at in range(0, len(data) or 1, 16_000):
            if client.h2.local_flow_control_window(stream) < 16_000:
                break
            client.send(stream, data[at : at + 16_000], end=at + 16_000 >= len(data))
        assert await client.status(stream) == status, (method, data[:50])
        # The connection can still be used.
        stream = client.begin(STATUS)
        client.send(stream, message(b""), end=True)
        assert await client.status(stream) == "0"
        await client.close()


@pytest.mark.exhaustive
async def test_requests_of_any_length_are_accepted(served: Agent) -> None:
    for length in range(20):
        client = await RawClient.connect(served.port)
        stream = client.begin(EVENTS)
        content = b"" if length < 2 else bytes([0x0A, length - 2]) + b"a" * (length - 2)
        client.send(stream, message(content), end=True)
        assert await client.status(stream) == "0", length
        await client.close()


async def test_garbage_ends_only_its_connection(served: Agent) -> None:
    good = await RawClient.connect(served.port)
    begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
    more = b"\0\0\1\x09\0\0\0\0\1\x82"
    frames = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        os.urandom(100_000),
        # A frame of 16 MiB.
        begin + b"\xff\xff\xff\0\0\0\0\0\1" + bytes(20_000),
        # Data outside of a stream, a continuation first, and a window update of 0.
        begin + b"\0\0\1\0\0\0\0\0\0x",
        begin + more,
        begin + b"\0\0\4\x08\0\0\0\0\0\0\0\0\0",
        # Headers that never end, in many and in large frames.
        begin + b"\0\0\1\1\0\0\0\0\1\x82" + more * 99,
        begin + b"\0\0\1\1\0\0\0\0\1\x82" + (b"\0\x40\0\x09\0\0\0\0\1" + bytes(16_384)) * 5,
    ]
    for content in frames:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(content)
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionError):
                while await reader.read(1 << 16):
                    pass
        writer.close()
    stream = good.begin(STATUS)
    good.send(stream, message(b""), end=True)
    assert await good.status(stream) == "0"
    await good.close()
    await assert_healthy(served)


BAD_HTTP = [
    (b"GET /nothing HTTP/1.1\r\n\r\n", b"HTTP/1.1 404"),
    (b"POST /metrics HTTP/1.1\r\nContent-Length: 9999999999\r\n\r\n", b"HTTP/1.1 405"),
    (b"\xff\0\r\n\r\n", b"HTTP/1.1 405"),
    (
        b"GET /metrics\r\nAccept: application/openmetrics-text; version=a.b\r\n\r\n",
        b"HTTP/1.1 200",
    ),
    (b"GET /metrics\r\nAccept: \xff\r\n\r\n", b"HTTP/1.1 200"),
    (b"GET /healthz?" + b"x" * 100_000, b"HTTP/1.1 431"),
]


async def test_bad_http_is_refused(served: Agent) -> None:
    for request, answer in BAD_HTTP:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.http)
        writer.write(request)
        assert (await reader.readline()).startswith(answer), request[:50]
        writer.close()
    await assert_healthy(served)


# -- many clients ---------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("port", ["port", "http"])
async def test_many_idle_connections(served: Agent, port: str) -> None:
    await assert_healthy(served)
    before = memory(served)
    async with AsyncExitStack() as stack:
        for _ in range(MANY):
            one = socket.create_connection(("127.0.0.1", getattr(served, port)))
            stack.callback(one.close)
            if not _ % 50:
                await asyncio.sleep(0)
        await assert_healthy(served)
        await assert_memory_bounded(served, before)


@pytest.mark.exhaustive
async def test_many_calls_without_a_request(served: Agent) -> None:
    await assert_healthy(served)
    before = memory(served)
    clients = [await RawClient.connect(served.port) for _ in range(MANY // 50)]
    for client in clients:
        for _ in range(50):
            client.begin(EVENTS)
        await client.writer.drain()
    await assert_healthy(served)
    await assert_memory_bounded(served, before)
    # The oldest made room, without waiting for the timeout.
    assert await clients[0].status(1) == "4"
    for client in clients:
        await client.close()


@pytest.mark.exhaustive
async def test_many_calls_that_never_read(served: Agent) -> None:
    await assert_healthy(served)
    before = memory(served)
    clients = [await RawClient.connect(served.port) for _ in range(MANY // 50)]
    for client in clients:
        for _ in range(50):
            request = v1.GetEventsRequest(follow=True)
            client.send(client.begin(EVENTS), message(request.SerializeToString()), end=True)
        await client.writer.drain()
    await asyncio.sleep(5)
    assert "ok" in await asyncio.to_thread(http, served, "healthz")
    async with served.client() as stub, asyncio.timeout(PATIENCE):
        assert (await stub.get_status(v1.GetStatusRequest())).recordings
    await assert_memory_bounded(served, before)
    for client in clients:
        await client.close()
    await assert_eventually_healthy(served)


async def assert_eventually_healthy(served: Agent) -> None:
    for _ in range(100):
        try:
            await assert_healthy(served)
        except GRPCError:
            await asyncio.sleep(0.3)
        else:
            return
    await assert_healthy(served)


@pytest.mark.exhaustive
async def test_pings_of_a_client_that_never_reads(served: Agent) -> None:
    await assert_healthy(served)
    before = memory(served)
    client = await RawClient.connect(served.port)
    client.h2.ping(b"12345678")
    ping = client.h2.data_to_send()
    # Its buffer of 64 KiB fills up.
    sent = 0
    try:
        async with asyncio.timeout(10):
            while sent < 300 << 20:
                client.writer.write(ping * 20_000)
                sent += len(ping) * 20_000
                await client.writer.drain()
    except (TimeoutError, ConnectionError):
        pass
    await assert_healthy(served)
    # The buffers of the sockets are not those of the agent.
    assert memory(served) - before < 8 << 20
    await client.close()


# -- filters --------------------------------------------------------------------------------

_TERMS = ("q{}", "q{}*z", "pod:~q{}", "changed:~q{}", "-changed:/q{}", "(ns:a plugin:p{})")


def a_filter(term: str, comparisons: int) -> str:
    """Return a filter of such terms, as long as possible with at most so many comparisons."""
    text = term.format(0)
    for number in range(1, comparisons // parse(text).comparisons):
        longer = f"{text} OR {term.format(number)}"
        if len(longer) > MAX_LENGTH:
            break
        text = longer
    return text


@pytest.mark.parametrize("term", _TERMS)
async def test_a_filter_that_compares_much_is_refused(served: Agent, term: str) -> None:
    await served.events(v1.GetEventsRequest(where=a_filter(term, COMPARISONS_MAX)))
    longest = a_filter(term, sys.maxsize)
    if parse(longest).comparisons > COMPARISONS_MAX:
        with pytest.raises(GRPCError, match="comparisons with each event") as refused:
            await served.events(v1.GetEventsRequest(where=longest))
        assert refused.value.status is Status.INVALID_ARGUMENT
    else:
        # Filters of names, of which clients make long ones.
        assert term == _TERMS[-1]


@given(st.lists(st.text("abc-", min_size=1, max_size=12), min_size=1, max_size=600))
def test_filters_of_pods_are_never_refused(names: list[str]) -> None:
    pods = [NamedPod("n", name, "node") for name in names]
    for where, _ in pods_filters(pods):
        assert parse(where).comparisons <= COMPARISONS_MAX


# -- TLS ------------------------------------------------------------------------------------


@pytest.mark.exhaustive
async def test_clients_need_a_valid_certificate(folder: Path, certificates: Certificates) -> None:
    async with agent(folder, *certificates.options()) as one:
        for name in ("", "expired", "foreign"):
            channel = Channel("127.0.0.1", one.port, ssl=certificates.client(name))
            with pytest.raises((ssl.SSLError, OSError, StreamTerminatedError)):
                async with asyncio.timeout(PATIENCE):
                    await v1.AgentStub(channel).get_status(v1.GetStatusRequest())
            channel.close()
        # Without TLS.
        with pytest.raises((OSError, StreamTerminatedError)):
            await one.events(v1.GetEventsRequest())
        await assert_good_client(one, certificates)


async def assert_good_client(one: Agent, certificates: Certificates) -> None:
    channel = Channel("127.0.0.1", one.port, ssl=certificates.client("good"))
    async with asyncio.timeout(PATIENCE):
        stub = v1.AgentStub(channel)
        status = await stub.get_status(v1.GetStatusRequest())
        events = [each async for each in stub.get_events(v1.GetEventsRequest())]
    assert [each.events for each in status.recordings] == [DEMO_EVENTS]
    assert sum(each.event is not None for each in events) == DEMO_EVENTS
    channel.close()


@pytest.mark.exhaustive
async def test_many_connections_without_a_handshake(
    folder: Path, certificates: Certificates
) -> None:
    async with agent(folder, *certificates.options()) as one:
        await assert_good_client(one, certificates)
        before = memory(one)
        async with AsyncExitStack() as stack:
            for _ in range(MANY):
                stack.callback(socket.create_connection(("127.0.0.1", one.port)).close)
                if not _ % 50:
                    await asyncio.sleep(0)
            await assert_good_client(one, certificates)
            await assert_memory_bounded(one, before)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--grpc", "0.0.0.0:0"], "without TLS"),
        (["--grpc", "[::]:0"], "without TLS"),
        (
            ["--tls-cert", "server.crt"],
            "--tls-cert needs --tls-key; give all of --tls-cert, --tls-key, --tls-client-ca",
        ),
        (
            ["--tls-cert", "ca.key", "--tls-key", "server.key", "--tls-client-ca", "ca.crt"],
            "ca.key: not usable for TLS",
        ),
        (
            ["--tls-cert", "server.crt", "--tls-key", "good.key", "--tls-client-ca", "ca.crt"],
            "good.key: not the private key of ",
        ),
        (
            ["--tls-cert", "server.crt", "--tls-key", "none", "--tls-client-ca", "ca.crt"],
            "none: cannot be read: no such file or directory",
        ),
    ],
)
async def test_bad_options_cost_one_line(
    folder: Path, certificates: Certificates, options: list[str], words: str
) -> None:
    places = [
        str(certificates.folder / each) if each.endswith(("crt", "key", "none")) else each
        for each in options
    ]
    names = {"--tls-cert", "--tls-key", "--tls-client-ca", "--grpc"}
    arguments = [old if old in names else new for old, new in zip(options, places, strict=True)]
    async with running("agent", folder, "--http", "", *arguments) as process:
        status, _, errors = await process.wait_for_exit()
    assert status == 2
    assert words in errors
    assert len(errors.splitlines()) == 1


# -- faults -------------------------------------------------------------------------------------


async def test_an_agent_that_no_longer_listens_ends(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Listener):
        async def serve(self) -> None:
            self._listening.close()
            raise MemoryError

    monkeypatch.setattr(run, "Listener", Broken)
    options = run.AgentOptions(folder, ("127.0.0.1", 0), None)
    recordings = NodeRecordings(folder)
    status = RecorderStatus(recordings, "", None)
    with pytest.raises(MemoryError):
        async with asyncio.timeout(PATIENCE):
            await run._serve(
                options,
                AgentService(recordings, None, status),
                lambda: HttpConnection(CollectorRegistry(), AgentState()),
                lambda text: None,
            )
