# SPDX-License-Identifier: Apache-2.0
"""A round: one event on its way through the chain, as observed at each connection.

Between two observed connections, other plugins may have changed the container, and took time.
Without an order of calls, as in iSulad, these can be any plugins.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, TypeVar, cast

from google.protobuf.message import Message

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.end_reasons import names_runtime
from nri_scope.events import ASIDE, PASSIVE_ROLES, Event, Role, Session
from nri_scope.nri.events import CREATE, METHODS, SYNCHRONIZE, VALIDATE, decode
from nri_scope.nri.request_subject import UNKNOWN, container_of
from nri_scope.nri.versions import NriVersion
from nri_scope.oci.runtime_rules import runtime_rules_of
from nri_scope.specs import Change, Spec
from nri_scope.wire.ttrpc import Code

from .attributed_changes import Failure, FailureKind, PluginSpan
from .owner import UNKNOWN as UNKNOWN_OWNER
from .owner import Owner, OwnerKind, one_of, plugin

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
        if self.event.is_sent_again:
            return False
        if code not in GONE or policy is None or not policy.fail_request:
            return code not in (0, *GONE)
        # A runtime that ended did not lose the plugin.
        return code == Code.DEADLINE_EXCEEDED or not names_runtime(self.event.status_message)

    @property
    def error(self) -> Failure:
        """The error that the plugin returned, or why its missing reply failed the request."""
        code, message = self.event.status_code, self.event.status_message
        if self.event.mark == UNKNOWN:
            # Which side called the other one is not known.
            parts = self.plugin, message or "no message"
            return Failure(FailureKind.OTHER, ": ".join(filter(None, parts)))
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


LOWEST, HIGHEST = "00", "99"


@dataclass(frozen=True, slots=True)
class RoundChain:
    """The known plugins of a round, in call order."""

    plugins: tuple[str, ...] = ()
    """All plugins (``NN-name``), if the runtime sent them to a validator; () otherwise."""
    seen: frozenset[str] = frozenset()
    """Plugins whose connections were observed; their changes are known from their replies."""
    is_ordered: bool = True
    """Whether plugins are called in the order of their indices."""

    @classmethod
    def of(cls, parts: Iterable[ConnectionPart], plugins: Sequence[str] = ()) -> RoundChain:
        """Return the chain of one round."""
        seen = _seen(tuple([(each.plugin, each.session.runtime_name) for each in parts]))
        return seen if not plugins else replace(seen, plugins=tuple(plugins))

    def between(
        self,
        after: ConnectionPart | None,
        before: ConnectionPart | None,
        *,
        or_runtime: bool = False,
    ) -> Owner:
        """Return the plugins between two connections; None for the chain's beginning or end."""
        if not self.is_ordered:
            return Owner(OwnerKind.ONE_OF, or_runtime=or_runtime)
        named = self._named(after, before)
        if named is None:
            low, high = (None if part is None else part.index for part in (after, before))
            return _range(low, high, or_runtime)
        if named:
            return one_of(*named, or_runtime=or_runtime)
        return Owner(OwnerKind.RUNTIME) if or_runtime else UNKNOWN_OWNER

    def _named(
        self, after: ConnectionPart | None, before: ConnectionPart | None
    ) -> tuple[str, ...] | None:
        """Return the plugins by name; None if names are unknown or ambiguous."""
        if not self.plugins or len(set(self.plugins)) != len(self.plugins):
            return None
        start, end = 0, len(self.plugins)
        try:
            if after is not None:
                start = self.plugins.index(after.plugin) + 1
            if before is not None:
                end = self.plugins.index(before.plugin)
        except ValueError:
            return None
        return tuple(name for name in self.plugins[start:end] if name not in self.seen)


@lru_cache(maxsize=256)
def _seen(connections: tuple[tuple[str, str], ...]) -> RoundChain:
    """Return the chain of observed connections, by the names of plugins and runtimes."""
    ordered = all(runtime_rules_of(runtime).has_ordered_chain for _, runtime in connections)
    return RoundChain((), frozenset(plugin for plugin, _ in connections), ordered)


@lru_cache(maxsize=4096)
def _range(after: str | None, before: str | None, or_runtime: bool) -> Owner:
    low = LOWEST if after is None else after
    high = HIGHEST if before is None else before
    # Equal indices have no defined order: another plugin with the index of an observed one may be
    # called before or after it.
    ties = tuple(dict.fromkeys(each for each in (after, before) if each is not None))
    first = low if after is None else _next(low)
    last = high if before is None else _previous(high)
    if not (first and last and first <= last):
        # No index is in between: the owner can only share the index of an observed connection.
        first, last, ties = low, high, ()
    return Owner(OwnerKind.ONE_OF, first=first, last=last, ties=ties, or_runtime=or_runtime)


def _next(index: str) -> str:
    """Return the next index; "" after the highest."""
    return f"{int(index) + 1:02}" if index.isdigit() and index < HIGHEST else ""


def _previous(index: str) -> str:
    """Return the previous index; "" before the lowest."""
    return f"{int(index) - 1:02}" if index.isdigit() and index > LOWEST else ""


def changes_of_chain(before: Spec, after: Spec) -> tuple[Change, ...]:
    """Return the differences between two states of a container in the chain.

    Mounts have their final positions: a runtime that applies an adjustment with mounts sorts all
    mounts, regardless of the order that plugins saw.
    """
    if before.get("mounts") == after.get("mounts"):
        return specs.changes(before, after)
    return specs.changes(oci.sort_mounts(before), oci.sort_mounts(after))


def spans(round_: Round, chain: RoundChain) -> tuple[PluginSpan, ...]:
    """Return the spans of observed plugins and between two observed connections, in order.

    A span between two connections includes the runtime's own time, but not the time of nri-scope's
    passive connections.
    """
    result: list[PluginSpan] = []
    if round_.first.method in ASIDE and round_.name != SYNCHRONIZE:
        return ()
    for part in round_.parts:
        if not part.is_passive:
            event = part.event
            result.append(PluginSpan(plugin(part.plugin), "", "", event.took_ns, event.timeout_ns))
    if round_.name != VALIDATE:
        # Validators are asked in parallel.
        for after, before in pairwise(round_.parts):
            passed = before.event.mono_ns - after.answered_ns
            if after.session.role == before.session.role == Role.REPLAY:
                # nri-scope was the runtime: no plugin was between them.
                continue
            if passed >= 0:
                result.append(
                    PluginSpan(
                        chain.between(after, before),
                        after.plugin,
                        before.plugin,
                        passed,
                        before.event.timeout_ns,
                    )
                )
    return tuple(result)


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
