# SPDX-License-Identifier: Apache-2.0
"""A timeline for ui.perfetto.dev, in Perfetto's protobuf format.

The JSON format that it opens too was no choice: there times are floating-point microseconds, which
cannot tell today's nanoseconds apart, all tracks are threads of processes, and a viewer has to
read all of it before it can show anything.

Each pod is a process. In it the pod and its containers are tracks that show their states, with
their events below; an arrow goes from event to event of a container. One process has the plugin
connections with what each was asked, one what was not observed, and one the notes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import IO

from nri_scope.recorder.formats.packets import Kind, Packets, Value, track_id
from nri_scope.recorder.formats.selection import Selection
from nri_scope.recorder.model import Event, Gap, Note, Session
from nri_scope.recorder.reader import Recording
from nri_scope.recorder.records import deadline_ms

MAX_LANES = 32
"""Rows for what overlaps on one track; more of it is drawn as moments."""

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
"""What a pod or container is from an event on; "": it is gone."""
_UNOBSERVED = "state not observed"
_CONNECTIONS, _GAPS, _NOTES, _FIRST_POD = 1, 2, 3, 1001
"""Numbers of processes: the viewer wants them, there is nothing behind them."""


def write(recording: Recording, numbers: Iterable[int] | None, stream: IO[bytes]) -> int:
    """As `formats.Write`: one trace, without the messages of events.

    Memory is needed for pods, containers and connections, and none for events.
    """
    selection = Selection(recording, numbers)
    sessions = {session.id: session for session in selection.sessions()}
    drawing: _Drawing | None = None
    count = 0
    for event in selection.events():
        if drawing is None:
            drawing = _Drawing(_begun(stream, event.at_ns), sessions)
        drawing.event(event)
        count += 1
    gaps, notes = selection.gaps(), selection.notes()
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
    """Slices that may overlap, which slices of one track must not, unless one is in the other."""

    parent: int
    name: str
    ends: list[int] = field(default_factory=list)
    """When the last slice of each lane ends."""

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
        kind = Kind.BEGIN
        if lane == MAX_LANES:
            lane, kind = 0, Kind.INSTANT
        track = track_id("lane", self.parent, self.name, lane)
        if lane == len(self.ends):
            self.ends.append(to_ns)
            number = f" ({lane + 1})" if lane else ""
            packets.track(track, self.parent, f"{self.name}{number}", rank=lane + 1)
        packets.event(kind, track, from_ns, name, category, values, flow)
        if kind is Kind.BEGIN:
            self.ends[lane] = to_ns
            packets.event(Kind.END, track, to_ns)


@dataclass(slots=True)
class _Life:
    """The state of a pod or container, and its events."""

    track: int
    events: _Lanes
    state: str | None = None
    """None: nothing is drawn yet; "": it is gone."""
    since_ns: int = 0

    def tell(self, packets: Packets, event: Event) -> None:
        told = _STATES.get(event.event)
        if told is None:
            told = _UNOBSERVED if self.state is None else self.state
        if told == self.state:
            return
        # A clock may have been set back; an end before its beginning would end nothing.
        at_ns = max(event.at_ns, self.since_ns)
        if self.state:
            packets.event(Kind.END, self.track, at_ns)
        if told:
            packets.event(Kind.BEGIN, self.track, at_ns, told, "state")
        self.state, self.since_ns = told, at_ns


@dataclass(slots=True)
class _Drawing:
    packets: Packets
    sessions: dict[int, Session]
    pods: dict[str, tuple[int, _Life]] = field(default_factory=dict)
    """The process of each, and its own life."""
    containers: dict[str, _Life] = field(default_factory=dict)
    connections: dict[int, tuple[_Lanes, _Lanes]] = field(default_factory=dict)
    """Of each what it was asked, and what it did not get to see."""
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
        # Only what the runtime did changes a state, not a question about it.
        if session is None or session.role != "cri":
            life.tell(self.packets, event)
        life.events.draw(
            self.packets,
            event.at_ns,
            end_ns,
            event.event,
            event.status,
            _values(event),
            flow=life.track if event.container_id else 0,
        )

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
        self.packets.event(Kind.INSTANT, process, note.at_ns, note.text, "note")

    def _life(self, event: Event) -> _Life | None:
        """Of the container that an event is about, else of the pod."""
        pod = self._pod(event) if event.pod_id else None
        if not event.container_id:
            return pod[1] if pod else None
        life = self.containers.get(event.container_id)
        if life is None:
            process = pod[0] if pod else self._process(_FIRST_POD - 1, "containers without a pod")
            track = track_id("container", event.container_id)
            self.packets.track(track, process, event.container or event.container_id, rank=2)
            life = self.containers[event.container_id] = _Life(track, _Lanes(track, "events"))
        return life

    def _pod(self, event: Event) -> tuple[int, _Life]:
        pod = self.pods.get(event.pod_id)
        if pod is None:
            process = track_id("pod", event.pod_id)
            name = f"{event.namespace}/{event.pod}" if event.pod else event.pod_id
            number = _FIRST_POD + len(self.pods)
            self.packets.process(process, number, name, rank=number)
            track = track_id("pod itself", event.pod_id)
            self.packets.track(track, process, "pod", rank=1)
            pod = self.pods[event.pod_id] = (process, _Life(track, _Lanes(track, "events")))
        return pod

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
        self.packets.event(Kind.BEGIN, track, session.started_ns, "connected", "connection", told)
        # What has no end is drawn to the end of the timeline, and said to have none.
        if session.ended_ns is not None:
            ended_ns = max(session.ended_ns, session.started_ns)
            self.packets.event(Kind.END, track, ended_ns)

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
