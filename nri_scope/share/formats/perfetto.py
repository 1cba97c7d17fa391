# SPDX-License-Identifier: Apache-2.0
"""A timeline for ui.perfetto.dev, in Perfetto's protobuf format.

Perfetto's JSON format is not suitable: its times are floating-point microseconds, too coarse for
present-day nanoseconds, all its tracks are threads of processes, and a viewer must read the whole
file before it can show anything.

Each pod is a process. It contains tracks for the pod and its containers, which show their states,
with events below; arrows connect successive events of a container. One process has the plugin
connections with the requests to each, one the gaps, and one the notes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import IO

from nri_scope.events import Event, Gap, Note, Role, Session
from nri_scope.recording.reader import Recording
from nri_scope.recording.records import deadline_ms
from nri_scope.recording.sqlite_text import HIGHEST

from .excerpt import Excerpt
from .lifetimes import WAIT
from .packets import PacketKind, Packets, Value, track_id

MAX_LANES = 32
"""Maximum number of rows for overlapping slices of a track; further ones become instants."""

_STATES = {
    "RunPodSandbox": "running",
    "StopPodSandbox": "stopped",
    "RemovePodSandbox": "",
    "CreateContainer": "created",
    "PostCreateContainer": "created",
    "StartContainer": "running",
    "PostStartContainer": "running",
    "StopContainer": "stopped",
    "RemoveContainer": "",
}
"""The state of a pod or container after each event; "": removed."""
_UNOBSERVED = "state not observed"

OWN_WORDS = (
    *_STATES.values(),
    *(_UNOBSERVED, "state", "gap", "gaps", "not observed", "left out", "note", "notes", "pod"),
    *("containers without a pod", "events", "requests", "plugin connections", "session "),
    *("connected", "connection", "runtime", "nri_version", "nri_version_inferred", "end_reason"),
    *("event", "subject", "reason", "lost", "plugin", "role", "session", "status"),
    *("status_message", "took_us", "size", "method", "mark", "changed", "owners"),
    *("container_id", "pod_id", "deadline_ms"),
)
"""Texts written by this format itself; the leak scan does not report them."""

_CONNECTIONS, _GAPS, _NOTES, _NO_POD = 1, 2, 3, 1000
"""Process numbers required by the viewer; these are not real processes."""


def write(recording: Recording, numbers: Iterable[int] | None, stream: IO[bytes]) -> int:
    """Write one trace, without the events' messages; see `formats.Write`.

    Memory grows with the pods and containers that exist at the same time, and little with removed
    ones.
    """
    excerpt = Excerpt(recording, numbers)
    sessions = {session.id: session for session in excerpt.sessions()}
    drawing: _Drawing | None = None
    count = 0
    for event in excerpt.events():
        if drawing is None:
            drawing = _Drawing(_begun(stream, event.at_ns), sessions)
        drawing.event(event)
        drawing.forget()
        count += 1
    gaps, notes = excerpt.gaps(), excerpt.notes()
    if drawing is None:
        times = [gap.from_ns for gap in gaps] + [note.at_ns for note in notes]
        drawing = _Drawing(_begun(stream, min(times, default=0)), sessions)
    for gap in gaps:
        drawing.gap(gap)
    for note in notes:
        drawing.note(note)
    return count


def _begun(stream: IO[bytes], at_ns: int) -> Packets:
    packets = Packets(stream)
    packets.begin(at_ns)
    return packets


@dataclass(slots=True)
class _Lanes:
    """Lanes for slices that may overlap, since slices of one track must be disjoint or nested."""

    parent: int
    name: str
    ends: list[int] = field(default_factory=list)
    """The end of the last slice in each lane."""

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
        lane = next((at for at, end in enumerate(self.ends) if end <= from_ns), len(self.ends))
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
class _Life:
    """The state of a pod or container, and its events."""

    track: int
    events: _Lanes
    state: str | None = None
    """None if nothing has been drawn yet, "" if removed."""
    since_ns: int = 0

    def tell(self, packets: Packets, event: Event) -> None:
        told = _STATES.get(event.event)
        if told is None:
            told = _UNOBSERVED if self.state is None else self.state
        if told == self.state:
            return
        # The clock may have been set back; an end before the beginning would not close the slice.
        at_ns = max(event.at_ns, self.since_ns)
        if self.state:
            packets.event(PacketKind.END, self.track, at_ns)
        if told:
            packets.event(PacketKind.BEGIN, self.track, at_ns, told, "state")
        self.state, self.since_ns = told, at_ns


@dataclass(slots=True)
class _Drawing:
    packets: Packets
    sessions: dict[int, Session]
    pods: dict[str, _Life] = field(default_factory=dict)
    containers: dict[str, _Life] = field(default_factory=dict)
    gone: deque[tuple[int, dict[str, _Life], str]] = field(default_factory=deque)
    """Removed pods and containers to be forgotten soon, with the number of events so far."""
    forgotten: set[int] = field(default_factory=set)
    """Tracks of forgotten pods and containers."""
    drawn_pods: int = 0
    count: int = 0
    connections: dict[int, tuple[_Lanes, _Lanes]] = field(default_factory=dict)
    """For each session, the lanes of its requests and of its gaps."""
    processes: dict[int, int] = field(default_factory=dict)
    gaps: _Lanes | None = None

    def event(self, event: Event) -> None:
        end_ns = event.at_ns + event.took_ns
        session = self.sessions.get(event.session)
        asked, _ = self._connection(event.session)
        asked.draw(
            self.packets,
            event.at_ns,
            end_ns,
            event.event,
            event.status,
            {"event": event.id, "subject": _subject(event)},
        )
        life = self._life(event)
        if life is None:
            return
        # Only the runtime's actions change a state, not status requests to the CRI.
        if session is None or session.role != Role.CRI:
            was = life.state
            life.tell(self.packets, event)
            if not life.state and was:
                of_container = bool(event.container_id)
                lives = self.containers if of_container else self.pods
                key = event.container_id if of_container else event.pod_id
                self.gone.append((self.count, lives, key))
        life.events.draw(
            self.packets,
            event.at_ns,
            end_ns,
            event.event,
            event.status,
            _values(event),
            flow=life.track if event.container_id else 0,
        )

    def forget(self) -> None:
        """Forget pods and containers that were removed long ago; called after each event."""
        self.count += 1
        while self.gone and self.gone[0][0] + WAIT < self.count:
            _, lives, key = self.gone.popleft()
            life = lives.get(key)
            # It may have been created again, or removed twice.
            if life is not None and not life.state:
                self.forgotten.add(life.track)
                del lives[key]

    def gap(self, gap: Gap) -> None:
        told: dict[str, Value] = {"reason": gap.reason}
        if gap.lost is not None:
            told["lost"] = gap.lost
        lanes = []
        if gap.session is not None:
            session = self.sessions.get(gap.session)
            told["plugin"] = session.plugin if session else ""
            lanes.append(self._connection(gap.session)[1])
        if self.gaps is None:
            self.gaps = _Lanes(self._process(_GAPS, "not observed"), "gaps")
        name = "left out" if gap.is_left_out else "not observed"
        for some in (*lanes, self.gaps):
            some.draw(self.packets, gap.from_ns, gap.to_ns, name, "gap", told)

    def note(self, note: Note) -> None:
        process = self._process(_NOTES, "notes")
        self.packets.event(PacketKind.INSTANT, process, note.at_ns, note.text, "note")

    def _life(self, event: Event) -> _Life | None:
        """Return the life of the event's container, or of its pod if there is no container."""
        pod = self._pod(event) if event.pod_id else None
        if not event.container_id:
            return pod
        life = self.containers.get(event.container_id)
        if life is None:
            track = track_id("container", event.container_id)
            life = self.containers[event.container_id] = self._new_life(track)
            if track not in self.forgotten:
                name = event.container or event.container_id
                self.packets.track(track, self._group(event), name, rank=2)
        return life

    def _pod(self, event: Event) -> _Life:
        life = self.pods.get(event.pod_id)
        if life is None:
            track = track_id("pod itself", event.pod_id)
            life = self.pods[event.pod_id] = self._new_life(track)
            if track not in self.forgotten:
                self.drawn_pods += 1
                name = f"{event.namespace}/{event.pod}" if event.pod else event.pod_id
                number = _NO_POD + self.drawn_pods
                self.packets.process(self._group(event), number, name, rank=number)
                self.packets.track(track, self._group(event), "pod", rank=1)
        return life

    def _group(self, event: Event) -> int:
        """Return the process number of the event's pod."""
        if event.pod_id:
            return track_id("pod", event.pod_id)
        return self._process(_NO_POD, "containers without a pod")

    def _new_life(self, track: int) -> _Life:
        events = _Lanes(track, "events")
        if track not in self.forgotten:
            return _Life(track, events)
        # The time at which this lane becomes free is no longer known.
        events.ends.append(HIGHEST)
        return _Life(track, events, state="")

    def _connection(self, number: int) -> tuple[_Lanes, _Lanes]:
        known = self.connections.get(number)
        if known is not None:
            return known
        session = self.sessions.get(number)
        process = self._process(_CONNECTIONS, "plugin connections")
        track = track_id("connection", number)
        name = f"{session.plugin}, session {number}" if session else f"session {number}"
        self.packets.track(track, process, name, rank=len(self.connections) + 1)
        if session is not None:
            self._connected(track, session)
        lanes = _Lanes(track, "requests"), _Lanes(track, "not observed")
        self.connections[number] = lanes
        return lanes

    def _connected(self, track: int, session: Session) -> None:
        told: dict[str, Value] = {
            "role": session.role,
            "runtime": f"{session.runtime_name} {session.runtime_version}".strip(),
            "nri_version": session.nri_version,
            "nri_version_inferred": session.nri_version_inferred,
            "end_reason": session.end_reason,
        }
        self.packets.event(
            PacketKind.BEGIN, track, session.started_ns, "connected", "connection", told
        )
        # A connection without end is drawn up to the end of the timeline, with a label.
        if session.ended_ns is not None:
            ended_ns = max(session.ended_ns, session.started_ns)
            self.packets.event(PacketKind.END, track, ended_ns)

    def _process(self, number: int, name: str) -> int:
        known = self.processes.get(number)
        if known is None:
            known = self.processes[number] = track_id("process", number)
            self.packets.process(known, number, name, rank=number)
        return known


def _values(event: Event) -> dict[str, Value]:
    told: dict[str, Value] = {
        "event": event.id,
        "plugin": event.plugin,
        "session": event.session,
        "status": event.status,
        "status_message": event.status_message,
        "took_us": event.took_ns // 1000,
        "size": event.size,
        "method": event.method,
        "mark": event.mark,
        "changed": event.changed,
        "owners": event.owners,
        "container_id": event.container_id,
        "pod_id": event.pod_id,
    }
    deadline = deadline_ms(event.timeout_ns)
    if deadline is not None:
        told["deadline_ms"] = deadline
    return told


def _subject(event: Event) -> str:
    names = (event.namespace, event.pod, event.container)
    return "/".join(name for name in names if name)
