# SPDX-License-Identifier: Apache-2.0
"""Faults that real runtimes have shown, to see how a plugin takes them.

Each is written as one word with its arguments after colons: ``slow:CreateContainer:3s``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from nri_scope.errors import UsageError
from nri_scope.filter.quantity import parse_duration
from nri_scope.nri.events import Event

from .script import ReplayStep

FORMS = {
    "slow": "slow:EVENT:DURATION",
    "error": "error:EVENT",
    "drop-connection": "drop-connection:after=N",
    "restart-runtime": "restart-runtime:after=N",
    "split-sync": "split-sync",
    "duplicate": "duplicate:EVENT",
    "skip": "skip:EVENT",
    "reorder": "reorder",
    "unknown-event": "unknown-event",
    "huge-sync": "huge-sync:N",
}
"""Every fault and how it is written."""

INJECTED = "another plugin of the node failed, as --fault error wants"
"""Why an event fails with --fault error."""

HUGE_SYNC_MAX = 100_000
"""Containers; ten times what any node has."""

HELD_BACK_MAX = 2_000
"""Events that `reorder` holds back at a time, some 20 MiB: a few for each pod of a full node."""


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults that are injected into a replay."""

    slow: dict[Event, float] = field(default_factory=dict)
    """Seconds that a reply to the event spends on its way to the runtime."""
    error: frozenset[Event] = frozenset()
    """Events that fail after the plugins were asked, as when another plugin of the node fails."""
    drop_after: frozenset[int] = frozenset()
    """Numbers of events played after which the runtime closes every connection."""
    restart_after: frozenset[int] = frozenset()
    """Numbers of events played after which the runtime is restarted."""
    split_sync: bool = False
    """Synchronize comes in parts, however small it is."""
    duplicate: frozenset[Event] = frozenset()
    """Events that are sent twice."""
    skip: frozenset[Event] = frozenset()
    """Events that happen but are not sent."""
    reorder: bool = False
    """StopPodSandbox comes before its containers are stopped and removed."""
    unknown_event: bool = False
    """An event of a later NRI version comes first."""
    huge_sync: int = 0
    """So many containers more exist at the beginning."""

    def arranged(self, steps: Iterator[ReplayStep]) -> Iterator[ReplayStep]:
        """Yield the events in the order and number in which these faults make them come."""
        if self.reorder:
            steps = _pods_stop_early(steps)
        for step in steps:
            if step.wanted and step.event in self.skip:
                yield replace(step, wanted=False, left_out="left out by --fault skip")
                continue
            yield step
            if step.wanted and step.event in self.duplicate:
                yield replace(step, added="it comes a second time")


NONE = Faults()


def parse_faults(texts: Sequence[str]) -> Faults:
    """Parse faults from their written forms. Raises UsageError."""
    faults = NONE
    for text in texts:
        faults = _with(faults, text)
    return faults


def _with(faults: Faults, text: str) -> Faults:
    name, *arguments = text.split(":")
    form = FORMS.get(name)
    if form is None:
        nearest = difflib.get_close_matches(name, FORMS, n=1)
        hint = f"did you mean {FORMS[nearest[0]]}?" if nearest else f"there is {', '.join(FORMS)}"
        raise UsageError(f"there is no fault {name!r}", hint)
    if len(arguments) != form.count(":"):
        raise UsageError(f"fault {text!r} is not complete, or too long", f"write it as {form}")
    match name, arguments:
        case "slow", [event, duration]:
            seconds = parse_duration(duration)
            if not seconds:
                raise UsageError(
                    f"fault {text!r}: {duration!r} is no duration", "write 3s or 500ms"
                )
            return replace(faults, slow={**faults.slow, _event(text, event): seconds / 1e9})
        case "error", [event]:
            return replace(faults, error=faults.error | {_event(text, event)})
        case "duplicate", [event]:
            return replace(faults, duplicate=faults.duplicate | {_event(text, event)})
        case "skip", [event]:
            return replace(faults, skip=faults.skip | {_event(text, event)})
        case "drop-connection", [after]:
            return replace(faults, drop_after=faults.drop_after | {_after(text, after)})
        case "restart-runtime", [after]:
            return replace(faults, restart_after=faults.restart_after | {_after(text, after)})
        case "huge-sync", [count]:
            return replace(faults, huge_sync=_number(text, count, HUGE_SYNC_MAX))
        case "split-sync", _:
            return replace(faults, split_sync=True)
        case "reorder", _:
            return replace(faults, reorder=True)
    return replace(faults, unknown_event=True)


def _event(text: str, name: str) -> Event:
    by_name = {event.name.lower(): event for event in Event}
    event = by_name.get(name.lower())
    if event is None:
        nearest = difflib.get_close_matches(name.lower(), by_name, n=1, cutoff=0.4)
        hint = f"did you mean {by_name[nearest[0]].name}?" if nearest else "as in CreateContainer"
        raise UsageError(f"fault {text!r}: there is no event {name!r}", hint)
    return event


def _after(text: str, argument: str) -> int:
    key, equals, number = argument.partition("=")
    if key != "after" or not equals:
        raise UsageError(f"fault {text!r} does not say when", "write after=N, N events later")
    return _number(text, number, 1 << 31)


def _number(text: str, digits: str, most: int) -> int:
    if not (digits.isascii() and digits.isdigit()) or not 0 < int(digits[:12]) <= most:
        raise UsageError(f"fault {text!r}: {digits!r} is no number from 1 to {most}")
    return int(digits)


def _pods_stop_early(steps: Iterator[ReplayStep]) -> Iterator[ReplayStep]:
    """Hold the ends of a pod's containers back until its StopPodSandbox has come.

    containerd and CRI-O do that when a pod is removed by force, and the node is busy. Where that
    never comes, those of the pod that waits longest go on once `HELD_BACK_MAX` are held back.
    """
    held: dict[str, list[ReplayStep]] = {}
    stopped: set[str] = set()
    count = 0
    for step in steps:
        pod_id = step.recorded.pod_id
        ends = step.event in (Event.StopContainer, Event.RemoveContainer)
        if ends and pod_id and pod_id not in stopped:
            held.setdefault(pod_id, []).append(step)
            count += 1
            if count > HELD_BACK_MAX:
                # A pod's place is that of its first event.
                oldest = held.pop(next(iter(held)))
                count -= len(oldest)
                yield from oldest
            continue
        if step.event is Event.RemovePodSandbox:
            stopped.discard(pod_id)
            count -= len(held.get(pod_id, ()))
            yield from held.pop(pod_id, ())
        yield step
        if step.event is Event.StopPodSandbox:
            stopped.add(pod_id)
            count -= len(held.get(pod_id, ()))
            for late in held.pop(pod_id, ()):
                yield replace(late, added="it comes after StopPodSandbox")
    for kept in held.values():
        yield from kept
