# SPDX-License-Identifier: Apache-2.0
"""Find the agents of a cluster, and the nodes of pods."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Container, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from nri_scope.errors import UsageError

from .kubectl import Kubectl

LABEL = "app.kubernetes.io/name=nri-scope"
CONTAINER = "agent"
"""Name of the agents' containers."""
NAMESPACE = "nri-scope"
"""Namespace of the agents, as installed from deploy/."""
NO_AGENT = "it has no agent"
NODES_MAX = 10_000
_FIELDS = (".metadata.namespace", ".metadata.name", ".spec.nodeName")
AGENT_FIELDS = (
    *_FIELDS,
    ".status.phase",
    ".metadata.deletionTimestamp",
    f'.status.containerStatuses[?(@.name=="{CONTAINER}")].ready',
    f'.status.containerStatuses[?(@.name=="{CONTAINER}")].started',
    ".metadata.creationTimestamp",
)
"""Fields of an agent's pod that are listed."""
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
    found = await kubectl.get(
        AGENT_FIELDS, "pods", f"--namespace={namespace}", f"--selector={LABEL}", *where
    )
    pods: dict[str, AgentPod] = {}
    for row in found:
        pod = _agent_pod(row)
        known = pods.get(pod.node)
        if pod.node and (known is None or pod.rank > known.rank):
            pods[pod.node] = pod
    if not pods and not node:
        raise UsageError(
            f"no agent runs in namespace {namespace}",
            "install nri-scope from deploy/kustomize, or name its namespace with --agent-namespace",
        )
    return dict(sorted(pods.items())[:NODES_MAX])


async def nodes_without_agent(
    kubectl: Kubectl, agents: Container[str], say: Callable[[str], None]
) -> list[str]:
    """Return the nodes of Linux that have no agent, sorted.

    If the user may not list nodes, ``say`` is called with that, and the list is empty.
    """
    try:
        rows = await kubectl.get(
            (".metadata.name",), "nodes", "--selector=kubernetes.io/os!=windows"
        )
    except UsageError as error:
        say(f"nodes without an agent are not shown: {error}")
        return []
    names = (row[0] for row in rows[:NODES_MAX])
    return sorted(one for one in names if is_name(one) and one not in agents)


async def find_pod(kubectl: Kubectl, namespace: str, name: str) -> NamedPod | None:
    """Return a pod; None if it does not exist (any more). Raises UsageError."""
    found = await kubectl.get(_FIELDS, "pod", name, f"--namespace={namespace}", is_list=False)
    return _named_pod(found[0]) if found else None


async def labelled_pods(
    kubectl: Kubectl, selector: str, namespace: str = "", *, some: bool = True
) -> list[NamedPod]:
    """Return the pods that a label selector matches, in one namespace or in all.

    Raises UsageError if kubectl fails, or with ``some`` if no pod matches.
    """
    where = f"--namespace={namespace}" if namespace else "--all-namespaces"
    found = await kubectl.get(_FIELDS, "pods", where, f"--selector={selector}")
    pods = [_named_pod(row) for row in found]
    if some and not pods:
        raise UsageError(f"no pod matches -l {selector}")
    return pods


async def watched_pods(
    kubectl: Kubectl, selector: str, namespace: str = ""
) -> AsyncGenerator[NamedPod, None]:
    """Yield the pods of a node that a label selector matches, when they change, until kubectl ends.

    Close the generator, see `contextlib.aclosing`. Raises UsageError.
    """
    where = f"--namespace={namespace}" if namespace else "--all-namespaces"
    rows = kubectl.watch(_FIELDS, "pods", where, f"--selector={selector}")
    async with aclosing(rows):
        async for row in rows:
            pod = _named_pod(row)
            if pod.node:
                yield pod


def _named_pod(row: Sequence[str]) -> NamedPod:
    """Return a pod with these `_FIELDS`. Raises UsageError for names that are none."""
    for field, text in zip(_FIELDS, row, strict=True):
        if not (is_name(text) or (field == _FIELDS[2] and not text)):
            raise UsageError(f"kubectl get pods: {field[1:]} is {text[:100]!r}, which is no name")
    namespace, name, node = row
    return NamedPod(namespace, name, node)


def _agent_pod(row: Sequence[str]) -> AgentPod:
    pod = _named_pod(row[: len(_FIELDS)])
    phase, deleted, ready, started, created = row[len(_FIELDS) :]
    is_running = phase == "Running" and not deleted
    rank = is_running, ready == "true", started == "true", created
    return AgentPod(pod.node, pod.namespace, pod.name, rank)
