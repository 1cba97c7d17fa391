# SPDX-License-Identifier: Apache-2.0
"""Admission of a plugin: its registration, Configure and Synchronize."""

from __future__ import annotations

import asyncio
from time import monotonic_ns

from google.protobuf.message import DecodeError

from nri_scope._gen.nri.api_pb2 import ConfigureResponse, SynchronizeResponse
from nri_scope.errors import DeadlineExceeded, RemoteProtocolError
from nri_scope.nri import recording_clock
from nri_scope.nri.identity import plugin_id
from nri_scope.nri.runtime_setup import parse_failure_policy
from nri_scope.nri.session import MessageKind, check_part_reply
from nri_scope.nri.versions import has_failure_policy
from nri_scope.wire import Code

from .plugin import Plugin
from .plugin_setup import SetUp, split_again
from .profile import Profile
from .rejection import Stage, registration_problem


async def register(plugin: Plugin, profile: Profile) -> int:
    """Wait for RegisterPlugin and check it. Return its stream id, which is not answered yet.

    Raises `DeadlineExceeded` or `ConnectionClosed`. Answers an invalid name or index with an error,
    and raises `RemoteProtocolError`.
    """
    timeout = profile.registration_timeout_ms / 1e3
    done, _ = await asyncio.wait({plugin.registration}, timeout=timeout)
    if not done:
        raise DeadlineExceeded("RegisterPlugin", timeout)
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


async def configure(plugin: Plugin, setup: SetUp, config: str) -> None:
    """Send Configure and store the event mask and the failure policy of the reply.

    Raises `RemoteProtocolError` for an event bit that is unknown to this runtime, of which the
    plugin gets no error, and the errors of the call itself.
    """
    profile = setup.profile
    plugin.stage = Stage.CONFIGURATION
    payload = setup.configure(plugin.id, config)
    plugin.session.feed(MessageKind.CONFIGURE)
    data = await plugin.call(
        "Configure",
        payload,
        profile.request_timeout_ms * 1_000_000,
        metadata=() if plugin.on_timer is None else (recording_clock.OFFER,),
    )
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


async def synchronize(
    plugin: Plugin, setup: SetUp, part_max: int | None = None
) -> SynchronizeResponse:
    """Send the plugin the existing pods and containers, and return its final reply.

    ``part_max`` is the maximum size of one part in bytes; None keeps the parts of ``setup``.

    One deadline covers all parts. Raises `RemoteProtocolError` if the reply to any part but the
    last lacks `SynchronizeResponse.more` or has updates: the plugin mistook the part for the whole
    state.
    """
    deadline_ns = monotonic_ns() + setup.profile.request_timeout_ms * 1_000_000
    plugin.stage = Stage.SYNCHRONIZATION
    parts = setup.synchronize(plugin.id)
    if part_max is not None:
        parts = split_again(parts, part_max)
    reply = SynchronizeResponse()
    for number, part in enumerate(parts, 1):
        last = number == len(parts)
        plugin.session.feed(MessageKind.SYNCHRONIZE if last else MessageKind.SYNCHRONIZE_PART)
        data = await plugin.call("Synchronize", part, deadline_ns - monotonic_ns())
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
    return reply
