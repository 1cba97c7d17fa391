# SPDX-License-Identifier: Apache-2.0
"""JSON lines are read back: what they contain is not lost, and anything else is rejected."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.events import Event
from nri_scope.recording.query.creation_outcomes import Creations
from nri_scope.recording.reading.reader import Recording
from nri_scope.replay.run import Job
from nri_scope.replay.testing import perform, plugin_set_of
from nri_scope.share.formats import jsonl
from nri_scope.share.formats.jsonl import is_json_lines, read_back
from tests.recording.traffic import a_container, a_pod, an_item, record
from tests.sample_names import API, PROXY, REPORT, UPLOAD
from tests.share.formats.recordings import exported, hostile, varied

RECORDINGS = sorted((Path(__file__).parents[3] / "recordings").glob("*.nriscope.*"))
OLD = sorted((Path(__file__).parents[2] / "data" / "recordings").glob("*.nriscope.db"))
SAMPLE = RECORDINGS[0].with_name("containerd-2.1.nriscope.db")


def imported(lines: bytes, folder: Path) -> Path:
    """The recording made of JSON lines."""
    source, target = folder / "x.jsonl", folder / "x.nriscope.db"
    source.write_bytes(lines)
    target.unlink(missing_ok=True)
    read_back(source, target)
    return target


@pytest.mark.parametrize("path", [*RECORDINGS, *OLD], ids=lambda path: path.name.split(".nri")[0])
def test_a_recording_is_exported_as_before(path: Path, tmp_path: Path) -> None:
    lines = exported(path, "jsonl")
    assert exported(imported(lines, tmp_path), "jsonl") == lines


@pytest.mark.parametrize("step", [2, 3, 5])
def test_a_part_is_exported_as_before(step: int, tmp_path: Path) -> None:
    for name in ("containerd-2.1-restart", "isulad-2.1", "containerd-2.4"):
        path = SAMPLE.with_name(f"{name}.nriscope.zip")
        with Recording.open(path) as recording:
            numbers = [event.id for event in recording.events()][::step]
        lines = exported(path, "jsonl", numbers)
        again = exported(imported(lines, tmp_path), "jsonl")
        assert _own(again) == _own(lines)


def _own(lines: bytes) -> list[dict[str, Any]]:
    """Return the lines without what other events show."""
    records = [json.loads(line) for line in lines.splitlines()]
    for event in filter(None, (one.get("event") for one in records)):
        for name in ("changed", "owners", "outcomes", "targets"):
            del event[name]
    return records


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.split(".nri")[0])
def test_a_part_tells_the_outcomes_that_omitted_events_show(path: Path, tmp_path: Path) -> None:
    with Recording.open(path) as recording:
        events = [event for event in recording.events() if event.event == "CreateContainer"]
        lines = exported(path, "jsonl", [event.id for event in events])
        assert events
        with Recording.open(imported(lines, tmp_path)) as part:
            for event in events:
                copied = part.event(event.id)
                assert copied is not None
                outcome = Creations(recording).outcome(event)
                assert Creations(part).outcome(copied) == outcome


def test_gaps_notes_failures_and_answers_of_the_cri_are_kept(tmp_path: Path) -> None:
    lines = exported(varied(tmp_path / "varied.nriscope.db"), "jsonl")
    copy = imported(lines, tmp_path)
    assert exported(copy, "jsonl") == lines
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


def test_no_field_of_an_event_is_lost(tmp_path: Path) -> None:
    """A new field must be in what is written, and in what is read back."""
    path = tmp_path / "r.nriscope.db"
    pod = a_pod()
    request = api.CreateContainerRequest(pod=pod, container=a_container(pod))
    reply = api.CreateContainerResponse()
    reply.adjust.annotations["key"] = "value"
    items = [
        an_item("CreateContainer", request, reply.SerializeToString()),
        an_item("StopContainer", b"\xff", status_code=2, status_message="no"),
    ]
    record(path, items)
    copy = imported(exported(path, "jsonl"), tmp_path)
    with Recording.open(path) as one, Recording.open(copy) as other:
        originals, copies = list(one.events()), list(other.events())
    for name in {field.name for field in fields(Event)} - {"mono_ns", "outcomes", "targets"}:
        values = [getattr(event, name) for event in originals]
        assert any(values), name
        assert [getattr(event, name) for event in copies] == values, name


def test_the_copy_can_be_replayed(tmp_path: Path) -> None:
    copy = imported(exported(SAMPLE, "jsonl"), tmp_path)
    seen: list[str] = []

    class Plugin:
        def create_container(self, pod: Any, container: Any) -> None:
            seen.append(container.name)

    for path in (SAMPLE, copy):
        perform(Job(path, plugin_set_of(Plugin(), name="p")))
    assert seen == [API, PROXY, REPORT, UPLOAD] * 2
    with Recording.open(copy) as one, Recording.open(SAMPLE) as other:
        masks = [[session.mask for session in each.sessions()] for each in (one, other)]
        assert masks[0] == masks[1]


def test_a_hostile_recording_is_read_back(tmp_path: Path) -> None:
    written = exported(hostile(tmp_path / "hostile.nriscope.db"), "jsonl")
    # Events of a session that does not exist.
    lines = b"".join(line for line in written.splitlines(True) if b'"session": 99' not in line)
    copy = imported(lines, tmp_path)
    again = exported(copy, "jsonl")
    assert again.count(b"\n") == lines.count(b"\n")


# -- errors -----------------------------------------------------------------------------------


def _changed(change: Callable[[list[dict[str, Any]]], object]) -> bytes:
    records = [json.loads(line) for line in exported(SAMPLE, "jsonl").splitlines()]
    change(records)
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda records: records.clear(), "x.jsonl: has no events; export with --format jsonl"),
        (lambda records: records[2].pop("event"), "3: neither an event nor a session, gap"),
        (
            lambda records: records[2].update(schema_version=2),
            "3: schema_version is 2, not 1; upg",
        ),
        (lambda records: records[2].pop("schema_version"), "3: schema_version is None, not 1; exp"),
        (lambda records: records.pop(0), "1: session 1 is not described in an earlier line"),
        (lambda records: records.insert(1, records[0]), "2: session 1 is described twice"),
        (lambda records: records[2]["event"].update(id=1), "3: event 1 follows event 1"),
        (lambda records: records[2]["event"].update(id="2"), "3: id: not an integer"),
        (lambda records: records[2]["event"].update(id=2**70), "3: id: not between 1 and"),
        (lambda records: records[2]["event"].update(at="yesterday"), "3: at: not a time such as"),
        (lambda records: records[2]["event"].pop("session"), "3: session: not an integer"),
        (lambda records: records[2].pop("request"), "3: request: not a JSON object"),
        (lambda records: records[3]["request"]["pod"].update(name=[]), "4: request: pod.name: not"),
        (lambda records: records[5]["reply"].update(x={}), "6: reply: x: unknown key"),
        (lambda records: records[0]["session"].update(role="spy"), "1: role 'spy' is unknown"),
        (lambda records: records[0]["session"].pop("started"), "1: started: not a text"),
    ],
)
def test_an_invalid_line_is_rejected(
    change: Callable[[list[dict[str, Any]]], object], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as raised:
        imported(_changed(change), tmp_path)
    assert problem in str(raised.value) and "\n" not in str(raised.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.jsonl"]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (b"{}\n[]\n", "x.jsonl:1: schema_version is None"),
        (b'{"schema_version": 1\n', "x.jsonl:1: not a JSON object"),
        (b"\xff\n", "x.jsonl:1: not a JSON object"),
        (b"[" * 100_000, "x.jsonl:1: not a JSON object"),
    ],
)
def test_other_content_is_rejected(lines: bytes, problem: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        imported(lines, tmp_path)
    assert problem in str(raised.value)


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = exported(SAMPLE, "jsonl")
    monkeypatch.setattr(jsonl, "VALUES_MAX", 100)
    with pytest.raises(UsageError, match=r"[0-9]: more than 100 values"):
        imported(lines, tmp_path)
    monkeypatch.setattr(jsonl, "LINE_MAX", 1 << 20)
    with pytest.raises(UsageError, match=":1: longer than 1 MiB"):
        imported(b"{" + b" " * (1 << 20) + b"}", tmp_path)


@pytest.mark.exhaustive
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 1 << 40), byte=st.integers(0, 255))
def test_a_changed_byte_is_read_or_rejected(tmp_path: Path, at: int, byte: int) -> None:
    lines = bytearray(exported(SAMPLE, "jsonl"))
    lines[at % len(lines)] = byte
    try:
        copy = imported(bytes(lines), tmp_path)
    except UsageError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    exported(copy, "jsonl")


def test_only_json_lines_look_like_them(tmp_path: Path) -> None:
    assert not is_json_lines(SAMPLE)
    assert not is_json_lines(SAMPLE.with_name("isulad-2.1.nriscope.zip"))
    assert not is_json_lines(tmp_path) and not is_json_lines(tmp_path / "none")
    (tmp_path / "x").write_bytes(b"\n{}")
    assert is_json_lines(tmp_path / "x")
