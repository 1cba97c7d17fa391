# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nri_scope.cli.show import command as show
from nri_scope.events import LEFT_OUT
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.extract import Selection, extract
from tests.share.formats.recordings import SAMPLES, exported, hostile, varied


def _records(path: Path, numbers: list[int] | None = None) -> list[dict[str, Any]]:
    return [json.loads(line) for line in exported(path, "jsonl", numbers).splitlines()]


def _kinds(records: list[dict[str, Any]]) -> list[str]:
    return [
        next(iter(record.keys() - {"schema_version", "request", "reply", "metadata"}))
        for record in records
    ]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_event_lines_equal_the_output_of_show(sample: Path) -> None:
    lines = exported(sample, "jsonl").decode().splitlines()
    events = [line for line in lines if "event" in json.loads(line)]
    for number in (1, 5, len(events)):
        shown = CliRunner().invoke(show, [str(sample), str(number), "--format", "json"])
        assert shown.stdout == f"{events[number - 1]}\n"


def test_sessions_and_gaps_are_written_in_order(tmp_path: Path) -> None:
    records = _records(varied(tmp_path / "r.db"))
    kinds = _kinds(records)
    assert kinds[:4] == ["session", "event", "session", "event"]
    assert kinds.count("event") == 24 and kinds.count("session") == 3
    gaps = [record["gap"] for record in records if "gap" in record]
    assert [(gap["session"], gap["lost"], gap["reason"]) for gap in gaps] == [
        (2, 7, "the queue was full"),
        (None, None, "nothing ran"),
    ]
    assert records[-1]["note"] == {
        "at": "2026-11-18T11:06:41.070000Z",
        "session": 1,
        "text": "look here",
    }
    assert {record["schema_version"] for record in records} == {1}


def test_a_part_contains_all_gaps_and_sessions(tmp_path: Path) -> None:
    path = varied(tmp_path / "r.db")
    with Recording.open(path) as recording:
        sessions = [session.id for session in recording.sessions()]
        reasons = [gap.reason for gap in recording.gaps()]
        events = sum(1 for _ in recording.events())
    for numbers in ([2, 9], [2], []):
        records = _records(path, numbers)
        assert sorted(one["session"]["id"] for one in records if "session" in one) == sessions
        gaps = [record["gap"] for record in records if "gap" in record]
        assert [gap["reason"] for gap in gaps if gap["reason"] != LEFT_OUT] == reasons
        assert sum(gap.get("left_out", 0) for gap in gaps) == events - len(numbers)


def test_messages_are_written_in_full(tmp_path: Path) -> None:
    by_id = {
        record["event"]["id"]: record
        for record in _records(varied(tmp_path / "r.db"))
        if "event" in record
    }
    assert by_id[3]["request"]["container"]["env"][0] == "VARIABLE_00=value-00-of-web-1"
    assert by_id[10]["event"]["status_message"] == "too late"
    assert by_id[24]["reply"] == {"runtimeSpec": {"ociVersion": "1.1.0"}}


def test_a_hostile_recording_gives_portable_json_lines(tmp_path: Path) -> None:
    content = exported(hostile(tmp_path / "r.db"), "jsonl")
    assert content.isascii()
    records = []
    for line in content.splitlines():
        record = json.loads(line, parse_constant=lambda constant: pytest.fail(constant))
        json.dumps(record, ensure_ascii=False).encode()
        records.append(record)
    replies = [
        record["reply"] for record in records if record.get("event", {}).get("plugin") == "cri"
    ]
    assert replies[0] == {"half": "\\ud800", "\\udc00": 1, "whole": "🐳"}
    assert replies[1] == {"number": "inf", "least": "-inf", "large": 123456789012345678901234567890}
    assert replies[3:] == [{"nul": "\0"}, {"malformed": b"no JSON".hex()}]


def test_a_part_of_a_part_leaves_out_what_both_did(tmp_path: Path) -> None:
    part = tmp_path / "part.db"
    with Recording.open(varied(tmp_path / "r.db")) as recording:
        events = sum(1 for _ in recording.events())
        extract(recording, part, Selection(numbers=[2, 9]))
    with Recording.open(part) as recording:
        with_context = sum(1 for _ in recording.events())
    for numbers, kept in (None, with_context), ([9], 1):
        gaps = [record["gap"] for record in _records(part, numbers) if "gap" in record]
        assert sum(gap.get("left_out", 0) for gap in gaps) == events - kept
