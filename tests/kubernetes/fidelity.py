# SPDX-License-Identifier: Apache-2.0
"""Compare an observation of a cluster with conversions of its manifests and of its pods."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime import PROFILES
from nri_scope.scenario.manifest.node_facts import NodeFacts
from nri_scope.scenario.manifest_scenario import ManifestPod, pods_of

from .comparison import Difference, differences
from .observation import MANIFESTS


@dataclass(frozen=True)
class Deviation:
    """A difference of one pod or container of an observation."""

    source: str
    """``manifest`` or ``cluster``: the text that was converted."""
    profile: str
    place: str
    """``POD`` or ``POD/CONTAINER``, with the pod's name in the manifest."""
    difference: Difference


@dataclass(frozen=True)
class Comparison:
    """Result of comparing an observation."""

    compared: int
    """Number of pods and containers."""
    deviations: list[Deviation]
    assigned: set[str]
    """Names of values that the cluster assigned otherwise."""


@cache
def compare(folder: Path, profile: str) -> Comparison:
    """Compare all that a plugin got with both conversions; everything must have its equal."""
    facts = json.loads((folder / "node.json").read_text())
    facts["cgroup_root"] = tuple(facts["cgroup_root"])
    facts["huge_page_sizes"] = tuple(facts["huge_page_sizes"])
    node = NodeFacts(**facts)
    observed = _observed(folder / "recording.nriscope.zip")
    manifests = [path.read_text() for path in sorted(MANIFESTS.glob("*.yaml"))]
    cluster = [gzip.decompress((folder / "pods.yaml.gz").read_bytes()).decode()]
    deviations: list[Deviation] = []
    assigned: set[str] = set()
    compared = 0
    for source, texts in (("manifest", manifests), ("cluster", cluster)):
        left = dict(observed)
        for text in texts:
            pods = pods_of(
                text, PROFILES[profile], node=node, cgroup_driver=node.cgroup_driver, source=source
            )
            for pod in pods:
                name = _matching(pod, left)
                for place, expected, actual in _pairs(pod, left.pop(name)):
                    found, used = differences(expected, actual)
                    assigned |= used
                    compared += 1
                    deviations += [Deviation(source, profile, place, one) for one in found]
        assert not left, f"not in the {source}: {sorted(left)}"
    return Comparison(compared, deviations, assigned)


@dataclass
class _Observed:
    pod: api.PodSandbox
    containers: dict[str, api.Container]


def _observed(bundle: Path) -> dict[str, _Observed]:
    pods: dict[str, _Observed] = {}
    with Recording.open(bundle) as recording:
        for event in recording.events():
            if event.event == "RunPodSandbox":
                pod = _pod(recording.request(event.id))
                pods[f"{pod.namespace}/{pod.name}"] = _Observed(pod, {})
            elif event.event == "CreateContainer":
                request = api.CreateContainerRequest.FromString(recording.request(event.id))
                one = pods[f"{request.pod.namespace}/{request.pod.name}"]
                # Later creations restart a container.
                one.containers.setdefault(request.container.name, request.container)
    return pods


def _pod(request: bytes) -> api.PodSandbox:
    """Return the pod of RunPodSandbox, or of the StateChange that it was sent as."""
    change = api.StateChangeEvent.FromString(request)
    if change.event == api.RUN_POD_SANDBOX:
        return change.pod
    return api.RunPodSandboxRequest.FromString(request).pod


def _matching(pod: ManifestPod, observed: dict[str, _Observed]) -> str:
    name = f"{pod.pod.namespace}/{pod.pod.name}"
    if name in observed:
        return name
    # Workloads: names end with five random characters, after those of a template for some.
    start = name.removesuffix(name.rpartition("-")[2])
    if revision := pod.pod.labels.get("pod-template-hash"):
        start = start.removesuffix(f"{revision}-")
    (found,) = [other for other in observed if other.startswith(start)]
    return found


_Messages = list[tuple[str, Message]]


def _pairs(pod: ManifestPod, observed: _Observed) -> Iterator[tuple[str, _Messages, _Messages]]:
    place = pod.pod.name
    yield place, [("pod", pod.pod)], [("pod", observed.pod)]
    names = [container.container.name for container in pod.containers]
    # The order of creation, too.
    assert names == list(observed.containers), place
    for container in pod.containers:
        actual = observed.containers[container.container.name]
        yield (
            f"{place}/{container.container.name}",
            [("pod", pod.pod), ("container", container.container)],
            [("pod", observed.pod), ("container", actual)],
        )
