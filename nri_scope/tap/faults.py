# SPDX-License-Identifier: Apache-2.0
"""Faults to inject in resilience tests, parsed from command line options."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from nri_scope.errors import UsageError
from nri_scope.nri.events import Event

ALL = "all"
"""Placeholder for all events, used instead of an event's name."""
DELAY_MAX_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault for requests of certain events."""

    text: str
    """The value of the option."""
    events: frozenset[str]
    """Names of events."""
    probability: float
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Faults:
    """All faults of one tap. If several match an event, the first in field order is injected."""

    drops: tuple[Fault, ...] = ()
    """Requests that never reach the plugin."""
    errors: tuple[Fault, ...] = ()
    """Requests that are answered with an error instead of being sent to the plugin."""
    delays: tuple[Fault, ...] = ()
    """Requests whose replies are delayed."""
    seed: int = 0

    @property
    def any(self) -> bool:
        """Whether there is at least one fault."""
        return bool(self.drops or self.errors or self.delays)

    @property
    def announcement(self) -> str:
        """Note for the recording, so that faults are not mistaken for the plugin's behaviour."""
        options = [
            f"{option} {fault.text}"
            for option, faults in (
                ("--delay", self.delays),
                ("--drop", self.drops),
                ("--error", self.errors),
            )
            for fault in faults
        ]
        return f"injecting faults: {' '.join(options)} --seed {self.seed}"


def parse_faults(
    delays: Sequence[str], drops: Sequence[str], errors: Sequence[str], seed: int = 0
) -> Faults:
    """Parse the values of ``--delay``, ``--drop`` and ``--error``. Raise `UsageError`."""
    return Faults(
        drops=tuple(_fault("--drop", text) for text in drops),
        errors=tuple(_fault("--error", text) for text in errors),
        delays=tuple(_delay(text) for text in delays),
        seed=seed,
    )


def _delay(text: str) -> Fault:
    # Imported here: without this fault, a tap does not need the filter language.
    from nri_scope.filter.quantity import parse_duration

    name, equals, rest = text.partition("=")
    duration, colon, probability = rest.partition(":")
    nanoseconds = parse_duration(duration) if equals else None
    if not nanoseconds or nanoseconds / 1e9 > DELAY_MAX_S:
        raise UsageError(
            f"--delay {text!r} has no valid duration",
            "write it as EVENT=DURATION or EVENT=DURATION:P, for example CreateContainer=3s:0.1",
        )
    return Fault(
        text,
        _events("--delay", name),
        _probability("--delay", text, probability if colon else None),
        nanoseconds / 1e9,
    )


def _fault(option: str, text: str) -> Fault:
    name, colon, probability = text.partition(":")
    return Fault(
        text, _events(option, name), _probability(option, text, probability if colon else None)
    )


def _events(option: str, name: str) -> frozenset[str]:
    by_name = {event.name.lower(): event.name for event in Event}
    if name.lower() == ALL:
        return frozenset(by_name.values())
    event = by_name.get(name.lower())
    if event is None:
        nearest = difflib.get_close_matches(name.lower(), by_name, n=1, cutoff=0.4)
        hint = (
            f"did you mean {by_name[nearest[0]]}?" if nearest else "use for example CreateContainer"
        )
        raise UsageError(f"{option}: there is no event {name!r}", hint)
    return frozenset((event,))


def _probability(option: str, text: str, written: str | None) -> float:
    if written is None:
        return 1.0
    try:
        probability = float(written)
    except ValueError:
        probability = -1.0
    # NaN fails this comparison, too.
    if not 0.0 <= probability <= 1.0:
        raise UsageError(
            f"{option} {text!r}: {written!r} is not a probability", "write a number from 0 to 1"
        )
    return probability
