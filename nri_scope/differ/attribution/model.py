# SPDX-License-Identifier: Apache-2.0
"""The differ's findings, as plain values: steps, spans, and what one round changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from nri_scope.oci import Change, Json

from .owner import Owner

NameOf: TypeAlias = Callable[[str], str]
"""From a container's id to ``ns/pod/container``, from a pod's to ``ns/pod``, or to the beginning
of the id where that was never told."""


class Evidence(StrEnum):
    """The source from which a change is known."""

    TAP = "tap"
    """The plugin's own answer, seen on its connection."""
    REPLAY = "replay"
    """The same, in a replay."""
    VALIDATOR = "validator"
    """The runtime's own list of last owners, as it sends validators (NRI 0.10 and later)."""
    PROBES = "probes"
    """Two connections of one chain saw the container differently."""
    EVENTS = "events"
    """A later event shows the container differently from what is known to have been done."""
    CRI = "cri"
    """The runtime's answer to ContainerStatus: the spec that was really used."""
    REQUEST = "request"
    """The runtime's own request says so: what it asks plugins about."""

    @property
    def meaning(self) -> str:
        """In a few words, for legends."""
        return _MEANING[self]


_MEANING = {
    Evidence.TAP: "the plugin's own answer",
    Evidence.REPLAY: "the plugin's own answer in a replay",
    Evidence.VALIDATOR: "the runtime's list of last owners",
    Evidence.PROBES: "two connections of the chain saw it differently",
    Evidence.EVENTS: "a later event shows it",
    Evidence.CRI: "the spec that the runtime really used",
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
    """None where it says that there is no such thing."""


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """One change of one container, with who made it and how that is known."""

    container: str
    """Its id."""
    change: Change
    owner: Owner
    evidence: tuple[Evidence, ...]
    event: int
    """The event that shows it: of the reply, or the first one after the change."""
    at_ns: int
    """When that event came; wall clock."""
    disputed: tuple[Claim, ...] = ()
    """What other sources say that cannot be true at the same time."""
    applied: Applied | None = None
    """None: the CRI was not asked, or the container was changed again before it could be."""
    actual: Json = None
    """What the runtime's spec has at the path, where it is DIFFERENTLY."""
    note: str = ""
    """What else to know: why the runtime takes no notice of it, and the like; "" for nothing."""

    def asked(self, reason: str, fate: RequestFate | None = None) -> Asked:
        """Return the change as a request that was not simply carried out, and why."""
        change, fate = self.change, fate or RequestFate.NOT_APPLIED
        known = self.evidence[0], self.event
        return Asked(self.container, self.owner, change.path, change.after, reason, *known, fate)


class RequestFate(StrEnum):
    """The fate of a request that is not simply carried out."""

    NOT_APPLIED = "not applied"
    RESOLVED = "resolved by the runtime"
    """The runtime replaced it by what the node's configuration says that it means."""
    UNKNOWN = "unknown"
    """Nothing shows whether it was applied."""


class Asked(NamedTuple):
    """A request of a plugin that is not simply carried out."""

    container: str
    """The id of the container that it was asked for."""
    owner: Owner
    path: str
    """``/evict`` for an eviction; "" for an update as a whole."""
    value: Json
    """``-KEY`` for the removal of a member; of an eviction the reason that was given."""
    reason: str
    """Why nothing, or something else, came of it."""
    evidence: Evidence
    event: int
    """The event whose reply, or whose effect, shows it."""
    fate: RequestFate = RequestFate.NOT_APPLIED


EVICTION = "/evict"
"""In the place of a path, where a plugin asked for a container to be evicted."""


class Span(NamedTuple):
    """Time between two moments of one round."""

    owner: Owner
    """Who had this time: a plugin that was seen, or those between two that were."""
    after: str
    """The connection (``NN-name``) that had answered; "" where `owner` is the one that was seen."""
    before: str
    """The connection (``NN-name``) that was asked next; "" where it is none."""
    ns: int
    """Includes what the runtime itself takes, some tens of µs, where it is between two."""
    deadline_ns: int
    """For one plugin; 0 where the runtime sends none."""


@dataclass(frozen=True, slots=True)
class RoundDiff:
    """One event on its way through the chain, as all our connections saw it: what it changed."""

    event: int
    """The first of its events in the recording."""
    events: tuple[int, ...]
    """All of them, in the order in which the runtime asked."""
    name: str
    """``CreateContainer`` and the like; ``UpdateContainers`` for what a plugin asked out of turn;
    ``ContainerStatus`` for what the CRI told."""
    at_ns: int
    container: str
    """The id of the container that it is about; "" for none (as in Synchronize)."""
    pod: str
    """The id of its pod."""
    seen_by: tuple[str, ...]
    """Connections (``NN-name``) that saw it, in the order in which they did."""
    missed_by: tuple[str, ...]
    """Connections that were there, had subscribed to it, and did not see it."""
    chain: tuple[str, ...]
    """All plugins of the chain, where the runtime sent them to a validator; else ()."""
    steps: tuple[ChangeStep, ...]
    """In the order in which they happened: the container's own and, as side effects, of others."""
    asked: tuple[Asked, ...]
    """What plugins asked for and was not simply carried out."""
    spans: tuple[Span, ...]
    failure: str
    """Why it came to nothing, in the runtime's or the plugin's words, or in ours; "" if not known
    to have failed."""
    doubt: str = ""
    """Why it is not known whether it came to anything; "" where that is known, or not asked."""
    open_ns: int = 0
    """With a doubt: for how long it was waited for."""
    created: bool = field(default=False, compare=False)
    """Whether a container is known to have been created by it, which later events show."""
    remarks: tuple[str, ...] = ()
    """What limits the evidence, in words: "what plugins before 50 did was not observed"."""

    @property
    def own(self) -> tuple[ChangeStep, ...]:
        """Steps of the container that the event is about."""
        return tuple(step for step in self.steps if step.container == self.container)

    @property
    def side_effects(self) -> tuple[ChangeStep, ...]:
        """Steps of other containers."""
        return tuple(step for step in self.steps if step.container != self.container)
