# SPDX-License-Identifier: Apache-2.0
"""The data that a runtime sends about itself while it sets up a plugin, as values."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import DecodeError

from nri_scope._gen.nri import api_pb2 as api

from .negotiation import nri_version_of
from .versions import NriVersion, valid_mask

ConfigureRequest = api.ConfigureRequest
"""The request of Configure, for code that only passes it on."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """A Configure request as values."""

    runtime_name: str
    runtime_version: str
    version: NriVersion | None
    """The runtime's NRI version; None if neither sent nor inferable."""
    inferred: bool
    """Whether `version` was inferred from the runtime's name and version."""
    registration_timeout_ms: int
    """Timeout in ms; 0 if the runtime does not send it (before NRI 0.7)."""
    request_timeout_ms: int


def introduction(configure: ConfigureRequest) -> Introduction:
    """Return the runtime's data in `configure`."""
    version, inferred = nri_version_of(configure)
    return Introduction(
        configure.runtime_name,
        configure.runtime_version,
        version,
        inferred,
        configure.registration_timeout,
        configure.request_timeout,
    )


@dataclass(frozen=True, slots=True)
class StatePart:
    """One Synchronize request."""

    pods: int
    containers: int
    more: bool
    """Whether further parts follow."""


def state_part(payload: bytes) -> StatePart | None:
    """Read a Synchronize request's payload; None if malformed."""
    try:
        part = api.SynchronizeRequest.FromString(payload)
    except DecodeError:
        return None
    return StatePart(len(part.pods), len(part.containers), part.more)


def registration(payload: bytes) -> tuple[str, str] | None:
    """Return index and name in a RegisterPlugin request's payload; None if malformed."""
    try:
        request = api.RegisterPluginRequest.FromString(payload)
    except DecodeError:
        return None
    return request.plugin_idx, request.plugin_name


def introduced(payload: bytes) -> Introduction | None:
    """Return a Configure request's payload as values; None if malformed."""
    try:
        return introduction(api.ConfigureRequest.FromString(payload))
    except DecodeError:
        return None


def subscribed(payload: bytes, version: NriVersion | None) -> int:
    """Return the events that a plugin subscribes to in its Configure reply; 0 if malformed.

    ``version`` is the runtime's, as an empty mask on the wire means all events of that version.
    """
    try:
        mask = api.ConfigureResponse.FromString(payload).events
    except DecodeError:
        return 0
    return mask or valid_mask(version)
