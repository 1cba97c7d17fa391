# SPDX-License-Identifier: Apache-2.0
"""A round: one event on its way through the chain, as observed at each connection."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeVar, cast

from google.protobuf.message import Message

from nri_scope import oci
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.end_reasons import names_runtime
from nri_scope.events import PASSIVE_ROLES, Event, Session
from nri_scope.nri.events import CREATE, METHODS, VALIDATE, decode
from nri_scope.nri.request_subject import UNKNOWN, container_of
from nri_scope.nri.versions import NriVersion
from nri_scope.oci.runtime_rules import runtime_rules_of
from nri_scope.wire.ttrpc import Code

from .attributed_changes import Failure, FailureKind

CACHED_LENGTH = 8 << 10
"""Maximum size in bytes of a message that is cached decoded."""
GONE = (Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE)
"""Status codes of a plugin that the runtime skips, unless its failure policy fails the request: it
missed its deadline, or is disconnected."""
RETURNED = "returned an error"
"""Part of the text about a plugin's error."""
CONTINUED = "the runtime disconnected it, and continued"
"""What iSulad does after an error of a plugin."""

_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True, slots=True)
class ConnectionPart:
    """One connection's part in a round."""

    event: Event
    session: Session
    request: bytes = b""
    """Request of the event; b"" if only times are needed."""
    reply: bytes = b""

    @property
    def index(self) -> str:
        """The plugin's index, two digits."""
        return self.session.plugin_index

    @property
    def plugin(self) -> str:
        """The plugin as ``NN-name``."""
        return self.session.plugin

    @property
    def rules(self) -> oci.RuntimeRules:
        """The rules of the runtime, for behaviour that differs between runtimes."""
        return runtime_rules_of(self.session.runtime_name, self.session.runtime_version)

    @property
    def version(self) -> NriVersion | None:
        """The runtime's NRI version; None if unknown."""
        return _parsed_version(self.session.nri_version)

    @property
    def is_ordered(self) -> bool:
        """Whether the runtime calls plugins in the order of their indices."""
        return self.rules.has_ordered_chain

    @property
    def is_passive(self) -> bool:
        """Whether this is nri-scope's own connection, which changes nothing."""
        return self.session.role in PASSIVE_ROLES

    @property
    def is_error(self) -> bool:
        """Whether the runtime fails the request because of this connection's status.

        It skips a plugin that was late or disconnected, unless its failure policy says otherwise.
        """
        code = self.event.status_code
        policy = self.session.failure_policy
        if code not in GONE or policy is None or not policy.fail_request:
            return code not in (0, *GONE)
        # A runtime that ended did not lose the plugin.
        return code == Code.DEADLINE_EXCEEDED or not names_runtime(self.event.status_message)

    @property
    def error(self) -> Failure:
        """The error that the plugin returned, or why its missing reply failed the request."""
        code, message = self.event.status_code, self.event.status_message
        if code not in GONE:
            text = f"{self.plugin} {RETURNED}: {message or 'no message'}"
            return Failure(FailureKind.PLUGIN_ERROR, text)
        why = "in time" if code == Code.DEADLINE_EXCEEDED else f"({message or 'it disconnected'})"
        policy = self.session.failure_policy
        # A validator that does not answer fails the creation under any policy.
        by_policy = policy and policy.fail_request and self.event.method != VALIDATE
        kind = FailureKind.NO_ANSWER if by_policy else FailureKind.NO_VERDICT
        effect = f"request by its failure policy ({policy})" if by_policy else "creation"
        return Failure(kind, f"{self.plugin} did not answer {why}, which fails the {effect}")

    @property
    def answered_ns(self) -> int:
        """Time of the reply, on the clock of `Event.mono_ns`."""
        return self.event.mono_ns + self.event.took_ns

    @property
    def request_message(self) -> Message | None:
        """The decoded request, which must not be modified.

        None if it is malformed, or a creation's request that was not read.
        """
        known = METHODS.get(self.event.method)
        if known is None or self.event.mark:
            return None
        if not self.request and self.event.event == CREATE:
            return None
        request = _decode(known.request, self.request)
        if isinstance(request, api.CreateContainerRequest) and not request.container.id:
            # iSulad assigns the id later.
            shared, request = request, api.CreateContainerRequest()
            request.CopyFrom(shared)
            request.container.id = self.event.container_id
        return request

    @property
    def reply_message(self) -> Message | None:
        """The decoded reply, which must not be modified.

        None if the runtime did not accept it, or if it is malformed.
        """
        known = METHODS.get(self.event.method)
        # An error status drops the payload, and the runtime ignores replies after the deadline. A
        # method of another service may have the same name.
        if known is None or self.event.status_code or self.event.mark == UNKNOWN:
            return None
        return _decode(known.reply, self.reply)

    def request_as(self, kind: type[_M]) -> _M | None:
        """Return `request_message` if it is one of this type."""
        message = self.request_message
        return message if isinstance(message, kind) else None

    def reply_as(self, kind: type[_M]) -> _M | None:
        """Return `reply_message` if it is one of this type."""
        message = self.reply_message
        return message if isinstance(message, kind) else None

    @property
    def shown_container(self) -> ShownContainer | None:
        """The container in the request; None if it has none."""
        if not self.event.mark and len(self.request) <= CACHED_LENGTH:
            # Many rounds have the same request.
            return _container_shown_by(self.event.method, self.request)
        return _container_shown_in(self.event.method, self.request_message)


class Round(NamedTuple):
    """One event on its way through the chain, as seen by at least one connection."""

    parts: tuple[ConnectionPart, ...]
    """The connections that saw the event, in call order."""
    over_by: Event | None = None
    """The runtime's next request, which shows that this chain had ended; None if there was none."""

    @property
    def first(self) -> Event:
        """The event at the first connection."""
        return self.parts[0].event

    @property
    def name(self) -> str:
        """The event's name, such as "CreateContainer"."""
        return self.first.event

    @property
    def stopped_at(self) -> ConnectionPart | None:
        """The connection whose error ended the chain; None for no error."""
        last = self.parts[-1]
        return last if last.is_error and last.is_ordered else None

    @property
    def failing(self) -> tuple[ConnectionPart, ...]:
        """The connections that returned an error. iSulad disconnects them and continues."""
        return tuple(part for part in self.parts if part.is_error)


class ShownContainer(NamedTuple):
    """A container in an event."""

    id: str
    container: api.Container
    described: bytes
    """The container without its state, serialized."""
    is_described: bool
    """Whether the message describes the container, and has not only its id."""
    never_ran: bool
    """Whether the container has no state and never had a process. containerd sends this while it
    undoes a creation; some runtimes send it for all containers."""

    @classmethod
    def of(cls, container: api.Container) -> ShownContainer:
        """Return the container in a message."""
        is_described = bool(
            container.args or container.env or container.mounts or container.HasField("linux")
        )
        has_state = container.state != api.ContainerState.CONTAINER_UNKNOWN
        times = container.pid or container.created_at or container.started_at
        described = oci.without_state(container)
        return cls(container.id, container, described, is_described, not (has_state or times))


@lru_cache(maxsize=64)
def _container_shown_by(method: str, content: bytes) -> ShownContainer | None:
    known = METHODS.get(method)
    return None if known is None else _container_shown_in(method, decode(known.request, content))


def _container_shown_in(method: str, request: Message | None) -> ShownContainer | None:
    container = None if request is None else container_of(method, request)
    return None if container is None else ShownContainer.of(container)


def _decode(kind: type[Message], content: bytes) -> Message | None:
    # The connections of a round receive the same message, and many rounds are alike.
    if len(content) <= CACHED_LENGTH:
        return _decoded(cast("Hashable", kind), content)
    return decode(kind, content)


_decoded = lru_cache(maxsize=64)(decode)
_parsed_version = lru_cache(maxsize=64)(NriVersion.parse)
