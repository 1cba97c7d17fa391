# SPDX-License-Identifier: Apache-2.0
"""Requests that set up a plugin before its first event, and its admission: registration, Configure
and Synchronize.

Synchronize is split into parts if it exceeds one ttRPC message, which has at most 4 MiB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic_ns

from google.protobuf.message import DecodeError

from nri_scope._gen.nri.api_pb2 import (
    ConfigureResponse,
    Container,
    PodSandbox,
    SynchronizeRequest,
    SynchronizeResponse,
)
from nri_scope.errors import DeadlineExceeded, RemoteProtocolError
from nri_scope.nri.events import CONFIGURE, REGISTER, SYNCHRONIZE
from nri_scope.nri.identity import plugin_id
from nri_scope.nri.request_subject import is_plugins_call
from nri_scope.nri.runtime_setup import parse_failure_policy
from nri_scope.nri.session import MessageKind, check_part_reply
from nri_scope.nri.versions import has_failure_policy
from nri_scope.wire import Code
from nri_scope.wire.ttrpc import MESSAGE_DATA_MAX

from .answer import SetupStage, registration_problem
from .plugin import Plugin
from .profile import Profile

SETUP_METHODS = frozenset({CONFIGURE, SYNCHRONIZE})
PART_MAX = MESSAGE_DATA_MAX - 1024
"""Maximum bytes of a part of Synchronize. A ttRPC request without its payload needs less than 100.
"""

FIELD_OVERHEAD_MAX = 6
"""Maximum bytes of the tag and the length before an element of a repeated message field."""

MORE_LENGTH = 2
"""Bytes of the field ``more``: a tag and a bool."""


def is_setup(method: str, mark: str) -> bool:
    """Return whether a recorded call is of a set-up, or a plugin's own; it is never played."""
    return method in SETUP_METHODS or is_plugins_call(method, mark)


@dataclass(slots=True)
class ProfileSetUp:
    """Source of the requests that set up plugins: a profile, and the existing pods and containers.

    Both lists may be changed at any time: a plugin gets their content at the time of its set-up.
    """

    profile: Profile
    pods: list[PodSandbox] = field(default_factory=list)
    containers: list[Container] = field(default_factory=list)

    def configure(self, plugin: str, config: str) -> bytes:
        """Return the same request for every plugin, except for the configuration."""
        return self.profile.configure_request(config).SerializeToString()

    def synchronize(self, plugin: str, part_max: int = PART_MAX) -> Sequence[bytes]:
        """Return the state, in parts of at most ``part_max`` bytes if this runtime splits it.

        `SynchronizeRequest.more` is set in all parts but the last.
        """
        pods, containers = self.state()
        if self.profile.split_sync:
            return synchronize_parts(pods, containers, limit=part_max)
        return [SynchronizeRequest(pods=pods, containers=containers).SerializeToString()]

    def state(self) -> tuple[list[PodSandbox], list[Container]]:
        """Return the pods and containers that a plugin gets."""
        return self.pods, self.containers


def synchronize_parts(
    pods: Iterable[PodSandbox],
    containers: Iterable[Container],
    *,
    limit: int = PART_MAX,
) -> list[bytes]:
    """Return Synchronize requests of at most ``limit`` bytes each with all objects, pods first.

    Each is filled as far as possible. (Upstream shrinks the numbers of pods and containers by one
    factor until a message fits, which loops forever once the number of pods is 0.) An object that
    alone exceeds the limit gets a request of its own, which cannot be sent.
    """
    requests = [SynchronizeRequest()]
    whole = room = limit - MORE_LENGTH
    items: list[PodSandbox | Container] = [*pods, *containers]
    for item in items:
        size = item.ByteSize() + FIELD_OVERHEAD_MAX
        if size > room and room < whole:
            requests[-1].more = True
            requests.append(SynchronizeRequest())
            room = whole
        if isinstance(item, PodSandbox):
            requests[-1].pods.append(item)
        else:
            requests[-1].containers.append(item)
        room -= size
    return [request.SerializeToString() for request in requests]


async def register(plugin: Plugin, profile: Profile) -> int:
    """Wait for RegisterPlugin and check it. Return its stream id, which is not answered yet.

    Raises `DeadlineExceeded` or `ConnectionClosed`. Answers an invalid name or index with an error,
    and raises `RemoteProtocolError`.
    """
    timeout = profile.registration_timeout_ms / 1e3
    done, _ = await asyncio.wait({plugin.registration}, timeout=timeout)
    if not done:
        raise DeadlineExceeded(REGISTER, timeout)
    stream_id, request = await plugin.registration
    plugin.registered = plugin_id(request.plugin_idx, request.plugin_name)
    if plugin.identity is None:
        refusal = registration_problem(request, checks_names=profile.checks_names)
        if refusal is not None:
            problem, plugin.error_sent = refusal
            plugin.leave(f"registration refused: {problem}")
            # The default code of a Go handler's error.
            plugin.link.respond_error(stream_id, Code.UNKNOWN, plugin.error_sent)
            raise RemoteProtocolError(plugin.end_reason)
        plugin.index, plugin.name = request.plugin_idx, request.plugin_name
    plugin.nri_version = request.NRI_version
    plugin.session.feed(MessageKind.REGISTER_REPLY)
    return stream_id


async def configure(plugin: Plugin, setup: ProfileSetUp, config: str) -> None:
    """Send Configure and store the event mask and the failure policy of the reply.

    Raises `RemoteProtocolError` for an event bit that is unknown to this runtime, of which the
    plugin gets no error, and the errors of the call itself.
    """
    profile = setup.profile
    plugin.stage = SetupStage.CONFIGURATION
    payload = setup.configure(plugin.id, config)
    plugin.session.feed(MessageKind.CONFIGURE)
    data = await plugin.call(CONFIGURE, payload, profile.request_timeout_ms * 1_000_000)
    try:
        mask = ConfigureResponse.FromString(data).events
        policy = parse_failure_policy(data)
    except DecodeError as error:
        raise RemoteProtocolError(f"Configure: the reply cannot be decoded: {error}") from error
    unknown = mask & ~profile.mask & 0xFFFFFFFF
    if unknown:
        raise RemoteProtocolError(
            f"subscribed to events 0x{unknown:x} that {profile.title} does not know"
        )
    # An empty mask means every event, ValidateContainerAdjustment included.
    plugin.mask = mask or profile.mask
    if has_failure_policy(profile.version):
        plugin.failure_policy = policy
    else:
        plugin.ignored_policy = policy
    plugin.session.feed(MessageKind.CONFIGURE_REPLY)


async def synchronize(plugin: Plugin, setup: ProfileSetUp, part_max: int) -> None:
    """Send the plugin the existing pods and containers, in parts of at most ``part_max`` bytes.

    One deadline covers all parts. Raises `RemoteProtocolError` if the reply to any part but the
    last lacks `SynchronizeResponse.more` or has updates: the plugin mistook the part for the whole
    state.
    """
    deadline_ns = monotonic_ns() + setup.profile.request_timeout_ms * 1_000_000
    plugin.stage = SetupStage.SYNCHRONIZATION
    parts = setup.synchronize(plugin.id, part_max)
    for number, part in enumerate(parts, 1):
        last = number == len(parts)
        plugin.session.feed(MessageKind.SYNCHRONIZE if last else MessageKind.SYNCHRONIZE_PART)
        data = await plugin.call(SYNCHRONIZE, part, deadline_ns - monotonic_ns())
        try:
            reply = SynchronizeResponse.FromString(data)
        except DecodeError as error:
            raise RemoteProtocolError(
                f"Synchronize: the reply cannot be decoded: {error}"
            ) from error
        if not last:
            check_part_reply(reply)
        plugin.session.feed(
            MessageKind.SYNCHRONIZE_REPLY if last else MessageKind.SYNCHRONIZE_PART_REPLY
        )
