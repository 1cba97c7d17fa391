# SPDX-License-Identifier: Apache-2.0
"""GetEvents against the recordings that it reads."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.events import Event
from nri_scope.recording.node_files import NUMBERS
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime import PROFILES, ProfileSetUp
from tests.agent.agent_process import Agent, agent
from tests.amount import sampled
from tests.cli.container_events import create
from tests.cli.running import PATIENCE, running
from tests.demo_recording import DEMO_EVENTS
from tests.recording.traffic import an_item, record
from tests.runtime_emulation.runtime import Runtime
from tests.sample_names import CHECKOUT, NAMESPACE

RECORDINGS = Path(__file__).parents[2] / "recordings"
NAMES = ("containerd-2.1", "demo")
Key = tuple[str, int]
SECOND = 1796125950 * 10**9
"""2026-12-01T11:52:30Z, in the recording ``demo``."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "node"
    path.mkdir()
    for name in NAMES:
        shutil.copy(RECORDINGS / f"{name}.nriscope.db", path)
    return path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Agent]:
    """An agent that serves both recordings."""
    path = tmp_path_factory.mktemp("node")
    for name in NAMES:
        shutil.copy(RECORDINGS / f"{name}.nriscope.db", path)
    async with agent(path) as running_agent:
        yield running_agent


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def demo(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Agent]:
    """An agent that serves one recording."""
    path = tmp_path_factory.mktemp("demo")
    shutil.copy(RECORDINGS / "demo.nriscope.db", path)
    async with agent(path) as running_agent:
        yield running_agent


def key(response: v1.GetEventsResponse) -> Key | None:
    event = response.event
    return None if event is None else (event.recording, event.id)


async def test_events_are_those_of_the_recordings(folder: Path) -> None:
    async with agent(folder, "--unredacted") as running_agent:
        responses = await running_agent.events(v1.GetEventsRequest())

    sent = [response.event for response in responses if response.event is not None]
    found = []
    for name in NAMES:
        with Recording.open(RECORDINGS / f"{name}.nriscope.db") as recording:
            found += [(name, *exchange) for exchange in recording.exchanges()]
    assert [(one.recording, one.id, one.request, one.reply) for one in sent] == [
        (name, NAMES.index(name) * NUMBERS + event.id, request, reply)
        for name, event, request, reply in found
    ]
    assert [(one.at_ns, one.event, one.pod, one.container, one.status_code) for one in sent] == [
        (event.at_ns, event.event, event.pod, event.container, event.status_code)
        for _, event, _, _ in found
    ]
    times = [one.at_ns for one in sent]
    assert times == sorted(times)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "query",
    sampled(
        [
            {},
            {"where": f"pod:{CHECKOUT}"},
            {"where": "event:StartContainer"},
            {"where": "event:StartContainer", "context": True},
            {"where": f"pod:{CHECKOUT}", "since": "+100ms", "context": True},
            {"last": 100},
            {"last": 20, "where": "event:CreateContainer"},
        ],
        3,
    ),
    ids=str,
)
async def test_a_call_resumes_after_any_event_without_loss_or_repetition(
    served: Agent, query: dict[str, Any]
) -> None:
    everything = await served.events(v1.GetEventsRequest(**query))
    events = [one for one in everything if one.event is not None]
    assert len(events) > 5
    for at in (*range(0, len(events), 1 + len(events) // 5), len(events) - 1):
        request = v1.GetEventsRequest(**query, after=events[at].cursor)
        rest = [key(one) for one in await served.events(request) if key(one)]
        # The order of events of several recordings may differ.
        assert sorted(filter(None, rest)) == sorted(
            filter(None, (key(event) for event in events[at + 1 :]))
        )
        for name in NAMES:
            numbers = [one[1] for one in rest if one is not None and one[0] == name]
            assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("query", "selection"),
    [
        ({"since": "2026-12-01T11:52:30Z"}, lambda event: event.at_ns >= SECOND),
        ({"until": "2026-12-01T11:52:30Z"}, lambda event: event.at_ns < SECOND),
        ({"where": "time:>=2026-12-01T11:52:30Z"}, lambda event: event.at_ns >= SECOND),
        ({"where": "time:<2026-12-01T11:52:30Z ns:payments-prod"}, lambda event: (
            event.at_ns < SECOND and event.namespace == NAMESPACE
        )),
        ({"since": "2026-12-01T11:52:30Z", "last": 3}, None),
        ({"where": "status:timeout"}, lambda event: event.status == "timeout"),
    ],
)  # fmt: skip
async def test_selections_are_those_of_log(
    demo: Agent, query: dict[str, Any], selection: Callable[[Event], bool] | None
) -> None:
    with Recording.open(RECORDINGS / "demo.nriscope.db") as recording:
        events = list(recording.events())
        if selection is None:
            expected = [event.id for event in events if event.at_ns >= SECOND][-3:]
        else:
            expected = [event.id for event in events if selection(event)]
    found = await demo.events(v1.GetEventsRequest(**query))
    assert 0 < len(expected) < len(events)
    assert [one.event.id for one in found if one.event is not None] == expected


async def test_last_counts_the_events_of_all_recordings(served: Agent) -> None:
    every = [key(one) for one in await served.events(v1.GetEventsRequest()) if key(one)]
    for last in (1, DEMO_EVENTS, DEMO_EVENTS + 1, 500):
        some = await served.events(v1.GetEventsRequest(last=last))
        assert [key(one) for one in some if key(one)] == every[-last:]


async def test_events_are_redacted_unless_the_agent_may_send_them(tmp_path: Path) -> None:
    secret = "hunter2-correct-horse"
    folder = tmp_path / "node"
    folder.mkdir()
    async with Runtime(ProfileSetUp(PROFILES["containerd-2.1"])) as runtime:
        await runtime.listen(tmp_path / "nri.sock")
        output = folder / "new.nriscope.db"
        async with running("record", "--socket", tmp_path / "nri.sock", "-o", output) as recorder:
            await runtime.wait_plugins(1)
            await create(runtime, f"PASSWORD={secret}")
            async with agent(folder) as redacting, agent(folder, "--unredacted") as other:
                request = v1.GetEventsRequest(follow=True)
                async with asyncio.timeout(PATIENCE):
                    redacted = await until_stopped(redacting, request, runtime, secret)
                    plain = await until_stopped(other, request, runtime, secret)
            await recorder.interrupt()
    # Recorded before and after the call began.
    assert sum(secret.encode() in one.request for one in plain) >= 2
    assert len(redacted) >= 2
    assert not any(secret.encode() in one.request for one in redacted)


@pytest.mark.exhaustive
async def test_metadata_is_sent_and_redacted(tmp_path: Path) -> None:
    secret = "hunter2-correct-horse"
    parent = ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    metadata = (parent, ("authorization", secret))
    items = [an_item()._replace(metadata=metadata, held_ns=held_ns) for held_ns in (None, 7)]
    folder = tmp_path / "node"
    folder.mkdir()
    for options in ((), ("--unredacted",)):
        path = folder / f"new{len(options)}.nriscope.db"
        record(path, items)
        found: list[v1.Event] = []
        async with agent(folder, *options) as one, one.client() as stub:
            async with asyncio.timeout(PATIENCE):
                async for response in stub.get_events(v1.GetEventsRequest(follow=True)):
                    if response.heartbeat is not None and len(found) == 2:
                        record(path, items)
                    if response.event is not None:
                        found.append(response.event)
                    if len(found) == 4:
                        break
        path.unlink()
        assert [event.held_ns for event in found] == [None, 7] * 2
        for event in found:
            sent = tuple((one.key, one.value) for one in event.metadata)
            assert sent[0] == parent and sent[1][0] == "authorization"
            assert (sent[1][1] == secret) == bool(options)


async def until_stopped(
    one: Agent, request: v1.GetEventsRequest, runtime: Runtime, secret: str
) -> list[v1.Event]:
    """Return the creations that a client follows, until one that happens meanwhile."""
    found: list[v1.Event] = []
    before: int | None = None
    async with one.client() as stub:
        async for response in stub.get_events(request):
            caught_up = response.heartbeat is not None and response.heartbeat.caught_up
            if caught_up and before is None:
                before = len(found)
                await create(runtime, f"TOKEN={secret}")
            if response.event is not None and response.event.event == "CreateContainer":
                found.append(response.event)
                if before is not None and len(found) > before:
                    return found
    raise AssertionError("the call ended")


async def test_status_names_the_runtime_and_shows_that_no_recorder_runs(served: Agent) -> None:
    async with served.client() as stub:
        status = await stub.get_status(v1.GetStatusRequest())
    assert [recording.recording for recording in status.recordings] == list(NAMES)
    assert [recording.events for recording in status.recordings] == [32, DEMO_EVENTS]
    first = status.recordings[0]
    assert first.session is not None
    assert first.session.runtime_version == "2.1.9+unknown"
    assert not (first.recording_now or first.connected or first.synchronized)
