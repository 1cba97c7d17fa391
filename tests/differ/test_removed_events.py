# SPDX-License-Identifier: Apache-2.0
"""Where the ring removed the oldest events, the rest shows no change that the whole does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nri_scope.differ.recording_differ import rounds
from nri_scope.recording.bundle.unpack import unpack
from nri_scope.recording.reading.reader import Recording
from tests.recorder.ring_removal import overrun

RECORDINGS = sorted((Path(__file__).parents[2] / "recordings").glob("*.nriscope.*"))
_PARTS = 12
"""Number of beginnings of each recording that are removed in turn."""


def changes(path: Path) -> set[tuple[str, str]]:
    """Return the container and path of each change that the differ finds."""
    with Recording.open(path) as recording:
        return {
            (step.container, step.change.path)
            for one in rounds(recording)
            for step in one.steps
            if step.change.kind != "moved"
        }


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_the_rest_of_a_recording_shows_no_new_changes(path: Path, tmp_path: Path) -> None:
    if path.suffix == ".zip":
        path = unpack(path, tmp_path)
    whole = changes(path)
    with Recording.open(path) as recording:
        numbers = [event.id for event in recording.events()]
    rest = tmp_path / "rest.nriscope.db"
    for part in range(1, _PARTS):
        shutil.copy(path, rest)
        overrun(rest, len(numbers) * part // _PARTS)
        new = changes(rest) - whole
        assert not new, f"from event {numbers[len(numbers) * part // _PARTS]} on"
