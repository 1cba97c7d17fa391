# SPDX-License-Identifier: Apache-2.0
"""Collect the results of one round while it is evaluated, and read its messages."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, cast

from google.protobuf.message import DecodeError, Message

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Event, Role
from nri_scope.nri.events import CREATE, METHODS, VALIDATE
from nri_scope.nri.request_subject import UNKNOWN, container_of
from nri_scope.nri.versions import NriVersion
from nri_scope.specs import Change, Json, Spec
from nri_scope.wire.ttrpc import Code

from .attributed_changes import (
    REQUESTED,
    ChangeStep,
    Evidence,
    Outcome,
    OutcomeKind,
    Shows,
    dropped,
    refused,
)
from .owner import Owned, Owner, one_of, plugin
from .rounds import GONE, ConnectionPart


class Source(NamedTuple):
    """The origin of a request."""

    owner: Owner
    evidence: Evidence
    event: Event
    """The event that shows it."""

    @classmethod
    def of(cls, station: ConnectionPart) -> Source:
        """Return the plugin behind a station, as the origin of the requests in its reply."""
        is_replay = station.session.role == Role.REPLAY
        evidence = Evidence.REPLAY if is_replay else Evidence.TAP
        return cls(plugin(station.plugin), evidence, station.event)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A plugin's request to update a container."""

    source: Source
    update: api.ContainerUpdate
    merged: bool = False
    """Whether it was in a reply to an event. NRI merges these, and drops pids and device rules."""
    owned: Owned | None = None
    """The runtime's own list of owners, by path; None if the runtime sent none."""

    def source_of(self, path: str) -> Source:
        """Return the source with the plugin that requested the value at `path`."""
        names = () if self.owned is None else self.owned.owners_of(self.update.container_id, path)
        return self.source._replace(owner=one_of(*names)) if names else self.source


@dataclass(slots=True)
class Findings:
    """The results of one round while it is evaluated."""

    steps: list[ChangeStep] = field(default_factory=list)
    settled: list[ChangeStep] = field(default_factory=list)
    """Requests of earlier rounds whose outcome this round shows."""
    remarks: list[str] = field(default_factory=list)
    updates: list[Wanted] = field(default_factory=list)
    """Requested updates of other containers, which apply unless the round failed."""
    failure: str = ""
    doubt: str = ""
    open_ns: int = 0
    created: bool = False
    """Whether later events show that the round created a container."""
    _requested: dict[tuple[str, str], list[Json]] = field(default_factory=dict)
    """Requested values, by container and path."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no result."""
        return not (self.steps or self.settled or self.failure or self.doubt or self.remarks)

    def note(self, remark: str) -> None:
        """Add a remark, unless it is already present."""
        if remark not in self.remarks:
            self.remarks.append(remark)

    def fail(self, failure: str) -> None:
        """Set the failure, unless there is one: later failures are consequences of the first."""
        self.failure = self.failure or failure

    def join(self, other: Findings) -> None:
        """Add the steps, the failure and the remarks of another part of the round."""
        self.steps += other.steps
        self.fail(other.failure)
        self.remarks += (one for one in other.remarks if one not in self.remarks)

    def ask(self, container: str, path: str, value: Json, source: Source, outcome: Outcome) -> None:
        """Add a request that is not visible in the chain, unless another source showed it.

        ``value``: ``-KEY`` for the removal of a member.
        """
        values = self._requested.setdefault((container, path), [])
        if value not in values:
            values.append(value)
            change = _change_of(path, value)
            made = step(container, change, source, outcome=outcome)
            made.is_expected = False
            self.steps.append(made)

    def add_remark(self, container: str, source: Source, one: oci.Remark) -> None:
        """Set the outcome of a request that the runtime treats in a way that `one` describes."""
        outcome = outcome_of(one)
        about = container, one.path, source.event.id, source.owner
        asked = next(
            (each for each in reversed(self.steps)
             if (each.container, each.change.path, each.event, each.owner) == about),
            None,
        )  # fmt: skip
        is_other = one.kind == "dropped" and one.value == ""
        if asked is None or (is_other and asked.change.after != one.value):
            # Another update in the same reply sets the cpus.
            self.ask(container, one.path, one.value, source, outcome)
        elif asked.outcome.kind is not OutcomeKind.DROPPED:
            asked.outcome = outcome

    def supersede(self) -> None:
        """Settle the requests that a later one of the same operation replaces, wholly or in part.

        Members that a later one adds leave a request as it is.
        """
        later: dict[str, ChangeStep] = {}
        parts: dict[str, ChangeStep] = {}
        for one in reversed(self.steps):
            path = one.change.path
            if not one.has_effect or one.change.kind == "moved":
                continue
            above = [*_prefixes(path)]
            newer = next((later[each] for each in above if each in later), parts.get(path))
            if newer is not None and one.outcome.kind is OutcomeKind.REQUESTED:
                one.outcome = superseded_by(newer)
            later.setdefault(path, one)
            if one.change.kind != "added":
                for each in above:
                    parts.setdefault(each, one)

    def refuse(self, failure: str, *, is_explained: bool) -> None:
        """Refuse all requests that no rule drops: the operation failed.

        Without an explanation, what a request's effect depends on stays as its note.
        """
        for one in self.steps:
            if one.outcome.kind is OutcomeKind.REQUESTED and not is_explained:
                one.note = one.note or one.outcome.reason
            if one.outcome.kind in (OutcomeKind.REQUESTED, OutcomeKind.SUPERSEDED):
                one.outcome = refused(failure)


def superseded_by(later: ChangeStep) -> Outcome:
    """Return the outcome of a request that a later one of the same chain replaces."""
    return Outcome(
        OutcomeKind.SUPERSEDED, f"by {later.owner}", Shows.CHAIN, later.event, later.at_ns
    )


def outcome_of(remark: oci.Remark) -> Outcome:
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
    container: str, change: Change, source: Source, note: str = "", outcome: Outcome = REQUESTED
) -> ChangeStep:
    """Return a step with a single kind of evidence."""
    owner, evidence, event = source
    return ChangeStep(
        container, change, owner, (evidence,), event.id, event.at_ns, outcome=outcome, note=note
    )


CACHED_LENGTH = 8 << 10
"""Maximum size in bytes of a message that is cached decoded."""


def request_of(station: ConnectionPart) -> Message | None:
    """Return the decoded request, which must not be modified.

    None if it is malformed, or a creation's request that was not read.
    """
    known = METHODS.get(station.event.method)
    if known is None or station.event.mark:
        return None
    if not station.request and station.event.event == CREATE:
        return None
    request = _decode(known.request, station.request)
    if isinstance(request, api.CreateContainerRequest) and not request.container.id:
        # iSulad assigns the id later.
        shared, request = request, api.CreateContainerRequest()
        request.CopyFrom(shared)
        request.container.id = station.event.container_id
    return request


def reply_of(station: ConnectionPart) -> Message | None:
    """Return the decoded reply, which must not be modified.

    None if the runtime did not accept it, or if it is malformed.
    """
    known = METHODS.get(station.event.method)
    # An error status drops the payload, and the runtime ignores replies after the deadline. A
    # method of another service may have the same name.
    if known is None or station.event.status_code or station.event.mark == UNKNOWN:
        return None
    return _decode(known.reply, station.reply)


def _decode(kind: type[Message], content: bytes) -> Message | None:
    # The connections of a round receive the same message, and many rounds are alike.
    if len(content) <= CACHED_LENGTH:
        return _decoded(cast("Hashable", kind), content)
    return decoded(kind, content)


def decoded(kind: type[Message], content: bytes) -> Message | None:
    """Return a decoded message; None if it is malformed."""
    try:
        return kind.FromString(content)
    except DecodeError:
        return None


_decoded = lru_cache(maxsize=64)(decoded)


BY_POLICY = "which fails the request by its failure policy"
"""Part of the text about a plugin that did not answer, in `error_text`."""
UNVALIDATED = "which fails the creation"
"""The same for a validator."""
RETURNED = "returned an error"
"""The same for an error."""


def error_text(station: ConnectionPart) -> str:
    """Describe the error that a plugin returned, or why its missing reply failed the request."""
    code, message = station.event.status_code, station.event.status_message
    if code in GONE:
        why = "in time" if code == Code.DEADLINE_EXCEEDED else f"({message or 'it disconnected'})"
        policy = station.session.failure_policy
        # A validator that does not answer fails the creation under any policy.
        by_policy = policy and policy.fail_request and station.event.method != VALIDATE
        effect = f"{BY_POLICY} ({policy})" if by_policy else UNVALIDATED
        return f"{station.plugin} did not answer {why}, {effect}"
    return f"{station.plugin} {RETURNED}: {station.event.status_message or 'no message'}"


def runtime_rules_of(station: ConnectionPart) -> oci.RuntimeRules:
    """Return the rules of a connection's runtime, for behaviour that differs between runtimes."""
    return oci.runtime_rules_of(station.session.runtime_name, station.session.runtime_version)


def version_of(station: ConnectionPart) -> NriVersion | None:
    """Return the runtime's NRI version; None if unknown."""
    return _parsed(station.session.nri_version)


_parsed = lru_cache(maxsize=64)(NriVersion.parse)


def value_at(spec: Spec, path: str) -> Json:
    """Return the value at `path`; None if there is none."""
    value = specs.value_at(spec, path)
    return None if value is specs.ABSENT else value


def standing(steps: Sequence[ChangeStep]) -> list[int]:
    """Return the positions of the steps that no later step overrides, wholly or in part.

    Moves are ignored.
    """
    found: list[int] = []
    changed: set[str] = set()
    above: set[str] = set()
    for number in range(len(steps) - 1, -1, -1):
        change = steps[number].change
        if change.kind == "moved":
            continue
        higher = list(_prefixes(change.path))
        if change.path not in above and changed.isdisjoint(higher):
            found.append(number)
        changed.add(change.path)
        above.update(higher)
    return found


def _prefixes(path: str) -> Iterator[str]:
    """Yield the path itself, and all paths that contain it."""
    while path:
        yield path
        path = path.rpartition("/")[0]


class Shown(NamedTuple):
    """A container in an event."""

    id: str
    container: api.Container
    described: bytes
    """The container without its state, serialized."""
    is_told: bool
    """Whether the message describes the container, and has not only its id."""
    never_ran: bool
    """Whether the container has no state and never had a process. containerd sends this while it
    undoes a creation; some runtimes send it for all containers."""

    @classmethod
    def of(cls, container: api.Container) -> Shown:
        """Return the container in a message."""
        is_told = bool(
            container.args or container.env or container.mounts or container.HasField("linux")
        )
        has_state = container.state != api.ContainerState.CONTAINER_UNKNOWN
        times = container.pid or container.created_at or container.started_at
        described = oci.without_state(container)
        return cls(container.id, container, described, is_told, not (has_state or times))


def shown_by(station: ConnectionPart) -> Shown | None:
    """Return the container in a station's request; None if it has none."""
    if not station.event.mark and len(station.request) <= CACHED_LENGTH:
        # Many rounds have the same request.
        return _shown_by(station.event.method, station.request)
    return _shown_in(station.event.method, request_of(station))


@lru_cache(maxsize=64)
def _shown_by(method: str, content: bytes) -> Shown | None:
    known = METHODS.get(method)
    return None if known is None else _shown_in(method, decoded(known.request, content))


def _shown_in(method: str, request: Message | None) -> Shown | None:
    container = None if request is None else container_of(method, request)
    return None if container is None else Shown.of(container)
