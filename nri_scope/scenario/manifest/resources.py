# SPDX-License-Identifier: Apache-2.0
"""Calculate what the kubelet asks of a runtime: shares, limits, OOM score and cgroup.

The rules are those of pkg/kubelet/kuberuntime, pkg/kubelet/qos, pkg/kubelet/cm and
pkg/apis/core/v1/helper/qos of Kubernetes 1.34.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from .field import ManifestField, milli, parse_quantity, whole
from .node_facts import NodeFacts
from .pod_spec import ContainerSpec, PodSpec, Quantities, aggregate, is_huge_page

PERIOD = 100_000
"""Period of the processor quota, in microseconds."""
_ZERO = Fraction(0)
_MIN_SHARES, _MAX_SHARES = 2, 262_144
_MAX_QUOTA = 2**63 - 1
_MIN_QUOTA = 1_000


class QosClass(Enum):
    """Quality of service of a pod."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


@dataclass(frozen=True, slots=True)
class CriResources:
    """Resources as the kubelet sends them to a runtime; 0 means not set."""

    shares: int = 0
    quota: int = 0
    period: int = 0
    memory: int = 0
    swap: int = 0
    """Limit of memory and swap together, in bytes."""
    oom_score_adj: int = 0
    huge_pages: Sequence[tuple[str, int]] = ()
    unified: Mapping[str, str] = field(default_factory=dict)


def qos_class(pod: PodSpec) -> QosClass:
    """Return the class in the status of a pod, which clusters set, or else calculate it."""
    status: ManifestField = pod.object.status["qosClass"]
    if status:
        return QosClass(status.choice(*(qos.value for qos in QosClass)))
    groups: list[tuple[Quantities, Quantities]]
    if pod.has_pod_level:
        groups = [(pod.requests, pod.limits)]
    else:
        groups = [(container.requests, container.limits) for container in pod.containers]
    requests = _sum_compute([asked for asked, _ in groups])
    limits = _sum_compute([limit for _, limit in groups])
    if not requests and not limits:
        return QosClass.BEST_EFFORT
    complete = all(_sum_compute([limit]).keys() == {"cpu", "memory"} for _, limit in groups)
    return QosClass.GUARANTEED if complete and requests == limits else QosClass.BURSTABLE


def _sum_compute(lists: Sequence[Quantities]) -> dict[str, Fraction]:
    sums = {name: sum((row.get(name, _ZERO) for row in lists), _ZERO) for name in ("cpu", "memory")}
    return {name: amount for name, amount in sums.items() if amount > 0}


def cgroup_parent(pod: PodSpec, node: NodeFacts) -> str:
    """Return the cgroup of a pod as the kubelet names it, for its cgroup driver."""
    quality = qos_class(pod)
    parts = [*node.cgroup_root, "kubepods"]
    if quality is not QosClass.GUARANTEED:
        parts.append(quality.value.lower())
    parts.append(f"pod{pod.object.uid}")
    if node.cgroup_driver == "cgroupfs":
        return "/" + "/".join(parts)
    names = [part.replace("-", "_") for part in parts]
    slices = ["-".join(names[: count + 1]) for count in range(len(names))]
    return "".join(f"/{name}.slice" for name in slices)


def pod_resources(pod: PodSpec) -> CriResources:
    """Return the resources of all containers together."""
    requests = {**aggregate(pod.containers, "requests"), **_compute(pod.requests)}
    limits = {**aggregate(pod.containers, "limits"), **_compute(pod.limits)}
    return _basic(requests.get("cpu"), limits.get("cpu", _ZERO), limits.get("memory", _ZERO))


def overhead(pod: PodSpec) -> CriResources:
    """Return the resources of the sandbox itself."""
    if not pod.overhead:
        return CriResources()
    cpu = pod.overhead.get("cpu", _ZERO)
    return _basic(cpu, cpu, pod.overhead.get("memory", _ZERO))


def container_resources(pod: PodSpec, container: ContainerSpec, node: NodeFacts) -> CriResources:
    """Return the resources of a container."""
    limits = container.limits
    basic = _basic(
        container.requests.get("cpu"),
        limits.get("cpu") or pod.limits.get("cpu", _ZERO),
        limits.get("memory") or pod.limits.get("memory", _ZERO),
    )
    unified, swap = {}, 0
    if node.cgroup_version == 2:
        # One process that runs out of memory ends its container.
        unified["memory.oom.group"] = "1"
        if node.has_swap_accounting:
            unified["memory.swap.max"] = "0"
    elif node.has_swap_accounting:
        swap = basic.memory
    pages = _huge_pages({**pod.limits, **limits})
    return CriResources(
        basic.shares,
        basic.quota,
        basic.period,
        basic.memory,
        swap,
        _oom_score_adj(pod, container, node),
        [(size, pages.get(size, 0)) for size in node.huge_page_sizes],
        unified,
    )


def _compute(amounts: Quantities) -> dict[str, Fraction]:
    return {name: amount for name, amount in amounts.items() if name in ("cpu", "memory")}


def _basic(request: Fraction | None, limit: Fraction, memory: Fraction) -> CriResources:
    quota = max(min(milli(limit) * PERIOD // 1000, _MAX_QUOTA), _MIN_QUOTA) if limit else 0
    asked = limit if request is None else request
    shares = min(max(milli(asked) * 1024 // 1000, _MIN_SHARES), _MAX_SHARES)
    return CriResources(shares, quota, PERIOD, whole(memory))


def _huge_pages(limits: Quantities) -> dict[str, int]:
    """Return limits by the kernel's names of page sizes, such as ``2MB``."""
    pages = {}
    for name, amount in limits.items():
        size = parse_quantity(name.removeprefix("hugepages-")) if is_huge_page(name) else None
        if not size:
            continue
        units = iter(("B", "KB", "MB", "GB", "TB", "PB"))
        unit = next(units)
        while size >= 1024:
            size, unit = size / 1024, next(units, unit)
        pages[f"{float(size):g}{unit}"] = whole(amount)
    return pages


def _oom_score_adj(pod: PodSpec, container: ContainerSpec, node: NodeFacts) -> int:
    quality = qos_class(pod)
    critical = pod.field["priorityClassName"].text() == "system-node-critical"
    if quality is QosClass.GUARANTEED or critical:
        return -997
    if quality is QosClass.BEST_EFFORT:
        return 1000
    share = 0
    if pod.has_pod_level and pod.requests.get("memory"):
        free = whole(pod.requests["memory"]) - _memory(aggregate(pod.containers, "requests"))
        share = int(Fraction(free, len(pod.containers)))
    if _memory(container.requests) + share and not node.is_memory_known:
        pod.remarks.add(f"oom_score_adj: {node.memory_words}")
    score = _score(_memory(container.requests) + share, node)
    if container.kind == "sidecar":
        # A sidecar ends no earlier than the container that asks for the least memory.
        regular = [other.requests for other in pod.containers if other.kind == "container"]
        score = min(score, _score(min(map(_memory, regular)) + share, node))
    return min(max(score, 3), 999)


def _memory(amounts: Quantities) -> int:
    return whole(amounts.get("memory", _ZERO))


def _score(memory: int, node: NodeFacts) -> int:
    # Go divides towards zero.
    return 1000 - int(Fraction(1000 * memory, node.memory))
