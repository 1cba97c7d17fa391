# SPDX-License-Identifier: Apache-2.0
"""Playing stored requests through an emulated runtime, byte for byte and in their order."""

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
"""Part of every plugin's way in, and therefore never played as events."""


class Stored(NamedTuple):
    """One request as it was on the wire."""

    at_ns: int
    """When it arrived, from any fixed point in time."""
    method: str
    request: bytes
    timeout_ns: int = 0
    """The deadline that came with it; 0 if none."""
    service: str = PLUGIN_SERVICE
    plugin: str = ""
    """``NN-name`` of the plugin it went to; "" to play it to all that subscribe to it."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The wait between two events: as long as recorded, within bounds."""

    speed: float = 1.0
    """2 is twice as fast; infinity does not wait at all."""
    shortest: float = 0.0
    """Seconds (at speed 1) that a reader's eye needs for an event."""
    longest: float = inf
    """Seconds (at speed 1) after which a reader thinks that nothing happens any more."""

    def pause(self, before_ns: int, next_ns: int) -> float:
        """Return the seconds to wait between events stored at these times."""
        gap = (next_ns - before_ns) / 1e9
        return min(max(gap, self.shortest), self.longest) / self.speed


FASTEST = Pace(speed=inf, longest=1.0)
"""The next event as soon as the last one has been answered."""


@dataclass(slots=True)
class Played:
    """The result of `play`."""

    events: int = 0
    answers: int = 0
    errors: int = 0
    """Answers with an error, deadlines and lost connections included."""


def split_setup(
    stored: Iterable[Stored], profile: Profile | None = None
) -> tuple[RecordedSetUp, Iterator[Stored]]:
    """Take the set-up of the sessions off the front of a stream of stored requests.

    ``profile`` stands in for one that is made from the stream's first Configure. Raises
    `UsageError` where there is neither.
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
    """Send every request to the plugins of ``runtime``, in order; each waits for the one before.

    Configure and Synchronize are left out: plugins had theirs when they came. ``on_event`` hears
    of every request and how it was answered.
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
