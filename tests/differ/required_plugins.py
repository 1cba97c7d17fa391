# SPDX-License-Identifier: Apache-2.0
"""Recordings of a validator and a tap, of pods that require plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Role
from nri_scope.recorder.writer import Recorder
from tests.recording.traffic import NOW, a_start, an_item

VALIDATOR, TAPPED = "00-nri-scope", "20-net"
POSTS = (
    api.Event.POST_CREATE_CONTAINER,
    api.Event.START_CONTAINER,
    api.Event.POST_START_CONTAINER,
)


@dataclass(frozen=True, slots=True)
class NewPod:
    """A pod with one container, ``app``."""

    name: str
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    named: tuple[str, ...] = (TAPPED,)
    """Plugins that the request to the validator names, beside it."""
    is_late: bool = False
    """Whether the tapped plugin answers RunPodSandbox too late."""
    is_container_late: bool = False
    is_created: bool = True
    """Whether the container's creation succeeds."""


def a_node(path: Path, pods: Iterable[NewPod]) -> Path:
    """Record the pods, one after the other, by a validator and a tap."""
    recorder = Recorder.open(path)
    validator = recorder.begin_session(replace(a_start(VALIDATOR), mask=0x3FFF))
    tap = recorder.begin_session(replace(a_start(TAPPED), role=Role.TAP))
    at_ns = NOW

    def capture(session: int, method: str, request: Message, *, is_late: bool = False) -> None:
        nonlocal at_ns
        at_ns += 10**7
        item = an_item(method, request, wall_ns=at_ns, status_code=4 if is_late else 0)
        recorder.capture(session, item)

    for session in (validator, tap):
        capture(session, "Synchronize", api.SynchronizeRequest())
    for number, each in enumerate(pods):
        pod = api.PodSandbox(id=f"{number:064x}", name=each.name, namespace="shop")
        pod.annotations.update(each.annotations)
        container = api.Container(id=f"c{number:063x}", pod_sandbox_id=pod.id, name="app")
        container.args.append("app")
        run_pod = api.StateChangeEvent(event=api.Event.RUN_POD_SANDBOX, pod=pod)
        create = api.CreateContainerRequest(pod=pod, container=container)
        for session in (validator, tap):
            capture(session, "StateChange", run_pod, is_late=each.is_late and session == tap)
        for session in (validator, tap):
            late = each.is_container_late and session == tap
            capture(session, "CreateContainer", create, is_late=late)
        plugins = [api.PluginInstance(index=one[:2], name=one[3:]) for one in each.named]
        plugins.append(api.PluginInstance(index=VALIDATOR[:2], name=VALIDATOR[3:]))
        validate = api.ValidateContainerAdjustmentRequest(
            pod=pod, container=container, plugins=plugins
        )
        capture(validator, "ValidateContainerAdjustment", validate)
        if each.is_created:
            for event in POSTS:
                change = api.StateChangeEvent(event=event, pod=pod, container=container)
                capture(validator, "StateChange", change)
        else:
            stop = api.StopContainerRequest(pod=pod, container=container)
            capture(validator, "StopContainer", stop)
            remove = api.StateChangeEvent(
                event=api.Event.REMOVE_CONTAINER, pod=pod, container=container
            )
            capture(validator, "StateChange", remove)
    for session in (validator, tap):
        recorder.end_session(session, "over", at_ns + 10**9)
    recorder.close()
    return path
