# SPDX-License-Identifier: Apache-2.0
"""Limit on decoding a message that is stored once and used by many events."""

from __future__ import annotations

import sqlite3
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import many
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ.recording_differ import rounds
from nri_scope.errors import RecordingCut
from nri_scope.nri.element_limits import Elements
from nri_scope.recording.file.blobs import ObjectKind
from nri_scope.recording.reading import entries as module
from nri_scope.recording.reading import work_budget
from nri_scope.recording.reading.entries import IncludedRows, exchanges
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.work_budget import DECODING, Allowance
from tests.bombs.recordings import MIB, make, many_of, many_rows
from tests.recording.recordings import record
from tests.recording.traffic import lifecycles
from tests.recording.traffic import record as record_items

pytestmark = pytest.mark.beyond_core

ALL = DECODING.units(0)


@pytest.fixture
def bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a recording of 1,000 creations of a large container, and quarter the budget."""
    monkeypatch.setattr(work_budget, "DECODING", DECODING._replace(per_byte=DECODING.per_byte / 4))
    container = many_of(ObjectKind.CONTAINER, api.Container.DESCRIPTOR, (7,), b"\x0a\x02c1")

    def both(connection: sqlite3.Connection, scale: float) -> None:
        container(connection, 80_000 / (16 * MIB))
        many_rows("event", 1_000 * 65)(connection, scale)

    return make(tmp_path / "r.nriscope.db", both)


def test_reading_ends_with_one_warning_when_the_decode_budget_is_spent(bomb: Path) -> None:
    with (
        Recording.open(bomb) as recording,
        pytest.warns(RecordingCut, match="from event") as caught,
    ):
        read = list(recording.exchanges())
    assert 50 < len(read) < 800
    assert len(caught) == 1
    assert f"from event {read[-1][0].id + 1} on; the rest is not read" in str(caught[0].message)


@pytest.mark.exhaustive
def test_comparing_ends_when_the_decode_budget_is_spent(bomb: Path) -> None:
    words = "decoding its messages exceeds"
    with Recording.open(bomb) as recording, pytest.warns(RecordingCut, match=words):
        assert len(list(rounds(recording))) < 800


def test_a_copy_is_complete_within_its_larger_budget(bomb: Path) -> None:
    with Recording.open(bomb) as recording, warnings.catch_warnings():
        warnings.simplefilter("error")
        events = {event.id for event in recording.events()}
        copied = {
            one.event.id for some in exchanges(recording, IncludedRows(until=10**9)) for one in some
        }
    assert copied == events


def test_a_copy_ends_early_when_its_budget_is_spent(
    bomb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUDGET_FACTOR", 1)
    copied: list[int] = []
    with Recording.open(bomb) as recording:
        pages = exchanges(recording, IncludedRows(until=10**9))
        with pytest.raises(module.Stopped) as stopped:
            copied.extend(one.event.id for some in pages for one in some)
    assert "copying its messages exceeds the limit" in stopped.value.cause.problem
    assert 50 < len(copied) < 800 and stopped.value.event == copied[-1] + 1


def test_an_ordinary_recording_fits_the_budget_of_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.nriscope.db"
    record_items(path, lifecycles(120))
    monkeypatch.setattr(work_budget, "DECODING", DECODING._replace(least_bytes=0))
    with Recording.open(path) as recording, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(recording.exchanges())) == len(list(recording.events()))


def test_a_recording_whose_pods_share_all_messages_is_compared_completely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.nriscope.db"
    many.write(path, 6_000)
    monkeypatch.setattr(work_budget, "DECODING", DECODING._replace(least_bytes=0))
    monkeypatch.setattr(work_budget, "MAX_UNITS_PER_BYTE", 10**9)
    with Recording.open(path) as recording, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert max(max(one.events) for one in rounds(recording)) > 5_990


def test_recordings_of_real_runtimes_use_little_of_the_budget(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    record(path)
    with Recording.open(path) as recording:
        left = recording.allowance()
        count = len(list(recording.exchanges(allowance=left)))
    assert left.left > ALL - 1_000 * count


def test_the_budget_grows_with_the_file_size() -> None:
    assert Allowance(1).left == ALL
    assert Allowance(3 * DECODING.least_bytes).left == 3 * ALL


@given(
    st.lists(st.text(max_size=4), max_size=30),
    st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=30),
    st.lists(st.lists(st.text(max_size=4), max_size=5), max_size=30),
    st.integers(0, 30),
)
def test_the_amount_spent_is_close_to_the_number_of_elements(
    args: list[str], labels: dict[str, str], mounts: list[list[str]], devices: int
) -> None:
    container = api.Container(id="1", args=args, env=args, labels=labels, annotations=labels)
    for options in mounts:
        container.mounts.add(options=options)
    for number in range(devices):
        container.linux.devices.add(path=f"/dev/{number}")
    content = container.SerializeToString()
    allowance = Allowance(0)
    # Elements are counted only after enough bytes to exceed the budget.
    for _ in range(ALL // 4 // 50_000 + 1):
        allowance.spend_message(None, b"\0" * 100_000, 0)
    left = allowance.left
    allowance.spend_message(api.Container, content, 1)
    exact = Elements(0)
    exact.count(api.Container, content)
    scalars = 20 + 10 * (len(mounts) + devices)
    assert -exact.left * 0.9 - 1 <= left - allowance.left <= -exact.left + scalars
