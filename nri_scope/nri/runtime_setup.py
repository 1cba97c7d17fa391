# SPDX-License-Identifier: Apache-2.0
"""Parse the messages that set up a connection, and derive the event mask to subscribe to.

Failure policies say what a runtime does when a plugin does not answer a request (NRI 0.12.4), by
``handleRequestError`` of NRI 0.12.5 (``pkg/adaptation/plugin.go``). Not answering is a missed
deadline, a lost connection or a protocol error. An error status is an answer: it fails the request
under any policy. A validator that does not answer fails the creation under any policy.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError, did_you_mean

from .events import PASSIVE_EVENTS, EventKind, decode, events_in, mask_of
from .versions import (
    V0_11,
    V0_12,
    NriVersion,
    has_failure_policy,
    infer,
    runtime_words,
    sent_name,
    valid_mask,
)


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """The failure policy of a plugin, by default that of all plugins before NRI 0.12.4."""

    fail_request: bool = False
    """Whether the request fails. Otherwise it goes on to the other plugins."""
    keep_connected: bool = False
    """Whether a plugin that misses a deadline stays connected, and so gets the next requests."""

    def __str__(self) -> str:
        """Return the names of the fields that are set, in the form that `parse` accepts."""
        return ",".join(field.name for field in fields(self) if getattr(self, field.name))

    @classmethod
    def parse(cls, text: str) -> FailurePolicy:
        """Parse names of fields, separated by commas; "" for the default.

        Raises `UsageError` for any other name.
        """
        policies = [field.name for field in fields(cls)]
        names = [name.strip() for name in text.split(",")] if text else []
        for name in names:
            if name not in policies:
                hint = f"{did_you_mean(name, policies)} known are {', '.join(policies)}".lstrip()
                raise UsageError(f"NRI has no failure policy {name!r}", hint)
        return cls(**dict.fromkeys(names, True))


NO_POLICY = FailurePolicy()
"""The policy of a plugin that sends none."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """The runtime's data in a Configure request."""

    runtime_name: str = ""
    runtime_version: str = ""
    version: NriVersion | None = None
    """The runtime's NRI version; None if neither sent nor inferable."""
    inferred: bool = False
    """Whether `version` was inferred from the runtime's name and version."""
    registration_timeout_ms: int = 0
    """0 if the runtime does not send it (before NRI 0.7); so is `request_timeout_ms`."""
    request_timeout_ms: int = 0


NOT_INTRODUCED = Introduction()


@dataclass(frozen=True, slots=True)
class Negotiated:
    """The negotiated subscription, and the runtime whose NRI version limits it."""

    runtime: Introduction
    mask: int
    """The subscription; never 0, and never with an event that this runtime is known not to have."""
    warnings: tuple[str, ...]
    """One sentence for each reason why chosen events are missing."""

    @property
    def events(self) -> tuple[EventKind, ...]:
        """The subscription as events."""
        return events_in(self.mask)


def negotiate(
    configure: api.ConfigureRequest,
    chosen: AbstractSet[EventKind] | None = None,
    *,
    validate: bool = False,
) -> Negotiated:
    """Reduce the chosen events to those supported by the runtime that sent `configure`.

    `chosen` is the user's choice, None for all passive events. ValidateContainerAdjustment is only
    subscribed to with `validate`, which adds it to any choice. If it is just in `chosen`, it is
    omitted with a warning, because a validator that dies makes container creation fail.

    Chosen events that this runtime lacks are omitted with a warning, so that one command line works
    on all nodes. Raises UsageError if no event remains, as an empty mask would mean all events.
    """
    introduction = introduction_of(configure)
    valid = valid_mask(introduction.version)
    warnings = []

    selected = set(PASSIVE_EVENTS if chosen is None else chosen)
    if EventKind.ValidateContainerAdjustment in selected and not validate:
        selected.remove(EventKind.ValidateContainerAdjustment)
        warnings.append("ValidateContainerAdjustment is left out: it must be requested explicitly")
    if validate:
        selected.add(EventKind.ValidateContainerAdjustment)

    mask = mask_of(selected) & valid
    missing = [event for event in sorted(selected) if not valid & event.bit]
    if chosen is None:
        # No warning for events that the user did not name: an older runtime has fewer events.
        missing = [event for event in missing if event is EventKind.ValidateContainerAdjustment]
    runtime = _describe(introduction)
    if missing:
        names = ", ".join(event.name for event in missing)
        warnings.append(f"{runtime} has no {names}")
    if not mask:
        raise UsageError(f"{runtime} has none of the chosen events", "choose others, or all")
    return Negotiated(introduction, mask, tuple(warnings))


def nri_version_of(configure: api.ConfigureRequest) -> tuple[NriVersion | None, bool]:
    """Return the runtime's NRI version, and whether it was inferred."""
    sent = NriVersion.parse(configure.NRI_version)
    if sent is not None:
        return sent, False
    name = sent_name(configure.runtime_name, configure.runtime_version)
    inferred = infer(name, configure.runtime_version)
    if inferred is not None and inferred >= V0_12 and not configure.NRI_version:
        # From 0.12 on, runtimes always send their version; this build has an older NRI module.
        inferred = V0_11
    return inferred, inferred is not None


def check_failure_policy(policy: FailurePolicy, configure: api.ConfigureRequest) -> None:
    """Raise `UsageError` if ``policy`` is not the default and the runtime does not apply it."""
    introduction = introduction_of(configure)
    if policy != NO_POLICY and not has_failure_policy(introduction.version):
        raise UsageError(
            f"{_describe(introduction)} does not know the failure policy {policy}",
            "it needs NRI 0.12.4; leave out failure_policy, or --keep-connected, for this runtime",
        )


def _describe(introduction: Introduction) -> str:
    name, version = introduction.runtime_name, introduction.version
    runtime = runtime_words(name, introduction.runtime_version) or "this runtime"
    remark = ", inferred" if introduction.inferred else ""
    nri = "unknown" if version is None else f"{version}{remark}"
    return f"{runtime} (NRI {nri})"


ConfigureRequest = api.ConfigureRequest
"""The request of Configure, for code that only passes it on."""


def introduction_of(configure: ConfigureRequest) -> Introduction:
    """Return the runtime's data in `configure`."""
    version, inferred = nri_version_of(configure)
    return Introduction(
        sent_name(configure.runtime_name, configure.runtime_version),
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
    part = decode(api.SynchronizeRequest, payload)
    if part is None:
        return None
    return StatePart(len(part.pods), len(part.containers), part.more)


def parse_registration(payload: bytes) -> tuple[str, str] | None:
    """Return index and name in a RegisterPlugin request's payload; None if malformed."""
    request = decode(api.RegisterPluginRequest, payload)
    return None if request is None else (request.plugin_idx, request.plugin_name)


def parse_configure(payload: bytes) -> Introduction | None:
    """Return the runtime's data in a Configure request's payload; None if malformed."""
    configure = decode(api.ConfigureRequest, payload)
    return None if configure is None else introduction_of(configure)


def parse_subscription(payload: bytes, version: NriVersion | None) -> int:
    """Return the event mask of a Configure reply's payload; 0 if malformed.

    An empty mask on the wire stands for all events of the runtime's NRI ``version``.
    """
    reply = decode(api.ConfigureResponse, payload)
    return 0 if reply is None else reply.events or valid_mask(version)


def parse_failure_policy(payload: bytes) -> FailurePolicy:
    """Return the failure policy in a Configure reply's payload; `NO_POLICY` if malformed."""
    sent = (decode(api.ConfigureResponse, payload) or api.ConfigureResponse()).failure_policy
    return FailurePolicy(sent.fail_request, sent.keep_connected)


def configure_reply(mask: int, policy: FailurePolicy) -> bytes:
    """Return the payload of the Configure reply that subscribes to the events of ``mask``."""
    reply = api.ConfigureResponse(events=mask)
    if policy != NO_POLICY:
        reply.failure_policy.fail_request = policy.fail_request
        reply.failure_policy.keep_connected = policy.keep_connected
    return reply.SerializeToString()
