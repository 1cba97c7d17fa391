# SPDX-License-Identifier: Apache-2.0
"""Find the node whose recordings have a pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.errors import UsageError
from nri_scope.events import UNREADABLE
from nri_scope.filter.tree import quote

from .agent_client import AgentClient, AgentError, each_node
from .agent_pods import NO_AGENT, AgentPod, agent_pods, find_pod, is_name, nodes_without_agent
from .kubectl import Kubectl

PAUSE_S = 2.0
"""Seconds between two questions whether a pod is scheduled."""
WATCH_S = 10.0
"""Seconds between two questions where a pod that is followed runs."""


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
    def where(self) -> str:
        """Filter of the pod's events."""
        return pod_filter(self.namespace, self.pod)


def pod_filter(namespace: str, pod: str) -> str:
    """Return a filter of the events about a pod and its containers."""
    return f"ns:{quote(namespace)} pod:{quote(pod, is_name=True)}"


async def node_of(
    kubectl: Kubectl,
    namespace: str,
    target: Target,
    say: Callable[[str], None],
    *,
    wait: bool = False,
) -> AgentPod:
    """Return the agent whose node has the pod; or had it, according to its recordings.

    ``wait``: until a pod that exists is scheduled. Raises UsageError.
    """
    agents, pod = await asyncio.gather(
        agent_pods(kubectl, namespace), find_pod(kubectl, target.namespace, target.pod)
    )
    if wait and pod is not None and not pod.node:
        say(f"{target.namespace}/{target.pod} is not scheduled yet; waiting for it")
        while pod is not None and not pod.node:
            await asyncio.sleep(PAUSE_S)
            pod = await find_pod(kubectl, target.namespace, target.pod)
        agents = await agent_pods(kubectl, namespace)
    if pod is not None and pod.node:
        agent = agents.get(pod.node)
        if agent is None:
            raise UsageError(
                f"{target.namespace}/{target.pod} runs on {pod.node}, which has no agent",
                f"agents run on {_listed(list(agents))}",
            )
        return agent
    name = f"{target.namespace}/{target.pod}"
    found, silent = await _recorded_on(kubectl, agents, target)
    for node in await nodes_without_agent(kubectl, agents, lambda text: None):
        silent.setdefault(node, NO_AGENT)
    why = next(iter(silent.values()), "")
    unknown = f"; unknown for {_listed([*silent])}: {why}" if silent else ""
    if not found:
        gone = "is not scheduled yet" if pod is not None else "does not exist"
        asked = [node for node in agents if node not in silent]
        of_asked = f" of {_listed(asked)}" if silent else ""
        if not asked:
            raise UsageError(f"pod {name} {gone}, and whether a recording has it is{unknown[1:]}")
        raise UsageError(f"pod {name} {gone}, and no recording{of_asked} has it{unknown}")
    gone = "is not scheduled" if pod is not None else "no longer exists"
    others = f", not of {_listed(found[1:])}" if len(found) > 1 else ""
    say(f"pod {name} {gone}; reading the recordings of {found[0]}{others}{unknown}")
    return agents[found[0]]


async def moved(kubectl: Kubectl, target: Target, node: str) -> str:
    """Wait until a pod runs on another node than before; return its name."""
    while True:
        await asyncio.sleep(WATCH_S)
        # The API server may be unreachable meanwhile.
        with suppress(UsageError):
            pod = await find_pod(kubectl, target.namespace, target.pod)
            if pod is not None and pod.node not in ("", node):
                return pod.node


async def _recorded_on(
    kubectl: Kubectl, agents: dict[str, AgentPod], target: Target
) -> tuple[list[str], dict[str, str]]:
    """Return the nodes whose recordings have a pod, the newest first; and why others are silent."""
    request = v1.GetEventsRequest(where=target.where, last=1)

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
