# SPDX-License-Identifier: Apache-2.0
"""A timeline for ui.perfetto.dev, in Perfetto's protobuf format.

Perfetto's JSON format is unsuitable: its times are floating-point microseconds, too coarse for
today's timestamps in ns, and all its tracks are threads of processes.

Each pod is a process. It contains a track for the pod and one for each container, which show
states, with events below; arrows connect successive events of a container. Three more processes
contain the plugin connections with their requests, the gaps, and the notes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import IO

from nri_scope.events import Event, Gap, Note, Session
from nri_scope.nri.events import EventStage
from nri_scope.recording.file.sqlite_text import HIGHEST
from nri_scope.recording.query.lifetimes import Lifetime, Lifetimes
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.records import deadline_ms

from .exported_part import ExportedPart, requests_of
from .perfetto_packets import PacketKind, Packets, Value, track_id

MAX_LANES = 32
"""Maximum number of lanes for overlapping slices of a track; further slices become instants."""

_STATES = {
    EventStage.LISTED: "state not observed",
    EventStage.CREATING: "created",
    EventStage.CREATED: "created",
    EventStage.STARTED: "running",
    EventStage.STOPPED: "stopped",
    EventStage.REMOVED: "",
}
"""Displayed states; "": removed."""

_CONNECTIONS, _GAPS, _NOTES, _NO_POD = 1, 2, 3, 1000
"""Process numbers, which the viewer requires; they are not process ids of the system."""


def write(recording: Recording, numbers: Iterable[int] | None, stream: IO[bytes]) -> int:
    """Write one trace, without the events' messages; see `formats.Write`.

    Memory grows with the number of pods and containers that exist at the same time, and by a few
    bytes for each removed one.
    """
    excerpt = ExportedPart(recording, numbers)
    sessions = {session.id: session for session in recording.sessions()}
    trace: _Trace | None = None
    count = 0
    for event in excerpt.events():
        if trace is None:
            trace = _Trace(_begin_trace(stream, event.at_ns), sessions)
        trace.event(event)
        count += 1
    gaps, notes = excerpt.gaps(), recording.notes()
    if trace is None:
        times = [gap.from_ns for gap in gaps] + [note.at_ns for note in notes]
        trace = _Trace(_begin_trace(stream, min(times, default=0)), sessions)
    for gap in gaps:
        trace.gap(gap)
    for note in notes:
        trace.note(note)
    return count


def _begin_trace(stream: IO[bytes], at_ns: int) -> Packets:
    packets = Packets(stream)
    packets.begin(at_ns)
    return packets


@dataclass(slots=True)
class _PerfettoLanes:
    """Lanes for slices that may overlap; slices of one lane must be disjoint."""

    parent: int
    name: str
    ends: list[int] = field(default_factory=list)
    """End of the last slice in each lane, in ns."""

    def draw(
        self,
        packets: Packets,
        from_ns: int,
        to_ns: int,
        name: str,
        category: str,
        values: dict[str, Value],
        flow: int = 0,
    ) -> None:
        to_ns = max(to_ns, from_ns)
        lane = next((n for n, end in enumerate(self.ends) if end <= from_ns), len(self.ends))
        kind = PacketKind.BEGIN
        if lane == MAX_LANES:
            lane, kind = 0, PacketKind.INSTANT
        track = track_id("lane", self.parent, self.name, lane)
        if lane == len(self.ends):
            self.ends.append(to_ns)
            number = f" ({lane + 1})" if lane else ""
            packets.track(track, self.parent, f"{self.name}{number}", rank=lane + 1)
        packets.event(kind, track, from_ns, name, category, values, flow)
        if kind is PacketKind.BEGIN:
            self.ends[lane] = to_ns
            packets.event(PacketKind.END, track, to_ns)


@dataclass(slots=True)
class _TrackSubject:
    """The drawn state of a pod or container, and its events."""

    track: int
    events: _PerfettoLanes
    state: str = ""
    since_ns: int = 0

    def update(self, packets: Packets, event: Event, stage: EventStage) -> None:
        state = _STATES[stage]
        if state == self.state:
            return
        # If the clock was set back, an end before the beginning would not close the slice.
        at_ns = max(event.at_ns, self.since_ns)
        if self.state:
            packets.event(PacketKind.END, self.track, at_ns)
        if state:
            packets.event(PacketKind.BEGIN, self.track, at_ns, state, "state")
        self.state, self.since_ns = state, at_ns


@dataclass(slots=True)
class _Trace:
    packets: Packets
    sessions: dict[int, Session]
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    subjects: dict[int, _TrackSubject] = field(default_factory=dict)
    """Pods and containers whose lifetime is not complete, by track."""
    drawn_pods: int = 0
    connections: dict[int, tuple[_PerfettoLanes, _PerfettoLanes]] = field(default_factory=dict)
    """Lanes of the requests and of the gaps, by session."""
    processes: dict[int, int] = field(default_factory=dict)
    gaps: _PerfettoLanes | None = None

    def event(self, event: Event) -> None:
        end_ns = event.at_ns + event.took_ns
        session = self.sessions.get(event.session)
        requests, _ = self._connection(event.session)
        requests.draw(
            self.packets,
            event.at_ns,
            end_ns,
            event.event,
            event.status,
            {"event": event.id, "subject": _subject_name(event)},
        )
        lifetimes = self.lifetimes.see(event)
        if not lifetimes:
            return
        *_, subject = [self._subject(event, lifetime) for lifetime in lifetimes]
        # Requests to the CRI do not change a state.
        if session is None or session.is_connection:
            subject.update(self.packets, event, lifetimes[-1].stage)
        subject.events.draw(
            self.packets,
            event.at_ns,
            end_ns,
            event.event,
            event.status,
            _values(event),
            flow=subject.track if event.container_id else 0,
        )
        for complete in self.lifetimes.pop_complete():
            del self.subjects[_track_of(complete)]

    def gap(self, gap: Gap) -> None:
        values: dict[str, Value] = {"reason": gap.reason}
        for key, count in gap.losses.items():
            if count is not None:
                values[key] = count
        lanes = []
        if gap.session is not None:
            session = self.sessions.get(gap.session)
            values["plugin"] = session.plugin if session else ""
            lanes.append(self._connection(gap.session)[1])
        if self.gaps is None:
            self.gaps = _PerfettoLanes(self._process(_GAPS, "not observed"), "gaps")
        name = "left out" if gap.is_left_out else "not observed"
        for target in (*lanes, self.gaps):
            target.draw(self.packets, gap.from_ns, gap.to_ns, name, "gap", values)

    def note(self, note: Note) -> None:
        process = self._process(_NOTES, "notes")
        self.packets.event(PacketKind.INSTANT, process, note.at_ns, note.text, "note")

    def _subject(self, event: Event, lifetime: Lifetime) -> _TrackSubject:
        """Return the event's container or pod; draw the track of a new one."""
        track = _track_of(lifetime)
        subject = self.subjects.get(track)
        if subject is not None:
            return subject
        subject = self.subjects[track] = _TrackSubject(track, _PerfettoLanes(track, "events"))
        if lifetime.is_resumed:
            # The first lane may still be in use: its last end was dropped.
            subject.events.ends.append(HIGHEST)
        elif lifetime.is_pod:
            self.drawn_pods += 1
            name = f"{event.namespace}/{event.pod}" if event.pod else event.pod_id
            number = _NO_POD + self.drawn_pods
            self.packets.process(self._group(event), number, name, rank=number)
            self.packets.track(track, self._group(event), "pod", rank=1)
        else:
            name = event.container or event.container_id
            self.packets.track(track, self._group(event), name, rank=2)
        return subject

    def _group(self, event: Event) -> int:
        """Return the track of the process of the event's pod."""
        if event.pod_id:
            return track_id("pod", event.pod_id)
        return self._process(_NO_POD, "containers without a pod")

    def _connection(self, number: int) -> tuple[_PerfettoLanes, _PerfettoLanes]:
        found = self.connections.get(number)
        if found is not None:
            return found
        session = self.sessions.get(number)
        process = self._process(_CONNECTIONS, "plugin connections")
        track = track_id("connection", number)
        name = f"{session.plugin}, session {number}" if session else f"session {number}"
        self.packets.track(track, process, name, rank=len(self.connections) + 1)
        if session is not None:
            self._draw_connection(track, session)
        lanes = _PerfettoLanes(track, "requests"), _PerfettoLanes(track, "not observed")
        self.connections[number] = lanes
        return lanes

    def _draw_connection(self, track: int, session: Session) -> None:
        values: dict[str, Value] = {
            "role": session.role,
            "runtime": f"{session.runtime_name} {session.runtime_version}".strip(),
            "nri_version": session.nri_version,
            "nri_version_inferred": session.nri_version_inferred,
            "end_reason": session.end_reason,
        }
        self.packets.event(
            PacketKind.BEGIN, track, session.started_ns, "connected", "connection", values
        )
        # The viewer extends a slice without an end to the end of the timeline.
        if session.ended_ns is not None:
            ended_ns = max(session.ended_ns, session.started_ns)
            self.packets.event(PacketKind.END, track, ended_ns)

    def _process(self, number: int, name: str) -> int:
        found = self.processes.get(number)
        if found is None:
            found = self.processes[number] = track_id("process", number)
            self.packets.process(found, number, name, rank=number)
        return found


def _track_of(lifetime: Lifetime) -> int:
    return track_id("pod itself" if lifetime.is_pod else "container", lifetime.id)


def _values(event: Event) -> dict[str, Value]:
    changed, requested = requests_of(event)
    values: dict[str, Value] = {
        "event": event.id,
        "plugin": event.plugin,
        "session": event.session,
        "status": event.status,
        "status_message": event.status_message,
        "took_us": event.took_ns // 1000,
        "size": event.size,
        "method": event.method,
        "mark": event.mark,
        "changed": changed,
        "requested": requested,
        "owners": event.owners,
        "container_id": event.container_id,
        "pod_id": event.pod_id,
    }
    deadline = deadline_ms(event.timeout_ns)
    if deadline is not None:
        values["deadline_ms"] = deadline
    return values


def _subject_name(event: Event) -> str:
    names = (event.namespace, event.pod, event.container)
    return "/".join(name for name in names if name)
