# SPDX-License-Identifier: Apache-2.0
"""Whatever listens on an agent's port, a command ends with one clear line, within bounds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.cluster import local_copy
from nri_scope.cluster.local_copy import LocalCopy
from nri_scope.errors import RemoteProtocolError
from nri_scope.events import KILLED
from nri_scope.recorder.complete_recording import complete_recording
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.tap_tables import printed
from tests.amount import amount
from tests.cluster.fake_agent import CAUGHT_UP, SESSION, Agent, add_all, cluster, serving
from tests.cluster.plugin_command import KUBECTL, Done, run

ESCAPES = "\x1b[31mred\x1b]0;title\x07\r\n"
HUGE = 2**63 - 1


async def ask(folder: Path, agent: v1.AgentBase, *command: str) -> Done:
    """Run a command against an agent."""
    async with serving(agent) as port, cluster(folder, port) as environment:
        return await run(KUBECTL, *command, environment=environment)


def assert_one_line(done: Done, line: str) -> None:
    assert line in done.errors and done.errors.count("\n") == 1, done.errors
    assert "\x1b" not in done.errors
    assert (done.status, done.output) == (2, "")


@pytest.mark.parametrize(
    ("answers", "line"),
    [
        (
            [GRPCError(Status.UNIMPLEMENTED)],
            "node: its agent does not know this call; use the same version",
        ),
        ([GRPCError(Status.INVALID_ARGUMENT, ESCAPES)], "node: \\x1b[31mred\\x1b]0;title\\x07"),
        ([GRPCError(Status.UNAVAILABLE)], "node: unavailable"),
        ([GRPCError(Status.RESOURCE_EXHAUSTED, "more than 64 streams")], "more than 64 streams"),
        (
            [v1.GetEventsResponse(event=v1.Event(request=bytes(17 << 20)))],
            "16,777,216 are possible",
        ),
        ([v1.GetEventsResponse(event=v1.Event(session=1))], "session 1 was not described"),
        (
            [v1.GetEventsResponse(session=v1.Session(role=ESCAPES))],
            "role '\\x1b[31mred\\x1b]0;title\\x07\\r\\n' is unknown",
        ),
        ([], "the recordings of node have no events about shop/web"),
        ([CAUGHT_UP], "the recordings of node have no events about shop/web"),
    ],
)
async def test_events(tmp_path: Path, answers: list[Any], line: str) -> None:
    assert_one_line(await ask(tmp_path, Agent(*answers), "log", "shop/web"), line)


BROKEN = (
    v1.GetEventsResponse(session=SESSION),
    v1.GetEventsResponse(
        event=v1.Event(recording="r", id=1, session=1, method="StateChange", at_ns=1)
    ),
    CAUGHT_UP,
    GRPCError(Status.INTERNAL, "broken"),
)


async def test_a_copy_that_followed_is_kept_after_an_error(tmp_path: Path) -> None:
    copy = tmp_path / "copy.nriscope.db"
    done = await ask(tmp_path, Agent(*BROKEN), "pull", "shop/web", "-f", "-o", str(copy))
    assert_one_line(done, "node: broken")
    with Recording.open(copy) as recording:
        assert len(list(recording.events())) == 1


async def test_a_copy_that_is_incomplete_is_removed(tmp_path: Path) -> None:
    copy = tmp_path / "copy.nriscope.db"
    done = await ask(tmp_path, Agent(*BROKEN), "pull", "shop/web", "-o", str(copy))
    assert_one_line(done, "node: broken")
    assert not copy.exists()


async def test_log_ends_when_the_agent_breaks(tmp_path: Path) -> None:
    done = await ask(tmp_path, Agent(*BROKEN), "log", "shop/web", "-f")
    assert (done.status, done.errors) == (2, "nri-scope: node: broken\n")


class Interrupted(v1.AgentBase):
    """An agent whose first two calls are interrupted: before and after it caught up."""

    def __init__(self) -> None:
        self.after: list[str] = []

    async def get_events(self, message: v1.GetEventsRequest) -> AsyncIterator[v1.GetEventsResponse]:
        self.after.append(message.after)
        call = len(self.after)
        yield v1.GetEventsResponse(session=SESSION, cursor="r:0:0")
        for number in (1, 2) if call < 3 else (3,):
            event = v1.Event(recording="r", id=number, session=1, method="StateChange", at_ns=1)
            yield v1.GetEventsResponse(event=event, cursor=f"r:{number}:1")
            if call == 1:
                raise GRPCError(Status.UNAVAILABLE)
        yield replace(CAUGHT_UP, cursor="r:2:1")
        if call < 3:
            raise GRPCError(Status.UNAVAILABLE)


@pytest.mark.parametrize("what", [("shop/web",), ("--node", "node")])
async def test_context_is_sent_again_until_it_is_complete(
    tmp_path: Path, what: tuple[str, ...]
) -> None:
    copy, agent = tmp_path / "copy.nriscope.db", Interrupted()
    done = await ask(tmp_path, agent, "pull", *what, "-o", str(copy))
    assert done.status == 0, done.errors
    assert agent.after == ["", "" if what[0] == "shop/web" else "r:1:1", "r:2:1"]
    with Recording.open(copy) as recording:
        assert [event.id for event in recording.events()] == [1, 2, 3]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (GRPCError(Status.UNIMPLEMENTED), "its agent does not know this call"),
        (v1.GetStatusResponse(version="x" * (5 << 20)), "4,194,304 are possible"),
    ],
)
async def test_a_status_that_is_none(tmp_path: Path, answer: Any, problem: str) -> None:
    done = await ask(tmp_path, Agent(answer), "status", "--format", "json")
    assert problem in json.loads(done.output)["nodes"][0]["problem"]
    assert (done.status, done.errors) == (1, "")


@pytest.mark.parametrize("number", [HUGE, -HUGE - 1])
async def test_wrong_numbers_and_escapes_of_a_status(tmp_path: Path, number: int) -> None:
    numbers: Any = dict.fromkeys(("oldest_ns", "newest_ns", "events", "gaps", "lost"), number)
    one = v1.RecordingStatus(
        recording=ESCAPES,
        recording_now=True,
        connected=True,
        session=v1.Session(started_ns=number, runtime_name=ESCAPES, nri_version=ESCAPES),
        plugins=[ESCAPES],
        **numbers,
    )
    status = v1.GetStatusResponse(recordings=[one, one], recorded_bytes=number, free_bytes=number)
    for options in ((), ("--format", "json")):
        done = await ask(tmp_path, Agent(status), "status", *options)
        assert (done.status, done.errors) == (1, "")
        assert "red" in done.output and "\x1b" not in done.output


async def unspoken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def http1(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()
    writer.close()


async def noise(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(bytes(range(256)) * 1000)
    await writer.drain()
    writer.close()


@pytest.mark.exhaustive
@pytest.mark.parametrize("speak", [unspoken, http1, noise])
@pytest.mark.parametrize("command", ["log", "status"])
async def test_no_agent_listens(
    tmp_path: Path,
    speak: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    command: str,
) -> None:
    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server, cluster(tmp_path, server.sockets[0].getsockname()[1]) as environment:
        if command == "log":
            assert_one_line(await run(KUBECTL, "log", "shop/web", environment=environment), "node:")
        else:
            done = await run(KUBECTL, "status", environment=environment)
            assert (done.status, done.errors) == (1, "")


# -- what a copy takes --------------------------------------------------------------------------

NUMBERS = st.sampled_from([0, 1, 2, -1, HUGE, -HUGE - 1]) | st.integers(-HUGE - 1, HUGE)
TEXTS = st.sampled_from(["", "r", "logger", "tap", "CreateContainer", ESCAPES]) | st.text()
DATA = st.binary(max_size=64)
RESPONSES = st.one_of(
    st.builds(
        v1.Session,
        recording=TEXTS,
        id=NUMBERS,
        role=st.sampled_from(["logger", "tap", "x"]),
        mask=NUMBERS,
        started_ns=NUMBERS,
        request_timeout_ms=NUMBERS,
        runtime_name=TEXTS,
        plugin_index=TEXTS,
        recording_began_ns=NUMBERS,
    ).map(lambda build: v1.GetEventsResponse(session=build)),
    st.builds(v1.SessionEnd, recording=TEXTS, id=NUMBERS, reason=TEXTS, ended_ns=NUMBERS).map(
        lambda build: v1.GetEventsResponse(session_end=build)
    ),
    st.builds(
        v1.Event,
        recording=TEXTS,
        id=NUMBERS,
        session=NUMBERS,
        at_ns=NUMBERS,
        mono_ns=NUMBERS,
        method=TEXTS,
        event=TEXTS,
        namespace=TEXTS,
        pod_id=TEXTS,
        container_id=TEXTS,
        took_ns=NUMBERS,
        timeout_ns=NUMBERS,
        status_code=NUMBERS,
        status_message=TEXTS,
        request=DATA,
        reply=DATA,
        size=NUMBERS,
        service=TEXTS,
        held_ns=st.none() | NUMBERS,
        metadata=st.lists(st.builds(v1.Metadata, key=TEXTS, value=TEXTS), max_size=2),
    ).map(lambda build: v1.GetEventsResponse(event=build)),
    st.builds(
        v1.Gap,
        recording=TEXTS,
        session=st.none() | NUMBERS,
        from_ns=NUMBERS,
        to_ns=NUMBERS,
        reason=TEXTS,
        lost=st.none() | NUMBERS,
    ).map(lambda build: v1.GetEventsResponse(gap=build)),
    st.builds(v1.Note, recording=TEXTS, session=st.none() | NUMBERS, at_ns=NUMBERS, text=TEXTS).map(
        lambda build: v1.GetEventsResponse(note=build)
    ),
    st.builds(
        v1.PluginOutput,
        recording=TEXTS,
        session=NUMBERS,
        at_ns=NUMBERS,
        stream=TEXTS,
        text=TEXTS,
        id=NUMBERS,
    ).map(lambda build: v1.GetEventsResponse(output=build)),
)


@settings(deadline=None, max_examples=amount(200, 200))
@given(responses=st.lists(RESPONSES, max_size=12))
def test_any_response_is_written_or_refused(
    tmp_path_factory: pytest.TempPathFactory, responses: list[v1.GetEventsResponse]
) -> None:
    path = tmp_path_factory.mktemp("copy") / "copy.nriscope.db"
    with complete_recording(path) as recording:
        copy = LocalCopy(recording)
        copy.add(v1.GetEventsResponse(session=SESSION))
        for response in responses:
            if response.event is not None and response.event.session == 1:
                response.event.recording = "r"
            with suppress(RemoteProtocolError):
                copy.add(response)
    with Recording.open(path) as recording:
        assert len(list(recording.events())) == copy.events
        assert len(recording.sessions()) >= 1
        # Reading them must not fail.
        recording.gaps()
        recording.notes()


def test_a_session_goes_on_after_the_recorder_was_replaced(tmp_path: Path) -> None:
    def event(number: int) -> v1.GetEventsResponse:
        one = v1.Event(recording="r", id=number, session=1, method="StateChange", at_ns=number)
        return v1.GetEventsResponse(event=one)

    end = v1.SessionEnd(recording="r", id=1, reason=KILLED)
    with complete_recording(tmp_path / "copy.nriscope.db") as writing:
        copy = LocalCopy(writing)
        for response in (
            v1.GetEventsResponse(session=SESSION),
            *(event(1), event(2), v1.GetEventsResponse(session_end=end)),
            *(event(3), v1.GetEventsResponse(session_end=end)),
        ):
            copy.add(response)
    with Recording.open(tmp_path / "copy.nriscope.db") as recording:
        assert [(one.session, one.seq) for one in recording.events()] == [(1, 1), (1, 2), (1, 3)]
        (session,) = recording.sessions()
        assert session.end_reason == KILLED


def test_equal_lines_are_written_as_often_as_they_were_printed(tmp_path: Path) -> None:
    lines = [
        v1.PluginOutput(recording="r", session=1, at_ns=5, stream="stdout", text="again", id=number)
        for number in (1, 2, 3, 2, 3)
    ]
    add_all(tmp_path, (v1.GetEventsResponse(output=line) for line in lines))
    with Recording.open(tmp_path / "copy.nriscope.db") as recording:
        assert [line.text for line in printed(recording)] == ["again"] * 3


def test_a_recording_that_replaces_another_of_the_same_name_is_copied(tmp_path: Path) -> None:
    def recorded(began_ns: int) -> Iterable[v1.GetEventsResponse]:
        session = replace(SESSION, recording_began_ns=began_ns, started_ns=began_ns)
        yield v1.GetEventsResponse(session=session)
        for number in (1, 2):
            at_ns = began_ns + number
            event = v1.Event(recording="r", id=number, session=1, method="X", at_ns=at_ns)
            yield v1.GetEventsResponse(event=event)

    first, second = [*recorded(10)], [*recorded(20)]
    # The second is sent again after an interruption.
    add_all(tmp_path, (*first, *second, *second))
    with Recording.open(tmp_path / "copy.nriscope.db") as recording:
        found = [(event.at_ns, event.session) for event in recording.events()]
        assert [session.started_ns for session in recording.sessions()] == [1, 10, 20]
    assert found == [(11, 2), (12, 2), (21, 3), (22, 3)]


def test_content_of_a_newer_agent_is_ignored(tmp_path: Path) -> None:
    unknown = b"\xfa\x06\x01x"
    with complete_recording(tmp_path / "copy.nriscope.db") as recording:
        copy = LocalCopy(recording)
        copy.add(v1.GetEventsResponse.parse(unknown))
        copy.add(v1.GetEventsResponse.parse(bytes(v1.GetEventsResponse(session=SESSION)) + unknown))
    with Recording.open(tmp_path / "copy.nriscope.db") as recording:
        assert len(recording.sessions()) == 1


ENDLESS: dict[str, Callable[[int], Any]] = {
    "gap": lambda number: v1.Gap(recording="r", from_ns=number, to_ns=number),
    "note": lambda number: v1.Note(recording="r", at_ns=number, text="x"),
    "output": lambda number: v1.PluginOutput(recording="r", session=1, at_ns=number, text="x"),
    "session": lambda number: v1.Session(recording="r", id=number, role="logger"),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_endless_streams_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(local_copy, "ITEMS_MAX", 100)
    every = (v1.GetEventsResponse(**{kind: ENDLESS[kind](number)}) for number in count(2))
    with pytest.raises(RemoteProtocolError):
        add_all(tmp_path, every)


def test_a_copy_has_a_maximum_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_copy, "COPY_MAX", 1 << 20)
    events = (v1.Event(recording="r", id=at, session=1, request=bytes(10**5)) for at in count(1))
    with pytest.raises(RemoteProtocolError, match="it sent more than"):
        add_all(tmp_path, (v1.GetEventsResponse(event=event) for event in events))
