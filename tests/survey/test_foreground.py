# SPDX-License-Identifier: Apache-2.0
"""Filters on changes and problems in commands, which only several connections show."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from nri_scope.filter import parse
from nri_scope.recording.reading.reader import Recording
from nri_scope.survey.foreground import resolved, surveyed

RECORDINGS = Path(__file__).parents[2] / "recordings"
SLOW = RECORDINGS / "containerd-2.1-slow-plugin.nriscope.zip"
ONE_PROBE = RECORDINGS / "containerd-2.1.nriscope.db"


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    run([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_log_finds_events_by_problem_and_shows_inferred_changes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    slow = printed(capsys, "log", SLOW, "--where", "problem:slow", "--format", "jsonl")
    assert [json.loads(each)["id"] for each in slow.splitlines()] == [15]
    changed = printed(capsys, "log", SLOW, "--where", "changed:/process/env/FOO")
    assert "    14 11:52:56" in changed
    assert "and 2 more by one of 01–29" in changed


@pytest.mark.parametrize("name", ["normal-life", "slow-plugin", "conflict"])
def test_show_says_the_same_as_the_survey(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = RECORDINGS / f"containerd-2.1-{name}.nriscope.zip"
    with Recording.open(path) as recording, surveyed(recording, None, needed=True):
        expected = {event.id: event for event in recording.events()}
    changed = [event for event in expected.values() if event.changed]
    assert changed
    for event in (*changed, *(expected[one.id - 1] for one in changed)):
        run(["show", str(path), str(event.id), "--format", "json"])
        shown = json.loads(capsys.readouterr().out)["event"]
        assert (shown["changed"], shown["owners"]) == ([*event.changed], [*event.owners])


def test_other_commands_select_the_same_events(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    where = ("--where", "changed:/process/env/FOO")
    lines = printed(capsys, "export", SLOW, *where, "--format", "jsonl").splitlines()
    (event,) = [one["event"] for one in map(json.loads, lines) if "event" in one]
    assert event["id"] == 14 and "/process/env/FOO" in event["changed"]
    assert {*event["outcomes"]} == {"in effect"}
    bundle = tmp_path / "part.nriscope.zip"
    assert "1 event and" in printed(capsys, "export", SLOW, *where, "-o", bundle)
    assert zipfile.is_zipfile(bundle)
    found = printed(capsys, "diff", SLOW, "--where", "problem:slow", "--format", "json")
    assert [one["id"] for one in json.loads(found)["events"]] == [13]


@pytest.mark.parametrize(
    ("path", "where", "is_needed"),
    [
        (SLOW, "changed:/process", True),
        (SLOW, "-(owner:x event:StopContainer)", True),
        (SLOW, "took:>1ms OR problem:slow", True),
        (SLOW, "took:>1ms", False),
        (ONE_PROBE, "changed:/process", True),
        (ONE_PROBE, "problem:failed", True),
    ],
)
def test_only_filters_that_depend_on_other_events_are_resolved(
    path: Path, where: str, is_needed: bool
) -> None:
    filtered = parse(where)
    with Recording.open(path) as recording:
        found = resolved(recording, filtered)
        assert (found is not filtered) == is_needed
        assert found is not None
        numbers = [event.id for event in recording.events(where=found)]
        if is_needed:
            assert numbers == [event.id for event in recording.events() if found.matches(event)]
        with surveyed(recording, filtered):
            assert (recording.attached > 0) == is_needed
            assert [event.id for event in recording.events(where=filtered)] == numbers
