# SPDX-License-Identifier: Apache-2.0
"""Pods, containers and events for the emulated runtime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from google.protobuf.message import Message

from nri_scope._gen.nri.api_pb2 import Container, LinuxResources, PodSandbox
from nri_scope._gen.ttrpc.ttrpc_pb2 import Request
from nri_scope.nri.events import METHODS, PLUGIN_SERVICE, STATE_CHANGE_EVENTS, EventKind
from nri_scope.runtime.lifecycle import as_state_change

LIFECYCLE = (
    EventKind.RunPodSandbox,
    EventKind.CreateContainer,
    EventKind.PostCreateContainer,
    EventKind.StartContainer,
    EventKind.PostStartContainer,
    EventKind.UpdateContainer,
    EventKind.PostUpdateContainer,
    EventKind.StopContainer,
    EventKind.RemoveContainer,
    EventKind.StopPodSandbox,
    EventKind.RemovePodSandbox,
)

_HEADER_LENGTH = 10


class Step(NamedTuple):
    """One event and its dedicated request message."""

    event: EventKind
    request: Message


def pod(number: int) -> PodSandbox:
    """Return pod ``number``, with unique values."""
    return PodSandbox(
        id=f"{number:064x}",
        name=f"pod-{number}",
        uid=f"uid-{number}",
        namespace=f"namespace-{number % 3}",
        labels={"app": "web", "number": str(number)},
        annotations={f"annotation-{n}": f"{number}.{n}" for n in range(5)},
    )


def container(number: int) -> Container:
    """Return the container of pod ``number``."""
    made = Container(
        id=f"c{number:063x}",
        pod_sandbox_id=f"{number:064x}",
        name=f"container-{number}",
        labels={f"label-{n}": f"{number}.{n}" for n in range(5)},
        args=["/bin/serve", f"--number={number}"],
        env=[f"VARIABLE_{n}=value {n} of {number} ☕" for n in range(20)],
    )
    for n in range(5):
        made.mounts.add(destination=f"/mnt/{n}", type="bind", source=f"/srv/{number}/{n}")
    made.linux.resources.cpu.shares.value = 100 + number
    return made


def lifecycle(number: int) -> Iterator[Step]:
    """Yield the lifecycle events of pod ``number`` and its container."""
    for event in LIFECYCLE:
        yield Step(event, request(event, pod(number), container(number)))


def request(event: EventKind, of_pod: PodSandbox, of_container: Container) -> Message:
    """Return the event's dedicated request message."""
    message_class = METHODS[event.name].request
    if event.is_pod_event:
        return message_class(pod=of_pod)
    if event is EventKind.UpdateContainer:
        resources = LinuxResources()
        resources.cpu.shares.value = 512
        return message_class(pod=of_pod, container=of_container, linux_resources=resources)
    return message_class(pod=of_pod, container=of_container)


def sized(event: EventKind, length: int, *, dedicated: bool, timeout_ns: int) -> Step:
    """Return the event with a ttRPC message of exactly ``length`` bytes, header included."""
    # Padding of n bytes can take more than n, where the length before it takes another byte: the
    # last few go into another string.
    for extra in range(16):
        padding = 0
        for _ in range(4):
            bare_pod = PodSandbox(id="p1")
            bare_container = Container(id="c1", pod_sandbox_id="p1")
            subject = bare_pod if event.is_pod_event else bare_container
            subject.name = "n" * extra
            if padding:
                subject.annotations["p"] = "x" * padding
            message = request(event, bare_pod, bare_container)
            actual = _message_length(event, message, dedicated, timeout_ns)
            if actual == length:
                return Step(event, message)
            padding += length - actual
            if padding < 0:
                break
    raise ValueError(f"cannot build a {event.name} message of {length} bytes")


def _message_length(event: EventKind, message: Message, dedicated: bool, timeout_ns: int) -> int:
    method, payload = event.name, message.SerializeToString()
    if not dedicated and event in STATE_CHANGE_EVENTS:
        method, payload = "StateChange", as_state_change(event, message)
    envelope = Request(
        service=PLUGIN_SERVICE, method=method, payload=payload, timeout_nano=timeout_ns
    )
    return _HEADER_LENGTH + envelope.ByteSize()
