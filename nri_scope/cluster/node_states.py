# SPDX-License-Identifier: Apache-2.0
"""The states of all nodes, as their agents tell."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.nri.events import Event
from nri_scope.nri.plain import Plain
from nri_scope.recording.records import rfc3339

from .agent_client import AgentClient, AgentError, each_node
from .agent_pods import NO_AGENT, agent_pods, nodes_without_agent
from .kubectl import Kubectl

STATUS_TIMEOUT_S = 5.0
"""Seconds that a node has to answer, its forwarded port included."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """State of one node."""

    node: str
    status: v1.GetStatusResponse | None
    problem: str = ""
    """Why there is no status."""

    @property
    def current(self) -> v1.RecordingStatus | None:
        """The recording that is being written, the newest; None if there is none."""
        recordings = [] if self.status is None else self.status.recordings
        active = [one for one in recordings if one.recording_now]
        return active[-1] if active else None

    @property
    def is_good(self) -> bool:
        """Whether a recorder is connected to the runtime, and has its containers."""
        return self.current is not None and self.current.synchronized

    @property
    def plugins(self) -> list[str] | None:
        """Plugins of the runtime, as last named to a connected validator; None if not yet."""
        named = self._named
        return named.plugins if named else None

    @property
    def plugins_at_ns(self) -> int:
        """Time at which the runtime named `plugins`; 0 if not yet."""
        named = self._named
        return named.plugins_at_ns if named else 0

    @property
    def validates(self) -> bool:
        """Whether the recorder subscribes to ValidateContainerAdjustment."""
        session = self.current.session if self.current is not None else None
        return session is not None and bool(session.mask & Event.ValidateContainerAdjustment.bit)

    @property
    def _named(self) -> v1.RecordingStatus | None:
        recordings = self.status.recordings if self.status else ()
        named = [one for one in recordings if one.connected and one.plugins_at_ns]
        return max(named, key=lambda one: one.plugins_at_ns, default=None)

    @property
    def runtime(self) -> v1.Session | None:
        """The newest session, which describes the runtime."""
        sessions = [
            one.session for one in (self.status.recordings if self.status else ()) if one.session
        ]
        return max(sessions, key=lambda one: one.started_ns) if sessions else None

    @property
    def connected_since(self) -> int | None:
        """Start of the current session, in ns since the epoch; None if it is not connected."""
        current = self.current
        session = current.session if current is not None and current.connected else None
        return None if session is None else session.started_ns

    @property
    def gaps(self) -> int:
        """Number of gaps in and between all recordings."""
        if self.status is None:
            return 0
        return self.status.gaps_between + sum(one.gaps for one in self.status.recordings)

    @property
    def lost(self) -> int:
        """Number of events of all recordings that are known to be lost."""
        return sum(one.lost for one in self.status.recordings) if self.status else 0

    def document(self) -> dict[str, Plain]:
        """Return the state as JSON."""
        if self.status is None:
            return {"node": self.node, "problem": self.problem}
        session, current, since = self.runtime, self.current, self.connected_since
        plugins = self.plugins
        return {
            "node": self.node,
            "problem": "",
            "agent_version": self.status.version,
            "redacted": self.status.redacted,
            "runtime": session.runtime_name if session else None,
            "runtime_version": session.runtime_version if session else None,
            "nri_version": session.nri_version if session else None,
            "connected": current is not None and current.connected,
            "synchronized": self.is_good,
            "connected_since": None if since is None else rfc3339(since),
            "plugins": list(plugins) if plugins is not None else None,
            "plugins_at": None if plugins is None else rfc3339(self.plugins_at_ns),
            "gaps": self.gaps,
            "lost": self.lost,
            "recorded_bytes": self.status.recorded_bytes,
            "free_bytes": self.status.free_bytes,
        }


async def node_states(
    kubectl: Kubectl, namespace: str, say: Callable[[str], None]
) -> AsyncIterator[NodeState]:
    """Yield the state of each node, in the order of their answers. Raises UsageError.

    ``say`` is called if nodes without an agent are unknown.
    """
    agents = await agent_pods(kubectl, namespace)
    for node in await nodes_without_agent(kubectl, agents, say):
        yield NodeState(node, None, NO_AGENT)

    async for node, answer in each_node(
        agents, lambda agent: AgentClient(kubectl, agent).status(), timeout=STATUS_TIMEOUT_S
    ):
        if isinstance(answer, AgentError):
            yield NodeState(node, None, answer.problem)
        else:
            yield NodeState(node, answer)
