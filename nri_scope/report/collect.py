# SPDX-License-Identifier: Apache-2.0
"""Collect a report's facts in one pass through a recording, in bounded memory.

Besides, collect the plugins of the chain with the times of each, and the changed containers, each
with its changes and their owners.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace

from nri_scope import __version__
from nri_scope.differ.attribution.attributed_changes import ChangeStep, NameOf, RoundDiff
from nri_scope.differ.missing_plugin import missed_creations
from nri_scope.differ.render import wording
from nri_scope.differ.render.values import clipped, clipped_pair, place, sides
from nri_scope.differ.render.wording import Legend
from nri_scope.events import (
    CONTAINER_STATUS,
    PASSIVE_ROLES,
    REDACTED,
    Container,
    Event,
    Gap,
    Pod,
    Role,
    Session,
)
from nri_scope.nri import v01
from nri_scope.nri.events import CREATE, EventKind
from nri_scope.recording.display import runtime
from nri_scope.recording.query import lookup
from nri_scope.recording.query.event_times import is_redacted
from nri_scope.recording.query.stats import Times, Timing, time_range
from nri_scope.recording.reading.event_messages import is_container_status
from nri_scope.recording.reading.plugin_calls import by_plugin, measured_times
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.work_budget import OnShare
from nri_scope.specs import label

from .finder import Finder
from .lifetime_lanes import LaneCollector
from .limits import (
    CONTAINERS_MAX,
    GAPS_MAX,
    NOTES_MAX,
    PLUGINS_MAX,
    SESSIONS_MAX,
    STEPS_MAX,
    STEPS_OF_ONE_MAX,
    TRACKED_MAX,
    VALUE_MAX,
    WORDS_MAX,
)
from .report_data import ChainLink, Changed, ChangeRow, Facts, LaneMark, LeftOut
from .wording import counted, role


@dataclass(slots=True)
class _Container:
    name: str
    created: int = 0
    failure: str = ""
    steps: list[ChangeStep] = field(default_factory=list)
    remarks: dict[str, None] = field(default_factory=dict)
    in_all: int = 0
    omitted_changes: int = 0


class Changes:
    """Collector of the first changes of rounds, as text of limited length."""

    def __init__(self, name_of: NameOf) -> None:
        self._name_of = name_of
        self._found: dict[str, _Container] = {}
        self._skipped: set[str] = set()
        self._legend = Legend()
        self._kept = 0
        self.rows = 0
        """Number of changes, including omitted ones."""

    @property
    def containers(self) -> int:
        """Number of changed containers, including omitted ones."""
        return len(self._found) + len(self._skipped)

    @property
    def kept(self) -> tuple[int, int]:
        """Numbers of included containers and changes."""
        return len(self._found), self._kept

    def round(self, diff: RoundDiff) -> None:
        """Process the requests and changes of a round."""
        for step in diff.steps:
            self._add(step)
        if diff.name == CONTAINER_STATUS and diff.failure:
            container = self._of(diff.container)
            if container is not None and len(container.remarks) < STEPS_OF_ONE_MAX:
                container.remarks[clipped(diff.failure, WORDS_MAX)] = None
        if diff.name != CREATE or not diff.container:
            return
        matters = diff.failure or diff.doubt or diff.absences
        container = self._of(diff.container) if matters else self._found.get(diff.container)
        if container is not None:
            if diff.created:
                container.created = container.created or diff.event
            container.failure = clipped(diff.failure, WORDS_MAX)
            if len(container.remarks) < STEPS_OF_ONE_MAX:
                remarks = (*diff.absences, *filter(None, [diff.doubt]), *diff.remarks)
                container.remarks |= dict.fromkeys(clipped(remark, WORDS_MAX) for remark in remarks)

    def result(self) -> tuple[Changed, ...]:
        """Return the containers in the order of their first changes."""
        return tuple(
            Changed(
                key,
                container.name,
                container.created,
                container.failure,
                tuple(map(_row, container.steps)),
                container.in_all,
                container.omitted_changes + sum(step.is_change for step in container.steps),
                tuple(container.remarks),
            )
            for key, container in self._found.items()
        )

    def legend(self) -> tuple[str, ...]:
        """Return the explanations of owners and evidence."""
        return tuple(self._legend.lines())

    def _of(self, container: str) -> _Container | None:
        """Return the container; None beyond the limit."""
        collected = self._found.get(container)
        if collected is None and container not in self._skipped:
            if len(self._found) >= CONTAINERS_MAX or self._kept >= STEPS_MAX:
                if len(self._skipped) < TRACKED_MAX:
                    self._skipped.add(container)
            else:
                collected = self._found[container] = _Container(self._name_of(container))
        return collected

    def _add(self, step: ChangeStep) -> None:
        self.rows += 1
        container = self._of(step.container)
        if container is None:
            return
        container.in_all += 1
        if len(container.steps) >= STEPS_OF_ONE_MAX or self._kept >= STEPS_MAX:
            container.omitted_changes += step.is_change
            return
        self._kept += 1
        container.steps.append(step)
        self._legend.add_step(step)


def _row(step: ChangeStep) -> ChangeRow:
    change = step.change
    before, after = clipped_pair(*sides(change), VALUE_MAX)
    if change.kind == "added" and change.position is not None:
        after = f"{after} (in {place(change.position)} place)"
    trouble = [
        text.removeprefix("! ")
        for weight, text in wording.details(step)
        if weight is not wording.DetailWeight.REMARK
    ]
    return ChangeRow(
        step.event,
        change.kind,
        wording.glyph(step),
        clipped(label(change.path), WORDS_MAX),
        before,
        after,
        f"{clipped(wording.owner(step.owner), WORDS_MAX)}, {wording.outcome(step)}",
        wording.sources(step.evidence),
        clipped("; ".join(trouble), VALUE_MAX),
        clipped(step.note, VALUE_MAX),
    )


_NAMES = frozenset(event.name for event in EventKind)
_CALLS = _NAMES | frozenset(v01.INVOCATIONS)


class Links:
    """Collector of the chain from events and rounds. Uses 8 bytes for each measured time."""

    def __init__(self, sessions: Iterable[Session]) -> None:
        self._sessions = {session.id: session for session in sessions if session.role != Role.CRI}
        self._events: dict[str, int] = {}
        self._own: dict[str, Times] = {}
        """Times of each connection."""
        self._between: dict[tuple[str, str], Times] = {}
        self._listed: dict[str, None] = {}
        """Plugins that the runtime listed in requests to validators."""

    def see(self, event: Event) -> None:
        """Process an event of one connection."""
        session = self._sessions.get(event.session)
        if session is None:
            return
        plugin = session.plugin
        self._events[plugin] = self._events.get(plugin, 0) + 1
        if event.event in _CALLS and event.took_ns:
            self._own.setdefault(plugin, Times()).add(event.took_ns, event.timeout_ns)

    def round(self, diff: RoundDiff) -> None:
        """Process a round."""
        if len(self._listed) < PLUGINS_MAX:
            self._listed.update(dict.fromkeys(diff.chain))
        for span in diff.spans:
            if span.after and span.before and diff.name in _NAMES:
                key = span.after, span.before
                self._between.setdefault(key, Times()).add(span.ns, span.deadline_ns)

    def links(self) -> list[ChainLink]:
        """Return the links in call order."""
        link_of: dict[str, ChainLink] = {}
        for session in self._sessions.values():
            if session.plugin in self._events:
                link_of[session.plugin] = self._seen(session, link_of.get(session.plugin))
        for plugin in self._listed:
            if plugin not in link_of:
                link_of[plugin] = ChainLink(
                    plugin, plugin[:2], "listed for validators", False, False, 0, None
                )
        order = sorted(link_of.values(), key=lambda link: (link.index, link.title))
        intervals = sorted(self._between.items())
        result: list[ChainLink] = []
        for link in order:
            result.append(link)
            for (after, before), times in intervals:
                if after == link.title:
                    result += self._interval(after, before, times, order)
        return result

    def _seen(self, session: Session, earlier: ChainLink | None) -> ChainLink:
        how = role(session)
        if earlier is not None and how not in earlier.known_by:
            how = f"{earlier.known_by}, {how}"
        passive = session.role in PASSIVE_ROLES
        times = self._own.get(session.plugin)
        return ChainLink(
            session.plugin,
            session.plugin_index,
            how,
            passive and (earlier is None or earlier.passive),
            False,
            self._events[session.plugin],
            None if times is None else Timing.of(times),
            session.role != Role.V01,
        )

    def _interval(
        self, after: str, before: str, times: Times, order: Sequence[ChainLink]
    ) -> Iterator[ChainLink]:
        """Yield the interval between two connections, unless it is fast and without plugins."""
        titles = [link.title for link in order]
        inside = order[titles.index(after) + 1 : titles.index(before)]
        # Plugins in requests to validators without a connection of their own.
        unseen = [link.title for link in inside if not link.events]
        if self._listed and not unseen and not times.over_half:
            return
        who = ", ".join(unseen) or "unobserved plugins, if any"
        title = f"between {after} and {before}"
        yield ChainLink(title, "", f"{who}, and the runtime", False, True, 0, Timing.of(times))


_BY_EVENT_MAX = 40


def collect(
    recording: Recording,
    subject: lookup.Found | None = None,
    *,
    on_progress: OnShare | None = None,
) -> Facts:
    """Collect the facts of a recording, or of one subject in it.

    All events are read, as events of other subjects also serve as evidence. ``on_progress`` is
    called every 2,000 events with the completed share, from 0 to 1. Raises RecordingError.
    """
    collector = _Collector(recording, subject)
    collector.read(on_progress)
    collector.conclude()
    return collector.facts()


class _Collector(Finder):
    """Collector of everything in a report."""

    def __init__(self, recording: Recording, subject: lookup.Found | None) -> None:
        super().__init__(recording, subject)
        about = subject if isinstance(subject, Pod | Container) else None
        self._absences = missed_creations(recording)
        self._lanes = LaneCollector(*time_range(recording, about))
        self._links = Links(self.sessions.values())
        self._changes = Changes(self.name_of)
        self._requests: deque[RoundDiff] = deque()
        """Rounds with requests, to be marked when their outcomes are known."""
        self._by_event: dict[str, list[int]] = {}
        self._containers: set[str] = set()
        self._pods: set[str] = set()

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
        self._changes.round(replace(part, absences=self._absences.get(part.container, ())))
        if not is_whole:
            return
        self._links.round(part)
        slow = [wording.slow_span(span) for span in part.spans if wording.slow(span)]
        kind = LaneMark.CALM
        text = f"{part.name}, event {part.event}"
        if part.failure:
            kind, text = LaneMark.FAILED, f"{text}: {part.failure}"
        elif slow:
            kind, text = LaneMark.SLOW, f"{text}: {'; '.join(slow)}"
        elif part.own:
            self._requests.append(part)
            if len(self._requests) > TRACKED_MAX:
                self._mark_requests(self._requests.popleft())
            return
        self._lanes.mark(part.container or part.pod, part.at_ns, kind, clipped(text, WORDS_MAX))

    def _mark_requests(self, part: RoundDiff) -> None:
        """Mark a round with requests, whose outcomes later rounds have shown."""
        changes = sum(step.is_change for step in part.own)
        kind = LaneMark.CHANGED if changes else LaneMark.CALM
        text = f"{part.name}, event {part.event}: {counted(changes, len(part.own))}"
        self._lanes.mark(part.container or part.pod, part.at_ns, kind, clipped(text, WORDS_MAX))

    def _drawn_gaps(self) -> list[Gap]:
        """Return the gaps for the timeline, without those outside the time of the subject."""
        first, last = self._lanes.first_ns, self._lanes.last_ns
        if self._choice.subject is None:
            return self.lost_gaps
        return [gap for gap in self.lost_gaps if gap.to_ns >= first and gap.from_ns <= last]

    def facts(self) -> Facts:
        """Return the facts, after all events were read."""
        diagnosed = self.diagnosed()
        gaps = self.lost_gaps
        notes = [note for note in self._recording.notes() if note.text != REDACTED]
        plugins = [session for session in self.sessions.values() if session.role != Role.CRI]
        runtimes = [*dict.fromkeys(map(runtime, plugins))]
        timeline = None
        for part in self._requests:
            self._mark_requests(part)
        if self._events:
            timeline = self._lanes.timeline(
                self.sessions.values(), self._drawn_gaps(), self.name_of
            )
        by_event = [(name, count, bad) for name, (count, bad) in self._by_event.items()]
        containers, rows = self._changes.kept
        measured = (
            by_plugin(measured_times(self._recording)) if self._choice.subject is None else []
        )
        lanes = 0 if timeline is None else len(timeline.lanes)
        left_out = (
            LeftOut("sessions", min(SESSIONS_MAX, len(self.sessions)), len(self.sessions)),
            LeftOut("gaps", min(GAPS_MAX, len(gaps)), len(gaps)),
            LeftOut("notes", min(NOTES_MAX, len(notes)), len(notes)),
            LeftOut("plugins", min(PLUGINS_MAX, len(measured)), len(measured)),
            LeftOut("changed containers", containers, self._changes.containers),
            LeftOut("changes", rows, self._changes.rows),
            LeftOut("pods and containers in the timeline", lanes, self._lanes.seen),
        )
        return Facts(
            **{member.name: getattr(diagnosed, member.name) for member in fields(diagnosed)},
            tool=f"nri-scope {__version__}",
            runtimes=tuple(clipped(name, WORDS_MAX) for name in runtimes[:SESSIONS_MAX]),
            lost=sum(gap.lost or 0 for gap in gaps),
            notes=tuple(notes[:NOTES_MAX]),
            pods=len(self._pods),
            containers=len(self._containers),
            by_event=tuple(sorted(by_event, key=lambda row: (-row[1], row[0]))),
            chain=tuple(self._links.links()),
            changed=self._changes.result(),
            legend=self._changes.legend(),
            timeline=timeline,
            left_out=tuple(part for part in left_out if part.kept < part.all),
            measured=tuple(measured[:PLUGINS_MAX]),
            redacted=is_redacted(self._recording),
        )
