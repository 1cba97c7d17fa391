# SPDX-License-Identifier: Apache-2.0
"""Make a scenario of Kubernetes manifests: their pods start to run on one runtime."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from .manifest import ManifestPod, pods_of
from .manifest.node_facts import MEMORY_OPTION
from .model import (
    DEFAULT_NAMESPACE,
    ContainerKind,
    RuntimeChoice,
    Scenario,
    ScenarioContainer,
    ScenarioPod,
    unused_key,
)

CgroupDriver = Literal["cgroupfs", "systemd"]

_MANIFEST = re.compile(r'^(?:apiVersion|kind)\s*:|^\s*[{"].*"(?:apiVersion|kind)"', re.M | re.S)
_SCENARIO = re.compile(r'^scenario\s*:|\A(?:\s|#.*$)*\{\s*"scenario"', re.M)


def is_scenario(text: str) -> bool:
    """Return whether a text has the first key of a scenario."""
    return bool(_SCENARIO.search(text))


def is_manifest(text: str) -> bool:
    """Return whether a text looks like a manifest of Kubernetes instead of a scenario."""
    return not is_scenario(text) and bool(_MANIFEST.search(text))


def scenario_of_manifest(
    text: str,
    source: str,
    runtime: RuntimeChoice,
    *,
    cgroup_driver: CgroupDriver = "systemd",
    namespace: str = DEFAULT_NAMESPACE,
    node_memory: int | None = None,
) -> tuple[Scenario, list[str]]:
    """Return the scenario of the pods in a manifest, and notes on what the manifest lacks.

    ``node_memory``: bytes of memory of the node; None assumes an ordinary one. Raises UsageError
    with the line and the field.
    """
    found = pods_of(
        text,
        runtime.profile(),
        cgroup_driver=cgroup_driver,
        namespace=namespace,
        memory=node_memory,
        source=source,
    )
    scenario = Scenario(runtime=runtime, source=source)
    used: dict[str, int] = {}
    for one in found:
        key = unused_key(f"{one.pod.namespace}/{one.pod.name}", used)
        scenario.pods[key] = _pod(key, one)
    notes = dict.fromkeys(note for one in found for note in one.notes)
    # Where space is short, the first note is shown: the one on values that an option changes.
    return scenario, sorted(notes, key=lambda note: MEMORY_OPTION not in note)


def _pod(key: str, one: ManifestPod) -> ScenarioPod:
    pod = ScenarioPod(key, one.pod, given=_set_fields(one.pod.ListFields()))
    for each in one.containers:
        container = ScenarioContainer(
            each.container.name,
            each.container,
            ContainerKind(each.kind),
            _set_fields(each.container.ListFields()),
        )
        pod.containers[container.key] = container
    return pod


def _set_fields(fields: Iterable[tuple[object, object]]) -> frozenset[str]:
    return frozenset(str(getattr(one, "name")) for one, _ in fields)  # noqa: B009
