# SPDX-License-Identifier: Apache-2.0
"""What a redacting agent sends against `export --redact` with the same key."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from grpclib.testing import ChannelFor
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.agent import service
from nri_scope.agent.event_reader import EventReader
from nri_scope.agent.node_recordings import NodeRecordings
from nri_scope.agent.recorder_status import RecorderStatus
from nri_scope.agent.selected_parts import EventQuery
from nri_scope.agent.service import AgentService
from nri_scope.events import CapturedCall
from nri_scope.filter import parse
from nri_scope.recording.node_files import NUMBERS
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.bundle import BundleContent, export
from nri_scope.share.extract import Selection
from nri_scope.share.redaction import Redactor, Rules
from tests.agent.secret_creations import SECRET, a_creation
from tests.amount import amount
from tests.cli.running import PATIENCE
from tests.in_memory import MEMORY
from tests.recording.traffic import record

KEY = b"k" * 32
Message = tuple[int, bytes, bytes]
NewRedactor = Callable[[], Redactor]


def new_redactor() -> Redactor:
    return Redactor(Rules(), KEY)


def responses(
    folder: Path, redact: NewRedactor | None, pod: str = ""
) -> list[v1.GetEventsResponse]:
    query = EventQuery(where=parse(f"pod:{pod}") if pod else None)
    reader = EventReader(NodeRecordings(folder), query, redact)
    found: list[v1.GetEventsResponse] = []
    while True:
        batch, is_all = reader.batch()
        found += batch
        if is_all:
            reader.close()
            return found


def sent(folder: Path, redact: NewRedactor, pod: str = "") -> list[Message]:
    events = [one.event for one in responses(folder, redact, pod) if one.event is not None]
    return [(event.id % NUMBERS, event.request, event.reply) for event in events]


def exported(path: Path, folder: Path, pod: str = "") -> list[Message]:
    output = folder / "exported.nriscope.zip"
    selection = Selection(where=parse(f"pod:{pod}") if pod else None)
    with Recording.open(path) as recording:
        export(
            recording,
            output,
            BundleContent(selection, Redactor(Rules(), KEY)),
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


Creations = list[tuple[str, list[str], tuple[str, ...]]]


@pytest.mark.exhaustive
@given(CREATIONS, st.sampled_from(("", *PODS)))
@settings(deadline=None, max_examples=amount(40, 40))
def test_what_is_sent_is_what_an_export_would_contain(creations: Creations, pod: str) -> None:
    with node([a_creation(*one, at=at) for at, one in enumerate(creations)]) as (folder, path):
        if not pod or any(creation[0] == pod for creation in creations):
            assert sent(folder, new_redactor, pod) == exported(path, folder, pod)


@pytest.mark.parametrize("after", [0, 10**12])
def test_a_recording_in_the_place_of_another_one(after: int) -> None:
    new = [
        a_creation("web", ["A=1"], ("serve", f"hello {SECRET}"), at=after + 1),
        a_creation("web", [f"DB_PASSWORD={SECRET}"], at=after + 2),
        *(a_creation("web", ["A=1"], at=after + 2 * at) for at in range(2, 12)),
    ]
    with (
        node([a_creation("web", ["A=1"], at=at) for at in range(10)]) as (folder, path),
        node(new) as (_, other),
    ):
        assert len(sent(folder, new_redactor)) == 10
        inode = path.stat().st_ino
        path.write_bytes(other.read_bytes())
        assert path.stat().st_ino == inode
        assert sent(folder, new_redactor) == exported(other, folder)


@asynccontextmanager
async def served(folder: Path, redact: NewRedactor | None) -> AsyncIterator[v1.AgentStub]:
    recordings = NodeRecordings(folder)
    answering = AgentService(recordings, redact, RecorderStatus(recordings, "n", None))
    async with ChannelFor([answering]) as channel:
        yield v1.AgentStub(channel)


async def test_a_bundle_that_takes_long_has_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "HEARTBEAT_S", 0.01)
    may_go_on = threading.Event()

    def wait_and_export(*arguments: Any, **more: Any) -> Any:
        assert may_go_on.wait(PATIENCE)
        return export(*arguments, **more)

    monkeypatch.setattr(service, "export", wait_and_export)
    with node([a_creation("web", ["A=1"])]) as (folder, _):
        async with served(folder, new_redactor) as stub:
            pieces = stub.get_recording(v1.GetRecordingRequest())
            for _ in range(3):
                assert await anext(pieces) == v1.GetRecordingResponse(recording="a")
            may_go_on.set()
            data = b"".join([piece.data async for piece in pieces])
        (folder / "got.nriscope.zip").write_bytes(data)
        with Recording.open(folder / "got.nriscope.zip") as got:
            assert len(list(got.events())) == 1


async def test_bundles_of_concurrent_calls_count_their_own_values() -> None:
    items = [a_creation("web", [f"DB_PASSWORD={SECRET}"], at=at) for at in range(40)]
    with node(items) as (folder, _):
        async with served(folder, new_redactor) as stub:

            async def counted() -> int:
                pieces = stub.get_recording(v1.GetRecordingRequest())
                data = b"".join([piece.data async for piece in pieces])
                with zipfile.ZipFile(io.BytesIO(data)) as bundle:
                    manifest = json.loads(bundle.read("manifest.json"))
                return sum(one["values"] for one in manifest["redaction"]["replaced"])

            counts = await asyncio.gather(counted(), counted(), counted())
    assert counts[0] > 0
    assert len(set(counts)) == 1
