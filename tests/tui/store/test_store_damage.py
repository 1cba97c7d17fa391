# SPDX-License-Identifier: Apache-2.0
"""A damaged recording is either shown or rejected with a message."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.errors import RecordingError
from nri_scope.filter import parse
from nri_scope.tui.store.store import Store
from nri_scope.tui.store.view import View
from tests.amount import amount
from tests.in_memory import MEMORY
from tests.recording.recordings import record

_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = record(tmp_path_factory.mktemp("original") / "x.nriscope.db", "00-probe-a", "50-probe-b")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO gap VALUES (1, 1, 2, 3, 'a gap', NULL)")
        connection.commit()
        connection.execute("PRAGMA journal_mode = DELETE")
    return path


async def run_queries(path: Path) -> None:
    """Run all queries of a screen."""
    try:
        store = await Store.open(path)
    except RecordingError:
        return
    try:
        views = [
            store.all,
            *[await store.view(parse(text)) for text in ("event:*", "a", "size:>1")],
        ]
        for view in views:
            await check_view(store, view)
        await store.refresh()
    except RecordingError:
        return
    finally:
        await store.close()


async def check_view(store: Store, view: View) -> None:
    for start in range(0, view.length, 40):
        rows = await store.rows(view, start, 40)
        keys = [view.key_at(start + at) for at in range(len(rows))]
        assert [row.key for row in rows] == keys == sorted(keys)
    assert view.complete
    await store.find(view, "stop", 0)
    await store.find(view, "nosuchtext", view.length - 1, False)


@pytest.mark.exhaustive
@settings(max_examples=amount(60, 60))
@given(
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=8))),
    st.floats(0, 1),
)
def test_recording_with_changed_bytes_is_shown_or_rejected(
    original: Path, patches: list[tuple[float, bytes]], cut: float
) -> None:
    content = bytearray(original.read_bytes())
    for place, patch in patches:
        at = int(place * len(content))
        content[at : at + len(patch)] = patch[: len(content) - at]
    # Truncate only some examples.
    length = len(content) if cut < 0.8 else int(len(content) * cut)
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "x.nriscope.db"
        path.write_bytes(content[:length])
        asyncio.run(asyncio.wait_for(run_queries(path), _TIMEOUT_S))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET id = id * 1000000000000",
        "UPDATE event SET id = id - 20",
        "UPDATE event SET at_ns = 'x'",
        "UPDATE event SET at_ns = -at_ns",
        "UPDATE event SET session = 77, method = 77, event = 77, pod = 77, container = 77",
        "UPDATE session SET first_event = 9000000000000000000",
        "UPDATE session SET first_event = -9223372036854775808, last_event = 9223372036854775807",
        "UPDATE session SET ended_ns = started_ns - 1",
        "UPDATE session SET first_event = 'x'",
        "UPDATE gap SET from_ns = 9223372036854775807, to_ns = -9223372036854775808",
        "UPDATE event SET changed = 'no JSON' WHERE id = 5",
        "DELETE FROM name",
        "DELETE FROM session",
        "DELETE FROM event",
    ],
)
async def test_recording_with_changed_rows_is_shown_or_rejected(
    original: Path, statement: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.nriscope.db"
    path.write_bytes(original.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    await asyncio.wait_for(run_queries(path), _TIMEOUT_S)
