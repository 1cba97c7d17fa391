# SPDX-License-Identifier: Apache-2.0
"""Find the agents of a cluster, and the nodes of pods."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nri_scope.errors import UsageError

from .kubectl import Kubectl

LABEL = "app.kubernetes.io/name=nri-scope"
CONTAINER = "agent"
"""Name of the agents' containers."""
NAMESPACE = "nri-scope"
"""Namespace of the agents, as installed from deploy/."""
NODES_MAX = 10_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}", re.ASCII)


@dataclass(frozen=True, slots=True)
class AgentPod:
    """A pod with an agent, on one node."""

    node: str
    namespace: str
    name: str
    rank: tuple[bool, bool, bool, str] = (False, False, False, "")
    """Of several, as during an update, the highest answers most likely: one that is running, whose
    agent is ready, or started at least; of these, the newest."""


@dataclass(frozen=True, slots=True)
class NamedPod:
    """A pod that a user names."""

    namespace: str
    name: str
    node: str
    """"" if it does not run on a node yet."""


def is_name(text: str) -> bool:
    """Return whether a text can name a namespace, node, pod or container.

    That is more than Kubernetes allows, but safe as a file name and as an argument.
    """
    return _NAME.fullmatch(text) is not None


async def agent_pods(
    kubectl: Kubectl, namespace: str = NAMESPACE, *, node: str = ""
) -> dict[str, AgentPod]:
    """Return the agents by node, sorted by its name, or that of one ``node``.

    Raises UsageError if there are none.
    """
    where = (f"--field-selector=spec.nodeName={node}",) if node else ()
    found = await kubectl.get("pods", f"--namespace={namespace}", f"--selector={LABEL}", *where)
    pods: dict[str, AgentPod] = {}
    for item in _items(found):
        pod = _agent_pod(item)
        known = pods.get(pod.node)
        if pod.node and (known is None or pod.rank > known.rank):
            pods[pod.node] = pod
    if not pods and not node:
        raise UsageError(
            f"no agent runs in namespace {namespace}",
            "install nri-scope from deploy/kustomize, or name its namespace with --agent-namespace",
        )
    return dict(sorted(pods.items())[:NODES_MAX])


async def find_pod(kubectl: Kubectl, namespace: str, name: str) -> NamedPod | None:
    """Return a pod; None if it does not exist (any more). Raises UsageError."""
    item = await kubectl.get("pod", name, f"--namespace={namespace}")
    return None if item is None else _named_pod(item)


async def labelled_pods(
    kubectl: Kubectl, selector: str, namespace: str = "", *, some: bool = True
) -> list[NamedPod]:
    """Return the pods that a label selector matches, in one namespace or in all.

    Raises UsageError if kubectl fails, or with ``some`` if no pod matches.
    """
    where = f"--namespace={namespace}" if namespace else "--all-namespaces"
    found = await kubectl.get("pods", where, f"--selector={selector}")
    pods = [_named_pod(item) for item in _items(found)]
    if some and not pods:
        raise UsageError(f"no pod matches -l {selector}")
    return pods


def _items(found: Any) -> Iterator[dict[str, Any]]:
    items = found.get("items") if isinstance(found, dict) else None
    if not isinstance(items, list):
        raise UsageError("kubectl get pods: it printed no list")
    yield from (item for item in items if isinstance(item, dict))


def _text(item: Any, *path: str) -> str:
    for key in path:
        item = item.get(key) if isinstance(item, dict) else None
    return item if isinstance(item, str) else ""


def _name(item: dict[str, Any], *path: str, optional: bool = False) -> str:
    name = _text(item, *path)
    if not (is_name(name) or (optional and not name)):
        raise UsageError(f"kubectl get pods: {'.'.join(path)} is {name[:100]!r}, which is no name")
    return name


def _named_pod(item: dict[str, Any]) -> NamedPod:
    return NamedPod(
        _name(item, "metadata", "namespace"),
        _name(item, "metadata", "name"),
        _name(item, "spec", "nodeName", optional=True),
    )


def _agent_pod(item: dict[str, Any]) -> AgentPod:
    return AgentPod(
        node=_name(item, "spec", "nodeName", optional=True),
        namespace=_name(item, "metadata", "namespace"),
        name=_name(item, "metadata", "name"),
        rank=(
            _text(item, "status", "phase") == "Running"
            and not _text(item, "metadata", "deletionTimestamp"),
            *_agent_state(item),
            _text(item, "metadata", "creationTimestamp"),
        ),
    )


def _agent_state(item: dict[str, Any]) -> tuple[bool, bool]:
    """Return whether a pod's agent is ready, and whether it has started."""
    status = item.get("status")
    containers = status.get("containerStatuses") if isinstance(status, dict) else None
    for one in containers if isinstance(containers, list) else ():
        if isinstance(one, dict) and one.get("name") == CONTAINER:
            return one.get("ready") is True, one.get("started") is True
    return False, False
