# SPDX-License-Identifier: Apache-2.0
"""The header counts as `nri-scope report` does."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.recording.query.event_times import is_redacted
from nri_scope.recording.query.stats import summarise
from nri_scope.recording.reading.reader import Recording
from nri_scope.tui.store.store import Store
from tests.tui.screen import RECORDINGS


@pytest.mark.parametrize(
    "path", sorted(RECORDINGS.glob("*.nriscope.*")), ids=lambda path: path.name
)
async def test_header_counts_as_stats_does(path: Path) -> None:
    store = await Store.open(path)
    facts = store.facts
    await store.close()
    with Recording(path) as recording:
        found = summarise(recording)
        redacted = is_redacted(recording)
    assert facts.redacted is redacted is (path.suffix == ".zip")
    expected = found.stats.count, len(found.sessions), len(found.gaps)
    assert (facts.events, facts.sessions, facts.gaps) == expected
