# SPDX-License-Identifier: Apache-2.0
"""Parse the messages with which a runtime and a plugin set up their connection."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import DecodeError

from nri_scope._gen.nri import api_pb2 as api

from .failure_policy import NO_POLICY, FailurePolicy
from .negotiation import nri_version_of
from .versions import NriVersion, valid_mask

ConfigureRequest = api.ConfigureRequest
"""The request of Configure, for code that only passes it on."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """The runtime's data in a Configure request."""

    runtime_name: str
    runtime_version: str
    version: NriVersion | None
    """The runtime's NRI version; None if neither sent nor inferable."""
    inferred: bool
    """Whether `version` was inferred from the runtime's name and version."""
    registration_timeout_ms: int
    """0 if the runtime does not send it (before NRI 0.7); so is `request_timeout_ms`."""
    request_timeout_ms: int


def introduction_of(configure: ConfigureRequest) -> Introduction:
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
    """The content of one Synchronize request."""

    pods: int
    """Number of pods."""
    containers: int
    """Number of containers."""
    more: bool
    """Whether further parts follow."""


def parse_state_part(payload: bytes) -> StatePart | None:
    """Return the content of a Synchronize request's payload; None if malformed."""
    try:
        part = api.SynchronizeRequest.FromString(payload)
    except DecodeError:
        return None
    return StatePart(len(part.pods), len(part.containers), part.more)


def parse_registration(payload: bytes) -> tuple[str, str] | None:
    """Return index and name in a RegisterPlugin request's payload; None if malformed."""
    try:
        request = api.RegisterPluginRequest.FromString(payload)
    except DecodeError:
        return None
    return request.plugin_idx, request.plugin_name


def parse_configure(payload: bytes) -> Introduction | None:
    """Return the runtime's data in a Configure request's payload; None if malformed."""
    try:
        return introduction_of(api.ConfigureRequest.FromString(payload))
    except DecodeError:
        return None


def parse_subscription(payload: bytes, version: NriVersion | None) -> int:
    """Return the event mask of a Configure reply's payload; 0 if malformed.

    An empty mask on the wire stands for all events of the runtime's NRI ``version``.
    """
    try:
        mask = api.ConfigureResponse.FromString(payload).events
    except DecodeError:
        return 0
    return mask or valid_mask(version)


def parse_failure_policy(payload: bytes) -> FailurePolicy:
    """Return the failure policy in a Configure reply's payload; `NO_POLICY` if malformed."""
    try:
        sent = api.ConfigureResponse.FromString(payload).failure_policy
    except DecodeError:
        return NO_POLICY
    return FailurePolicy(sent.fail_request, sent.keep_connected)


def configure_reply(mask: int, policy: FailurePolicy) -> bytes:
    """Return the payload of the Configure reply that subscribes to the events of ``mask``."""
    reply = api.ConfigureResponse(events=mask)
    if policy != NO_POLICY:
        reply.failure_policy.fail_request = policy.fail_request
        reply.failure_policy.keep_connected = policy.keep_connected
    return reply.SerializeToString()
