# SPDX-License-Identifier: Apache-2.0
"""Tapped sessions in the terminal interface, without a screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.recording.reading.reader import Recording
from nri_scope.tui.detail import summary
from nri_scope.tui.plugins.chain_places import PlaceCounts
from tests.replay.recordings import PASSWORD, of_taps


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_taps("containerd-1.7.24", tmp_path_factory.mktemp("tap") / "tap.nriscope.db")


def summary_lines(recording: Recording, name: str) -> list[str]:
    """Return the summary of the first event of this name."""
    event = next(event for event in recording.events() if event.event == name)
    lines = summary.of_event(recording, event)
    return ["".join(part.text for part in line).rstrip() for line in lines]


def test_summary_includes_tap_time_metadata_and_output(path: Path) -> None:
    with Recording.open(path) as recording:
        lines = summary_lines(recording, "CreateContainer")
    assert "tap         31µs  in the tap, both directions" in lines
    assert "metadata    trace: CreateContainer" in lines
    at = lines.index("stdout      creating app")
    assert lines[at + 1] == f"stdout      DB_PASSWORD={PASSWORD}"


def test_calls_by_the_plugin_are_labelled(path: Path) -> None:
    with Recording.open(path) as recording:
        assert summary_lines(recording, "UpdateContainers")[0].endswith("called by the plugin")
        assert not summary_lines(recording, "CreateContainer")[0].endswith("called by the plugin")


def test_calls_by_the_plugin_do_not_count_as_its_time(path: Path) -> None:
    tally = PlaceCounts()
    with Recording.open(path) as recording:
        while tally.step(recording):
            pass
        (policy,) = (one for one in recording.sessions() if one.plugin == "60-cpu-policy")
    counts = tally.counts[policy.id]
    # The runtime took five seconds for UpdateContainers.
    assert (max(counts.times.took), counts.times.over_half) == (50_000, 0)
    assert counts.calls == len(counts.times.took) + 2
