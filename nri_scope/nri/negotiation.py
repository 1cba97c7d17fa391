# SPDX-License-Identifier: Apache-2.0
"""Derive the event mask for the reply to a runtime's Configure."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError

from .events import PASSIVE_EVENTS, Event, events_in, mask_of
from .failure_policy import NO_POLICY, FailurePolicy
from .versions import (
    V0_11,
    V0_12,
    NriVersion,
    has_failure_policy,
    infer,
    runtime_words,
    valid_mask,
)


@dataclass(frozen=True, slots=True)
class Negotiated:
    """The negotiated subscription, and the runtime's NRI version that limits it."""

    version: NriVersion | None
    """The runtime's NRI version; None if neither sent nor inferable."""
    inferred: bool
    """Whether `version` was inferred from the runtime's name and version."""
    valid: int
    """Mask of all events that this runtime is known to support."""
    mask: int
    """The subscription; never 0, and never with a bit outside `valid`."""
    warnings: tuple[str, ...]
    """One sentence for each reason why chosen events are missing."""

    @property
    def events(self) -> tuple[Event, ...]:
        """The subscription as events."""
        return events_in(self.mask)


def negotiate(
    configure: api.ConfigureRequest,
    chosen: AbstractSet[Event] | None = None,
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
    version, inferred = nri_version_of(configure)
    valid = valid_mask(version)
    warnings = []

    selected = set(PASSIVE_EVENTS if chosen is None else chosen)
    if Event.ValidateContainerAdjustment in selected and not validate:
        selected.remove(Event.ValidateContainerAdjustment)
        warnings.append("ValidateContainerAdjustment is left out: it must be requested explicitly")
    if validate:
        selected.add(Event.ValidateContainerAdjustment)

    mask = mask_of(selected) & valid
    missing = [event for event in sorted(selected) if not valid & event.bit]
    if chosen is None:
        # No warning for events that the user did not name: an older runtime has fewer events.
        missing = [event for event in missing if event is Event.ValidateContainerAdjustment]
    runtime = _describe(configure, version, inferred)
    if missing:
        names = ", ".join(event.name for event in missing)
        warnings.append(f"{runtime} has no {names}")
    if not mask:
        raise UsageError(f"{runtime} has none of the chosen events", "choose others, or all")
    return Negotiated(version, inferred, valid, mask, tuple(warnings))


def nri_version_of(configure: api.ConfigureRequest) -> tuple[NriVersion | None, bool]:
    """Return the runtime's NRI version, and whether it was inferred."""
    sent = NriVersion.parse(configure.NRI_version)
    if sent is not None:
        return sent, False
    inferred = infer(configure.runtime_name, configure.runtime_version)
    if inferred is not None and inferred >= V0_12 and not configure.NRI_version:
        # From 0.12 on, runtimes always send their version; this build has an older NRI module.
        inferred = V0_11
    return inferred, inferred is not None


def check_failure_policy(policy: FailurePolicy, configure: api.ConfigureRequest) -> None:
    """Raise `UsageError` if ``policy`` is not the default and the runtime does not apply it."""
    version, inferred = nri_version_of(configure)
    if policy != NO_POLICY and not has_failure_policy(version):
        raise UsageError(
            f"{_describe(configure, version, inferred)} does not know the failure policy {policy}",
            "it needs NRI 0.12.4; leave out failure_policy, or --keep-connected, for this runtime",
        )


def _describe(configure: api.ConfigureRequest, version: NriVersion | None, inferred: bool) -> str:
    runtime = runtime_words(configure.runtime_name, configure.runtime_version) or "this runtime"
    nri = "unknown" if version is None else f"{version}{', inferred' if inferred else ''}"
    return f"{runtime} (NRI {nri})"
