# SPDX-License-Identifier: Apache-2.0
"""Evidence about other containers than the event's, from replies, validators and the CRI."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, cast

from nri_scope import oci
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Event
from nri_scope.specs import Spec

from .attributed_changes import EVICTION, Evidence, PluginRequest, RequestFate
from .chain import Chain
from .findings import Wanted, error_text, evidence_of, reply_of, runtime_rules_of
from .owner import Owner, plugin
from .rounds import ConnectionPart, Round
from .validator_owners import Owned

EVICTIONS_MAX = 5_000
"""Maximum number of evictions read from one message: more than any node has containers."""


class _WithUpdates(Protocol):
    @property
    def update(self) -> Sequence[api.ContainerUpdate]: ...


class _WithEvictions(Protocol):
    @property
    def evict(self) -> Sequence[api.ContainerEviction]: ...


def updates_of_replies(stations: Iterable[ConnectionPart], *, merged: bool = True) -> list[Wanted]:
    """Return the updates that plugins requested in replies without an adjustment.

    `merged`: whether NRI merges them, as in all replies except those to Synchronize.
    """
    return [
        Wanted(plugin(station.plugin), evidence_of(station), station.event, update, merged)
        for station in stations
        if (reply := reply_of(station)) is not None and hasattr(reply, "update")
        for update in cast("_WithUpdates", reply).update
    ]


def updates_of_validation(owned: Owned, chain: Chain) -> list[Wanted]:
    """Return the merged updates of other containers in the validators' request."""
    every_plugin = chain.between(None, None)
    return [
        Wanted(every_plugin, Evidence.VALIDATOR, owned.event, update, owned=owned)
        for update in owned.request.update
    ]


def evictions(
    owner: Owner,
    evidence: Evidence,
    event: Event,
    wanted: Iterable[api.ContainerEviction],
    rules: oci.RuntimeRules,
) -> list[PluginRequest]:
    """Return a plugin's requests to evict containers."""
    ignored = rules.ignores_evictions
    reason = (
        "the runtime ignores evictions"
        if ignored
        else "evictions were never tried with this runtime"
    )
    fate = RequestFate.NOT_APPLIED if ignored else RequestFate.UNKNOWN
    return [
        PluginRequest(
            one.container_id, owner, EVICTION, one.reason, reason, evidence, event.id, fate
        )
        for one in islice(wanted, EVICTIONS_MAX)
    ]


def evictions_of_replies(stations: Iterable[ConnectionPart]) -> list[PluginRequest]:
    """Return the evictions that plugins requested in their replies."""
    return [
        asked
        for station in stations
        if (reply := reply_of(station)) is not None and hasattr(reply, "evict")
        for asked in evictions(
            plugin(station.plugin),
            evidence_of(station),
            station.event,
            cast("_WithEvictions", reply).evict,
            runtime_rules_of(station),
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
    """The CRI's verbose answer about a container."""

    spec: Spec | None
    """The OCI spec that the runtime created; None if the answer has none."""
    failure: str = ""
    """The runtime's error if the container failed to start; "" otherwise."""


_WORDS_MAX = 1_000


def container_status(reply: bytes) -> Status:
    """Parse the CRI's verbose answer; invalid JSON is an empty status."""
    try:
        info = json.loads(reply, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return Status(None)
    if not isinstance(info, dict):
        return Status(None)
    spec, status = info.get("runtimeSpec"), info.get("status")
    return Status(spec if isinstance(spec, dict) else None, _failure(status))


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
