# SPDX-License-Identifier: Apache-2.0
"""Find the agents of a cluster, and the nodes of pods."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import AsyncGenerator, Callable, Container, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

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
_READY = '.status.conditions[?(@.type=="Ready")]'
AGENT_FIELDS = (
    *_FIELDS,
    ".status.phase",
    ".metadata.deletionTimestamp",
    f'.status.containerStatuses[?(@.name=="{CONTAINER}")].ready',
    f'.status.containerStatuses[?(@.name=="{CONTAINER}")].started',
    ".metadata.creationTimestamp",
    f'.spec.containers[?(@.name=="{CONTAINER}")].args',
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
    authorizes: bool = False
    """Whether the agent asks for a token."""
    token: str = dataclasses.field(default="", repr=False, compare=False)
    """Token of the user, for an agent that asks for it."""


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
    """Return the agents by node, sorted by its name; with ``node``, only the agent of this node.

    Raises UsageError if there are none.
    """
    on_node = (f"--field-selector=spec.nodeName={node}",) if node else ()
    rows = await kubectl.get(
        AGENT_FIELDS, "pods", f"--namespace={namespace}", f"--selector={LABEL}", *on_node
    )
    pods: dict[str, AgentPod] = {}
    for row in rows:
        pod = _agent_pod(row)
        earlier = pods.get(pod.node)
        if pod.node and (earlier is None or pod.rank > earlier.rank):
            pods[pod.node] = pod
    if not pods and not node:
        raise UsageError(
            f"no agent runs in namespace {namespace}",
            "install nri-scope from deploy/kustomize, or name its namespace with --agent-namespace",
        )
    if any(pod.authorizes for pod in pods.values()):
        token = await kubectl.token()
        pods = {
            name: replace(pod, token=token) if pod.authorizes else pod for name, pod in pods.items()
        }
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
    return sorted(name for name in names if is_name(name) and name not in agents)


async def find_pod(kubectl: Kubectl, namespace: str, name: str) -> NamedPod | None:
    """Return a pod; None if it does not exist (any more). Raises UsageError."""
    rows = await kubectl.get(_FIELDS, "pod", name, f"--namespace={namespace}", is_list=False)
    return _named_pod(rows[0]) if rows else None


async def labelled_pods(
    kubectl: Kubectl, selector: str, namespace: str = "", *, some: bool = True
) -> list[NamedPod]:
    """Return the pods that a label selector matches, in one namespace or in all.

    Raises UsageError if kubectl fails, or with ``some`` if no pod matches.
    """
    scope = f"--namespace={namespace}" if namespace else "--all-namespaces"
    rows = await kubectl.get(_FIELDS, "pods", scope, f"--selector={selector}")
    pods = [_named_pod(row) for row in rows]
    if some and not pods:
        raise UsageError(f"no pod matches -l {selector}")
    return pods


async def preferred_pods(kubectl: Kubectl, selector: str, namespace: str) -> list[NamedPod]:
    """Return the pods that a selector matches, in the order in which `kubectl logs` prefers them.

    First those on a node, which run, are ready, and have been ready longest. Raises UsageError.
    """
    fields = (*_FIELDS, ".status.phase", f"{_READY}.status", f"{_READY}.lastTransitionTime")
    scope = f"--namespace={namespace}", f"--selector={selector}"

    def rank(row: list[str]) -> tuple[bool, bool, bool, str]:
        _, _, node, phase, ready, since = row
        return not node, phase != "Running", ready != "True", since

    rows = sorted(await kubectl.get(fields, "pods", *scope), key=rank)
    return [_named_pod(row[: len(_FIELDS)]) for row in rows]


async def watched_pods(
    kubectl: Kubectl, selector: str, namespace: str = ""
) -> AsyncGenerator[NamedPod, None]:
    """Yield the pods of a node that a label selector matches, when they change, until kubectl ends.

    Close the generator, see `contextlib.aclosing`. Raises UsageError.
    """
    scope = f"--namespace={namespace}" if namespace else "--all-namespaces"
    rows = kubectl.watch(_FIELDS, "pods", scope, f"--selector={selector}")
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
    phase, deleted, ready, started, created, arguments = row[len(_FIELDS) :]
    is_running = phase == "Running" and not deleted
    rank = is_running, ready == "true", started == "true", created
    authorizes = '"--authorize"' in arguments
    return AgentPod(pod.node, pod.namespace, pod.name, rank, authorizes)
