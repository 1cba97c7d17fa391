# SPDX-License-Identifier: Apache-2.0
"""Long texts are cut when written and when read; stored texts are read unchanged."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RecordingError
from nri_scope.recording.file import row_limits
from nri_scope.recording.file.sqlite_text import (
    ITEMS_MAX,
    LIST_MAX,
    NAME_MAX,
    WORDS_MAX,
    listed,
    storable,
)
from nri_scope.recording.reading.reader import Recording
from tests.recording.traffic import a_container, a_pod, an_item, record

_LONG = "n" * 5_000


@settings(deadline=None)
@given(st.text(st.characters(), max_size=40), st.integers(1, 2_000), st.integers(64, 3_000))
def test_stored_text_has_at_most_the_maximum_length(text: str, times: int, most: int) -> None:
    whole = text * times
    stored = storable(whole, most)
    assert len(stored) <= most
    stored.encode()
    assert storable(stored, most) == stored
    assert storable(whole + "x", most) != stored


@settings(deadline=None)
@given(st.lists(st.text(st.characters(), max_size=30), max_size=60), st.integers(1, 90))
def test_a_stored_list_can_be_read(texts: list[str], times: int) -> None:
    kept = listed(texts * times)
    encoded = json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
    assert len(encoded) <= LIST_MAX and len(kept) <= ITEMS_MAX + 1
    assert listed(kept) == kept
    if len(kept) < len(texts) * times:
        assert kept[-1] == f"… and {len(texts) * times - len(kept) + 1} more"


def test_long_names_of_a_runtime_are_recorded_and_read_without_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    pod = a_pod()
    pod.name, pod.namespace = _LONG + "a", _LONG
    other = a_pod(1)
    other.id, other.name = pod.id, _LONG + "b"
    container = a_container(pod)
    container.id = _LONG
    reply = api.CreateContainerResponse()
    for number in range(ITEMS_MAX + 500):
        reply.adjust.mounts.add(destination=f"/m/{number}")
    request = api.CreateContainerRequest(pod=pod, container=container)
    record(
        path,
        [
            an_item("CreateContainer", request, reply.SerializeToString()),
            an_item("RunPodSandbox", api.RunPodSandboxRequest(pod=other)),
            an_item(f"Method{_LONG}", b"\xff", status_code=2, status_message=_LONG * 10),
        ],
    )
    # A cut would be a warning, which is an error here.
    with Recording.open(path) as recording:
        first, second, third = recording.events()
        assert recording.request(1) == request.SerializeToString(deterministic=True)
        # Names that differ only in their ends stay different.
        assert first.pod != second.pod and len({first.pod[:900], second.pod[:900]}) == 1
    assert len(first.pod) <= NAME_MAX and "5,001 characters" in first.pod
    assert len(first.changed) == ITEMS_MAX + 1 and first.changed[-1] == "… and 500 more"
    assert len(third.method) <= NAME_MAX
    assert len(third.status_message) <= WORDS_MAX


def _with(path: Path, sql: str, *values: object) -> Path:
    record(path, [an_item("RunPodSandbox", api.RunPodSandboxRequest(pod=a_pod()))])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(sql, values)
        connection.commit()
    return path


# SQLite's length of the last one is 0.
@pytest.mark.parametrize("name", ["x" * 100_000, "ß" * 1_025, "\0" + "x" * 100_000])
def test_a_long_name_is_rejected(tmp_path: Path, name: str) -> None:
    path = _with(tmp_path / "r.db", "UPDATE pod SET name = ?", name)
    with pytest.raises(RecordingError, match="names that are too long"):
        Recording.open(path)


def test_a_name_of_the_maximum_length_is_read(tmp_path: Path) -> None:
    path = _with(tmp_path / "r.db", "UPDATE pod SET name = ?", "ß" * NAME_MAX)
    with Recording.open(path) as recording:
        (event,) = recording.events()
    assert event.pod == "ß" * NAME_MAX


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("status_message", "x" * 100_000),
        ("status_message", "\0" + "x" * 400_000),
        ("changed", json.dumps(["/a"] * 50_000)),
        ("owners", "[" * 100_000),
        ("owners", "[\0" + "[" * 400_000),
    ],
)
def test_a_long_text_in_an_event_is_cut(tmp_path: Path, column: str, value: str) -> None:
    path = _with(tmp_path / "r.db", f"UPDATE event SET {column} = ?", value)
    with Recording.open(path) as recording:
        (event,) = recording.events()
    cut_text = getattr(event, column)
    unit = "bytes" if "\0" in value else "characters"
    assert f"({len(value):,} {unit})" in (cut_text if isinstance(cut_text, str) else cut_text[0])


def test_too_many_names_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _with(tmp_path / "r.db", "UPDATE pod SET name = ?", "x" * 900)
    monkeypatch.setattr(row_limits, "MAX_CHARACTERS", 900)
    with pytest.raises(RecordingError, match="too many names"):
        Recording.open(path)
