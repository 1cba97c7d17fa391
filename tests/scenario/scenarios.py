# SPDX-License-Identifier: Apache-2.0
"""Scenarios for tests, and what they lead to."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.request_subject import container_of, pod_of
from nri_scope.scenario.compile import EventSequence, MadeEvent, RuntimeStart
from nri_scope.scenario.document import parse_scenario
from nri_scope.scenario.model import Scenario


def scenario(text: str) -> Scenario:
    """The scenario in a text, of version 1 unless it says else."""
    head = "" if text.startswith("scenario") else "scenario: 1\n"
    return parse_scenario(head + text, "web.yaml")


def played(text: str) -> list[RuntimeStart | MadeEvent]:
    """Everything that the scenario leads to."""
    found = scenario(text)
    return list(EventSequence(found, found.runtime.profile()).play())


def events(text: str) -> list[str]:
    """The events of a scenario: name and subject; ``start`` for a start of the runtime."""
    return [line(one) for one in played(text)]


def line(one: RuntimeStart | MadeEvent) -> str:
    """An event on one line."""
    if isinstance(one, RuntimeStart):
        return "start"
    pod, container = pod_of(one.event.name, one.request), container_of(one.event.name, one.request)
    assert pod is not None
    name = f"{pod.name or pod.id[:6]}" + (f"/{container.name}" if container is not None else "")
    return f"{one.event.name} {name}"


def containers(text: str) -> Iterator[api.Container]:
    """The containers in the events of a scenario, in order."""
    for one in played(text):
        if isinstance(one, MadeEvent):
            container = container_of(one.event.name, one.request)
            if container is not None:
                yield container


def pods(text: str) -> Iterator[api.PodSandbox]:
    """The pods in the events of a scenario, in order."""
    for one in played(text):
        if isinstance(one, MadeEvent):
            pod = pod_of(one.event.name, one.request)
            assert pod is not None
            yield pod
