# SPDX-License-Identifier: Apache-2.0
"""Formats tell of each request what the commands tell of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nri_scope.cli.export import command as export
from nri_scope.cli.log import command as log
from nri_scope.events import HAPPENED
from nri_scope.survey import foreground
from tests.amount import sampled
from tests.share.formats.recordings import exported

FOLDER = Path(__file__).parents[3] / "recordings"
CASES = Path(__file__).parents[2] / "data" / "cases"
RECORDINGS = [path for folder in (FOLDER, CASES) for path in sorted(folder.glob("*.nriscope.*"))]
DEMO = FOLDER / "demo.nriscope.db"


def outcomes_by_place(records: Iterable[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """Return the outcome at each container's path; of several, a change counts."""
    found: dict[tuple[str, str], str] = {}
    for one in records:
        for *place, kind in zip(one["targets"], one["changed"], one["outcomes"], strict=True):
            target, path = place
            if found.get((target, path)) not in HAPPENED:
                found[target, path] = kind
    return found


def events_of(path: Path, *more: str) -> dict[int, dict[str, Any]]:
    """Return the exported events by number."""
    done = CliRunner().invoke(export, [str(path), "--format", "jsonl", *more])
    assert done.exit_code == 0, done.output
    records = map(json.loads, done.stdout.splitlines())
    return {record["event"]["id"]: record["event"] for record in records if "event" in record}


@pytest.mark.parametrize(
    "path", sampled(RECORDINGS, 5), ids=lambda path: path.name.split(".nri")[0]
)
def test_requests_are_those_of_log(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = events_of(path)
    done = CliRunner().invoke(log, [str(path), "--operations", "--format", "jsonl"])
    operations = [one for one in map(json.loads, done.stdout.splitlines()) if "events" in one]
    assert sorted(number for one in operations for number in one["events"]) == sorted(events)
    for operation in operations:
        of_events = [events[number] for number in operation["events"]]
        assert outcomes_by_place(of_events) == outcomes_by_place([operation])
        assert {owner for each in of_events for owner in each["owners"]} == set(operation["owners"])
    where = "-event:StartContainer"
    selected = {number: events[number] for number in events_of(path, "--where", where)}
    for most in (10_000, 0):
        monkeypatch.setattr(foreground, "PARTIAL_MAX_EVENTS", most)
        assert events_of(path, "--where", where) == selected


def test_a_filter_for_outcomes_selects_the_events_that_have_them() -> None:
    refused = {
        number: event for number, event in events_of(DEMO).items() if "refused" in event["outcomes"]
    }
    assert refused and events_of(DEMO, "--where", "outcome:refused") == refused


def test_redacted_requests_have_the_same_outcomes() -> None:
    events, redacted = events_of(DEMO), events_of(DEMO, "--redact")
    assert {number: event["outcomes"] for number, event in events.items()} == {
        number: event["outcomes"] for number, event in redacted.items()
    }


def test_each_format_calls_only_what_happened_a_change(tmp_path: Path) -> None:
    events = events_of(DEMO).values()
    counts = [
        sum((kind in HAPPENED) == happened for event in events for kind in event["outcomes"])
        for happened in (True, False)
    ]
    assert min(counts) > 0
    spans = [
        {one["key"]: one["value"] for one in span["attributes"]}
        for line in exported(DEMO, "otlp-json").splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    values: list[list[dict[str, str]]] = []
    for key, count in zip(("nri.changed", "nri.requested"), counts, strict=True):
        values = [span[key]["arrayValue"]["values"] for span in spans if key in span]
        assert sum(map(len, values)) == count
    asked = [one["stringValue"] for one in values[0]]
    assert all(text.endswith(": refused") for text in asked)
    assert all(text.encode() in exported(DEMO, "perfetto") for text in asked)
    (tmp_path / "x.db").write_bytes(exported(DEMO, "sqlite-expanded"))
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        (changes,), (requests,) = (
            connection.execute(f"SELECT count(*) FROM {view}").fetchone()
            for view in ("changes", "requests")
        )
    assert [changes, requests - changes] == counts
