# SPDX-License-Identifier: Apache-2.0
"""Playback of stored requests through an emulated runtime, in order and byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from math import inf
from typing import NamedTuple

from nri_scope.nri.methods import PLUGIN_SERVICE

from .answer import Answer
from .plugin_setup import RecordedSetUp
from .profile import Profile
from .server import Runtime

SETUP_METHODS = frozenset({"Configure", "Synchronize"})
"""Methods of the set-up, which are never played as events."""


class Stored(NamedTuple):
    """One request, as bytes."""

    at_ns: int
    """Time of arrival, since any fixed point in time."""
    method: str
    request: bytes
    timeout_ns: int = 0
    """The deadline that was sent with the request; 0 if none."""
    service: str = PLUGIN_SERVICE
    plugin: str = ""
    """``NN-name`` of the plugin to send it to; "" for all subscribers."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Pause between two events: as recorded, within bounds."""

    speed: float = 1.0
    """Speed factor: 2 is twice as fast, infinity does not wait."""
    min_s: float = 0.0
    """Minimum pause in seconds, before division by `speed`."""
    max_s: float = inf
    """Maximum pause in seconds, before division by `speed`."""

    def pause(self, before_ns: int, next_ns: int) -> float:
        """Return the seconds to wait between events stored at these times."""
        gap = (next_ns - before_ns) / 1e9
        return min(max(gap, self.min_s), self.max_s) / self.speed


FASTEST = Pace(speed=inf, max_s=1.0)
"""Pace without pauses: each event is sent as soon as the previous one is answered."""


@dataclass(slots=True)
class Played:
    """Result of `play`."""

    events: int = 0
    answers: int = 0
    errors: int = 0
    """Number of answers with an error, including deadlines and lost connections."""


def split_setup(
    stored: Iterable[Stored], profile: Profile | None = None
) -> tuple[RecordedSetUp, Iterator[Stored]]:
    """Split a stream of stored requests into the leading set-up requests and the rest.

    ``profile`` replaces the one made from the first Configure. Raises `UsageError` without either.
    """
    configures: dict[str, bytes] = {}
    states: dict[str, list[bytes]] = {}
    rest = iter(stored)
    for item in rest:
        if item.method == "Configure":
            configures.setdefault(item.plugin, item.request)
        elif item.method == "Synchronize":
            states.setdefault(item.plugin, []).append(item.request)
        else:
            rest = chain([item], rest)
            break
    return RecordedSetUp.of(configures, states, profile), rest


async def play(
    runtime: Runtime,
    stored: Iterable[Stored],
    *,
    pace: Pace = FASTEST,
    on_event: Callable[[Stored, list[Answer]], None] = lambda item, answers: None,
) -> Played:
    """Send every request to the plugins of ``runtime``, one after the other.

    Configure and Synchronize are skipped, as plugins get them on connecting. ``on_event`` is called
    with each request and its answers.
    """
    played = Played()
    before_ns: int | None = None
    for item in stored:
        if item.method in SETUP_METHODS:
            continue
        if before_ns is not None:
            await asyncio.sleep(pace.pause(before_ns, item.at_ns))
        before_ns = item.at_ns
        answers = await runtime.send(
            item.method,
            item.request,
            timeout_ns=item.timeout_ns,
            service=item.service,
            plugin=item.plugin,
        )
        played.events += 1
        played.answers += len(answers)
        played.errors += sum(answer.error is not None for answer in answers)
        on_event(item, answers)
    return played
