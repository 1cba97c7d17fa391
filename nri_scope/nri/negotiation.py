# SPDX-License-Identifier: Apache-2.0
"""Derive the event mask of the reply from a runtime's Configure."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError

from .events import PASSIVE_EVENTS, Event, events_in, mask_of
from .versions import V0_11, V0_12, NriVersion, infer, runtime_title, valid_mask


@dataclass(frozen=True, slots=True)
class Negotiated:
    """The reply to Configure, and the reason for it."""

    version: NriVersion | None
    """The runtime's NRI version; None if neither sent nor inferable."""
    inferred: bool
    """Whether `version` was inferred from the runtime's name and version."""
    valid: int
    """Mask of all events that this runtime certainly supports."""
    mask: int
    """The subscription: never 0, never a bit outside `valid`."""
    warnings: tuple[str, ...]
    """A sentence for each request that cannot be met."""

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
    """Narrow a choice of events to those that the runtime that sent `configure` supports.

    `chosen` is the user's choice, None for every passive event. ValidateContainerAdjustment is
    subscribed to only with `validate` (which adds it to any choice): naming it in `chosen` is not
    enough and gives a warning, because a validator that dies makes container creation fail.

    A chosen event that this runtime lacks gives a warning, and the rest is subscribed to: the same
    command line should work on the next node. Only if nothing is left is it a UsageError, since an
    empty mask would subscribe to everything.
    """
    version, inferred = nri_version_of(configure)
    valid = valid_mask(version)
    warnings = []

    wanted = set(PASSIVE_EVENTS if chosen is None else chosen)
    if Event.ValidateContainerAdjustment in wanted and not validate:
        wanted.remove(Event.ValidateContainerAdjustment)
        warnings.append("ValidateContainerAdjustment is left out: it has to be asked for expressly")
    if validate:
        wanted.add(Event.ValidateContainerAdjustment)

    mask = mask_of(wanted) & valid
    missing = [event for event in sorted(wanted) if not valid & event.bit]
    if chosen is None:
        # These were not requested by name; an older runtime simply has fewer events.
        missing = [event for event in missing if event is Event.ValidateContainerAdjustment]
    runtime = _describe(configure, version, inferred)
    if missing:
        names = ", ".join(event.name for event in missing)
        warnings.append(f"{runtime} has no {names}")
    if not mask:
        raise UsageError(f"{runtime} has none of the chosen events", "choose others, or all")
    return Negotiated(version, inferred, valid, mask, tuple(warnings))


def nri_version_of(configure: api.ConfigureRequest) -> tuple[NriVersion | None, bool]:
    """Return the runtime's NRI version and whether it had to be inferred."""
    said = NriVersion.parse(configure.NRI_version)
    if said is not None:
        return said, False
    inferred = infer(configure.runtime_name, configure.runtime_version)
    if inferred is not None and inferred >= V0_12 and not configure.NRI_version:
        # From 0.12 on runtimes always set the field: this one was built with an older version.
        inferred = V0_11
    return inferred, inferred is not None


def _describe(configure: api.ConfigureRequest, version: NriVersion | None, inferred: bool) -> str:
    runtime = runtime_title(configure.runtime_name) or "this runtime"
    nri = "unknown" if version is None else f"{version}{', inferred' if inferred else ''}"
    return f"{runtime} {configure.runtime_version} (NRI {nri})"
