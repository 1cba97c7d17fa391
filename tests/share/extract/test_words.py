# SPDX-License-Identifier: Apache-2.0
"""Events that a part of a recording omits are never reported as lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from nri_scope.cli.main import cli
from nri_scope.events import Gap
from nri_scope.recording.query.event_pages import SessionTables, look
from nri_scope.recording.query.stats import GapStats
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.extract import Selection, extract
from nri_scope.tui.detail import summary
from nri_scope.tui.plugins.session_board import gap_words
from nri_scope.tui.store.markers import EntryMarker, RowKey
from nri_scope.tui.store.recording_overview import facts_of
from nri_scope.tui.store.rows import marker_text
from tests.replay.recordings import RECORDING
from tests.sample_names import CHECKOUT


@pytest.fixture
def part(tmp_path: Path) -> Iterator[Recording]:
    with Recording.open(RECORDING) as whole:
        extract(whole, tmp_path / "part.db", Selection(pod=CHECKOUT))
    with Recording.open(tmp_path / "part.db") as recording:
        yield recording


@pytest.fixture
def gap(part: Recording) -> Gap:
    found = part.gaps()[1]
    assert found.lost == 7
    return found


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("log", "── part of a recording: 13 events were left out\n"),
        ("report", "part of a recording: 13 events were left out\n"),
        ("diff", "part of a recording: 13 events were left out\n"),
    ],
)
def test_commands_report_left_out_events(command: str, words: str, part: Recording) -> None:
    done = CliRunner().invoke(cli, [command, str(part.path)])
    assert done.exit_code in (0, 1)
    assert words in done.output
    assert "lost" not in done.output
    assert "not seen by" not in done.output


def test_left_out_events_are_neither_gaps_nor_losses_in_json(part: Recording) -> None:
    def printed(*arguments: str) -> str:
        command, *options = arguments
        return CliRunner().invoke(cli, [command, str(part.path), *options]).output

    assert '"gap"' not in printed("log", "--format", "jsonl")
    gaps = json.loads(printed("report", "--format", "json"))["gaps"]
    assert gaps == {"count": 0, "lost": 0, "with_unknown_loss": 0, "left_out": 13, "list": []}
    found = json.loads(printed("report", "--diagnose", "--format", "json"))
    assert (found["gaps"], found["left_out"]) == (0, 13)
    text = " ".join(printed("report", "--diagnose").split())
    assert "part of a recording: 13 events were left out" in text and "gap" not in text
    lines = map(json.loads, printed("export", "--format", "jsonl").splitlines())
    lost = [(line["gap"]["lost"], line["gap"]["left_out"]) for line in lines if "gap" in line]
    assert lost == [(0, gap.lost) for gap in part.gaps()]


def test_statistics_count_left_out_events_separately(part: Recording) -> None:
    assert GapStats.of(part.gaps()) == GapStats(0, 0, 0, left_out=13)
    facts = facts_of(
        part.path, look(part, SessionTables()), events=19, damage="", recorder_runs=None
    )
    assert (facts.gaps, facts.lost, facts.lost_unknown) == (0, 0, False)


def test_screens_and_reports_mention_left_out_events(part: Recording, gap: Gap) -> None:
    row = marker_text(EntryMarker(RowKey(1, 0), gap))
    assert row == "events left out of this part of the recording, in 320ms: 7"
    assert "were recorded, and are not in it: 7" in gap_words(gap)
    summary_text = " ".join(one.text for line in summary.of_gap(part, gap) for one in line)
    assert "lost" not in summary_text
