# SPDX-License-Identifier: Apache-2.0
"""What replies, validators and the CRI tell beside the container that an event is about."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, cast

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.oci import Spec

from .chain import Chain
from .findings import Wanted, evidence_of, reply_of
from .model import Evidence
from .owner import plugin
from .owners import Owned
from .rounds import Round, Station


class _WithUpdates(Protocol):
    @property
    def update(self) -> Sequence[api.ContainerUpdate]: ...


def updates_of_replies(stations: Iterable[Station]) -> list[Wanted]:
    """The updates that plugins asked for in replies that have nothing else."""
    return [
        Wanted(plugin(station.plugin), evidence_of(station), station.event, update)
        for station in stations
        if (reply := reply_of(station)) is not None and hasattr(reply, "update")
        for update in cast("_WithUpdates", reply).update
    ]


def updates_of_validation(owned: Owned, chain: Chain) -> list[Wanted]:
    """The updates of other containers that validators were told of, merged."""
    anybody = chain.between(None, None)
    return [
        Wanted(anybody, Evidence.VALIDATOR, owned.event, update, owned)
        for update in owned.request.update
    ]


def rejection(validation: Round) -> str:
    """Why a validator refused; "" where none is known to have."""
    for station in validation.stations:
        reply = cast("api.ValidateContainerAdjustmentResponse | None", reply_of(station))
        if reply is not None and reply.reject:
            return f"{station.plugin} rejected it: {reply.reason or 'without a reason'}"
        if station.event.status_code:
            return f"{station.plugin} answered: {station.event.status_message or 'an error'}"
    return ""


class Status(NamedTuple):
    """What the CRI's verbose answer tells of a container."""

    spec: Spec | None
    """The OCI spec that the runtime made; None where there is none."""
    failure: str = ""
    """That the container failed to start, with the runtime's words; "" where it did not."""


_WORDS_MAX = 1_000


def container_status(reply: bytes) -> Status:
    """Read the CRI's verbose answer."""
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
    told = [reason[:_WORDS_MAX]] if isinstance(reason, str) and reason else []
    told += [f"exit code {code}"] if isinstance(code, int) else []
    words = f": {message[:_WORDS_MAX]}" if isinstance(message, str) and message else ""
    return f"the container failed to start and never ran ({', '.join(told)}){words}"


def real_spec(reply: bytes) -> Spec | None:
    """The OCI spec in the CRI's verbose answer; None where there is none."""
    return container_status(reply).spec


def _finite(text: str) -> float:
    """A number that JSON has. Raises ValueError for NaN, Infinity and what is as large."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"no number: {text}")
    return number
