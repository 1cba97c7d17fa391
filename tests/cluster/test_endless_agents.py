# SPDX-License-Identifier: Apache-2.0
"""Agents that send bundles, heartbeats or names without end."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.cluster import agent_client, local_copy
from nri_scope.cluster.agent_pods import agent_pods
from nri_scope.cluster.kubectl import Kubectl
from nri_scope.errors import RemoteProtocolError
from tests.cluster.fake_agent import CAUGHT_UP, Agent, add_all, cluster, serving
from tests.cluster.fake_kubectl import agent_pod, install, pod
from tests.cluster.plugin_command import KUBECTL, run


@asynccontextmanager
async def calling(
    folder: Path, monkeypatch: pytest.MonkeyPatch, agent: v1.AgentBase
) -> AsyncIterator[agent_client.AgentClient]:
    """Provide a client of an agent."""
    async with serving(agent) as port, cluster(folder, port) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        found = await agent_pods(Kubectl())
        yield agent_client.AgentClient(Kubectl(), found["node"])


async def test_an_agent_that_only_reads_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_client, "READING_S", 0.0)
    heartbeat, said = v1.GetEventsResponse(heartbeat=v1.Heartbeat()), list[str]()
    answers = (heartbeat, heartbeat, CAUGHT_UP, CAUGHT_UP, heartbeat)
    async with calling(tmp_path, monkeypatch, Agent(*answers)) as client:
        responses = client.events(v1.GetEventsRequest(), said.append)
        assert len([response async for response in responses]) == len(answers)
    assert said == ["node: its agent is still reading its recordings"] * 2


async def test_a_call_that_follows_never_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = list[str]()
    async with calling(tmp_path, monkeypatch, Agent(CAUGHT_UP)) as client:
        responses = client.events(v1.GetEventsRequest(follow=True), said.append)
        async with aclosing(responses):
            for _ in range(3):
                assert await anext(responses) == CAUGHT_UP
    assert said == ["node: its agent ended the call; connecting again", ""]


class Bundles(v1.AgentBase):
    """An agent that sends bundles of these names."""

    def __init__(self, *names: str) -> None:
        self._names = names

    async def get_recording(
        self, message: v1.GetRecordingRequest
    ) -> AsyncIterator[v1.GetRecordingResponse]:
        for name in self._names:
            yield v1.GetRecordingResponse(recording=name, data=b"x")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "names", [("a", "b", "a"), ("../a",), tuple(map(str, range(65))), ("a/b",)]
)
async def test_wrong_bundles_do_not_end_collect(tmp_path: Path, names: tuple[str, ...]) -> None:
    output = tmp_path / "out"
    options = ("-l", "app=web", "-o", str(output))
    async with serving(Bundles(*names)) as bad, serving(Bundles("a")) as good:
        pods = [agent_pod("bad"), agent_pod("good")]
        pods += [pod("shop", name, name, app="web") for name in ("bad", "good")]
        ports = {"nri-scope-bad": bad, "nri-scope-good": good}
        environment = install(tmp_path / "bin", {"pods": pods, "ports": ports})
        done = await run(KUBECTL, "collect", *options, environment=environment)
    assert "bad: not collected: it sends bundles that no agent sends" in done.errors
    assert [path.name for path in output.iterdir()] == ["good-a.nriscope.zip"]
    assert done.status == 1


@pytest.mark.parametrize("field", ["pod", "namespace", "pod_id", "method", "service"])
def test_long_names_are_refused(tmp_path: Path, field: str) -> None:
    event = v1.Event(recording="r", id=1, session=1)
    setattr(event, field, "x" * 100_000)
    with pytest.raises(RemoteProtocolError, match=f"{field} has more than 65,536 characters"):
        add_all(tmp_path, [v1.GetEventsResponse(event=event)])


NAMES_ONLY: dict[str, Callable[[int], Any]] = {
    "event": lambda number: v1.Event(recording="r", id=number, session=1, pod=f"{number:60000}"),
    "session": lambda number: v1.Session(
        recording="r", id=number, role="logger", plugin_name=f"{number:60000}"
    ),
    "session_end": lambda number: v1.SessionEnd(recording="r", id=number, reason="x" * 60_000),
}


@pytest.mark.parametrize("kind", NAMES_ONLY)
def test_names_are_counted_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(local_copy, "COPY_MAX", 30 << 20)
    every = (v1.GetEventsResponse(**{kind: NAMES_ONLY[kind](number)}) for number in count(2))
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="it sent more than"):
            add_all(tmp_path, every)
        # But for sessions, which are needed later.
        assert kind == "session" or tracemalloc.get_traced_memory()[1] < 15 << 20
    finally:
        tracemalloc.stop()


def test_sessions_have_a_maximum_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_copy, "SESSIONS_BYTES_MAX", 1 << 20)
    every = (v1.GetEventsResponse(session=NAMES_ONLY["session"](number)) for number in count(2))
    problem = "more than 1,000,000 sessions or 1 MiB of session data"
    with pytest.raises(RemoteProtocolError, match=problem):
        add_all(tmp_path, every)
    following = next(every).session
    assert following is not None and following.id == 20
