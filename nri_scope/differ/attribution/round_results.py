# SPDX-License-Identifier: Apache-2.0
"""Collect the results of one round while it is evaluated, and read its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.entries import OperationFate, OperationOutcome
from nri_scope.events import Event, Role
from nri_scope.nri.merging import EVICTION_IGNORED
from nri_scope.specs import Change, Json, Spec
from nri_scope.text.quantities import duration

from .attributed_changes import (
    EVICTION,
    REQUESTED,
    ChangeStep,
    Evidence,
    Failure,
    FailureKind,
    OutcomeKind,
    RequestOutcome,
    Shows,
    confirmed,
    dropped,
    refused,
)
from .history import ShownChanges
from .observed_round import ConnectionPart, Round
from .owner import Owner, one_of, plugin

NOT_KNOWN = "it is not known whether the container was created"
UPDATES_OF_FAILED = "the creation that asked for it failed later"
UPDATES_OF_OPEN = "it is not known whether the creation that asked for it failed"


class RequestSource(NamedTuple):
    """The origin of a request."""

    owner: Owner
    evidence: Evidence
    event: Event
    """The event that shows it."""

    @classmethod
    def of(cls, part: ConnectionPart) -> RequestSource:
        """Return the plugin behind a part, as the origin of the requests in its reply."""
        is_replay = part.session.role == Role.REPLAY
        evidence = Evidence.REPLAY if is_replay else Evidence.TAP
        return cls(plugin(part.plugin), evidence, part.event)


@dataclass(frozen=True, slots=True)
class RequestedUpdate:
    """A plugin's request to update a container."""

    source: RequestSource
    update: api.ContainerUpdate
    merged: bool = False
    """Whether it was in a reply to an event. NRI merges these, and drops pids and device rules."""
    owners_at: Callable[[str], tuple[str, ...]] = lambda _: ()
    """Returns the plugins that requested the value at a path; () if only the source is known."""

    def source_of(self, path: str) -> RequestSource:
        """Return the source with the plugin that requested the value at `path`."""
        names = self.owners_at(path)
        return self.source._replace(owner=one_of(*names)) if names else self.source


@dataclass(slots=True)
class RoundResults:
    """The results of one round while it is evaluated."""

    steps: list[ChangeStep] = field(default_factory=list)
    settled: list[ChangeStep] = field(default_factory=list)
    """Requests of earlier rounds whose outcome this round shows."""
    remarks: list[str] = field(default_factory=list)
    updates: list[RequestedUpdate] = field(default_factory=list)
    """Requested updates of other containers, which apply unless the round failed."""
    cause: Failure | None = None
    doubt: str = ""
    open_ns: int = 0
    created: bool = False
    """Whether later events show that the round created a container."""
    _requested: dict[tuple[str, str], list[Json]] = field(default_factory=dict)
    """Requested values, by container and path."""

    @property
    def failure(self) -> str:
        """Reason of the failure; "" for none."""
        return "" if self.cause is None else self.cause.text

    def note(self, remark: str) -> None:
        """Add a remark, unless it is already present."""
        if remark not in self.remarks:
            self.remarks.append(remark)

    def fail(self, cause: Failure | None) -> None:
        """Set the failure, unless there is one: later failures are consequences of the first."""
        self.cause = self.cause or cause

    def join(self, other: RoundResults) -> None:
        """Add the steps, the failure, the doubt and the remarks of another part of the round."""
        self.steps += other.steps
        self.fail(other.cause)
        self.doubt = self.doubt or other.doubt
        self.remarks += (remark for remark in other.remarks if remark not in self.remarks)

    def add_shown(self, shown: ShownChanges) -> None:
        """Add what the event, or the answer of the CRI, shows about a container."""
        self.steps += shown.steps
        self.settled += shown.settled

    def ask(
        self, container: str, path: str, value: Json, source: RequestSource, outcome: RequestOutcome
    ) -> None:
        """Add a request that is not visible in the chain, unless another source showed it.

        ``value``: ``-KEY`` for the removal of a member.
        """
        values = self._requested.setdefault((container, path), [])
        if value not in values:
            values.append(value)
            change = _change_of(path, value)
            asked = step(container, change, source, outcome=outcome, is_expected=False)
            self.steps.append(asked)

    def add_remark(self, container: str, source: RequestSource, remark: oci.Remark) -> None:
        """Set the outcome of a request that the runtime treats in a way that `remark` describes."""
        outcome = outcome_of(remark)
        about = container, remark.path, source.event.id, source.owner
        asked = next(
            (each for each in reversed(self.steps)
             if (each.container, each.change.path, each.event, each.owner) == about),
            None,
        )  # fmt: skip
        if asked is None or (remark.is_ignored_blank and asked.change.after != remark.value):
            # Another update in the same reply sets the cpus.
            self.ask(container, remark.path, remark.value, source, outcome)
        elif asked.outcome.kind is not OutcomeKind.DROPPED:
            asked.settle(outcome)

    def supersede(self) -> None:
        """Settle the requests that a later one of the same operation replaces, wholly or in part.

        Members that a later one adds leave a request as it is.
        """
        later: dict[str, ChangeStep] = {}
        parts: dict[str, ChangeStep] = {}
        for request in reversed(self.steps):
            path = request.change.path
            if not request.has_effect or request.change.kind == "moved":
                continue
            above = [*prefixes(path)]
            newer = next((later[each] for each in above if each in later), parts.get(path))
            if newer is not None and request.outcome.kind is OutcomeKind.REQUESTED:
                request.settle(superseded_by(newer))
            later.setdefault(path, request)
            if request.change.kind != "added":
                for each in above:
                    parts.setdefault(each, request)

    def refuse(self, failure: str, *, is_explained: bool) -> None:
        """Refuse all requests that no rule drops: the operation failed."""
        is_rule = self.cause is not None and self.cause.kind is FailureKind.REFUSED
        for request in self.steps:
            shown_by = Shows.RULE if is_rule else Shows.EVENT
            request.refuse(failure, shown_by, is_explained=is_explained)

    def leave_open(self, doubt: str) -> None:
        """Say of open requests why their outcome is not known."""
        for request in self.steps:
            if request.is_open:
                request.leave_open(doubt)

    def conclude_creation(
        self, outcome: OperationOutcome, early_end: Callable[[], Failure | None]
    ) -> tuple[bool, str]:
        """Set the failure or the doubt of a creation, and the outcome of its requests.

        ``outcome``: by later events; ``early_end``: returns the failure of a chain that did not
        reach its end. Return whether the creation's own chain or validators show the failure, and
        the reason why it is unknown whether its updates of other containers were applied.
        """
        is_failed, updates_doubt = outcome.fate is OperationFate.FAILED, ""
        if outcome.fate is OperationFate.CREATED:
            self.cause = None
        elif self.cause is None:
            self.cause = early_end()
            if not is_failed and self.cause and self.cause.kind is FailureKind.CHAIN_SEEMS_ENDED:
                self.doubt, self.cause = self.cause.text, None
        is_explained = self.cause is not None
        if is_failed:
            # Updates of other containers may have been applied before it failed.
            updates_doubt = "" if is_explained else UPDATES_OF_FAILED
            self.cause = confirmed(self.cause, outcome.words)
        elif outcome.fate is OperationFate.OPEN and not is_explained:
            self.doubt = f"{outcome.words}, {duration(outcome.after_ns)} later: {NOT_KNOWN}"
            self.open_ns, updates_doubt = outcome.after_ns, UPDATES_OF_OPEN
        if self.cause is not None:
            self.refuse(self.cause.text, is_explained=is_explained)
        elif self.doubt:
            self.leave_open(self.doubt)
        return is_explained, updates_doubt


def superseded_by(later: ChangeStep) -> RequestOutcome:
    """Return the outcome of a request that a later one of the same chain replaces."""
    return RequestOutcome(
        OutcomeKind.SUPERSEDED, f"by {later.owner}", Shows.CHAIN, later.event, later.at_ns
    )


def outcome_of(remark: oci.Remark) -> RequestOutcome:
    """Return the outcome of a request on which there is a remark."""
    match remark.kind:
        case "dropped":
            return dropped(remark.reason)
        case "refused":
            return refused(remark.reason)
    return REQUESTED._replace(reason=remark.reason)


def path_of_change(remark: oci.Remark, changes: Iterable[Change]) -> str:
    """Return the path of the change that a remark is about.

    An unresolved part is a part of the change that contains it, or the other way round.
    """
    path, paths = remark.path, {change.path for change in changes}
    below = [each for each in paths if each.startswith(f"{path}/")]
    if len(below) == 1 and path not in paths:
        return below[0]
    while path and path not in paths and remark.kind == "unresolved":
        path = path.rpartition("/")[0]
    return path or remark.path


def _change_of(path: str, value: Json) -> Change:
    """Return a request as a change of a value that is not known."""
    if path and value == f"-{specs.split(path)[-1]}":
        return Change(path, None, None, "removed")
    return Change(path, None, value, "added")


def step(
    container: str,
    change: Change,
    source: RequestSource,
    note: str = "",
    outcome: RequestOutcome = REQUESTED,
    *,
    is_expected: bool = True,
) -> ChangeStep:
    """Return a step with a single kind of evidence."""
    owner, evidence, event = source
    return ChangeStep(
        container, change, owner, (evidence,), event.id, event.at_ns, (), outcome, note, is_expected
    )


def value_at(spec: Spec, path: str) -> Json:
    """Return the value at `path`; None if there is none."""
    value = specs.value_at(spec, path)
    return None if value is specs.ABSENT else value


def standing(steps: Sequence[ChangeStep]) -> list[int]:
    """Return the positions of the steps that no later step overrides, wholly or in part.

    Moves are ignored.
    """
    positions: list[int] = []
    changed: set[str] = set()
    above: set[str] = set()
    for number in range(len(steps) - 1, -1, -1):
        change = steps[number].change
        if change.kind == "moved":
            continue
        higher = list(prefixes(change.path))
        if change.path not in above and changed.isdisjoint(higher):
            positions.append(number)
        changed.add(change.path)
        above.update(higher)
    return positions


def prefixes(path: str) -> Iterator[str]:
    """Yield the path itself, and all paths that contain it."""
    while path:
        yield path
        path = path.rpartition("/")[0]


EVICTIONS_MAX = 5_000
"""Maximum number of evictions read from one message: more than any node has containers."""


def updates_of_replies(
    parts: Iterable[ConnectionPart], *, merged: bool = True
) -> list[RequestedUpdate]:
    """Return the updates that plugins requested in replies without an adjustment.

    `merged`: whether NRI merges them, as in all replies except those to Synchronize.
    """
    return [
        RequestedUpdate(RequestSource.of(part), update, merged)
        for part in parts
        for update in getattr(part.reply_message, "update", ())
    ]


def evictions(
    source: RequestSource, requests: Iterable[api.ContainerEviction], rules: oci.RuntimeRules
) -> list[ChangeStep]:
    """Return a plugin's requests to evict containers."""
    outcome = REQUESTED._replace(reason="evictions were never tried with this runtime")
    event = source.event
    if event.status_code:
        outcome = refused(event.status_message or "the runtime answered with an error")
    elif rules.ignores_evictions:
        outcome = dropped(EVICTION_IGNORED)
    steps: list[ChangeStep] = []
    for eviction in islice(requests, EVICTIONS_MAX):
        target, change = eviction.container_id, Change(EVICTION, None, eviction.reason, "added")
        steps.append(step(target, change, source, outcome=outcome, is_expected=False))
    return steps


def evictions_of_replies(parts: Iterable[ConnectionPart]) -> list[ChangeStep]:
    """Return the evictions that plugins requested in their replies."""
    return [
        asked
        for part in parts
        for asked in evictions(
            RequestSource.of(part), getattr(part.reply_message, "evict", ()), part.rules
        )
    ]


def rejection(validation: Round) -> Failure | None:
    """Return a validator's rejection, or its error; None if no reply shows one."""
    for part in validation.parts:
        reply = part.reply_as(api.ValidateContainerAdjustmentResponse)
        if reply is not None and reply.reject:
            text = f"{part.plugin} rejected it: {reply.reason or 'no reason given'}"
            return Failure(FailureKind.REJECTED, text)
        if part.event.status_code:
            return part.error
    return None
