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
"""Methods of every plugin's set-up, which are never played as events."""


class Stored(NamedTuple):
    """One request as it was on the wire."""

    at_ns: int
    """Arrival time, counted from any fixed point in time."""
    method: str
    request: bytes
    timeout_ns: int = 0
    """The deadline that was sent with the request; 0 if none."""
    service: str = PLUGIN_SERVICE
    plugin: str = ""
    """``NN-name`` of the plugin that got it; "" to play it to all that subscribe to it."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The wait between two events: as recorded, within bounds."""

    speed: float = 1.0
    """Factor of speed: 2 is twice as fast, infinity does not wait at all."""
    shortest: float = 0.0
    """Minimum seconds (at speed 1) for a reader to see an event."""
    longest: float = inf
    """Maximum seconds (at speed 1), after which a reader would think that playback has stopped."""

    def pause(self, before_ns: int, next_ns: int) -> float:
        """Return the seconds to wait between events stored at these times."""
        gap = (next_ns - before_ns) / 1e9
        return min(max(gap, self.shortest), self.longest) / self.speed


FASTEST = Pace(speed=inf, longest=1.0)
"""Play each event as soon as the previous one has been answered."""


@dataclass(slots=True)
class Played:
    """The result of `play`."""

    events: int = 0
    answers: int = 0
    errors: int = 0
    """Number of answers with an error, including deadlines and lost connections."""


def split_setup(
    stored: Iterable[Stored], profile: Profile | None = None
) -> tuple[RecordedSetUp, Iterator[Stored]]:
    """Read the set-up of the sessions from the start of a stream of stored requests.

    ``profile`` replaces the one made from the stream's first Configure. Raises
    `UsageError` if there is neither.
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

    Configure and Synchronize are left out: plugins get theirs on connecting. ``on_event`` is
    called with each request and its answers.
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
