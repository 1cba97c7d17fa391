# SPDX-License-Identifier: Apache-2.0
"""GetEvents while recorders write, rings overrun, and files come and go."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from grpclib.health.v1.health_grpc import HealthStub
from grpclib.health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.agent.event_reader import REMOVED
from nri_scope.agent.responses import OVERRUN
from nri_scope.events import REDACTED, RING_REMOVED, UNREADABLE
from nri_scope.nri.events import EventKind
from nri_scope.recording.node_files import NUMBERS
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime import PROFILES, ProfileSetUp
from tests.agent.agent_process import Agent, agent
from tests.agent.scraped_metrics import by, samples, text_of
from tests.cli.running import PATIENCE, Running, running
from tests.demo_recording import DEMO_EVENTS
from tests.runtime_emulation.runtime import Runtime
from tests.sample_names import CHECKOUT

RECORDINGS = Path(__file__).parents[2] / "recordings"
Key = tuple[str, int]


class Node:
    """A runtime, recorders, and the folder of their recordings."""

    def __init__(self, runtime: Runtime, folder: Path) -> None:
        self.runtime = runtime
        self.folder = folder
        self.created = 0

    @asynccontextmanager
    async def recorder(self, name: str, *options: str) -> AsyncIterator[Running]:
        path = self.folder / f"{name}.nriscope.db"
        socket = self.folder.with_name("nri.sock")
        plugins = len(self.runtime.plugins)
        arguments: list[str | Path] = ["--socket", socket, "-o", path, "--name", name, *options]
        async with running("record", *arguments) as process:
            await self.runtime.wait_plugins(plugins + 1)
            yield process
            await process.interrupt()

    async def create(self, *, size: int = 0, args: tuple[str, ...] = (), env: str = "A=1") -> None:
        """Create a container with an environment of this many random bytes."""
        self.created += 1
        message = api.CreateContainerRequest()
        pod = f"pod-{self.created % 2}"
        message.pod.CopyFrom(api.PodSandbox(id=pod, namespace="shop", name=pod))
        environment = [env, f"FILL={os.urandom(size // 2).hex()}"]
        container = api.Container(
            id=f"c{self.created}", pod_sandbox_id=pod, name="app", env=environment, args=args
        )
        message.container.CopyFrom(container)
        await self.runtime.dispatch(EventKind.CreateContainer, message)

    def newest(self, name: str) -> int:
        """Return the number of the newest event, also if it was removed."""
        with Recording.open(self.folder / f"{name}.nriscope.db") as recording:
            removed = sum(gap.lost or 0 for gap in recording.gaps() if gap.reason == RING_REMOVED)
            return max((event.id for event in recording.events()), default=removed)

    def is_written(self, name: str) -> bool:
        """Return whether the newest creation is in a recording: writers come later than replies."""
        with Recording.open(self.folder / f"{name}.nriscope.db") as recording:
            return any(event.container_id == f"c{self.created}" for event in recording.events())

    def events(self, name: str) -> list[int]:
        with Recording.open(self.folder / f"{name}.nriscope.db") as recording:
            return [event.id for event in recording.events()]


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    folder = tmp_path / "node"
    folder.mkdir()
    async with Runtime(ProfileSetUp(PROFILES["containerd-2.1"])) as runtime:
        await runtime.listen(tmp_path / "nri.sock")
        yield Node(runtime, folder)


async def until_caught_up(
    one: Agent, request: v1.GetEventsRequest, *, events: int = 0
) -> list[v1.GetEventsResponse]:
    """Return the responses until everything was sent, at least a number of events."""
    found: list[v1.GetEventsResponse] = []
    async with one.client() as stub, asyncio.timeout(PATIENCE):
        async for response in stub.get_events(request):
            found.append(response)
            sent = sum(each.event is not None for each in found)
            if response.heartbeat is not None and response.heartbeat.caught_up and sent >= events:
                break
    return found


def keys(responses: list[v1.GetEventsResponse]) -> list[Key]:
    """Return the events by recording, with their numbers in it."""
    events = [response.event for response in responses if response.event is not None]
    return [(event.recording, event.id % NUMBERS) for event in events]


def gaps(responses: list[v1.GetEventsResponse], reason: str) -> list[v1.Gap]:
    return [one.gap for one in responses if one.gap is not None and one.gap.reason == reason]


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [1, 2])
async def test_random_interruptions_of_two_recorders(node: Node, seed: int) -> None:
    """Any number of interruptions causes no loss and no repetition, also in a rollout."""
    chance = random.Random(seed)
    most = 120

    async def load() -> None:
        for number in range(most):
            await node.create()
            if number == most // 3:
                await stack.enter_async_context(node.recorder("b"))
            if number == 2 * most // 3:
                await first.aclose()
            await asyncio.sleep(chance.choice([0, 0, 0.01]))

    found: list[v1.GetEventsResponse] = []
    cursor = ""
    async with agent(node.folder) as one, AsyncExitStack() as stack:
        first = await stack.enter_async_context(AsyncExitStack())
        await first.enter_async_context(node.recorder("a"))
        loading = asyncio.create_task(load())
        interruptions = 0
        while True:
            left = chance.randrange(1, 40)
            request = v1.GetEventsRequest(follow=True, after=cursor)
            is_last = loading.done() and node.is_written("b")
            async with one.client() as stub, asyncio.timeout(PATIENCE):
                async for response in stub.get_events(request):
                    found.append(response)
                    cursor = response.cursor or cursor
                    left -= 1
                    is_caught_up = response.heartbeat is not None and response.heartbeat.caught_up
                    # After the last event, only a few heartbeats come.
                    if is_caught_up if is_last else left <= 0 or (is_caught_up and loading.done()):
                        break
            interruptions += 1
            if is_last:
                break
        await loading
        expected = [(name, number) for name in "ab" for number in node.events(name)]
        async with one.client() as stub:
            status = await stub.get_status(v1.GetStatusRequest())
        assert [each.recording for each in status.recordings] == ["a", "b"]
        assert [each.connected for each in status.recordings] == [False, True]
    assert interruptions > 3
    assert sorted(keys(found)) == expected
    for name in "ab":
        numbers = [number for recording, number in keys(found) if recording == name]
        assert numbers == sorted(numbers)
    ends = [each.session_end for each in found if each.session_end is not None]
    assert {end.recording for end in ends} == {"a"}


@pytest.mark.exhaustive
async def test_a_ring_that_overran_while_a_client_was_away(node: Node) -> None:
    async with agent(node.folder, "--unredacted") as one, node.recorder("a", "--max-size", "1M"):
        for _ in range(5):
            await node.create()
        found = await until_caught_up(one, v1.GetEventsRequest(follow=True), events=5)
        cursor = next(each.cursor for each in reversed(found) if each.cursor)
        (*_, (_, last)) = keys(found)
        for _ in range(200):
            await node.create(size=30_000)
        async with asyncio.timeout(PATIENCE):
            while node.newest("a") < last + 200:
                await asyncio.sleep(0.1)
        # The ring may have removed all events, some of them during the call.
        assert lost(await one.events(v1.GetEventsRequest(after=cursor))) > 50
        await node.create()
        request = v1.GetEventsRequest(follow=True, after=cursor)
        found = await until_caught_up(one, request, events=1)
    assert lost(found) > 50
    assert all(gap.from_ns <= gap.to_ns for gap in gaps(found, OVERRUN))
    assert_all_accounted(found, last)


def lost(found: list[v1.GetEventsResponse]) -> int:
    """Return the number of events that the ring removed, by all gaps."""
    numbers = [gap.lost for gap in gaps(found, OVERRUN)]
    assert None not in numbers
    return sum(number or 0 for number in numbers)


@pytest.mark.exhaustive
async def test_a_ring_that_overruns_a_slow_client(node: Node) -> None:
    async with agent(node.folder, "--unredacted") as one:
        async with node.recorder("a", "--max-size", "1M"):
            found: list[v1.GetEventsResponse] = []
            async with one.client() as stub, asyncio.timeout(PATIENCE):
                stream = stub.get_events(v1.GetEventsRequest(follow=True))
                found.append(await anext(stream))
                # More than the windows and buffers of both sides take.
                for _ in range(300):
                    await node.create(size=100_000)
                while node.newest("a") < 300:
                    await asyncio.sleep(0.1)
                await node.create()
                while not (numbers := node.events("a")):
                    await asyncio.sleep(0.1)
                last = numbers[-1]
                async for response in stream:
                    found.append(response)
                    if response.event is not None and response.event.id >= last:
                        break
    assert gaps(found, OVERRUN)
    assert_all_accounted(found, 0)
    assert len(keys(found)) < 300


def assert_all_accounted(responses: list[v1.GetEventsResponse], last: int) -> None:
    """Check that each missing number is in a gap before the next event."""
    lost = 0
    for response in responses:
        if response.gap is not None and response.gap.reason == OVERRUN:
            lost += response.gap.lost or 0
        if response.event is not None:
            assert response.event.id == last + lost + 1
            last, lost = response.event.id, 0


@pytest.mark.exhaustive
async def test_recordings_that_come_and_go(node: Node) -> None:
    target = node.folder / "demo.nriscope.db"

    def copy(name: str) -> None:
        shutil.copy(RECORDINGS / f"{name}.nriscope.db", node.folder / "new")
        (node.folder / "new").rename(target)

    found: list[v1.GetEventsResponse] = []
    async with agent(node.folder) as one:
        async with one.client() as stub, asyncio.timeout(PATIENCE):
            async for response in stub.get_events(v1.GetEventsRequest(follow=True)):
                found.append(response)
                is_caught_up = response.heartbeat is not None and response.heartbeat.caught_up
                if is_caught_up and not keys(found):
                    copy("demo")
                elif is_caught_up and len(keys(found)) == DEMO_EVENTS and target.exists():
                    copy("containerd-2.1")
                elif is_caught_up and len(keys(found)) == 120:
                    if target.exists():
                        target.unlink()
                    elif not response.cursor:
                        break
        assert [number for _, number in keys(found)] == [*range(1, 89), *range(1, 33)]
        # All was sent before.
        assert not gaps(found, REMOVED)
        began = {one.session.recording_began_ns for one in found if one.session is not None}
        assert len(began) == 2
        # After a resumption: first another recording with this name, then none.
        copy("demo")
        found = await until_caught_up(one, v1.GetEventsRequest(follow=True), events=DEMO_EVENTS)
        cursor = next(each.cursor for each in reversed(found) if each.cursor)
        copy("containerd-2.1")
        found = await one.events(v1.GetEventsRequest(after=cursor))
        assert [number for _, number in keys(found)] == [*range(1, 33)]
        assert len(gaps(found, REMOVED)) == 1
        target.unlink()
        found = await one.events(v1.GetEventsRequest(after=cursor))
        assert not keys(found)
        assert len(gaps(found, REMOVED)) == 1


@pytest.mark.exhaustive
async def test_a_recording_is_read_to_its_end_after_it_was_removed(node: Node) -> None:
    found: list[v1.GetEventsResponse] = []
    async with agent(node.folder, "--unredacted") as one, node.recorder("a"):
        async with one.client() as stub, asyncio.timeout(PATIENCE):
            stream = stub.get_events(v1.GetEventsRequest(follow=True))
            async for response in stream:
                found.append(response)
                if response.heartbeat is not None and response.heartbeat.caught_up and keys(found):
                    break
            last = node.newest("a")
            for _ in range(5):
                await node.create()
            while node.newest("a") < last + 5:
                await asyncio.sleep(0.01)
            for path in node.folder.glob("a.*"):
                path.unlink()
            # The recorder makes a new file.
            await node.create()
            async for response in stream:
                found.append(response)
                if len(created(found)) == node.created:
                    break
    assert len(created(found)) == len(set(created(found)))
    assert not gaps(found, REMOVED)


def created(responses: list[v1.GetEventsResponse]) -> list[str]:
    """Return the ids of the containers whose creations were sent."""
    events = [response.event for response in responses if response.event is not None]
    return [event.container_id for event in events if event.event == "CreateContainer"]


async def test_damaged_and_hostile_files_do_not_stop_the_others(node: Node, tmp_path: Path) -> None:
    folder = node.folder
    demo = (RECORDINGS / "demo.nriscope.db").read_bytes()
    (folder / "good.nriscope.db").write_bytes(demo)
    (folder / "garbage.nriscope.db").write_bytes(os.urandom(100_000))
    (folder / "empty.nriscope.db").write_bytes(b"")
    (folder / "cut.nriscope.db").write_bytes(demo[: len(demo) // 2])
    pages = bytearray(demo)
    pages[40_000:] = b"\xff" * (len(pages) - 40_000)
    (folder / "damaged.nriscope.db").write_bytes(pages)
    outside = tmp_path / "outside.nriscope.db"
    outside.write_bytes(demo)
    (folder / "link.nriscope.db").symlink_to(outside)
    (folder / "dangling.nriscope.db").symlink_to(tmp_path / "none")
    (folder / "folder.nriscope.db").mkdir()
    os.mkfifo(folder / "pipe.nriscope.db")
    (folder / "a,b:1.nriscope.db").write_bytes(demo)
    bad = {"garbage", "empty", "cut", "damaged"}
    async with agent(folder, "--unredacted") as one:
        found = await until_caught_up(one, v1.GetEventsRequest(follow=True))
        assert [key for key in keys(found) if key[0] == "good"] == [
            ("good", number) for number in range(1, 89)
        ]
        assert {each.gap.recording for each in found if each.gap is not None} == bad
        assert all(each.gap.reason.startswith(UNREADABLE) for each in found if each.gap is not None)
        cursor = next(each.cursor for each in reversed(found) if each.cursor)
        assert not keys(await one.events(v1.GetEventsRequest(after=cursor)))
        async with one.client() as stub:
            status = await stub.get_status(v1.GetStatusRequest())
            pieces = [one async for one in stub.get_recording(v1.GetRecordingRequest())]
            bundles = {piece.recording for piece in pieces if piece.data}
            not_sent = {piece.recording for piece in pieces if piece.problem}
        assert {each.recording for each in status.recordings} == bad | {"good"}
        problems = {each.recording for each in status.recordings if each.problem}
        assert problems >= {"garbage", "empty", "cut"}
        assert "good" in bundles and bundles | not_sent == bad | {"good"}
        assert not bundles & not_sent
        metrics = samples(await text_of(one))
        assert metrics["nri_scope_unreadable_recordings", frozenset()] == len(problems)
        assert by(metrics, "nri_scope_events_total", "event") == {}


@pytest.mark.exhaustive
async def test_the_time_between_two_recorders_is_a_gap_of_the_node(node: Node) -> None:
    async with agent(node.folder) as one, one.client() as stub:

        async def gaps_between() -> int:
            return (await stub.get_status(v1.GetStatusRequest())).gaps_between

        async with node.recorder("a"):
            await node.create()
            async with node.recorder("b"):
                await node.create()
        # They overlapped.
        assert await gaps_between() == 0
        async with node.recorder("c"):
            await node.create()
        assert await gaps_between() == 1


async def test_the_health_of_the_service_is_known_by_its_name(node: Node) -> None:
    async with agent(node.folder) as one:
        channel = Channel("127.0.0.1", one.port)
        for service in ("", "nri_scope.agent.v1.Agent"):
            answer = await HealthStub(channel).Check(HealthCheckRequest(service=service))
            assert answer.status == HealthCheckResponse.SERVING
        channel.close()


@pytest.mark.exhaustive
async def test_a_folder_that_disappears(node: Node) -> None:
    shutil.copy(RECORDINGS / "demo.nriscope.db", node.folder)
    async with agent(node.folder) as one:
        node.folder.rename(node.folder.with_name("away"))
        async with one.client() as stub:
            with pytest.raises(GRPCError) as caught:
                await stub.get_status(v1.GetStatusRequest())
        assert caught.value.status is Status.FAILED_PRECONDITION
        assert "no such file" in (caught.value.message or "").lower()
        with pytest.raises(GRPCError):
            await one.events(v1.GetEventsRequest())
        node.folder.with_name("away").rename(node.folder)
        assert len(keys(await one.events(v1.GetEventsRequest()))) == DEMO_EVENTS


@pytest.mark.exhaustive
async def test_a_resumed_call_knows_the_secrets_of_earlier_events(node: Node) -> None:
    secret = "correct-hoqrse-7-battery"
    async with agent(node.folder) as one, node.recorder("a"):
        await node.create(env=f"DB_PASSWORD={secret}")
        found = await until_caught_up(one, v1.GetEventsRequest(follow=True), events=2)
        cursor = next(each.cursor for each in reversed(found) if each.cursor)
        # The next container of the same pod.
        await node.create()
        await node.create(args=("serve", "--greet", f"hello {secret}"))
        request = v1.GetEventsRequest(follow=True, after=cursor)
        for query in (request, v1.GetEventsRequest(after=cursor, context=True)):
            again = await until_caught_up(one, query, events=2)
            _, event = (each.event for each in again if each.event is not None)
            assert b"hello " in event.request
            assert secret.encode() not in event.request


async def test_a_bundle_is_that_of_export(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    shutil.copy(RECORDINGS / "demo.nriscope.db", folder)
    where, since = f"pod:{CHECKOUT}", "2026-12-01T11:52:29Z"
    request = v1.GetRecordingRequest(where=where, since=since)
    local = tmp_path / "local.nriscope.zip"
    source = folder / "demo.nriscope.db"
    arguments = ("export", source, "-o", local, "--where", where, "--since", since)
    async with running(*arguments) as process:
        assert (await process.wait_for_exit())[0] == 0
    async with agent(folder, "--unredacted") as plain, agent(folder) as redacting:
        for one, path in ((plain, tmp_path / "a.zip"), (redacting, tmp_path / "b.nriscope.zip")):
            async with one.client() as stub:
                pieces = [piece async for piece in stub.get_recording(request)]
            assert {piece.recording for piece in pieces} == {"demo"}
            path.write_bytes(b"".join(piece.data for piece in pieces))
        async with plain.client() as stub:
            with pytest.raises(GRPCError) as caught:
                async for _ in stub.get_recording(v1.GetRecordingRequest(where="pod:none")):
                    pass
        assert caught.value.status is Status.NOT_FOUND
    assert (tmp_path / "a.zip").read_bytes() == local.read_bytes()
    with Recording.open(local) as whole, Recording.open(tmp_path / "b.nriscope.zip") as redacted:
        assert [event.id for event in whole.events()] == [event.id for event in redacted.events()]
        assert any(REDACTED in note.text for note in redacted.notes())
