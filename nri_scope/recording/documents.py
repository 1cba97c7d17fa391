# SPDX-License-Identifier: Apache-2.0
"""Build a document with all recorded data of an event, a pod or a container."""

from __future__ import annotations

from google.protobuf.message import Message

from nri_scope._gen.nri.api_pb2 import Container as ContainerMessage
from nri_scope._gen.nri.api_pb2 import PodSandbox
from nri_scope.events import Container, Event, Pod, Tapped
from nri_scope.nri.plain import Plain, plain_bytes
from nri_scope.text.yaml_text import FlowMapping

from .query import lookup
from .query.coverage import life_coverage
from .reading.event_messages import reply_of, request_of
from .reading.reader import Recording
from .reading.records import event_record, rfc3339, took_us
from .reading.tap_tables import printed_by, tapped

PRINTED_MAX = 200
"""Maximum number of lines of plugin output in an event's document."""


def document(recording: Recording, subject: lookup.Found) -> dict[str, Plain]:
    """Return the document of an event, a pod or a container. Raises RecordingError.

    An event has "event", "request" and "reply"; an event of a tapped plugin also "tap", the tap's
    processing time and metadata, and "printed", the plugin's output until its next event. Any
    other event has "metadata" if the runtime sent trace context. A pod or container has "pod" or
    "container", its newest "message", its "events", and the "coverage" of its life.
    """
    match subject:
        case Event() as event:
            record = event_document(event, recording.request(event.id), recording.reply(event.id))
            return {**record, **_tapped(recording, event)}
        case Pod() as pod:
            return {
                "pod": {
                    "namespace": pod.namespace,
                    "name": pod.name,
                    "id": pod.id,
                    "uid": pod.uid,
                    "containers": [
                        FlowMapping(name=container.name, id=container.id)
                        for container in lookup.containers_of(recording, pod)
                    ],
                },
                **newest_message(recording, pod),
                "events": _steps(recording, pod),
                "coverage": life_coverage(recording, pod).record(),
            }
        case Container(pod=pod):
            return {
                "container": {
                    "namespace": pod.namespace if pod else "",
                    "pod": pod.name if pod else "",
                    "name": subject.name,
                    "id": subject.id,
                    "pod_id": pod.id if pod else "",
                },
                **newest_message(recording, subject),
                "events": _steps(recording, subject),
                "coverage": life_coverage(recording, subject).record(),
            }


def message_bytes(recording: Recording, subject: lookup.Found, part: str | None = None) -> bytes:
    """Return an event's request, or the newest message of a pod or container, as protobuf bytes.

    ``part``: "reply" for the event's reply.
    """
    if isinstance(subject, Event):
        return (recording.reply if part == "reply" else recording.request)(subject.id)
    newest = lookup.newest_message(recording, subject)
    return newest.content if newest else b""


def event_document(event: Event, request: bytes, reply: bytes) -> dict[str, Plain]:
    """Return the `document` of an event from its messages."""
    details: dict[str, Plain] = {**event_record(event), "runtime": event.runtime}
    if event.status_code:
        details |= {"status_code": event.status_code, "status_message": event.status_message}
    if event.mark:
        details["mark"] = event.mark
    details |= {
        "changed": list(event.changed),
        "owners": list(event.owners),
        "outcomes": list(event.outcomes),
        "targets": list(event.targets),
    }
    return {
        "event": details,
        "request": request_of(event, request),
        "reply": reply_of(event, reply),
    }


def _tapped(recording: Recording, event: Event) -> dict[str, Plain]:
    """Return the transport data of an event, and the output of its plugin; {} without any."""
    record: dict[str, Plain] = {}
    for tap in tapped(recording, [event.id]):
        record |= tap_record(tap)
    lines, count = printed_by(recording, event, PRINTED_MAX)
    if lines:
        record["printed"] = [
            FlowMapping(at=rfc3339(line.at_ns), stream=line.stream, text=line.text)
            for line in lines
        ]
    if count > len(lines):
        record["printed_left_out"] = count - len(lines)
    return record


def tap_record(data: Tapped) -> dict[str, Plain]:
    """Return the transport data of an event: ``tap`` with its processing time in µs and metadata,
    or ``metadata`` alone.
    """
    metadata: list[Plain] = [FlowMapping({key: value}) for key, value in data.metadata]
    if data.held_ns is None:
        return {"metadata": metadata}
    return {"tap": {"held_us": data.held_ns // 1000, "metadata": metadata}}


def newest_message(recording: Recording, subject: Pod | Container) -> dict[str, Plain]:
    """Return the newest ``message`` about a pod or container, and the number of its event."""
    newest = lookup.newest_message(recording, subject)
    if newest is None:
        return {"told_by_event": None, "message": {}}
    kind: type[Message] = PodSandbox if isinstance(subject, Pod) else ContainerMessage
    return {"told_by_event": newest.event, "message": plain_bytes(kind, newest.content)}


def _steps(recording: Recording, subject: Pod | Container) -> list[Plain]:
    events = lookup.history(recording, subject)
    return [_step(event, with_container=isinstance(subject, Pod)) for event in events]


def _step(event: Event, *, with_container: bool) -> FlowMapping[Plain]:
    step: FlowMapping[Plain] = FlowMapping(
        id=event.id, at=rfc3339(event.at_ns), session=event.session, plugin=event.plugin
    )
    step["event"] = event.event
    if with_container:
        step["container"] = event.container
    step["took_us"] = took_us(event.took_ns)
    step["status"] = event.status
    return step
