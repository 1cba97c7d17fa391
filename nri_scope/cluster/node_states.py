# SPDX-License-Identifier: Apache-2.0
"""The states of all nodes, as their agents tell."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.nri.events import EventKind
from nri_scope.nri.plain import Plain
from nri_scope.recording.reading.records import rfc3339

from .agent_client import AgentClient, AgentError, each_node
from .agent_pods import NO_AGENT, agent_pods, nodes_without_agent
from .kubectl import Kubectl

STATUS_TIMEOUT_S = 5.0
"""Seconds that a node has to answer, its forwarded port included."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """Answer of a node's agent about its recordings, or why there is none."""

    node: str
    status: v1.GetStatusResponse | None
    problem: str = ""
    """Why there is no status."""

    @property
    def recordings(self) -> Sequence[v1.RecordingStatus]:
        """The recordings of the node; none without an answer."""
        return self.status.recordings if self.status else ()

    @property
    def current(self) -> v1.RecordingStatus | None:
        """The recording that is being written, the newest; None if there is none."""
        active = [recording for recording in self.recordings if recording.recording_now]
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
    def validates(self) -> bool:
        """Whether the recorder subscribes to ValidateContainerAdjustment."""
        session = self.current.session if self.current is not None else None
        return session is not None and bool(
            session.mask & EventKind.ValidateContainerAdjustment.bit
        )

    @property
    def _named(self) -> v1.RecordingStatus | None:
        named = [item for item in self.recordings if item.connected and item.plugins_at_ns]
        return max(named, key=lambda recording: recording.plugins_at_ns, default=None)

    @property
    def runtime(self) -> v1.Session | None:
        """The newest session, which describes the runtime."""
        sessions = [recording.session for recording in self.recordings if recording.session]
        return max(sessions, key=lambda session: session.started_ns, default=None)

    @property
    def connected_since(self) -> int | None:
        """Start of the current session, in ns since the epoch; None if it is not connected."""
        current = self.current
        session = current.session if current is not None and current.connected else None
        return None if session is None else session.started_ns

    @property
    def gaps(self) -> int:
        """Number of gaps in and between all recordings."""
        between = self.status.gaps_between if self.status else 0
        return between + sum(recording.gaps for recording in self.recordings)

    @property
    def lost(self) -> int:
        """Number of events of all recordings that are known to be lost."""
        return sum(recording.lost for recording in self.recordings)

    @property
    def has_unknown_losses(self) -> bool:
        """Whether more events may be lost: in a gap, or of a recorder in trouble."""
        unknown = any(file.trouble or file.gaps_of_unknown_size for file in self.recordings)
        return unknown or (self.status is not None and self.status.gaps_between > 0)

    def document(self) -> dict[str, Plain]:
        """Return the state as JSON."""
        if self.status is None:
            return {"node": self.node, "problem": self.problem}
        session, current, since = self.runtime, self.current, self.connected_since
        named = self._named
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
            "plugins": list(named.plugins) if named else None,
            "plugins_at": rfc3339(named.plugins_at_ns) if named else None,
            "gaps": self.gaps,
            "lost": self.lost,
            "lost_is_lower_bound": self.has_unknown_losses,
            "trouble": current.trouble if current else "",
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
