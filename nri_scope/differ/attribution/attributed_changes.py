# SPDX-License-Identifier: Apache-2.0
"""The differ's results as plain values: steps, requests, spans, and the changes of one round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from nri_scope.specs import Change, Json

from .owner import Owner

NameOf: TypeAlias = Callable[[str], str]
"""Maps a container's id to ``ns/pod/container`` and a pod's id to ``ns/pod``, or to the beginning
of the id if the name is unknown."""


class Evidence(StrEnum):
    """Source of the knowledge of a change."""

    TAP = "tap"
    """The plugin's own reply, seen on its connection."""
    REPLAY = "replay"
    """The plugin's own reply, in a replay."""
    VALIDATOR = "validator"
    """The runtime's own list of last owners, which it sends to validators (NRI 0.10 and later)."""
    PROBES = "probes"
    """Two connections of one chain saw the container differently."""
    EVENTS = "events"
    """A later event shows a state of the container that the known changes do not explain."""
    CRI = "cri"
    """The runtime's answer to ContainerStatus: the spec that was actually used."""
    REQUEST = "request"
    """The runtime's own request, which contains the changes that a CRI client requested."""

    @property
    def meaning(self) -> str:
        """A short description, for legends."""
        return _MEANING[self]


_MEANING = {
    Evidence.TAP: "the plugin's own reply",
    Evidence.REPLAY: "the plugin's own reply in a replay",
    Evidence.VALIDATOR: "the runtime's list of last owners",
    Evidence.PROBES: "two connections in the chain show different states",
    Evidence.EVENTS: "a later event shows the change",
    Evidence.CRI: "the spec that the runtime actually used",
    Evidence.REQUEST: "the runtime's own request",
}


class Applied(StrEnum):
    """Outcome of a change, by the runtime's own report."""

    YES = "applied"
    NO = "not applied"
    DIFFERENTLY = "applied differently"


class Claim(NamedTuple):
    """Another source's statement about the same path."""

    evidence: Evidence
    owner: Owner
    value: Json
    """The value in this source; None if it reports that there is none."""


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """One change of one container, with its owner and evidence."""

    container: str
    """The container's id."""
    change: Change
    owner: Owner
    evidence: tuple[Evidence, ...]
    event: int
    """Id of the event that shows the change: the one replied to, or the first after the change."""
    at_ns: int
    """Wall-clock time of that event, in ns since the epoch."""
    disputed: tuple[Claim, ...] = ()
    """Contradicting claims of other sources."""
    applied: Applied | None = None
    """Outcome by the CRI; None if it was not queried, or a later step changed the value first."""
    actual: Json = None
    """The value in the runtime's spec, if `applied` is DIFFERENTLY."""
    note: str = ""
    """Explanation, such as why the runtime ignores the change; "" for none."""

    def asked(self, reason: str, fate: RequestFate | None = None) -> PluginRequest:
        """Return the change as a request that was not applied as requested, with the reason."""
        change, fate = self.change, fate or RequestFate.NOT_APPLIED
        known = self.evidence[0], self.event
        return PluginRequest(
            self.container, self.owner, change.path, change.after, reason, *known, fate
        )


class RequestFate(StrEnum):
    """Outcome of a request that was not applied as requested."""

    NOT_APPLIED = "not applied"
    RESOLVED = "resolved by the runtime"
    """The runtime replaced the value with its definition in the node's configuration."""
    UNKNOWN = "unknown"
    """No evidence shows whether it was applied."""


class PluginRequest(NamedTuple):
    """A request of a plugin that was not applied as requested."""

    container: str
    """Id of the container to be changed."""
    owner: Owner
    path: str
    """The path in the spec; ``/evict`` for an eviction, "" for an update as a whole."""
    value: Json
    """``-KEY`` for the removal of a member; for an eviction, the plugin's reason."""
    reason: str
    """Why the request was not applied, or had another result."""
    evidence: Evidence
    event: int
    """The event whose reply or effect shows the request."""
    fate: RequestFate = RequestFate.NOT_APPLIED


EVICTION = "/evict"
"""Path of a request to evict a container."""


class Span(NamedTuple):
    """Time that one plugin, or the plugins between two connections, took in a round."""

    owner: Owner
    """An observed plugin, or the plugins between two connections."""
    after: str
    """The connection (``NN-name``) that replied before; "" if `owner` is an observed plugin."""
    before: str
    """The connection (``NN-name``) that received the event next; "" for none."""
    ns: int
    """Duration; between two connections it includes some tens of µs of the runtime itself."""
    deadline_ns: int
    """Deadline of one plugin; 0 if the runtime does not send one."""


@dataclass(frozen=True, slots=True)
class RoundDiff:
    """The changes of one event in the chain, as seen by all recorded connections."""

    event: int
    """Id of the first of its events in the recording."""
    events: tuple[int, ...]
    """Ids of all its events, in the order in which the runtime sent them."""
    name: str
    """The event's name, such as ``CreateContainer``; ``UpdateContainers`` for an unsolicited
    request of a plugin; ``ContainerStatus`` for an answer of the CRI."""
    at_ns: int
    container: str
    """Id of the event's container; "" for none (as in Synchronize)."""
    pod: str
    """Id of the event's pod; "" for none."""
    seen_by: tuple[str, ...]
    """Connections (``NN-name``) that saw the event, in call order."""
    missed_by: tuple[str, ...]
    """Connections that existed, had subscribed to the event, and did not see it."""
    chain: tuple[str, ...]
    """All plugins of the chain, if the runtime listed them for a validator; else ()."""
    steps: tuple[ChangeStep, ...]
    """Changes in order: of the event's container and, as side effects, of other containers."""
    asked: tuple[PluginRequest, ...]
    """Requests of plugins that were not applied as requested."""
    spans: tuple[Span, ...]
    failure: str
    """Reason of the failure, in the words of the runtime, the plugin or nri-scope; "" if no
    evidence shows that the event failed."""
    doubt: str = ""
    """Reason why the outcome of the event is unknown; "" if it is known or irrelevant."""
    open_ns: int = 0
    """With a `doubt`: time in ns from the event to the end of the observation."""
    created: bool = field(default=False, compare=False)
    """Whether later events show that the round created a container."""
    remarks: tuple[str, ...] = ()
    """Limits of the evidence, in words, such as "nothing was observed after 50-probe"."""

    @property
    def own(self) -> tuple[ChangeStep, ...]:
        """Steps of the event's container."""
        return tuple(step for step in self.steps if step.container == self.container)

    @property
    def side_effects(self) -> tuple[ChangeStep, ...]:
        """Steps of other containers."""
        return tuple(step for step in self.steps if step.container != self.container)
