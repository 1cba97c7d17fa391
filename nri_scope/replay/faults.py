# SPDX-License-Identifier: Apache-2.0
"""Faults observed in real runtimes, to test how a plugin handles them.

A fault is written as its name and arguments, separated by colons: ``slow:CreateContainer:3s``.
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
"""Syntax of every fault, by name."""

INJECTED = "injected by --fault error: another plugin of the node failed"
"""Error with which an event fails for --fault error."""

HUGE_SYNC_MAX = 100_000
"""Maximum number of additional containers: ten times those of a large node."""

HELD_BACK_MAX = 2_000
"""Maximum number of events queued by `reorder`, about 20 MiB: a few per pod of a full node."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults to inject into a replay."""

    slow: dict[Event, float] = field(default_factory=dict)
    """Delay of replies on their way to the runtime, in seconds, by event."""
    error: frozenset[Event] = frozenset()
    """Events that fail after the plugins have replied, as if another plugin of the node failed."""
    drop_after: frozenset[int] = frozenset()
    """Numbers of played events after which the runtime closes every connection."""
    restart_after: frozenset[int] = frozenset()
    """Numbers of played events after which the runtime is restarted."""
    split_sync: bool = False
    """Whether Synchronize is sent in parts, regardless of its size."""
    duplicate: frozenset[Event] = frozenset()
    """Events that are sent twice."""
    skip: frozenset[Event] = frozenset()
    """Events that take effect but are not sent."""
    reorder: bool = False
    """Whether StopPodSandbox is sent before the pod's containers are stopped and removed."""
    unknown_event: bool = False
    """Whether an event of a later NRI version is sent first."""
    huge_sync: int = 0
    """Number of additional containers at the beginning."""

    def arranged(self, steps: Iterator[ReplayStep]) -> Iterator[ReplayStep]:
        """Apply the faults that skip, duplicate or reorder events; yield the resulting steps."""
        if self.reorder:
            steps = _pods_stop_early(steps)
        for step in steps:
            if step.selected and step.event in self.skip:
                yield replace(step, selected=False, skipped_by="skipped by --fault skip")
                continue
            yield step
            if step.selected and step.event in self.duplicate:
                yield replace(step, altered_by="sent a second time")


NONE = Faults()


def parse_faults(texts: Sequence[str]) -> Faults:
    """Parse faults. Raises UsageError."""
    faults = NONE
    for text in texts:
        faults = _with(faults, text)
    return faults


def _with(faults: Faults, text: str) -> Faults:
    name, *arguments = text.split(":")
    form = FORMS.get(name)
    if form is None:
        nearest = difflib.get_close_matches(name, FORMS, n=1)
        hint = f"did you mean {FORMS[nearest[0]]}?" if nearest else f"known are {', '.join(FORMS)}"
        raise UsageError(f"unknown fault {name!r}", hint)
    if len(arguments) != form.count(":"):
        raise UsageError(f"fault {text!r} has the wrong number of arguments", f"write it as {form}")
    match name, arguments:
        case "slow", [event, duration]:
            seconds = parse_duration(duration)
            if not seconds:
                raise UsageError(
                    f"fault {text!r}: {duration!r} is not a duration", "write 3s or 500ms"
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
        raise UsageError(f"fault {text!r}: unknown event {name!r}", hint)
    return event


def _after(text: str, argument: str) -> int:
    key, equals, number = argument.partition("=")
    if key != "after" or not equals:
        raise UsageError(f"fault {text!r}: after=N is missing", "write after=N, for after N events")
    return _number(text, number, 1 << 31)


def _number(text: str, digits: str, most: int) -> int:
    if not (digits.isascii() and digits.isdigit()) or not 0 < int(digits[:12]) <= most:
        raise UsageError(f"fault {text!r}: {digits!r} is not a number from 1 to {most}")
    return int(digits)


def _pods_stop_early(steps: Iterator[ReplayStep]) -> Iterator[ReplayStep]:
    """Queue StopContainer and RemoveContainer of a pod until after its StopPodSandbox.

    containerd and CRI-O send this order if a pod is removed by force on a busy node. When the queue
    reaches `HELD_BACK_MAX`, the events of the pod that has waited longest are sent.
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
                # Pods are ordered by their first event.
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
                yield replace(late, altered_by="sent after StopPodSandbox")
    for kept in held.values():
        yield from kept
