# SPDX-License-Identifier: Apache-2.0
"""A redacted recording answers as the original does, but for values."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

import pytest

import nri_scope
from nri_scope.recording.reader import Recording
from nri_scope.share.bundle import redactor_for
from nri_scope.share.redacted_copy import copy_recording
from nri_scope.share.redaction import Rules
from tests.amount import sampled

ROOT = Path(__file__).parents[3]
RECORDINGS = sorted((ROOT / "recordings").glob("*.nriscope.*"))
CASES = sorted((ROOT / "tests" / "data" / "cases").glob("**/*.zip"))


def answers(path: Path) -> list[list[Hashable]]:
    """Return findings, operations, and the events with their owners and numbers of changes."""
    with nri_scope.open(path) as recording:
        return [
            [(one.kind, one.level, one.events) for one in recording.findings()],
            [tuple(event.id for event in one.events) for one in recording.operations()],
            [(one.id, one.event, *sorted(one.owners)) for one in recording.events()],
        ]


@pytest.mark.parametrize(
    "path", sampled([*RECORDINGS, *CASES], len(RECORDINGS)), ids=lambda path: path.name
)
def test_findings_operations_and_owners_are_those_of_the_original(
    path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "redacted.nriscope.db"
    with Recording.open(path) as recording:
        copy_recording(recording, copy, redactor_for(recording, Rules.DEFAULT))
    assert answers(copy) == answers(path)
