# SPDX-License-Identifier: Apache-2.0
"""A redacted recording answers as the original does, but for values."""

from __future__ import annotations

import re
from collections.abc import Hashable
from contextlib import suppress
from pathlib import Path

import pytest

import nri_scope
from nri_scope.differ.blame.owned_lines import lines
from nri_scope.differ.recording_differ import history_of
from nri_scope.errors import UsageError
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.bundle import redactor_for
from nri_scope.share.redacted_copy import copy_recording
from nri_scope.share.redaction import Rules
from nri_scope.share.redaction.tokens import PLAIN_TOKEN
from tests.amount import sampled

ROOT = Path(__file__).parents[3]
RECORDINGS = sorted((ROOT / "recordings").glob("*.nriscope.*"))
CASES = sorted((ROOT / "tests" / "data" / "cases").glob("**/*.zip"))


def answers(path: Path) -> list[list[Hashable]]:
    """Return findings, operations, and the events with their owners and numbers of changes."""
    with nri_scope.open(path) as recording:
        return [
            [(finding.kind, finding.level, finding.events) for finding in recording.findings()],
            [tuple(event.id for event in operation.events) for operation in recording.operations()],
            [(event.id, event.event, *sorted(event.owners)) for event in recording.events()],
        ]


def texts(path: Path) -> list[str]:
    """Return who set each value, which plugin was late, what conflicts, and why things failed."""
    with nri_scope.open(path) as recording:
        found = [f"{one.title}\n{one.detail}\n{one.containers}" for one in recording.findings()]
        for container in recording.containers():
            # Some are only named by an id.
            with suppress(UsageError):
                for line in lines(history_of(recording.reader, container)):
                    value = "" if line.heading else line.value
                    found.append(f"{line.path} {line.owner} {line.evidence} {value}")
        for event in recording.events():
            found.append(f"{event.plugin} {event.took_ns} {event.problem} {event.status_message}")
        return found + [session.end_reason for session in recording.sessions()]


TOKEN = re.compile(rf"/?{PLAIN_TOKEN}(?:\.invalid)?|198\.1[89]\.\d+\.\d+|2001:db8:[0-9a-f:]+")
EVERY = pytest.mark.parametrize(
    "path", sampled([*RECORDINGS, *CASES], len(RECORDINGS)), ids=lambda path: path.name
)


@EVERY
def test_people_read_the_same_but_for_values(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "redacted.nriscope.db"
    with Recording.open(path) as recording:
        copy_recording(recording, copy, redactor_for(recording, Rules.DEFAULT))
    originals, copies = texts(path), texts(copy)
    assert len(originals) == len(copies)
    for number, shown in enumerate(copies):
        pattern = re.compile(".+".join(map(re.escape, TOKEN.split(shown))), re.DOTALL)
        # Lines of one list are in the order of their keys, which may be tokens.
        assert any(map(pattern.fullmatch, (originals[number], *originals))), shown


@EVERY
def test_findings_operations_and_owners_are_those_of_the_original(
    path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "redacted.nriscope.db"
    with Recording.open(path) as recording:
        copy_recording(recording, copy, redactor_for(recording, Rules.DEFAULT))
    assert answers(copy) == answers(path)
