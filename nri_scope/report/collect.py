# SPDX-License-Identifier: Apache-2.0
"""Collect a report's facts in one pass through a recording, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from nri_scope import __version__
from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.render import wording
from nri_scope.differ.render.values import clipped
from nri_scope.events import REDACTED, Container, Event, Gap, Pod, Role
from nri_scope.recording import lookup
from nri_scope.recording.cri_answers import is_container_status
from nri_scope.recording.display import many, runtime
from nri_scope.recording.plugin_calls import by_plugin, measured_times
from nri_scope.recording.reader import Recording
from nri_scope.recording.redacted import is_redacted
from nri_scope.recording.summary import time_range

from .chain import Links
from .changed_containers import Changes
from .finder import Finder
from .lifetime_lanes import Lanes
from .limits import (
    GAPS_MAX,
    NOTES_MAX,
    PLUGINS_MAX,
    SESSIONS_MAX,
    TRACKED_MAX,
    TROUBLES_MAX,
    WORDS_MAX,
)
from .report_data import Facts, LeftOut, Mark, ProblemEvent

_BY_EVENT_MAX = 40


def collect(
    recording: Recording,
    thing: lookup.Found | None = None,
    *,
    on_progress: Callable[[float], None] | None = None,
) -> Facts:
    """Collect the facts of a recording, or of one subject in it.

    All events are read, as events of other subjects also serve as evidence. ``on_progress`` is
    called every 2,000 events with the completed share, from 0 to 1. Raises RecordingError.
    """
    collector = _Collector(recording, thing)
    collector.read(on_progress)
    collector.conclude()
    return collector.facts()


class _Collector(Finder):
    """Collector of everything in a report."""

    def __init__(self, recording: Recording, thing: lookup.Found | None) -> None:
        super().__init__(recording, thing)
        about = thing if isinstance(thing, Pod | Container) else None
        self._lanes = Lanes(*time_range(recording, about))
        self._links = Links(self._sessions)
        self._changes = Changes(self._name_of)
        self._by_event: dict[str, list[int]] = {}
        self._troubles: list[ProblemEvent] = []
        self._troubles_in_all = 0
        self._containers: set[str] = set()
        self._pods: set[str] = set()

    @property
    def _needs_only_findings(self) -> bool:
        return False

    def _see_wanted(self, event: Event) -> None:
        super()._see_wanted(event)
        self._links.see(event)
        if is_container_status(event):
            return
        if event.event in self._by_event or len(self._by_event) < _BY_EVENT_MAX:
            tally = self._by_event.setdefault(event.event, [0, 0])
            tally[0] += 1
            tally[1] += event.status_code != 0
        if event.container_id and len(self._containers) < TRACKED_MAX:
            self._containers.add(event.container_id)
        if event.pod_id and len(self._pods) < TRACKED_MAX:
            self._pods.add(event.pod_id)
        self._lanes.see(event)

    def _round_of(self, part: RoundDiff, *, is_whole: bool) -> None:
        self._changes.round(part)
        if not is_whole:
            return
        self._links.round(part)
        slow = [wording.slow_span(one) for one in part.spans if wording.slow(one)]
        kind = Mark.CALM
        text = f"{part.name}, event {part.event}"
        if part.failure:
            kind, text = Mark.FAILED, f"{text}: {part.failure}"
            self._trouble(part, Mark.FAILED, part.failure)
        elif slow:
            kind, text = Mark.SLOW, f"{text}: {'; '.join(slow)}"
        elif wording.fresh(part, part.own):
            kind = Mark.CHANGED
            text = f"{text}: {many(len(wording.fresh(part, part.own)), 'change')}"
        for one in slow:
            self._trouble(part, Mark.SLOW, one)
        self._lanes.mark(part.container or part.pod, part.at_ns, kind, clipped(text, WORDS_MAX))

    def _trouble(self, diff: RoundDiff, kind: Mark, text: str) -> None:
        self._troubles_in_all += 1
        if len(self._troubles) < TROUBLES_MAX:
            self._troubles.append(
                ProblemEvent(
                    diff.event,
                    diff.at_ns,
                    diff.name,
                    wording.subject(diff, self._name_of),
                    kind,
                    clipped(text, WORDS_MAX),
                )
            )

    def _drawn_gaps(self) -> list[Gap]:
        """Return the gaps for the timeline, without those outside the time of the subject."""
        first, last = self._lanes.first_ns, self._lanes.last_ns
        if self._thing is None:
            return self.lost_gaps
        return [gap for gap in self.lost_gaps if gap.to_ns >= first and gap.from_ns <= last]

    def facts(self) -> Facts:
        """Return the facts, after all events were read."""
        found = self.diagnosed()
        gaps = self.lost_gaps
        notes = [one for one in self._recording.notes() if one.text != REDACTED]
        plugins = [one for one in self._sessions if one.role != Role.CRI]
        runtimes = [*dict.fromkeys(map(runtime, plugins))]
        timeline = None
        if self._events:
            timeline = self._lanes.timeline(self._sessions, self._drawn_gaps(), self._name_of)
        containers, rows = self._changes.kept
        measured = by_plugin(measured_times(self._recording)) if self._thing is None else []
        lanes = 0 if timeline is None else len(timeline.lanes)
        left_out = (
            LeftOut("sessions", min(SESSIONS_MAX, len(self._sessions)), len(self._sessions)),
            LeftOut("gaps", min(GAPS_MAX, len(gaps)), len(gaps)),
            LeftOut("notes", min(NOTES_MAX, len(notes)), len(notes)),
            LeftOut("plugins", min(PLUGINS_MAX, len(measured)), len(measured)),
            LeftOut("changed containers", containers, self._changes.containers),
            LeftOut("changes", rows, self._changes.rows),
            LeftOut("slow or failing events", len(self._troubles), self._troubles_in_all),
            LeftOut("pods and containers in the timeline", lanes, self._lanes.seen),
        )
        return Facts(
            **{one.name: getattr(found, one.name) for one in fields(found)},
            tool=f"nri-scope {__version__}",
            runtimes=tuple(clipped(one, WORDS_MAX) for one in runtimes[:SESSIONS_MAX]),
            lost=sum(gap.lost or 0 for gap in gaps),
            notes=tuple(notes[:NOTES_MAX]),
            pods=len(self._pods),
            containers=len(self._containers),
            by_event=tuple(
                sorted(
                    ((name, count, bad) for name, (count, bad) in self._by_event.items()),
                    key=lambda one: (-one[1], one[0]),
                )
            ),
            chain=tuple(self._links.links()),
            changed=self._changes.result(),
            legend=self._changes.legend(),
            troubles=tuple(self._troubles),
            timeline=timeline,
            left_out=tuple(one for one in left_out if one.kept < one.all),
            measured=tuple(measured[:PLUGINS_MAX]),
            redacted=is_redacted(self._recording),
        )
