# SPDX-License-Identifier: Apache-2.0
"""The differ's findings, as plain values: steps, spans, and the changes of one round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from nri_scope.oci import Change, Json

from .owner import Owner

NameOf: TypeAlias = Callable[[str], str]
"""Maps a container's id to ``ns/pod/container`` and a pod's id to ``ns/pod``, or to the beginning
of the id if the name is unknown."""


class Evidence(StrEnum):
    """The source from which a change is known."""

    TAP = "tap"
    """The plugin's own answer, seen on its connection."""
    REPLAY = "replay"
    """The plugin's own answer, in a replay."""
    VALIDATOR = "validator"
    """The runtime's own list of last owners, as it sends validators (NRI 0.10 and later)."""
    PROBES = "probes"
    """Two connections of one chain saw the container differently."""
    EVENTS = "events"
    """A later event shows a state of the container that the known changes do not explain."""
    CRI = "cri"
    """The runtime's answer to ContainerStatus: the spec that was actually used."""
    REQUEST = "request"
    """The runtime's own request, which contains the changes that it asks plugins about."""

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
    """The runtime's own report on a change."""

    YES = "applied"
    NO = "not applied"
    DIFFERENTLY = "applied differently"


class Claim(NamedTuple):
    """Another source's statement about the same path."""

    evidence: Evidence
    owner: Owner
    value: Json
    """The value by this source; None if it reports that there is none."""


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """One change of one container, with its owner and evidence."""

    container: str
    """The container's id."""
    change: Change
    owner: Owner
    evidence: tuple[Evidence, ...]
    event: int
    """The event that shows the change: the one replied to, or the first one after the change."""
    at_ns: int
    """Wall-clock time at which that event came."""
    disputed: tuple[Claim, ...] = ()
    """Claims of other sources that cannot be true at the same time."""
    applied: Applied | None = None
    """The CRI's verdict; None if it was not asked, or if the container was changed again before."""
    actual: Json = None
    """The value in the runtime's spec, if `applied` is DIFFERENTLY."""
    note: str = ""
    """A further explanation, such as why the runtime ignores the change; "" for none."""

    def asked(self, reason: str, fate: RequestFate | None = None) -> PluginRequest:
        """Return the change as a request that was not simply carried out, and why."""
        change, fate = self.change, fate or RequestFate.NOT_APPLIED
        known = self.evidence[0], self.event
        return PluginRequest(
            self.container, self.owner, change.path, change.after, reason, *known, fate
        )


class RequestFate(StrEnum):
    """The fate of a request that is not simply carried out."""

    NOT_APPLIED = "not applied"
    RESOLVED = "resolved by the runtime"
    """The runtime replaced the value with one that the node's configuration defines for it."""
    UNKNOWN = "unknown"
    """Nothing shows whether it was applied."""


class PluginRequest(NamedTuple):
    """A request of a plugin that is not simply carried out."""

    container: str
    """The id of the container that it was asked for."""
    owner: Owner
    path: str
    """The path in the spec; ``/evict`` for an eviction, "" for an update as a whole."""
    value: Json
    """``-KEY`` for the removal of a member; for an eviction, the reason that the plugin gave."""
    reason: str
    """Why the request was not applied, or had another result."""
    evidence: Evidence
    event: int
    """The event whose reply or effect shows the request."""
    fate: RequestFate = RequestFate.NOT_APPLIED


EVICTION = "/evict"
"""Used as the path of a request to evict a container."""


class Span(NamedTuple):
    """Time between two moments of one round."""

    owner: Owner
    """The plugins that used the time: an observed one, or those between two connections."""
    after: str
    """The connection (``NN-name``) that had answered; "" if `owner` was itself observed."""
    before: str
    """The connection (``NN-name``) that was asked next; "" for none."""
    ns: int
    """Duration; between two connections it includes some tens of µs of the runtime itself."""
    deadline_ns: int
    """Deadline of one plugin; 0 if the runtime does not send one."""


@dataclass(frozen=True, slots=True)
class RoundDiff:
    """The changes of one event on its way through the chain, as all our connections saw it."""

    event: int
    """Id of the first of its events in the recording."""
    events: tuple[int, ...]
    """The ids of all its events, in the order in which the runtime asked."""
    name: str
    """The event's name, such as ``CreateContainer``; ``UpdateContainers`` for unsolicited requests
    of a plugin; ``ContainerStatus`` for an answer of the CRI."""
    at_ns: int
    container: str
    """The id of the container that it is about; "" for none (as in Synchronize)."""
    pod: str
    """The id of its pod."""
    seen_by: tuple[str, ...]
    """Connections (``NN-name``) that saw the event, in that order."""
    missed_by: tuple[str, ...]
    """Connections that existed, had subscribed to the event, and did not see it."""
    chain: tuple[str, ...]
    """All plugins of the chain, if the runtime listed them for a validator; else ()."""
    steps: tuple[ChangeStep, ...]
    """Changes in order: of the event's container and, as side effects, of other containers."""
    asked: tuple[PluginRequest, ...]
    """Requests of plugins that were not simply carried out."""
    spans: tuple[Span, ...]
    failure: str
    """Why the event failed, in the words of the runtime, the plugin or nri-scope; "" if it is not
    known to have failed."""
    doubt: str = ""
    """Why it is not known whether the event succeeded; "" if that is known or irrelevant."""
    open_ns: int = 0
    """If there is a `doubt`: how long the differ waited for the outcome."""
    created: bool = field(default=False, compare=False)
    """Whether later events show that the round created a container."""
    remarks: tuple[str, ...] = ()
    """Limits of the evidence, in words: "what plugins before 50 did was not observed"."""

    @property
    def own(self) -> tuple[ChangeStep, ...]:
        """Steps of the container that the event is about."""
        return tuple(step for step in self.steps if step.container == self.container)

    @property
    def side_effects(self) -> tuple[ChangeStep, ...]:
        """Steps of other containers."""
        return tuple(step for step in self.steps if step.container != self.container)
