# SPDX-License-Identifier: Apache-2.0
"""Traffic to record: captured from real runtimes, synthetic, and random."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from benchmarks.traffic import is_repeated
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CapturedCall, Role, SessionStart
from nri_scope.nri.events import METHODS
from nri_scope.recorder.writer import Recorder

CAPTURES = Path(__file__).parent.parent / "data" / "captures"
RUNTIMES = ("containerd-1.7.24", "containerd-2.1.9", "containerd-2.4-beta", "cri-o-1.37")
NOW = 1_795_000_000 * 10**9


def a_start(
    plugin: str = "00-nri-scope", started_ns: int = NOW, role: Role = Role.LOGGER
) -> SessionStart:
    index, _, name = plugin.partition("-")
    return SessionStart(
        role=role,
        plugin_name=name,
        plugin_index=index,
        runtime_name="containerd",
        runtime_version="1.7.24",
        nri_version="0.6.1",
        nri_version_inferred=True,
        mask=0x07FF,
        registration_timeout_ms=5000,
        request_timeout_ms=2000,
        started_ns=started_ns,
    )


def an_item(
    method: str = "RunPodSandbox",
    request: bytes | Message = b"",
    reply: bytes = b"",
    *,
    wall_ns: int = NOW,
    status_code: int = 0,
    status_message: str = "",
    service: str = "",
) -> CapturedCall:
    payload = request if isinstance(request, bytes) else request.SerializeToString()
    return CapturedCall(
        wall_ns=wall_ns,
        mono_ns=wall_ns % 10**15,
        method=method,
        request=payload,
        reply=reply,
        status_code=status_code,
        status_message=status_message,
        took_ns=33_000,
        timeout_ns=1_999_000_000,
        service=service,
    )


def record(path: Path, items: list[CapturedCall], **options: Any) -> None:
    """Write a session to a new or an existing recording."""
    recorder = Recorder.open(path, **options)
    session = recorder.begin_session(a_start())
    for item in items:
        recorder.capture(session, item)
    recorder.end_session(session, "over", NOW + 10**9)
    recorder.close()


def canonical(method: str, payload: bytes) -> bytes:
    """Return a request as readers return it: equal messages have equal canonical bytes."""
    return METHODS[method].request.FromString(payload).SerializeToString(deterministic=True)


# ---------------------------------------------------------------------------------- captured


@cache
def captured(runtime: str) -> tuple[tuple[str, CapturedCall], ...]:
    """Return all calls of a chain of five plugins, each with the plugin's ``NN-name``, in order."""
    with gzip.open(CAPTURES / f"{runtime}.jsonl.gz", "rt") as lines:
        return tuple(
            (
                line["plugin"],
                an_item(
                    line["method"],
                    base64.b64decode(line["request_b64"]),
                    base64.b64decode(line["reply_b64"]),
                    wall_ns=line["at_ns"],
                ),
            )
            for line in map(json.loads, lines)
        )


def one_stream(runtime: str) -> list[CapturedCall]:
    """Return the calls of the passive plugin at index 00."""
    return [item for plugin, item in captured(runtime) if plugin == "00-probe-a"]


# --------------------------------------------------------------------------------- synthetic


def a_pod(number: int = 0, namespace: str = "shop") -> api.PodSandbox:
    chance = random.Random(number)
    pod_id, uid = f"{chance.getrandbits(256):064x}", f"{chance.getrandbits(128):032x}"
    pod = api.PodSandbox(id=pod_id, name=f"web-{number}", uid=uid, namespace=namespace)
    pod.labels["app"] = "web"
    pod.annotations["io.kubernetes.cri.sandbox-id"] = pod_id
    pod.linux.cgroups_path = f"/kubepods/pod{uid}/{pod_id}"
    return pod


def a_container(pod: api.PodSandbox, name: str = "app", variables: int = 60) -> api.Container:
    chance = random.Random(pod.id + name)
    container = api.Container(
        id=f"{chance.getrandbits(256):064x}", pod_sandbox_id=pod.id, name=name
    )
    container.args.extend(["/bin/server", "--port", "8080"])
    container.env.extend(f"VARIABLE_{n:02d}=value-{n:02d}-of-{pod.name}" for n in range(variables))
    for n in range(12):
        mount = container.mounts.add(destination=f"/mnt/{n:02d}", type="bind")
        mount.source = f"/var/lib/kubelet/pods/{pod.uid}/volumes/configmap/v-{n:02d}"
        mount.options.extend(["rbind", "rprivate", "ro"])
    container.linux.cgroups_path = f"/kubepods/pod{pod.uid}/{container.id}"
    return container


def lifecycle(number: int, containers: int = 1) -> Iterator[CapturedCall]:
    """Yield the calls of a pod's lifecycle on a runtime with NRI 0.6."""
    pod = a_pod(number)
    wall_ns = NOW + number * 10**9

    def item(method: str, request: Message) -> CapturedCall:
        nonlocal wall_ns
        wall_ns += 20_000_000
        return an_item(method, request, wall_ns=wall_ns)

    def change(event: api.Event.ValueType, container: api.Container | None = None) -> CapturedCall:
        return item("StateChange", api.StateChangeEvent(event=event, pod=pod, container=container))

    yield change(api.RUN_POD_SANDBOX)
    for n in range(containers):
        container = a_container(pod, f"app-{n}")
        yield item("CreateContainer", api.CreateContainerRequest(pod=pod, container=container))
        container.state = api.CONTAINER_CREATED
        yield change(api.POST_CREATE_CONTAINER, container)
        yield change(api.START_CONTAINER, container)
        container.state, container.pid = api.CONTAINER_RUNNING, 1000 + number
        yield change(api.POST_START_CONTAINER, container)
        resources = api.LinuxResources(cpu=api.LinuxCPU(shares=api.OptionalUInt64(value=512)))
        yield item(
            "UpdateContainer",
            api.UpdateContainerRequest(pod=pod, container=container, linux_resources=resources),
        )
        yield change(api.POST_UPDATE_CONTAINER, container)
        container.state = api.CONTAINER_STOPPED
        yield item("StopContainer", api.StopContainerRequest(pod=pod, container=container))
        yield change(api.REMOVE_CONTAINER, container)
    yield change(api.STOP_POD_SANDBOX)
    yield change(api.REMOVE_POD_SANDBOX)


def lifecycles(count: int, first: int = 0) -> list[CapturedCall]:
    return [item for number in range(first, first + count) for item in lifecycle(number)]


def a_synchronize(pods: int, more: bool = False, first: int = 0) -> api.SynchronizeRequest:
    pod_list = [a_pod(number) for number in range(first, first + pods)]
    return api.SynchronizeRequest(
        pods=pod_list, containers=[a_container(pod) for pod in pod_list], more=more
    )


# ------------------------------------------------------------------------------------ random


def random_message(kind: type[Message], chance: random.Random, depth: int = 4) -> Message:
    """Return a random message of this kind, with unknown fields and empty submessages."""
    message = kind()
    fields: Any = message.DESCRIPTOR.fields
    for field in fields:
        if chance.random() < (0.6 if depth > 2 else 0.3):
            _fill(message, field, chance, depth)
    if chance.random() < 0.3:
        # Field 1000, length-delimited; merging adds unknown fields to a message.
        message.MergeFromString(b"\xc2\x3e\x03" + chance.randbytes(3))
    return message


def _fill(message: Any, field: FieldDescriptor, chance: random.Random, depth: int) -> None:
    many = chance.randrange(3) if is_repeated(field) else 1
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        value_field = kind.fields_by_name["value"]
        for _ in range(many):
            key = _value(kind.fields_by_name["key"], chance)
            if value_field.message_type is None:
                getattr(message, field.name)[key] = _value(value_field, chance)
            elif depth:
                sub = random_message(GetMessageClass(value_field.message_type), chance, depth - 1)
                getattr(message, field.name)[key].CopyFrom(sub)
    elif kind is not None:
        if not depth:
            return
        for _ in range(many):
            sub = random_message(GetMessageClass(kind), chance, depth - 1)
            target = getattr(message, field.name)
            (target.add() if is_repeated(field) else target).CopyFrom(sub)
            if not is_repeated(field):
                target.SetInParent()
    elif is_repeated(field):
        getattr(message, field.name).extend(_value(field, chance) for _ in range(many))
    else:
        setattr(message, field.name, _value(field, chance))


def _value(field: FieldDescriptor, chance: random.Random) -> Any:
    if field.type == field.TYPE_STRING:
        return "".join(chance.choices("aZ0-/.\0é☕\U0001f433", k=chance.randrange(6)))
    if field.type == field.TYPE_BOOL:
        return chance.random() < 0.5
    if field.type == field.TYPE_ENUM:
        return chance.randrange(20)
    signed = field.type in (field.TYPE_INT32, field.TYPE_INT64)
    bits = 31 if field.type in (field.TYPE_INT32, field.TYPE_UINT32) else 63
    return chance.choice([0, 1, 2**bits - 1]) * (chance.choice([1, -1]) if signed else 1)
