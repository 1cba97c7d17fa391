# SPDX-License-Identifier: Apache-2.0
"""Find the node whose recordings have a pod."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.errors import UsageError
from nri_scope.events import UNREADABLE
from nri_scope.filter.tree import quote

from .agent_client import AgentClient, AgentError, each_node
from .agent_pods import (
    NO_AGENT,
    AgentPod,
    agent_pods,
    find_pod,
    is_name,
    nodes_without_agent,
    preferred_pods,
)
from .kubectl import Kubectl

PAUSE_S = 2.0
"""Seconds between two checks whether a pod is scheduled."""
WATCH_S = 10.0
"""Seconds between two checks on which node a followed pod runs."""
_POD = "pod"
_KINDS = (
    *("pod pods po", "deployment deployments deploy", "daemonset daemonsets ds"),
    *("statefulset statefulsets sts", "replicaset replicasets rs", "job jobs"),
)
"""The names that kubectl accepts for resources, the usual name first."""
_RESOURCES = {name: names.split()[0] for names in _KINDS for name in names.split()}
_LABEL = re.compile(r"[A-Za-z0-9_./-]{0,317}", re.ASCII)
"""Key or value of a label, safe in a selector."""
_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "", "DoesNotExist": "!"}


@dataclass(frozen=True, slots=True)
class Target:
    """A pod or container that a user names."""

    namespace: str
    pod: str
    container: str = ""

    @classmethod
    def parse(cls, text: str) -> Target:
        """Parse ``NAMESPACE/POD`` or ``NAMESPACE/POD/CONTAINER``. Raises UsageError."""
        parts = text.split("/")
        if not 2 <= len(parts) <= 3 or not all(map(is_name, parts)):
            raise UsageError(
                f"{text!r} is not a pod or container", "write NAMESPACE/POD[/CONTAINER]"
            )
        return cls(*parts)

    @property
    def name(self) -> str:
        """The target as `parse` reads it."""
        return "/".join(filter(None, (self.namespace, self.pod, self.container)))

    @property
    def where(self) -> str:
        """Filter of the pod's events."""
        return pod_filter(self.namespace, self.pod)


@dataclass(frozen=True, slots=True)
class NamedTarget:
    """A pod, a container or the pods of a workload, as kubectl lets a user name them."""

    namespace: str
    """"" for that of the user's context."""
    kind: str
    """Resource that has the name: a pod or a workload."""
    name: str
    container: str = ""

    @classmethod
    def parse(cls, text: str, namespace: str = "") -> NamedTarget:
        """Parse ``KIND/NAME[/CONTAINER]``, ``POD``, or ``NAMESPACE/POD[/CONTAINER]``.

        With a ``namespace``, the last is ``POD/CONTAINER``. Raises UsageError.
        """
        parts = text.split("/")
        kind = _RESOURCES.get(parts[0].lower(), "") if len(parts) > 1 else ""
        if kind:
            del parts[0]
        elif not namespace and len(parts) > 1:
            target = Target.parse(text)
            return cls(target.namespace, _POD, target.pod, target.container)
        if len(parts) > 2 or not all(map(is_name, [*parts, namespace or "default"])):
            raise UsageError(
                f"{text!r} is not a pod, a workload or a container",
                "write -n NAMESPACE POD[/CONTAINER] or KIND/NAME[/CONTAINER]",
            )
        if namespace.isdigit() and "/" in text and not kind:
            raise UsageError(
                f"-n {namespace} is a namespace, and {text} a container of it",
                "--last is a number of events; of such a namespace, write NAMESPACE/POD",
            )
        return cls(namespace, kind or _POD, *parts)

    @property
    def is_workload(self) -> bool:
        """Whether it has pods, and is none."""
        return self.kind != _POD

    @property
    def _title(self) -> str:
        return f"{self.kind}/{self.name}"

    async def in_namespace(self, kubectl: Kubectl) -> NamedTarget:
        """Return the target with its namespace: by default that of the context, as for kubectl."""
        return replace(self, namespace=self.namespace or await kubectl.namespace())

    async def selector(self, kubectl: Kubectl) -> str:
        """Return the label selector of a workload's pods. Raises UsageError."""
        rows = await kubectl.get(
            (".spec.selector.matchLabels", ".spec.selector.matchExpressions"),
            *(self.kind, self.name, f"--namespace={self.namespace}"),
            is_list=False,
        )
        if not rows:
            raise UsageError(f"{self._title} does not exist in namespace {self.namespace}")
        try:
            return _selector(*(json.loads(text) if text else None for text in rows[0]))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise UsageError(f"kubectl get {self._title}: it printed no selector of pods") from None

    async def pod(self, kubectl: Kubectl, node: str, say: Callable[[str], None]) -> Target:
        """Return the pod, or one of a workload's pods; of several, ``say`` is called with it.

        It is chosen as by `kubectl logs`; with ``node``, of this node's pods. Raises UsageError.
        """
        named = await self.in_namespace(kubectl)
        if not named.is_workload:
            return Target(named.namespace, named.name, named.container)
        selector = await named.selector(kubectl)
        pods = await preferred_pods(kubectl, selector, named.namespace)
        pods = [pod for pod in pods if node in ("", pod.node)]
        if not pods:
            scope = f" on {node}" if node else ""
            raise UsageError(f"{self._title} has no pods{scope} (its selector is {selector})")
        if len(pods) > 1:
            say(f"Found {len(pods)} pods, using pod/{pods[0].name}")
        return Target(named.namespace, pods[0].name, named.container)


def _selector(labels: dict[str, str] | None, expressions: list[dict[str, Any]] | None) -> str:
    """Return a selector as the option of kubectl writes it.

    Raises ValueError and others for contents of no selector.
    """
    terms = [("{}={}", key, [value]) for key, value in (labels or {}).items()]
    for expression in expressions or ():
        operator = _OPERATORS[expression["operator"]]
        form = f"{{}} {operator} ({{}})" if operator.isalpha() else f"{operator}{{}}"
        terms.append((form, expression["key"], expression.get("values") or []))
    for _, key, values in terms:
        if not key or not all(map(_LABEL.fullmatch, [key, *values])):
            raise ValueError
    if not terms:
        raise ValueError
    return ",".join(form.format(key, ",".join(values)) for form, key, values in terms)


def pod_filter(namespace: str, pod: str) -> str:
    """Return a filter of the events about a pod and its containers."""
    return f"ns:{quote(namespace)} pod:{quote(pod, is_name=True)}"


def events_request(target: Target | None, *, follow: bool) -> v1.GetEventsRequest:
    """Return the request for a pod's events and their context; None: for all of a node."""
    if target is None:
        return v1.GetEventsRequest(context=True, follow=follow)
    names = [target.namespace]
    return v1.GetEventsRequest(where=target.where, context=True, follow=follow, namespaces=names)


async def node_of(
    kubectl: Kubectl,
    namespace: str,
    target: Target,
    say: Callable[[str], None],
    *,
    wait: bool = False,
) -> AgentPod:
    """Return the agent whose node has the pod, or had it, according to its recordings.

    ``wait``: until a pod that exists is scheduled. Raises UsageError.
    """
    agents, pod = await asyncio.gather(
        agent_pods(kubectl, namespace), find_pod(kubectl, target.namespace, target.pod)
    )
    name = f"{target.namespace}/{target.pod}"
    if wait and pod is not None and not pod.node:
        say(f"{name} is not scheduled yet; waiting for it")
        while pod is not None and not pod.node:
            await asyncio.sleep(PAUSE_S)
            pod = await find_pod(kubectl, target.namespace, target.pod)
        agents = await agent_pods(kubectl, namespace)
    if pod is None or not pod.node:
        agent, remark = await _recording_agent(kubectl, agents, target, exists=pod is not None)
        say(remark)
        return agent
    if pod.node not in agents:
        problem = f"{name} runs on {pod.node}, which has no agent"
        raise UsageError(problem, f"agents run on {_listed(list(agents))}")
    return agents[pod.node]


async def _recording_agent(
    kubectl: Kubectl, agents: dict[str, AgentPod], target: Target, *, exists: bool
) -> tuple[AgentPod, str]:
    """Return the agent with the newest events of a pod that is on no node, and a remark on it.

    ``exists``: whether the pod waits for a node. Raises UsageError.
    """
    name = f"{target.namespace}/{target.pod}"
    nodes, silent = await _recorded_on(kubectl, agents, target)
    for node in await nodes_without_agent(kubectl, agents, lambda text: None):
        silent.setdefault(node, NO_AGENT)
    why = next(iter(silent.values()), "")
    unknown = f"; unknown for {_listed([*silent])}: {why}" if silent else ""
    if not nodes:
        gone = "is not scheduled yet" if exists else "does not exist"
        asked = [node for node in agents if node not in silent]
        of_asked = f" of {_listed(asked)}" if silent else ""
        problem = f"no recording{of_asked} has its events{unknown}"
        if not asked:
            problem = f"whether a recording has its events is{unknown[1:]}"
        raise UsageError(f"pod {name} {gone}, and {problem}")
    gone = "is not scheduled" if exists else "no longer exists"
    others = f", not of {_listed(nodes[1:])}" if len(nodes) > 1 else ""
    remark = f"pod {name} {gone}; reading the recordings of {nodes[0]}{others}{unknown}"
    return agents[nodes[0]], remark


async def moved(kubectl: Kubectl, target: Target, node: str) -> str:
    """Wait until a pod runs on another node than before; return a message about it."""
    while True:
        await asyncio.sleep(WATCH_S)
        # The API server may be unreachable meanwhile.
        with suppress(UsageError):
            pod = await find_pod(kubectl, target.namespace, target.pod)
            if pod is not None and pod.node not in ("", node):
                return (
                    f"{target.namespace}/{target.pod} runs on {pod.node} now; these are its events "
                    f"on {node}; run the command again for those on {pod.node}"
                )


async def _recorded_on(
    kubectl: Kubectl, agents: dict[str, AgentPod], target: Target
) -> tuple[list[str], dict[str, str]]:
    """Return the nodes whose recordings have a pod, the newest first, and the errors of others."""
    request = v1.GetEventsRequest(where=target.where, last=1, namespaces=[target.namespace])

    async def newest(agent: AgentPod) -> int:
        at_ns, unread = 0, ""
        async with aclosing(AgentClient(kubectl, agent).events(request)) as responses:
            async for response in responses:
                if response.event is not None:
                    at_ns = response.event.at_ns
                elif response.gap is not None and response.gap.reason.startswith(UNREADABLE):
                    unread = f"{response.gap.recording}: {response.gap.reason}"
        if unread and not at_ns:
            raise AgentError(agent.node, unread)
        return at_ns

    times: dict[str, int] = {}
    silent: dict[str, str] = {}
    async for node, result in each_node(agents, newest):
        if isinstance(result, AgentError):
            silent[node] = result.problem
        elif result:
            times[node] = result
    return sorted(times, key=lambda node: -times[node]), dict(sorted(silent.items()))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
