# SPDX-License-Identifier: Apache-2.0
"""Read a recording, also while it grows, write an attribution file and return the findings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from time import monotonic, process_time
from typing import NamedTuple

from nri_scope.differ import excerpt
from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.attribution.owner import OwnerKind
from nri_scope.differ.operations import span_words
from nri_scope.differ.render import wording
from nri_scope.differ.render.values import clipped
from nri_scope.events import Event, Problem
from nri_scope.recording import lookup
from nri_scope.recording.attribution_file import AttributionFile
from nri_scope.recording.reader import Recording
from nri_scope.report.finder import Finder, keeps_removed
from nri_scope.report.finding import Finding

from .assumptions import Assumptions

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
    has_more: bool
    """Whether the time for the pass was over before all events were read."""


def survey(
    path: Path, into: Path, on_progress: Callable[[float, int], None] = lambda share, until: None
) -> Survey:
    """Read the recording ``path``, and write the attribution file ``into``.

    ``on_progress`` receives the share of events read, 0 to 1, and the id up to which ``into`` is
    complete. Raises RecordingError, and UsageError if ``into`` cannot be written.
    """
    with closing(SurveyRun(path, into)) as run:
        found = run.go_on(on_progress)
        assert found is not None
        return found


class SurveyRun:
    """Survey of a recording, which goes on with the new events after the recording has grown.

    Methods raise RecordingError, and UsageError if the attribution file cannot be written.
    """

    def __init__(
        self, path: Path, into: Path, is_recorded: Callable[[], bool] | None = None
    ) -> None:
        """Start before the first event, with a new attribution file ``into``.

        ``is_recorded``: test whether a recorder is writing to the recording, so that open rounds
        may be continued; None if `go_on` is called once.
        """
        self._is_recorded = is_recorded
        self._result: Survey | None = None
        """The newest result."""
        self._is_valid = True
        self._is_concluded = False
        """Whether no more events can be read."""
        with ExitStack() as stack:
            self._recording = stack.enter_context(Recording.open(path))
            self._writer = _Writer(AttributionFile(into))
            stack.callback(self._writer.close)
            self._finder = Finder(
                self._recording,
                on_round=self._writer.add,
                outcome=lambda event: self._assumptions.outcome(event),
            )
            self._assumptions = Assumptions(self._recording, self._finder.gaps)
            self._files = stack.pop_all()

    def go_on(
        self, on_progress: Callable[[float, int], None], *, most_s: float | None = None
    ) -> Survey | None:
        """Read the new events; return the result for all events that were read so far.

        ``most_s``: processor time in seconds for the events, after which the rest is left to the
        next call, while a recorder is writing. None, from then on, if earlier results are no longer
        valid. See `survey`.
        """
        # In this order: an event that is added in between is read in the next call.
        waits = self._is_recorded is not None and self._is_recorded()
        first, newest = lookup.event_range(self._recording)
        is_valid = self._assumptions.renew(first, newest)
        if self._is_recorded is not None:
            kept = keeps_removed(self._recording, self._assumptions.sessions)
            is_valid = is_valid and kept == self._finder.keeps_removed
            if self._is_concluded and self._result is not None:
                is_valid = is_valid and self._result.until == newest
            self._is_valid = self._is_valid and is_valid
        if self._is_valid and not self._is_concluded:
            waits = waits and not self._recording.is_copy
            self._read(first, newest, on_progress, waits=waits, most_s=most_s if waits else None)
        return self._result if self._is_valid else None

    def _read(
        self,
        first: int,
        newest: int,
        on_progress: Callable[[float, int], None],
        *,
        waits: bool,
        most_s: float | None,
    ) -> None:
        """Read the new events up to ``newest``. ``waits``: whether more events may follow."""
        finder, recording, assumed = self._finder, self._recording, self._assumptions
        before, end_s = finder.newest, None if most_s is None else process_time() + most_s
        has_more = False

        def may_read(event: Event) -> bool:
            nonlocal has_more
            has_more = end_s is not None and process_time() > end_s and finder.newest > before
            return not has_more and assumed.may_read(event, waits=waits)

        def progress(share: float) -> None:
            self._writer.commit()
            on_progress(share, self._writer.until)

        with warnings.catch_warnings(record=True) as cuts:
            warnings.simplefilter("always")
            self._writer.file.remove(first)
            finder.learn(assumed.sessions)
            finder.read(progress, until=newest, may_read=may_read)
            if self._is_recorded is not None and not assumed.are_outcomes_true():
                self._is_valid = False
                return
            if not waits:
                finder.conclude()
            elif finder.newest == lookup.event_range(recording)[1]:
                finder.conclude(only_over=True)
        cut = str(cuts[0].message).removeprefix(f"{recording.path}: ") if cuts else ""
        cut = cut or (_FULL if self._writer.is_full else "")
        if not cut:
            self._writer.until = finder.complete_until if waits else newest
        self._writer.commit(now=True)
        on_progress(1.0, self._writer.until)
        self._result = Survey(finder.diagnosed().findings, self._writer.until, cut, has_more)
        self._is_concluded = bool(cut) or not waits

    def close(self) -> None:
        """Close the files."""
        self._files.close()


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
        self.file = file
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
        delays = {
            diff.events[diff.seen_by.index(span.before)]: clipped(span_words(span), _PATH_MAX)
            for span in diff.spans
            if span.before and wording.slow(span)
        }
        problems = dict.fromkeys(delays, Problem.SLOW)
        if diff.failure:
            problems[diff.event] = Problem.FAILED
        for event in {*found, *problems}:
            problem, delay = problems.get(event, ""), delays.get(event, "")
            if not self.file.add(event, found.get(event, {}), problem, delay):
                self.is_full = True

    def commit(self, *, now: bool = False) -> None:
        """Make the rounds so far visible to readers, unless that was done just before."""
        if now or monotonic() >= self._next_s:
            self.file.commit(self.until)
            self._next_s = monotonic() + _COMMIT_S

    def close(self) -> None:
        """Close the file."""
        self.file.close()
