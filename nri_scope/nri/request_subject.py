# SPDX-License-Identifier: Apache-2.0
"""Decode the subject of a request: its event, pod and container."""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol, cast

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api

from .element_limits import MAX_RECORDED, bounded
from .events import METHODS, RUNTIME_SERVICE, EventKind, decode

MALFORMED = "malformed"
UNKNOWN = "unknown"
OVERSIZED = "oversized"

_LONG_NAME = re.compile(r"k8s_([^_]+)_([^_]+)_([^_]+)_([^_]+)_[0-9]+")
"""iSulad's names: ``k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT``, with the container POD for the pod
itself. Names in Kubernetes have no underscore."""
_NAMED_BY_CONTROLLER = re.compile(
    r"(.+?)(?:(?:-[0-9bcdfghjklmnpqrstvwxz]{6,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}|-[0-9]{1,5})"
)
"""Names of pods that Kubernetes' controllers generate: of a workload, a hash or time, and a suffix.
"""
_EVENT_NAMES = {event.value: event.name for event in EventKind}
_WITH_POD = frozenset(
    name for name, rpc in METHODS.items() if "pod" in rpc.request.DESCRIPTOR.fields_by_name
)
_WITH_CONTAINER = frozenset(
    name for name, rpc in METHODS.items() if "container" in rpc.request.DESCRIPTOR.fields_by_name
)


class _WithPod(Protocol):
    @property
    def pod(self) -> api.PodSandbox: ...


class WithContainer(Protocol):
    """A request about a container."""

    @property
    def container(self) -> api.Container: ...


class Decoded(NamedTuple):
    """A request, decoded if possible."""

    method: str
    event: str
    """Event name, as returned by `event_name`."""
    message: Message | None
    """The message; None if and only if `mark` is set."""
    pod: api.PodSandbox | None
    """The pod; None if the request has none. It may have only an id (iSulad's StopContainer)."""
    container: api.Container | None
    mark: str
    """"" for an ordinary request; `MALFORMED` if the bytes are not the method's message; `UNKNOWN`
    if the method is unknown or belongs to another service; `OVERSIZED` if the message has more than
    `MAX_RECORDED` elements, so that `pod` and `container` may be truncated.
    """


def decode_request(method: str, payload: bytes, service: str = "") -> Decoded:
    """Decode a request of either service; never raises.

    Unknown fields are preserved in the message. `service` is the ttRPC service named in the
    request; "" stands for the method's usual service.
    """
    rpc = METHODS.get(method)
    if rpc is None or (service and service != rpc.service):
        return Decoded(method, method, None, None, None, UNKNOWN)
    content = bounded(rpc.request, payload, MAX_RECORDED)
    message = decode(rpc.request, content)
    if message is None:
        return Decoded(method, method, None, None, None, MALFORMED)
    pod = pod_of(method, message)
    container = container_of(method, message)
    name = event_name(method, message)
    if content is not payload:
        return Decoded(method, name, None, pod, container, OVERSIZED)
    return Decoded(method, name, message, pod, container, "")


def kind_of_request(method: str, mark: str) -> type[Message] | None:
    """Return the class of a request's message; None if its method or service is unknown.

    `mark` is that of `Decoded`: a method of another service may have the same name.
    """
    rpc = None if mark == UNKNOWN else METHODS.get(method)
    return rpc.request if rpc else None


def kind_of_reply(method: str, mark: str) -> type[Message] | None:
    """Return the class of a reply's message; arguments and None as for `kind_of_request`."""
    rpc = None if mark == UNKNOWN else METHODS.get(method)
    return rpc.reply if rpc else None


def is_plugins_call(method: str, mark: str) -> bool:
    """Return whether the plugin called the runtime (RegisterPlugin, UpdateContainers).

    `mark` is that of `Decoded`: a method of another service may have the same name.
    """
    rpc = METHODS.get(method)
    return rpc is not None and rpc.service == RUNTIME_SERVICE and mark != UNKNOWN


def may_be_plugins_call(method: str, mark: str) -> bool:
    """Return whether the plugin may have called the runtime: by `is_plugins_call`, or by a method
    of a newer protocol.
    """
    return mark == UNKNOWN or is_plugins_call(method, mark)


def pod_of(method: str, message: Message) -> api.PodSandbox | None:
    """Return the pod of a request; None if the method has none or the request omits it."""
    if method in _WITH_POD and message.HasField("pod"):
        return cast("_WithPod", message).pod
    return None


def container_of(method: str, message: Message) -> api.Container | None:
    """Return the container of a request; None if there is none."""
    if method in _WITH_CONTAINER and message.HasField("container"):
        return cast("WithContainer", message).container
    return None


def name_of_pod(pod: api.PodSandbox) -> str:
    """Return the pod's name in Kubernetes. iSulad sends "k8s_POD_web_shop_UID_0" for "web".

    Docker Engine has no pods; it sends each container also as a pod, with the same id and name:
    "/web" for "web".
    """
    name = pod.name.removeprefix("/")
    if name.startswith("k8s_POD_") and (match := _LONG_NAME.fullmatch(name)) is not None:
        _, short, namespace, uid = match.groups()
        if pod.namespace in ("", namespace) and pod.uid in ("", uid):
            return short
    return name


def name_of_container(container: api.Container) -> str:
    """Return the container's name in Kubernetes, or in Docker Engine, which sends "/web" for "web".

    iSulad sends "app" in CreateContainer, and "k8s_app_web_shop_UID_0" in all later events.
    """
    name = container.name
    if name.startswith("k8s_") and (match := _LONG_NAME.fullmatch(name)) is not None:
        return match[1]
    return name.removeprefix("/")


def event_name(method: str, message: Message | None) -> str:
    """Return the event's name: the event inside a StateChange, else the method's own name.

    For an unknown event number it is, for example, ``StateChange(99)``; for a StateChange that
    could not be decoded, ``StateChange``.
    """
    if isinstance(message, api.StateChangeEvent):
        number = int(message.event)
        return _EVENT_NAMES.get(number) or f"StateChange({number})"
    return method


def decode_reply(method: str, payload: bytes) -> Message | None:
    """Decode the reply to `method`; return None for an unknown method or malformed bytes.

    A reply with too many elements is truncated (`element_limits.bounded`).
    """
    rpc = METHODS.get(method)
    if rpc is None:
        return None
    return decode(rpc.reply, bounded(rpc.reply, payload))


def workload_of(pod: str) -> str:
    """Return the name of the Deployment, DaemonSet, StatefulSet or Job of a pod, as far as the
    pod's name tells; the pod's name for others.
    """
    match = _NAMED_BY_CONTROLLER.fullmatch(pod)
    return match[1] if match else pod
