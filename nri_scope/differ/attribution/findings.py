# SPDX-License-Identifier: Apache-2.0
"""Collect the results of one round while it is evaluated, and read its messages."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

from google.protobuf.message import DecodeError, Message

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Event, Role
from nri_scope.nri.methods import METHODS
from nri_scope.nri.request_subject import UNKNOWN
from nri_scope.nri.versions import NriVersion
from nri_scope.specs import Change, Json, Spec
from nri_scope.wire.status import Code

from .attributed_changes import ChangeStep, Evidence, PluginRequest, RequestFate
from .owner import Owner, one_of
from .rounds import CREATE, GONE, VALIDATE, ConnectionPart
from .validator_owners import Owned


@dataclass(frozen=True, slots=True)
class Wanted:
    """A plugin's request to update a container."""

    owner: Owner
    evidence: Evidence
    event: Event
    update: api.ContainerUpdate
    merged: bool = False
    """Whether it was in a reply to an event. NRI merges these, and drops pids and device rules."""
    owned: Owned | None = None
    """The runtime's own list of owners, by path; None if the runtime sent none."""

    def owner_of(self, path: str) -> Owner:
        """Return the plugin that requested the value at `path`."""
        names = () if self.owned is None else self.owned.owners_of(self.update.container_id, path)
        return one_of(*names) if names else self.owner


@dataclass(slots=True)
class Findings:
    """The results of one round while it is evaluated."""

    steps: list[ChangeStep] = field(default_factory=list)
    asked: list[PluginRequest] = field(default_factory=list)
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
        return not (self.steps or self.asked or self.failure or self.doubt or self.remarks)

    def note(self, remark: str) -> None:
        """Add a remark, unless it is already present."""
        if remark not in self.remarks:
            self.remarks.append(remark)

    def fail(self, failure: str) -> None:
        """Set the failure, unless there is one: later failures are consequences of the first."""
        self.failure = self.failure or failure

    def ask(self, one: PluginRequest) -> None:
        """Add a request, unless another source already showed it."""
        values = self._requested.setdefault((one.container, one.path), [])
        if one.value not in values:
            values.append(one.value)
            self.asked.append(one)

    def add_remark(
        self, container: str, owner: Owner, evidence: Evidence, event: Event, one: oci.Remark
    ) -> None:
        """Add a request that the runtime ignores, or applies differently."""
        fate = _FATES[one.kind]
        self.ask(
            PluginRequest(
                container, owner, one.path, one.value, one.reason, evidence, event.id, fate
            )
        )


_FATES: dict[oci.RemarkKind, RequestFate] = {
    "dropped": RequestFate.NOT_APPLIED,
    "refused": RequestFate.NOT_APPLIED,
    "resolved": RequestFate.RESOLVED,
    "unresolved": RequestFate.UNKNOWN,
}


def step(
    container: str, change: Change, owner: Owner, evidence: Evidence, event: Event, note: str = ""
) -> ChangeStep:
    """Return a step with a single kind of evidence."""
    return ChangeStep(container, change, owner, (evidence,), event.id, event.at_ns, note=note)


def evidence_of(station: ConnectionPart) -> Evidence:
    """Return the kind of evidence that a station's reply is."""
    return Evidence.REPLAY if station.session.role == Role.REPLAY else Evidence.TAP


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
    return f"{station.plugin} returned an error: {station.event.status_message or 'no message'}"


def runtime_rules_of(station: ConnectionPart) -> oci.RuntimeRules:
    """Return the rules of a connection's runtime, for behaviour that differs between runtimes."""
    return oci.runtime_rules_of(station.session.runtime_name)


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
