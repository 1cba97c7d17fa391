# SPDX-License-Identifier: Apache-2.0
"""What a redacting agent sends against `export --redact` with the same key."""

from __future__ import annotations

import asyncio
import io
import json
import random
import threading
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from grpclib.testing import ChannelFor
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.agent import service
from nri_scope.agent.event_reader import EventReader
from nri_scope.agent.node_recordings import NodeRecordings
from nri_scope.agent.recorder_status import RecorderStatus
from nri_scope.agent.redactors import LIMITS, FairLock, NodeRedactors
from nri_scope.agent.selected_parts import EventQuery
from nri_scope.agent.service import AgentService
from nri_scope.errors import RecordingError
from nri_scope.events import CapturedCall
from nri_scope.filter import parse
from nri_scope.recorder.writer import WriterLimits
from nri_scope.recording.reader import Recording
from nri_scope.share.bundle import export
from nri_scope.share.extract import Selection
from nri_scope.share.redaction import Redactor, Rules
from tests.amount import amount
from tests.cli.running import PATIENCE
from tests.in_memory import MEMORY
from tests.recording.traffic import NOW, an_item, record

KEY = b"k" * 32
SECRET = "correct-horse-7-battery"
Message = tuple[int, bytes, bytes]


def new_redactor(values: int = LIMITS.values) -> Redactor:
    return Redactor(Rules(), KEY, memory=replace(LIMITS, values=values))


def a_creation(pod: str, env: list[str], args: tuple[str, ...] = (), at: int = 0) -> CapturedCall:
    request = api.CreateContainerRequest(
        pod=api.PodSandbox(id=pod, namespace="shop", name=pod),
        container=api.Container(
            id=f"c-{pod}-{at}", pod_sandbox_id=pod, name="app", env=env, args=args
        ),
    )
    return an_item("CreateContainer", request, b"\n\x00", wall_ns=NOW + at)


def responses(
    folder: Path, redactors: NodeRedactors | None, pod: str = ""
) -> list[v1.GetEventsResponse]:
    query = EventQuery(where=parse(f"pod:{pod}") if pod else None)
    reader = EventReader(NodeRecordings(folder), query, redactors)
    found: list[v1.GetEventsResponse] = []
    while True:
        batch, is_all = reader.batch()
        found += batch
        if is_all:
            reader.close()
            return found


def sent(folder: Path, redactors: NodeRedactors, pod: str = "") -> list[Message]:
    events = [one.event for one in responses(folder, redactors, pod) if one.event is not None]
    return [(one.id, one.request, one.reply) for one in events]


def exported(path: Path, folder: Path, pod: str = "") -> list[Message]:
    output = folder / "exported.nriscope.zip"
    selection = Selection(where=parse(f"pod:{pod}") if pod else None)
    with Recording.open(path) as recording:
        export(
            recording,
            output,
            selection,
            redactor=Redactor(Rules(), KEY),
            force=True,
            max_bytes=1 << 30,
        )
    with Recording.open(output) as recording:
        return [
            (event.id, request, reply)
            for event, request, reply in recording.exchanges()
            if not pod or event.pod == pod
        ]


@contextmanager
def node(items: list[CapturedCall]) -> Iterator[tuple[Path, Path]]:
    """Yield the folder of a node, and its only recording."""
    with TemporaryDirectory(dir=MEMORY) as name:
        folder = Path(name)
        path = folder / "a.nriscope.db"
        record(path, items)
        yield folder, path


PODS = ("web", "db", "last")
VALUES = st.sampled_from([SECRET, "hunter22", "a1b2c3d4e5f6", "https://u:pw123456@db.shop/x", "on"])
NAMES = st.sampled_from(["DB_PASSWORD", "MODE", "API_TOKEN", "URL"])
CREATIONS = st.lists(
    st.tuples(
        st.sampled_from(PODS),
        st.lists(st.builds("{}={}".format, NAMES, VALUES), max_size=3),
        st.lists(st.builds("hello {}".format, VALUES), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=60,
)


class _Over(Exception):
    """A call ends early."""


def calls_after(count: int) -> Callable[[], None]:
    """Return a function that raises at a call; it is called for some of the events."""
    left = [count]

    def go_on() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise _Over

    return go_on


Creations = list[tuple[str, list[str], tuple[str, ...]]]


@pytest.mark.exhaustive
@given(CREATIONS, CREATIONS, st.lists(st.integers(0, 4), max_size=4), st.sampled_from(("", *PODS)))
@settings(deadline=None, max_examples=amount(40, 40))
def test_what_is_sent_is_what_an_export_would_contain(
    first: Creations, second: Creations, ends: list[int], pod: str
) -> None:
    """Also after calls that ended early, and after events that were recorded since."""
    redactors = NodeRedactors(new_redactor)
    with node([a_creation(*one, at=at) for at, one in enumerate(first)]) as (folder, path):
        files = NodeRecordings(folder).all()
        for count, end in enumerate(ends):
            if count == 1:
                record(path, [a_creation(*one, at=1000 + at) for at, one in enumerate(second)])
            with suppress(_Over):
                redactors.learn(files, calls_after(end), fail)
        if not pod or any(one[0] == pod for one in first):
            assert sent(folder, redactors, pod) == exported(path, folder, pod)


def fail(error: RecordingError) -> None:
    raise error


class CountingRedactor(Redactor):
    """Counts the events from which it learns."""

    learned = 0

    def learn(self, method: str, request: bytes, reply: bytes, *, service: str = "") -> None:
        CountingRedactor.learned += method == "CreateContainer"
        super().learn(method, request, reply, service=service)


def test_calls_that_end_early_learn_from_each_event_once() -> None:
    CountingRedactor.learned = 0
    redactors = NodeRedactors(lambda: CountingRedactor(Rules(), KEY, memory=LIMITS))
    with node([a_creation("web", [f"A={at}"], at=at) for at in range(200)]) as (folder, path):
        files = NodeRecordings(folder).all()
        for _ in range(5):
            before = CountingRedactor.learned
            with pytest.raises(_Over):
                redactors.learn(files, calls_after(1), fail)
            assert CountingRedactor.learned > before
        assert len(sent(folder, redactors)) == 200
        assert CountingRedactor.learned == 200
        # One event more is one to learn from.
        record(path, [a_creation("web", ["B=1"], at=1000)])
        assert len(sent(folder, redactors)) == 201
        assert CountingRedactor.learned == 201


# -- too many values ----------------------------------------------------------------------------


def test_nothing_is_sent_of_a_recording_with_too_many_values() -> None:
    """The secret is known only from an event after the limit."""
    redactors = NodeRedactors(partial(new_redactor, 30))
    many = [a_creation("web", [f"A{at}={at:032x}"], at=at) for at in range(100)]
    last = [a_creation("last", [f"DB_PASSWORD={SECRET}"], at=200)]
    first = [a_creation("last", ["A=1"], ("serve", f"hello {SECRET}"))]
    with node([*first, *many, *last]) as (folder, _):
        record(folder / "other.nriscope.db", [a_creation("last", ["A=1"])])
        found = responses(folder, redactors, "last")
    assert [one.event.recording for one in found if one.event is not None] == ["other"]
    (reason,) = [one.gap.reason for one in found if one.gap is not None]
    assert "it cannot be redacted, as it has more than 40,000 different values" in reason


def test_a_call_that_follows_says_once_that_it_cannot_redact() -> None:
    redactors = NodeRedactors(partial(new_redactor, 30))
    with node([a_creation("web", ["A=1"])]) as (folder, path):
        reader = EventReader(NodeRecordings(folder), EventQuery(follow=True), redactors)
        found = []
        for begin in range(0, 120, 20):
            batch, is_all = reader.batch()
            while not is_all:
                found += batch
                batch, is_all = reader.batch()
            found += batch
            record(
                path,
                [a_creation("web", [f"A{at}={at:032x}"], at=at) for at in range(begin, begin + 20)],
            )
        reader.close()
    assert len([one for one in found if one.event is not None]) == 21
    assert len([one for one in found if one.gap is not None]) == 1


async def test_bundles_of_other_recordings_are_sent() -> None:
    redactors = NodeRedactors(partial(new_redactor, 30))
    with node([a_creation("web", [f"A{at}={at:032x}"], at=at) for at in range(100)]) as (folder, _):
        record(folder / "other.nriscope.db", [a_creation("web", ["A=1"])])
        async with served(folder, redactors) as stub:
            found = [one async for one in stub.get_recording(v1.GetRecordingRequest())]
    assert {one.recording for one in found if one.data} == {"other"}
    (problem,) = [(one.recording, one.problem) for one in found if one.problem]
    assert problem[0] == "a"
    assert "it cannot be redacted" in problem[1]


@pytest.mark.exhaustive
def test_values_of_events_that_the_ring_removed_do_not_count() -> None:
    redactors = NodeRedactors(partial(new_redactor, 700))
    chance = random.Random(1)
    with TemporaryDirectory(dir=MEMORY) as name:
        path = Path(name, "a.nriscope.db")
        for begin in range(0, 1500, 50):
            values = [chance.randbytes(2_000).hex() for _ in range(50)]
            items = [a_creation("web", [f"A={one}"], at=begin) for one in values]
            record(path, items, limits=WriterLimits(max_size=1 << 20))
            redactors.learn(NodeRecordings(Path(name)).all(), lambda: None, fail)
        with Recording.open(path) as recording:
            assert recording.gaps()
        assert sent(Path(name), redactors)


# -- the same name and inode --------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 10**12])
def test_a_recording_in_the_place_of_another_one(after: int) -> None:
    redactors = NodeRedactors(new_redactor)
    new = [
        a_creation("web", ["A=1"], ("serve", f"hello {SECRET}"), at=after + 1),
        a_creation("web", [f"DB_PASSWORD={SECRET}"], at=after + 2),
        *(a_creation("web", ["A=1"], at=after + 2 * at) for at in range(2, 12)),
    ]
    with (
        node([a_creation("web", ["A=1"], at=at) for at in range(10)]) as (folder, path),
        node(new) as (_, other),
    ):
        assert len(sent(folder, redactors)) == 10
        inode = path.stat().st_ino
        path.write_bytes(other.read_bytes())
        assert path.stat().st_ino == inode
        assert sent(folder, redactors) == exported(other, folder)


# -- concurrent calls ---------------------------------------------------------------------------


def test_a_waiting_call_gets_the_redactor_before_the_other_one_ends() -> None:
    redactors = NodeRedactors(new_redactor)
    has_it = threading.Event()
    with node([a_creation("web", ["A=1"])]) as (folder, path), Recording.open(path) as recording:
        (file,) = NodeRecordings(folder).all()

        def other() -> None:
            with Recording.open(path) as mine, redactors.of(file, mine, lambda: None):
                has_it.set()

        thread = threading.Thread(target=other)
        with redactors.of(file, recording, lambda: None) as known:
            thread.start()
            while not has_it.is_set():
                known.give_way()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_a_thread_that_stops_waiting_does_not_keep_the_lock() -> None:
    lock = FairLock()
    lock.acquire(lambda: None)
    with pytest.raises(_Over):
        lock.acquire(calls_after(0))
    lock.release()
    lock.acquire(calls_after(0))


@asynccontextmanager
async def served(folder: Path, redactors: NodeRedactors | None) -> AsyncIterator[v1.AgentStub]:
    recordings = NodeRecordings(folder)
    answering = AgentService(recordings, redactors, RecorderStatus(recordings, "n", None))
    async with ChannelFor([answering]) as channel:
        yield v1.AgentStub(channel)


async def test_a_bundle_that_takes_long_has_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "HEARTBEAT_S", 0.01)
    redactors = NodeRedactors(new_redactor)
    with node([a_creation("web", ["A=1"])]) as (folder, path), Recording.open(path) as recording:
        (file,) = NodeRecordings(folder).all()
        async with served(folder, redactors) as stub:
            pieces = stub.get_recording(v1.GetRecordingRequest())
            with redactors.of(file, recording, lambda: None):
                for _ in range(3):
                    assert await anext(pieces) == v1.GetRecordingResponse(recording="a")
            data = b"".join([one.data async for one in pieces])
        (folder / "got.nriscope.zip").write_bytes(data)
        with Recording.open(folder / "got.nriscope.zip") as got:
            assert len(list(got.events())) == 1


async def test_bundles_of_concurrent_calls_count_their_own_values() -> None:
    """The redactor is shared, but the manifest of each bundle has its own counts."""
    redactors = NodeRedactors(new_redactor)
    items = [a_creation("web", [f"DB_PASSWORD={SECRET}"], at=at) for at in range(40)]
    with node(items) as (folder, _):
        async with served(folder, redactors) as stub:

            async def counted() -> int:
                pieces = stub.get_recording(v1.GetRecordingRequest())
                data = b"".join([one.data async for one in pieces])
                with zipfile.ZipFile(io.BytesIO(data)) as bundle:
                    manifest = json.loads(bundle.read("manifest.json"))
                return sum(one["values"] for one in manifest["redaction"]["replaced"])

            counts = await asyncio.gather(counted(), counted(), counted())
    assert counts[0] > 0
    assert len(set(counts)) == 1
