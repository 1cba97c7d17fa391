# SPDX-License-Identifier: Apache-2.0
"""The event sequence of a runtime: the events that it sends about pods and containers.

Events recorded from one runtime may be replayed on another one. For each, `LifecycleState` returns
the events that the other runtime sends: none, the event itself, or additional ones, too. It sends
nothing and changes no request.

`as_state_change` and `state_change_of` convert to and from StateChange, the RPC shared by nine
events up to NRI 0.11, and by plugins built for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from typing import NamedTuple

from google.protobuf.message import DecodeError, Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import LocalProtocolError
from nri_scope.nri.events import METHODS, EventKind
from nri_scope.nri.request_subject import container_of, decode_request, pod_of
from nri_scope.oci.runtime_rules import runtime_rules_of

from .profile import Profile


def as_state_change(event: EventKind, request: Message) -> bytes:
    """Return the StateChange for ``request``, the event's own request message."""
    return api.StateChangeEvent(
        event=api.Event.ValueType(event.value),
        pod=pod_of(event.name, request),
        container=container_of(event.name, request),
    ).SerializeToString()


def state_change_of(event: EventKind, payload: bytes) -> bytes:
    """Return the StateChange for ``payload``, the event's own request as bytes.

    Raises `LocalProtocolError` if it cannot be decoded.
    """
    try:
        request = METHODS[event.name].request.FromString(payload)
    except DecodeError as error:
        raise LocalProtocolError(f"{event.name}: the request cannot be decoded: {error}") from error
    return as_state_change(event, request)


def recorded_request(method: str, payload: bytes, mark: str) -> tuple[EventKind, Message] | None:
    """Return the event of a recorded request, and its own request message.

    None for an unknown event. ``mark``: that of the recorded event.
    """
    decoded = decode_request(method, payload)
    rpc, message = METHODS.get(decoded.event), decoded.message
    if mark or message is None or rpc is None or rpc.event is None:
        return None
    if isinstance(message, api.StateChangeEvent):
        message = own_request(rpc.request, message)
    return rpc.event, message


def own_request(kind: Callable[[], Message], change: api.StateChangeEvent) -> Message:
    """Return the content of a StateChange as the event's own request message."""
    request = kind()
    fields = request.DESCRIPTOR.fields_by_name
    for name in ("pod", "container"):
        if name in fields and change.HasField(name):
            getattr(request, name).CopyFrom(getattr(change, name))
    return request


class LifecycleStep(NamedTuple):
    """One event of the sequence."""

    event: EventKind
    request: Message
    skipped: str = ""
    """Why this runtime does not send the event; "" if it does."""
    added: bool = False
    """Whether the runtime sends the event in addition to those passed to `LifecycleState`."""


class _Stage(Enum):
    """Stage of a container or pod that the runtime tracks."""

    LIVE = auto()
    STOPPED = auto()
    FAILED = auto()
    """Its creation failed: no further events."""
    UNSTARTED = auto()
    """Its start failed: it exists, stopped, and will be removed."""


_ENDS = frozenset({EventKind.StopContainer, EventKind.RemoveContainer})
_POD_ENDS = frozenset({EventKind.StopPodSandbox, EventKind.RemovePodSandbox})
_POST_EVENTS = {
    EventKind.UpdateContainer: EventKind.PostUpdateContainer,
    EventKind.UpdatePodSandbox: EventKind.PostUpdatePodSandbox,
}
"""Events that do not follow if the key's event failed."""


class LifecycleState:
    """State of one runtime's pods and containers, which determines the events that it sends.

    Pass all events in order, including those that no plugin gets: later events depend on them.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._rules = profile.lifecycle_rules
        self._runtime = runtime_rules_of(profile.runtime_name, profile.runtime_version)
        self._containers: dict[str, _Stage] = {}
        self._pods: dict[str, _Stage] = {}
        self._gone_pods: set[str] = set()
        self._without_post_event: set[tuple[EventKind, str]] = set()

    def note_pods(self, pods: Iterable[api.PodSandbox]) -> None:
        """Note pods that the runtime ran before its plugins connected.

        Pods that remain after a restart do not count: containerd sends neither StopPodSandbox nor
        RemovePodSandbox for pods from before its start.
        """
        for pod in pods:
            self._pods[pod.id] = _Stage.LIVE

    def note_containers(self, containers: Iterable[api.Container]) -> None:
        """Note containers that were sent to a plugin in Synchronize: the runtime tracks them from
        then on, but not their pods.
        """
        for container in containers:
            stopped = container.state == api.ContainerState.CONTAINER_STOPPED
            self._containers[container.id] = _Stage.STOPPED if stopped else _Stage.LIVE

    def steps_of(self, event: EventKind, request: Message) -> tuple[LifecycleStep, ...]:
        """Return the events that the runtime sends when ``event`` happens.

        ``request`` is the event's own request message.
        """
        skipped = self._profile.skip_reason(event) or self._failed_before(event, request)
        if skipped:
            return (LifecycleStep(event, request, skipped),)
        return tuple(self._tracked_steps(event, request))

    def steps_after_failure(self, event: EventKind, request: Message) -> tuple[LifecycleStep, ...]:
        """Return the events that undo ``event`` after its CRI request failed.

        From then on `steps_of` skips events of that pod or container that do not happen.
        """
        undone = self._profile.dispatch_rules.undo_events.get(event, ())
        pod, container = pod_of(event.name, request), container_of(event.name, request)
        pod_id, container_id = (pod.id if pod else ""), (container.id if container else "")
        match event:
            case EventKind.RunPodSandbox:
                self._pods[pod_id] = _Stage.FAILED
            case EventKind.CreateContainer:
                self._containers[container_id] = _Stage.FAILED
            case EventKind.StartContainer:
                self._containers[container_id] = _Stage.UNSTARTED
            case EventKind.StopPodSandbox:
                self._pods[pod_id] = _Stage.LIVE
            case EventKind.UpdateContainer | EventKind.UpdatePodSandbox:
                self._without_post_event.add((_POST_EVENTS[event], container_id or pod_id))
            case _:
                pass
        return tuple(
            LifecycleStep(event, request_about(event, pod, container), added=True)
            for event in undone
        )

    # -- inside -------------------------------------------------------------------------------

    def _failed_before(self, event: EventKind, request: Message) -> str:
        """Return the earlier failure that prevents the event; "" if none does."""
        pod, container = pod_of(event.name, request), container_of(event.name, request)
        if container is None or event is EventKind.CreateContainer:
            stage = self._pods.get(pod.id) if pod is not None else None
            if stage is _Stage.FAILED and event is not EventKind.RunPodSandbox:
                return "its pod was not run here: RunPodSandbox failed"
        if container is not None and event is not EventKind.CreateContainer:
            stage = self._containers.get(container.id)
            if stage is _Stage.FAILED or self._pods.get(container.pod_sandbox_id) is _Stage.FAILED:
                return "its container was not created here"
            undone = self._profile.dispatch_rules.undo_events.get(EventKind.StartContainer, ())
            ends = _ENDS.difference(undone)
            if stage is _Stage.UNSTARTED and event not in ends:
                return "its container was not started here: StartContainer failed"
        key = (event, container.id if container is not None else pod.id if pod is not None else "")
        if key in self._without_post_event:
            self._without_post_event.remove(key)
            return "the update failed here"
        return ""

    def _tracked_steps(self, event: EventKind, request: Message) -> Iterator[LifecycleStep]:
        pod, container = pod_of(event.name, request), container_of(event.name, request)
        if container is not None:
            is_created = event is EventKind.CreateContainer
            in_stopped_pod = self._pods.get(container.pod_sandbox_id) is _Stage.STOPPED
            if event in _ENDS:
                yield from self._container_ends(event, request, pod, container)
            elif is_created and in_stopped_pod and not self._runtime.creates_in_stopped_pods:
                self._containers[container.id] = _Stage.FAILED
                yield self._skip(event, request, "creates no container in a stopped pod")
            else:
                if is_created or event is EventKind.StartContainer:
                    self._containers[container.id] = _Stage.LIVE
                yield LifecycleStep(event, request)
        elif pod is not None and event in _POD_ENDS:
            yield from self._pod_ends(event, request, pod)
        else:
            if pod is not None and event is EventKind.RunPodSandbox:
                self._pods[pod.id] = _Stage.LIVE
                self._gone_pods.discard(pod.id)
            yield LifecycleStep(event, request)

    def _container_ends(
        self,
        event: EventKind,
        request: Message,
        pod: api.PodSandbox | None,
        container: api.Container,
    ) -> Iterator[LifecycleStep]:
        stage = self._containers.get(container.id)
        if self._rules.tracks_containers and stage is None:
            why = "no plugin got the container since the runtime started"
            yield self._skip(event, request, f"does not send it: {why}")
            return
        if event is EventKind.StopContainer:
            if self._rules.stops_once and stage not in (None, _Stage.LIVE):
                yield self._skip(event, request, "has already sent the stop")
                return
            self._containers[container.id] = _Stage.STOPPED
            yield LifecycleStep(event, self._of_gone_pod(request, pod, container))
            return
        if self._rules.tracks_containers and stage is _Stage.LIVE:
            stop = request_about(EventKind.StopContainer, pod, container)
            yield LifecycleStep(
                EventKind.StopContainer, self._of_gone_pod(stop, pod, container), added=True
            )
        self._containers.pop(container.id, None)
        yield LifecycleStep(event, request)

    def _skip(self, event: EventKind, request: Message, why: str) -> LifecycleStep:
        return LifecycleStep(event, request, f"{self._profile.title} {why}")

    def _of_gone_pod(
        self, request: Message, pod: api.PodSandbox | None, container: api.Container
    ) -> Message:
        pod_id = container.pod_sandbox_id or (pod.id if pod is not None else "")
        if not self._rules.forgets_pods or pod_id not in self._gone_pods:
            return request
        return request_about(EventKind.StopContainer, api.PodSandbox(id=pod_id), container)

    def _pod_ends(
        self, event: EventKind, request: Message, pod: api.PodSandbox
    ) -> Iterator[LifecycleStep]:
        stage = self._pods.get(pod.id)
        if self._rules.tracks_pods and stage is None:
            why = "the pod was not run since the runtime started"
            yield self._skip(event, request, f"does not send it: {why}")
            return
        was_stopped = stage not in (None, _Stage.LIVE)
        if was_stopped and self._rules.stops_once and event is EventKind.StopPodSandbox:
            yield self._skip(event, request, "has already sent the stop")
            return
        if event is EventKind.StopPodSandbox:
            self._pods[pod.id] = _Stage.STOPPED
        else:
            self._pods.pop(pod.id, None)
            self._gone_pods.add(pod.id)
        yield LifecycleStep(event, request)


def request_about(
    event: EventKind, pod: api.PodSandbox | None, container: api.Container | None
) -> Message:
    """Return the event's own request about this pod and container."""
    about = api.StateChangeEvent(pod=pod, container=container)
    return own_request(METHODS[event.name].request, about)
