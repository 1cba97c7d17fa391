# SPDX-License-Identifier: Apache-2.0
"""The steps from a new connection to a plugin that gets events."""

from __future__ import annotations

import asyncio
from time import monotonic_ns

from google.protobuf.message import DecodeError

from nri_scope._gen.nri.api_pb2 import (
    ConfigureResponse,
    RegisterPluginRequest,
    SynchronizeResponse,
)
from nri_scope.errors import DeadlineExceeded, RemoteProtocolError, UsageError
from nri_scope.nri.identity import check_index, check_name
from nri_scope.nri.session import Kind, check_part_reply
from nri_scope.wire import Code

from .plugin import Plugin
from .profile import Profile
from .setup import SetUp


async def register(plugin: Plugin, profile: Profile) -> int:
    """Wait for RegisterPlugin and check it. Returns the stream id that is to be answered.

    Raises `DeadlineExceeded`, `ConnectionClosed`, or `RemoteProtocolError` for a wrong name or
    index, which has been answered with an error then.
    """
    timeout = profile.registration_timeout_ms / 1e3
    done, _ = await asyncio.wait({plugin.registration}, timeout=timeout)
    if not done:
        raise DeadlineExceeded("RegisterPlugin", timeout)
    stream_id, request = await plugin.registration
    if plugin.identity is None:
        try:
            _check(request, profile)
        except UsageError as error:
            plugin.refused = True
            plugin.end_reason = f"registration refused: {error.problem}"
            # A Go handler's error has this code unless it asks for another.
            plugin.link.respond_error(
                stream_id, Code.UNKNOWN, f"invalid registration: {error.problem}"
            )
            raise RemoteProtocolError(plugin.end_reason) from error
        plugin.index, plugin.name = request.plugin_idx, request.plugin_name
    plugin.nri_version = request.NRI_version
    plugin.session.feed(Kind.REGISTER_REPLY)
    return stream_id


def _check(request: RegisterPluginRequest, profile: Profile) -> None:
    if profile.checks_names or not request.plugin_name:
        check_name(request.plugin_name)
    check_index(request.plugin_idx)


async def configure(plugin: Plugin, setup: SetUp, config: str) -> None:
    """Send Configure and take the event mask of the reply.

    Raises `RemoteProtocolError` for a bit that this runtime does not know, though the plugin has
    every reason to believe that all is well; and whatever the call itself raises.
    """
    profile = setup.profile
    payload = setup.configure(plugin.id, config)
    plugin.session.feed(Kind.CONFIGURE)
    data = await plugin.call("Configure", payload, profile.request_timeout_ms * 1_000_000)
    try:
        mask = ConfigureResponse.FromString(data).events
    except DecodeError as error:
        raise RemoteProtocolError(f"Configure: the reply cannot be decoded: {error}") from error
    unknown = mask & ~profile.mask & 0xFFFFFFFF
    if unknown:
        raise RemoteProtocolError(
            f"subscribed to events 0x{unknown:x} that {profile.name} does not know"
        )
    # No event at all means every event, ValidateContainerAdjustment included.
    plugin.mask = mask or profile.mask
    plugin.session.feed(Kind.CONFIGURE_REPLY)


async def synchronize(plugin: Plugin, setup: SetUp) -> SynchronizeResponse:
    """Tell the plugin what exists already, and return its final reply.

    One deadline covers all parts. Each part but the last has to be answered with ``more`` and
    without updates; `RemoteProtocolError` otherwise, since the plugin took it for the whole.
    """
    deadline_ns = monotonic_ns() + setup.profile.request_timeout_ms * 1_000_000
    parts = setup.synchronize(plugin.id)
    reply = SynchronizeResponse()
    for number, part in enumerate(parts, 1):
        last = number == len(parts)
        plugin.session.feed(Kind.SYNCHRONIZE if last else Kind.SYNCHRONIZE_PART)
        data = await plugin.call("Synchronize", part, deadline_ns - monotonic_ns())
        try:
            reply = SynchronizeResponse.FromString(data)
        except DecodeError as error:
            raise RemoteProtocolError(
                f"Synchronize: the reply cannot be decoded: {error}"
            ) from error
        if not last:
            check_part_reply(reply)
        plugin.session.feed(Kind.SYNCHRONIZE_REPLY if last else Kind.SYNCHRONIZE_PART_REPLY)
    return reply
