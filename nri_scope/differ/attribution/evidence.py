# SPDX-License-Identifier: Apache-2.0
"""Evidence about other containers than the event's, from replies, validators and the CRI."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple, Protocol, cast

from nri_scope import oci
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.changes import WithUpdates
from nri_scope.nri.merging import EVICTION_IGNORED
from nri_scope.specs import Change, Json, Spec, patched

from .attributed_changes import EVICTION, REQUESTED, ChangeStep, Evidence, dropped, refused
from .chain import Chain
from .findings import Source, Wanted, error_text, reply_of, runtime_rules_of, step
from .owner import Owned
from .rounds import ConnectionPart, Round

EVICTIONS_MAX = 5_000
"""Maximum number of evictions read from one message: more than any node has containers."""


class _WithEvictions(Protocol):
    @property
    def evict(self) -> Sequence[api.ContainerEviction]: ...


def updates_of_replies(stations: Iterable[ConnectionPart], *, merged: bool = True) -> list[Wanted]:
    """Return the updates that plugins requested in replies without an adjustment.

    `merged`: whether NRI merges them, as in all replies except those to Synchronize.
    """
    return [
        Wanted(Source.of(station), update, merged)
        for station in stations
        if (reply := reply_of(station)) is not None and hasattr(reply, "update")
        for update in cast("WithUpdates", reply).update
    ]


def updates_of_validation(owned: Owned, chain: Chain) -> list[Wanted]:
    """Return the merged updates of other containers in the validators' request."""
    every_plugin = Source(chain.between(None, None), Evidence.VALIDATOR, owned.event)
    return [Wanted(every_plugin, update, owned=owned) for update in owned.request.update]


def evictions(
    source: Source, wanted: Iterable[api.ContainerEviction], rules: oci.RuntimeRules
) -> list[ChangeStep]:
    """Return a plugin's requests to evict containers."""
    outcome = REQUESTED._replace(reason="evictions were never tried with this runtime")
    event = source.event
    if event.status_code:
        outcome = refused(event.status_message or "the runtime answered with an error")
    elif rules.ignores_evictions:
        outcome = dropped(EVICTION_IGNORED)
    found: list[ChangeStep] = []
    for one in islice(wanted, EVICTIONS_MAX):
        change = Change(EVICTION, None, one.reason, "added")
        asked = step(one.container_id, change, source, outcome=outcome)
        asked.is_expected = False
        found.append(asked)
    return found


def evictions_of_replies(stations: Iterable[ConnectionPart]) -> list[ChangeStep]:
    """Return the evictions that plugins requested in their replies."""
    return [
        asked
        for station in stations
        if (reply := reply_of(station)) is not None and hasattr(reply, "evict")
        for asked in evictions(
            Source.of(station), cast("_WithEvictions", reply).evict, runtime_rules_of(station)
        )
    ]


def rejection(validation: Round) -> str:
    """Return the reason of a validator's rejection; "" if no reply shows one."""
    for station in validation.stations:
        reply = cast("api.ValidateContainerAdjustmentResponse | None", reply_of(station))
        if reply is not None and reply.reject:
            return f"{station.plugin} rejected it: {reply.reason or 'no reason given'}"
        if station.event.status_code:
            return error_text(station)
    return ""


class Status(NamedTuple):
    """What the CRI and the container's files said, at the time of one question."""

    spec: Spec | None
    """The OCI spec that the runtime created; None if the answer has none."""
    failure: str = ""
    """The runtime's error if the container failed to start; "" otherwise."""
    bundle_spec: Spec | None = None
    """The container's config.json, which has the spec of its creation; None if it was not read."""
    cgroup: Mapping[str, Json] = MappingProxyType({})
    """Limits in the container's cgroups, by OCI path; see `specs.agrees` for inexact values."""
    not_found: bool = False
    """Whether the runtime did not know the container."""


_WORDS_MAX = 1_000
_RESOURCES = "/linux/resources/"


def container_status(reply: bytes) -> Status:
    """Parse the CRI's verbose answer; invalid JSON is an empty status."""
    try:
        info = json.loads(reply, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return Status(None)
    if not isinstance(info, dict):
        return Status(None)
    spec, patch, cgroup = map(info.get, ("runtimeSpec", "bundleSpec", "cgroup"))
    spec = spec if isinstance(spec, dict) else None
    limits = cgroup.items() if isinstance(cgroup, dict) else ()
    try:
        bundle_spec = patched(spec, patch) if spec and isinstance(patch, dict) else None
    except RecursionError:
        bundle_spec = None
    return Status(
        spec,
        _failure(info.get("status")),
        bundle_spec,
        {path: value for path, value in limits if path.startswith(_RESOURCES)},
        info.get("notFound") is True,
    )


def _failure(status: object) -> str:
    if not isinstance(status, dict) or status.get("state") != "CONTAINER_EXITED":
        return ""
    reason, code, message = (status.get(key) for key in ("reason", "exitCode", "message"))
    facts = [reason[:_WORDS_MAX]] if isinstance(reason, str) and reason else []
    facts += [f"exit code {code}"] if isinstance(code, int) else []
    words = f": {message[:_WORDS_MAX]}" if isinstance(message, str) and message else ""
    return f"the container failed to start and never ran ({', '.join(facts)}){words}"


def _finite(text: str) -> float:
    """Parse a JSON number. Raises ValueError for NaN, Infinity and numbers outside the range."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"not a finite number: {text}")
    return number
