# SPDX-License-Identifier: Apache-2.0
"""One pass over a recording that writes an attribution file and returns the findings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from nri_scope.differ import excerpt
from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.attribution.owner import OwnerKind
from nri_scope.differ.render import wording
from nri_scope.differ.render.values import clipped
from nri_scope.events import Event, Problem
from nri_scope.recording import lookup
from nri_scope.recording.attribution_file import AttributionFile
from nri_scope.recording.reader import Recording
from nri_scope.report.finder import diagnose
from nri_scope.report.finding import Finding

_COMMIT_S = 0.5
"""Seconds between two commits, each of which makes more results visible."""
_PATHS_MAX, _PATH_MAX = 1_000, 1_000
"""Maximum number of changed paths of one event, and of characters of one path."""
_FULL = "it has more changes than can be analysed"
_PLUGINS = (OwnerKind.PLUGIN, OwnerKind.ONE_OF)


class Survey(NamedTuple):
    """Result of a pass."""

    findings: tuple[Finding, ...]
    """The findings of `report --diagnose`, the worst first."""
    until: int
    """Id of the last event that was read; 0 for none."""
    cut: str
    """Why later events were not read; "" if all were."""


def survey(
    path: Path, into: Path, on_progress: Callable[[float, int], None] = lambda share, until: None
) -> Survey:
    """Read the recording ``path``, and write the attribution file ``into``.

    ``on_progress`` receives the share of events read, 0 to 1, and the id up to which ``into`` is
    complete. Raises RecordingError, and UsageError if ``into`` cannot be written.
    """
    with Recording.open(path) as recording, warnings.catch_warnings(record=True) as cuts:
        warnings.simplefilter("always")
        writer = _Writer(AttributionFile(into))
        try:

            def progress(share: float) -> None:
                writer.commit()
                on_progress(share, writer.until)

            _, newest = lookup.event_range(recording)
            found = diagnose(recording, on_progress=progress, on_round=writer.add)
            cut = str(cuts[0].message).removeprefix(f"{path}: ") if cuts else ""
            if writer.is_full:
                cut = cut or _FULL
            elif not cut:
                writer.until = newest
            writer.commit(now=True)
        finally:
            writer.close()
    on_progress(1.0, writer.until)
    return Survey(found.findings, writer.until, cut)


def survey_some(recording: Recording, events: Sequence[Event], into: Path) -> None:
    """Write the attribution file ``into`` for these events alone, at least one. Raises as `survey`
    does.
    """
    writer = _Writer(AttributionFile(into))
    try:
        # Also the rounds of other events of the same containers, as in a whole survey.
        for diff in excerpt.of_events(recording, events).rounds:
            writer.add(diff)
        writer.until = max(event.id for event in events)
        writer.commit(now=True)
    finally:
        writer.close()


class _Writer:
    """Writer of the rounds, in any order of their events."""

    def __init__(self, file: AttributionFile) -> None:
        self._file = file
        self._next_s = 0.0
        self.until = 0
        """Id of the event up to which all rounds were written."""
        self.is_full = False
        """Whether the file has no space for more events."""

    def add(self, diff: RoundDiff) -> None:
        """Write the changes and problems of a round."""
        if self.is_full:
            return
        self.until = max(self.until, diff.event - 1)
        found: dict[int, dict[str, dict[str, None]]] = {}
        for step in wording.fresh(diff, diff.steps):
            if step.owner.who in _PLUGINS:
                by_owner = found.setdefault(step.event, {})
                if sum(map(len, by_owner.values())) < _PATHS_MAX:
                    paths = by_owner.setdefault(str(step.owner), {})
                    paths[clipped(step.change.path, _PATH_MAX)] = None
        problems = {
            diff.events[diff.seen_by.index(span.before)]: Problem.SLOW
            for span in diff.spans
            if span.before and wording.slow(span)
        }
        if diff.failure:
            problems[diff.event] = Problem.FAILED
        for event in {*found, *problems}:
            if not self._file.add(event, found.get(event, {}), problems.get(event, "")):
                self.is_full = True

    def commit(self, *, now: bool = False) -> None:
        """Make the rounds so far visible to readers, unless that was done just before."""
        if now or monotonic() >= self._next_s:
            self._file.commit(self.until)
            self._next_s = monotonic() + _COMMIT_S

    def close(self) -> None:
        """Close the file."""
        self._file.close()
