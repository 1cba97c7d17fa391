# SPDX-License-Identifier: Apache-2.0
"""Properties of every format."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from nri_scope.entries import CallsByMetrics
from nri_scope.nri.events import METHODS
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.extract import Selection, extract
from nri_scope.share.formats import FORMATS
from tests.recording.traffic import an_item, random_message, record
from tests.share.formats.recordings import SAMPLES, exported, hostile, varied


class _Pipe:
    """Sequential stream that fails after a number of bytes, like a pipe without a reader."""

    def __init__(self, room: int = 1 << 40) -> None:
        self.room = room

    def write(self, content: bytes) -> int:
        self.room -= len(content)
        if self.room < 0:
            raise BrokenPipeError
        return len(content)


@pytest.mark.parametrize("name", FORMATS)
def test_formats_have_name_suffix_and_help(name: str) -> None:
    known = FORMATS[name]
    assert known.name == name
    assert known.suffix.startswith(".") and known.help


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_every_event_of_a_recording_is_written(name: str, sample: Path) -> None:
    with Recording.open(sample) as recording:
        count = FORMATS[name].write(recording, None, _Pipe())  # type: ignore[arg-type]
        assert count == len(list(recording.events()))


@pytest.mark.parametrize("name", FORMATS)
def test_only_selected_events_are_written(name: str, tmp_path: Path) -> None:
    path = varied(tmp_path / "r.db")
    with Recording.open(path) as recording:
        write = FORMATS[name].write
        # In any order, each once, without unknown numbers.
        assert write(recording, iter([12, 3, 4, 3, 4711]), _Pipe()) == 3  # type: ignore[arg-type]
        assert write(recording, [], _Pipe()) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_recording_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    path = varied(tmp_path / "r.db")
    assert exported(path, name) == exported(path, name) != b""


@pytest.mark.parametrize("name", FORMATS)
def test_calls_by_the_runtime_s_metrics_are_not_written(name: str, tmp_path: Path) -> None:
    """As docs/formats.md says."""
    path = varied(tmp_path / "r.db")
    # Its open session ends here.
    Recorder.open(path).close()
    before = exported(path, name)
    recorder = Recorder.open(path)
    recorder.put_control(CallsByMetrics(1, 2, (("50-metered", "Synchronize", 3, 0, 4),)))
    recorder.close()
    assert exported(path, name) == before


@pytest.mark.parametrize("name", FORMATS)
def test_a_hostile_recording_is_written(name: str, tmp_path: Path) -> None:
    path = hostile(tmp_path / "r.db")
    with Recording.open(path) as recording:
        count = FORMATS[name].write(recording, None, _Pipe())  # type: ignore[arg-type]
        assert count == len(list(recording.events()))


@pytest.mark.parametrize("name", FORMATS)
def test_any_message_can_be_written(name: str, tmp_path: Path) -> None:
    chance = random.Random(name)
    path = tmp_path / "r.db"
    items = [
        an_item(
            method.name,
            random_message(method.request, chance),
            random_message(method.reply, chance).SerializeToString(),
        )
        for method in METHODS.values()
        for _ in range(3)
    ]
    record(path, items)
    with Recording.open(path) as recording:
        assert FORMATS[name].write(recording, None, _Pipe()) == len(items)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FORMATS)
def test_a_closed_pipe_ends_the_export(name: str) -> None:
    with Recording.open(SAMPLES[0]) as recording, pytest.raises(BrokenPipeError):
        FORMATS[name].write(recording, None, _Pipe(1_000))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FORMATS)
def test_no_temporary_file_remains(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Recording.open(SAMPLES[0]) as recording, out.open("wb") as stream:
        FORMATS[name].write(recording, None, stream)
    assert list(tmp_path.iterdir()) == [out]
    assert out.stat().st_size > 1_000


@pytest.mark.parametrize("name", ["otlp-json", "perfetto"])
def test_left_out_events_are_not_called_unobserved(name: str, tmp_path: Path) -> None:
    part = tmp_path / "part.db"
    with Recording.open(SAMPLES[0]) as recording:
        extract(recording, part, Selection(numbers=[5]))
    content = exported(part, name)
    assert b"left out" in content
    assert b'"gap: not observed"' not in content
