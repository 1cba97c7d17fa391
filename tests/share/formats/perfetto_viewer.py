# SPDX-License-Identifier: Apache-2.0
"""A viewer of Perfetto traces, which fails where a real one drops data."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (  # type: ignore[import-untyped]
    Trace,
    TracePacket,
    TrackEvent,
)


@dataclass
class _Slice:
    track: str
    """Names from the process to the track, separated by slashes."""
    name: str
    from_ns: int
    to_ns: int | None
    category: str
    arguments: dict[str, Any]
    flows: list[int]


@dataclass
class DrawnTrace:
    slices: list[_Slice] = field(default_factory=list)
    instants: list[_Slice] = field(default_factory=list)
    tracks: dict[int, str] = field(default_factory=dict)

    def on(self, track: str) -> list[_Slice]:
        return [found for found in self.slices if found.track == track]


def _annotation(found: Any, names: dict[int, str]) -> tuple[str, Any]:
    kind = found.WhichOneof("value")
    value = getattr(found, kind) if kind else [item.string_value for item in found.array_values]
    return found.name or names[found.name_iid], value


def drawn_from(content: bytes) -> DrawnTrace:
    """Parse a trace like a viewer; fail where a viewer would drop data or report an error."""
    trace = Trace.FromString(content)
    trace.DiscardUnknownFields()
    assert trace.ByteSize() == len(content), "fields that Perfetto does not know"
    first, *rest = trace.packet
    assert first.sequence_flags == TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    assert {clock.clock_id: clock.timestamp for clock in first.clock_snapshot.clocks} == {
        1: first.timestamp,
        6: first.timestamp,
    }
    drawn = DrawnTrace()
    names: dict[int, str] = {}
    keys: dict[int, str] = {}
    events: list[tuple[int, TrackEvent, str, dict[str, Any]]] = []
    numbers: set[int] = set()
    for packet in rest:
        assert packet.trusted_packet_sequence_id == 1
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            assert descriptor.uuid and descriptor.uuid not in drawn.tracks
            if descriptor.HasField("process"):
                assert descriptor.process.pid not in numbers
                numbers.add(descriptor.process.pid)
                drawn.tracks[descriptor.uuid] = descriptor.process.process_name
            else:
                drawn.tracks[descriptor.uuid] = (
                    f"{drawn.tracks[descriptor.parent_uuid]}/{descriptor.name}"
                )
            continue
        assert packet.sequence_flags == TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        for entry in packet.interned_data.event_names:
            assert entry.iid not in names
            names[entry.iid] = entry.name
        for key in packet.interned_data.debug_annotation_names:
            assert key.iid not in keys
            keys[key.iid] = key.name
        event = packet.track_event
        assert event.track_uuid in drawn.tracks
        arguments = dict(_annotation(found, keys) for found in event.debug_annotations)
        name = event.name or (names[event.name_iid] if event.name_iid else "")
        events.append((packet.timestamp, event, name, arguments))
    # A viewer sorts by time, and keeps the order of events at the same time.
    events.sort(key=lambda entry: entry[0])
    open_slices: dict[int, list[_Slice]] = defaultdict(list)
    for at_ns, event, name, arguments in events:
        if event.type == TrackEvent.TYPE_SLICE_END:
            assert not name
            ended = open_slices[event.track_uuid].pop()
            ended.to_ns = at_ns
            continue
        found = _Slice(
            drawn.tracks[event.track_uuid],
            name,
            at_ns,
            None,
            "".join(event.categories),
            arguments,
            list(event.flow_ids),
        )
        if event.type == TrackEvent.TYPE_INSTANT:
            drawn.instants.append(found)
        else:
            assert event.type == TrackEvent.TYPE_SLICE_BEGIN
            open_slices[event.track_uuid].append(found)
            drawn.slices.append(found)
    return drawn
