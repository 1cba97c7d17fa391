# SPDX-License-Identifier: Apache-2.0
"""The differ's results as plain values: steps, requests, spans, and the changes of one round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import NamedTuple, Self, TypeAlias

from nri_scope.errors import AdjustmentRefused, FieldConflict
from nri_scope.events import HAPPENED, Event
from nri_scope.events import OutcomeKind as OutcomeKind
from nri_scope.oci import IGNORED, LOGGED
from nri_scope.specs import ABSENT, Absent, Change, Json, same

from .owner import Owner

NameOf: TypeAlias = Callable[[str], str]
"""Maps a container's id to ``ns/pod/container`` and a pod's id to ``ns/pod``, or to the beginning
of the id if the name is unknown."""


class Evidence(StrEnum):
    """Source of the knowledge of a change, with a letter and two descriptions for legends."""

    letter: str
    short: str
    """A description of a few words."""
    meaning: str

    def __new__(cls, value: str, letter: str = "", short: str = "", meaning: str = "") -> Evidence:
        """Return the kind with this value."""
        kind = str.__new__(cls, value)
        kind._value_, kind.letter, kind.short, kind.meaning = value, letter, short, meaning
        return kind

    TAP = "tap", "T", "plugin's reply", "the plugin's own reply"
    """The plugin's own reply, seen on its connection."""
    REPLAY = "replay", "R", "plugin's reply in a replay", "the plugin's own reply in a replay"
    VALIDATOR = "validator", "V", "runtime's list of owners", "the runtime's list of last owners"
    """The runtime's own list of last owners, which it sends to validators (NRI 0.10 and later)."""
    PROBES = (
        *("probes", "P", "two connections differ"),
        "two connections in the chain show different states",
    )
    EVENTS = "events", "E", "seen in a later event", "a later event shows the change"
    """A later event shows a state of the container that the known changes do not explain."""
    CRI = "cri", "C", "spec that was actually used", "the spec that the runtime actually used"
    """The runtime's answer to ContainerStatus."""
    REQUEST = "request", "Q", "runtime's request", "the runtime's own request"
    """The runtime's own request, which contains the changes that a CRI client requested."""


WITHOUT_EFFECT = frozenset({OutcomeKind.REFUSED, OutcomeKind.DROPPED})
"""Outcomes of requests that left the container as it was."""


class Shows(StrEnum):
    """Source of the knowledge of an outcome."""

    EVENT = "event"
    """An event, which carries the container or an error."""
    NO_EVENT = "missing event"
    """An event that had to follow, was subscribed to, and did not come."""
    CHAIN = "chain"
    """A later request or reply of the same chain."""
    RULE = "rule"
    """A rule of this runtime and version."""
    CRI = "cri"
    """The runtime's answer to ContainerStatus."""
    CONFIG = "config.json"
    CGROUP = "cgroup"


class RequestOutcome(NamedTuple):
    """The outcome of one request, with its evidence."""

    kind: OutcomeKind
    reason: str = ""
    """What shows it, or why it is not known, in words; "" if kind and evidence say it all."""
    shown_by: Shows | None = None
    """None if nothing shows the result."""
    event: int = 0
    """Id of the event that shows it; 0 for none."""
    at_ns: int = 0
    """Wall-clock time of the evidence, in ns since the epoch; 0 without an event."""
    actual: Json = None
    """The value that is there instead, if it is another one than before the request."""
    is_voided: bool = False
    """Whether the reason is a reply that voided the whole update; see `oci.VOIDED`."""

    @classmethod
    def by(cls, kind: OutcomeKind, event: Event, shown_by: Shows, reason: str = "") -> Self:
        """Return an outcome that `event` shows."""
        return cls(kind, reason, shown_by, event.id, event.at_ns)


REQUESTED = RequestOutcome(OutcomeKind.REQUESTED)


def dropped(reason: str, shown_by: Shows = Shows.RULE) -> RequestOutcome:
    """Return the outcome of a request that a rule drops."""
    return RequestOutcome(OutcomeKind.DROPPED, reason, shown_by)


def refused(reason: str, shown_by: Shows = Shows.EVENT) -> RequestOutcome:
    """Return the outcome of a request in an operation that failed."""
    return RequestOutcome(OutcomeKind.REFUSED, reason, shown_by)


class Claim(NamedTuple):
    """Another source's statement about the same path."""

    evidence: Evidence
    owner: Owner
    value: Json
    """The value in this source; None if it reports that there is none."""


@dataclass(slots=True)
class ChangeStep:
    """One request for a change of one container: its owner, evidence and outcome.

    A change that only a later state shows is a request, too, whose owner is as precise as that
    state allows. Later evidence replaces the `outcome`: only the methods below set attributes.
    """

    container: str
    """The container's id."""
    change: Change
    """The requested change. Its path is ``/evict`` for an eviction, whose value is the plugin's
    reason, and "" for an update of an unknown container as a whole."""
    owner: Owner
    evidence: tuple[Evidence, ...]
    """How the owner is known."""
    event: int
    """Id of the event that shows the request: the one replied to, or the first after the change."""
    at_ns: int
    """Wall-clock time of that event, in ns since the epoch."""
    disputed: tuple[Claim, ...] = ()
    """Contradicting claims of other sources."""
    outcome: RequestOutcome = REQUESTED
    note: str = ""
    """Explanation of the change; "" for none."""
    is_expected: bool = True
    """Whether the container's expected state has the value until evidence shows the outcome."""
    key: object = field(default_factory=object, compare=False, repr=False)
    """Identity of the request: its copies share it, and no other request has it."""

    @property
    def is_change(self) -> bool:
        """Whether evidence shows that the container changed."""
        return self.outcome.kind in HAPPENED

    @property
    def is_without_effect(self) -> bool:
        """Whether evidence shows that the request left the container as it was."""
        return self.outcome.kind in WITHOUT_EFFECT

    @property
    def has_effect(self) -> bool:
        """Whether the container's state, as far as it is known, is the result of this request."""
        return self.is_expected and not self.is_without_effect

    @property
    def is_open(self) -> bool:
        """Whether nothing is known about the outcome, and no reason for that."""
        outcome = self.outcome
        return outcome.kind is OutcomeKind.REQUESTED and outcome.reason in ("", IGNORED, LOGGED)

    def settle(self, outcome: RequestOutcome) -> None:
        """Set the outcome that evidence or a rule shows, if it says nothing about expectations."""
        self.outcome = outcome

    def confirm(self, outcome: RequestOutcome) -> None:
        """Set the outcome that the value is there, and expect it: evidence shows the effect."""
        self.outcome, self.is_expected = outcome, True

    def exclude(self, outcome: RequestOutcome) -> None:
        """Set the outcome of a request that has no effect, or perhaps none: it was superseded, or
        its operation failed or may have.
        """
        self.outcome, self.is_expected = outcome, False

    def leave_open(self, reason: str) -> None:
        """Set the reason why the outcome is not known, or what it depends on."""
        self.outcome = REQUESTED._replace(reason=reason)

    def drop(self, outcome: RequestOutcome) -> None:
        """Set the outcome that evidence shows another value or none, with a note on how that can
        be.
        """
        if self.outcome.reason in (IGNORED, LOGGED):
            self.note = self.note or self.outcome.reason
        self.outcome = outcome

    def refuse(self, failure: str, shown_by: Shows, *, is_explained: bool) -> None:
        """Set the outcome that the operation failed, unless a rule drops the request.

        Without an explanation, what the request's effect depends on stays as its note.
        """
        if self.outcome.kind is OutcomeKind.REQUESTED and not is_explained:
            self.note = self.note or self.outcome.reason
        if self.outcome.kind in (OutcomeKind.REQUESTED, OutcomeKind.SUPERSEDED):
            self.outcome = refused(failure, shown_by)

    def expect_no_longer(self) -> None:
        """Expect the value no longer, with the same outcome: the known state does not have it."""
        self.is_expected = False

    def annotate(self, note: str) -> None:
        """Replace the note, which does not hold any more; "" for none."""
        self.note = note

    def confirm_owner(self, note: str) -> None:
        """Add a validator's list of owners to the evidence; ``note``: how both can be true."""
        self.note, self.evidence = note, (*self.evidence, Evidence.VALIDATOR)

    def dispute(self, claim: Claim) -> None:
        """Record that another source contradicts the owner."""
        self.disputed = (claim,)

    @property
    def after(self) -> Json | Absent:
        """The requested value; ABSENT for a removal."""
        return ABSENT if self.change.kind == "removed" else self.change.after

    def asks_for(self, now: Json | Absent) -> bool:
        """Return whether the request is for the value `now`."""
        return self.change.kind != "moved" and (
            same(self.after, now) or is_same_limit(self.change, now)
        )

    def was(self, now: Json | Absent) -> bool:
        """Return whether `now` is the value before the request."""
        return same(ABSENT if self.change.kind == "added" else self.change.before, now)


def is_same_limit(change: Change, actual: Json | Absent) -> bool:
    """Return whether a change to no limit of processes happened: 0 and negative values are none."""
    is_of_pids = change.path == "/linux/resources/pids/limit" and change.before != 0
    return is_of_pids and _is_no_limit(change.after) and _is_no_limit(actual)


def _is_no_limit(value: Json | Absent) -> bool:
    return isinstance(value, int) and value is not False and value <= 0


class FailureKind(Enum):
    """Cause of an event's failure."""

    CONFLICT = auto()
    """Two plugins set one field."""
    SET_TWICE = auto()
    """One plugin set one field twice in a reply."""
    NO_ANSWER = auto()
    """A plugin did not answer, and its failure policy fails the request."""
    NO_VERDICT = auto()
    """A validator did not answer."""
    PLUGIN_ERROR = auto()
    """A plugin returned an error."""
    REJECTED = auto()
    """A validator rejected the container."""
    REFUSED = auto()
    """The runtime refused the merged adjustments."""
    CALL_REFUSED = auto()
    """The runtime answered a plugin's own call with an error."""
    CALL_UNANSWERED = auto()
    """The runtime did not answer a plugin's own call."""
    CHAIN_ENDED = auto()
    """Plugins at the end of the chain did not receive the event."""
    CHAIN_SEEMS_ENDED = auto()
    """The same, if their connections may have ended before."""
    WITHOUT_POST = auto()
    """Later events show that the container was not created or updated."""
    NOT_STARTED = auto()
    """The container was created, but never ran."""
    UNKNOWN = auto()
    """Nothing shows whether the event failed."""
    OTHER = auto()


class Failure(NamedTuple):
    """The failure of an event."""

    kind: FailureKind
    text: str
    """The reason, in the words of the runtime, the plugin or nri-scope."""
    plugin: str = ""
    """For a conflict: the plugin (``NN-name``) that set the field last; "" for others."""
    field: str = ""
    """For a conflict: the field, in the runtime's words; "" for others."""
    certain_text: str = ""
    """For CHAIN_SEEMS_ENDED: the reason if later events show that the chain ended."""

    @classmethod
    def of(cls, error: AdjustmentRefused) -> Self:
        """Return the failure of an event in which merging refuses a reply."""
        if not isinstance(error, FieldConflict):
            return cls(FailureKind.OTHER, error.problem)
        kind = FailureKind.SET_TWICE if error.plugin == error.other else FailureKind.CONFLICT
        return cls(kind, error.problem, error.plugin, error.field)


def confirmed(cause: Failure | None, words: str) -> Failure:
    """Return a failure that later events show by `words`, with the one that the chain shows."""
    if cause is None:
        return Failure(FailureKind.WITHOUT_POST, words)
    if cause.kind is FailureKind.CHAIN_SEEMS_ENDED:
        cause = Failure(FailureKind.CHAIN_ENDED, cause.certain_text)
    return cause._replace(text=f"{cause.text}; {words}")


EVICTION = "/evict"
"""Path of a request to evict a container."""


class PluginSpan(NamedTuple):
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
    """Requests in order: for the event's container and, as side effects, for other containers."""
    settled: tuple[ChangeStep, ...]
    """Requests of earlier rounds whose outcome this round shows."""
    spans: tuple[PluginSpan, ...]
    cause: Failure | None
    """What made the event fail; None if no evidence shows that it failed."""
    doubt: str = ""
    """Reason why the outcome of the event is unknown; "" if it is known or irrelevant."""
    open_ns: int = 0
    """With a `doubt`: time in ns from the event to the end of the observation."""
    created: bool = field(default=False, compare=False)
    """Whether later events show that the round created a container."""
    absences: tuple[str, ...] = ()
    """Sentences about plugins that missed the creation."""
    remarks: tuple[str, ...] = ()
    """Limits of the evidence, in words, such as "nothing was observed after 50-probe"."""

    @property
    def failure(self) -> str:
        """Reason of the failure; "" if no evidence shows that the event failed."""
        return "" if self.cause is None else self.cause.text

    @property
    def changes(self) -> tuple[ChangeStep, ...]:
        """Requests that evidence shows as changes."""
        return tuple(step for step in self.steps if step.is_change)

    @property
    def own(self) -> tuple[ChangeStep, ...]:
        """Steps of the event's container."""
        return tuple(step for step in self.steps if step.container == self.container)

    @property
    def side_effects(self) -> tuple[ChangeStep, ...]:
        """Steps of other containers."""
        return tuple(step for step in self.steps if step.container != self.container)
