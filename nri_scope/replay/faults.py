# SPDX-License-Identifier: Apache-2.0
"""Faults observed in real runtimes, to test how a plugin handles them.

A fault is written as its name and arguments, separated by colons: ``slow:CreateContainer:3s``.
Modifiers may follow, such as ``:once``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nri_scope.errors import UsageError, did_you_mean, limit_words, nearest_word
from nri_scope.filter.moments import parse_duration
from nri_scope.nri.events import EventKind

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
}
"""Syntax of every fault, by name."""

OF_EVENTS = ("slow", "error", "duplicate", "skip")
"""Names of the faults of events, which `MODIFIERS` can restrict."""

MODIFIERS = "once, only=NS/POD, only=NS/POD/CTR"
"""Syntax of the modifiers."""

INJECTED = "injected by --fault error: another plugin of the node failed"
"""Error with which an event fails for --fault error."""

HELD_BACK_MAX = 2_000
"""Maximum number of events queued by ``reorder``, about 20 MiB: a few per pod of a full node."""


@dataclass(frozen=True, slots=True)
class EventFault:
    """Fault of one kind of event."""

    text: str
    """The fault as it was written."""
    event: EventKind
    seconds: float = 0.0
    """Delay of replies."""
    once: bool = False
    """Whether only the first matching event is affected."""
    subject: str = ""
    """``namespace/pod`` or ``namespace/pod/container`` of affected events; "" for all."""

    def matches(self, event: EventKind | None, subject: str) -> bool:
        """Return whether the fault affects this event."""
        return event is self.event and (
            self.subject in ("", subject) or subject.startswith(f"{self.subject}/")
        )


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults to inject into a replay."""

    slow: tuple[EventFault, ...] = ()
    """Replies that are delayed on their way to the runtime."""
    error: tuple[EventFault, ...] = ()
    """Events that fail after the plugins have replied, as if another plugin of the node failed."""
    drop_after: frozenset[int] = frozenset()
    """Numbers of played events after which the runtime closes every connection."""
    restart_after: frozenset[int] = frozenset()
    """Numbers of played events after which the runtime is restarted."""
    split_sync: bool = False
    """Whether Synchronize is sent in parts, regardless of its size."""
    duplicate: tuple[EventFault, ...] = ()
    """Events that are sent twice."""
    skip: tuple[EventFault, ...] = ()
    """Events that take effect but are not sent."""
    reorder: bool = False
    """Whether StopPodSandbox is sent before the pod's containers are stopped and removed."""
    unknown_event: bool = False
    """Whether an event of a later NRI version is sent first."""


NONE = Faults()


class InjectedFaults:
    """Faults of one replay, which stores those that have already affected an event."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self._first: dict[EventFault, int] = {}
        """Number of the first affected event, by fault."""
        self._number = 0
        self._subject = ""
        self._delay_s = 0.0
        """Delay of replies to the current event."""

    def arranged(self, steps: Iterator[ReplayStep]) -> Iterator[ReplayStep]:
        """Apply the faults that skip, duplicate or reorder events; yield the resulting steps."""
        if self.faults.reorder:
            steps = _pods_stop_early(steps)
        for number, step in enumerate(steps, 1):
            if step.selected and self._is_affected(self.faults.skip, step, number):
                yield replace(step, selected=False, skipped_by="skipped by --fault skip")
                continue
            yield step
            if step.selected and self._is_affected(self.faults.duplicate, step, number):
                yield replace(step, altered_by="sent a second time")

    def begin(self, subject: str) -> None:
        """Begin an event, to which later calls refer."""
        self._number += 1
        self._subject = subject
        self._delay_s = 0.0

    def fails(self, event: EventKind) -> bool:
        """Return whether the event is to fail."""
        return any(self._affects(fault, event) for fault in self.faults.error)

    def delay_s(self, event: EventKind | None) -> float:
        """Return the delay of a reply to this event."""
        for fault in self.faults.slow:
            if self._affects(fault, event):
                self._delay_s = fault.seconds
                return fault.seconds
        return 0.0

    def delay_words(self) -> str:
        """Describe the delay of replies to this event; "" if there is none."""
        delay = limit_words(self._delay_s)
        return f"each reply to this event is delayed by {delay}" if self._delay_s else ""

    def unmatched(self) -> Iterator[EventFault]:
        """Yield the faults with modifiers that have affected no event."""
        for fault in (
            *self.faults.slow,
            *self.faults.error,
            *self.faults.duplicate,
            *self.faults.skip,
        ):
            if (fault.once or fault.subject) and fault not in self._first:
                yield fault

    def _is_affected(self, faults: Sequence[EventFault], step: ReplayStep, number: int) -> bool:
        return any(self._applies(fault, step.event, step.subject, number) for fault in faults)

    def _affects(self, fault: EventFault, event: EventKind | None) -> bool:
        return self._applies(fault, event, self._subject, self._number)

    def _applies(
        self, fault: EventFault, event: EventKind | None, subject: str, number: int
    ) -> bool:
        if not fault.matches(event, subject):
            return False
        return self._first.setdefault(fault, number) == number or not fault.once


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
        nearest = nearest_word(name, FORMS)
        hint = f"did you mean {FORMS[nearest]}?" if nearest else f"known are {', '.join(FORMS)}"
        raise UsageError(f"unknown fault {name!r}", hint)
    fixed = form.count(":")
    if len(arguments) < fixed or (len(arguments) > fixed and name not in OF_EVENTS):
        raise UsageError(f"fault {text!r} has the wrong number of arguments", f"write it as {form}")
    if name in OF_EVENTS:
        fault = _event_fault(text, name, arguments[:fixed], arguments[fixed:])
        more: dict[str, Any] = {name: (*getattr(faults, name), fault)}
        return replace(faults, **more)
    match name, arguments:
        case "drop-connection", [after]:
            return replace(faults, drop_after=faults.drop_after | {_after(text, after)})
        case "restart-runtime", [after]:
            return replace(faults, restart_after=faults.restart_after | {_after(text, after)})
        case "split-sync", _:
            return replace(faults, split_sync=True)
        case "reorder", _:
            return replace(faults, reorder=True)
    return replace(faults, unknown_event=True)


def _event_fault(text: str, name: str, arguments: list[str], modifiers: list[str]) -> EventFault:
    fault = EventFault(text, _event(text, arguments[0]))
    for duration in arguments[1:]:
        nanoseconds = parse_duration(duration)
        if not nanoseconds:
            raise UsageError(f"fault {text!r}: {duration!r} is not a duration", "write 3s or 500ms")
        fault = replace(fault, seconds=nanoseconds / 1e9)
    for modifier in modifiers:
        key, _, value = modifier.partition("=")
        if modifier == "once" and not fault.once:
            fault = replace(fault, once=True)
        elif key == "only" and value and not fault.subject:
            fault = replace(fault, subject=value)
        else:
            raise UsageError(
                f"fault {text!r}: {modifier!r} is not a modifier, or given twice",
                f"{name} accepts {MODIFIERS}",
            )
    return fault


def _event(text: str, name: str) -> EventKind:
    for event in EventKind:
        if event.name.lower() == name.lower():
            return event
    hint = did_you_mean(name, (event.name for event in EventKind), cutoff=0.4)
    raise UsageError(f"fault {text!r}: unknown event {name!r}", hint or "as in CreateContainer")


def _after(text: str, argument: str) -> int:
    key, equals, digits = argument.partition("=")
    if key != "after" or not equals:
        raise UsageError(f"fault {text!r}: after=N is missing", "write after=N, for after N events")
    if not (digits.isascii() and digits.isdigit()) or not 0 < int(digits[:12]) <= 1 << 31:
        raise UsageError(f"fault {text!r}: {digits!r} is not a number from 1 to {1 << 31}")
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
        ends = step.event in (EventKind.StopContainer, EventKind.RemoveContainer)
        if ends and pod_id and pod_id not in stopped:
            held.setdefault(pod_id, []).append(step)
            count += 1
            if count > HELD_BACK_MAX:
                # Pods are ordered by their first event.
                oldest = held.pop(next(iter(held)))
                count -= len(oldest)
                yield from oldest
            continue
        if step.event is EventKind.RemovePodSandbox:
            stopped.discard(pod_id)
            count -= len(held.get(pod_id, ()))
            yield from held.pop(pod_id, ())
        yield step
        if step.event is EventKind.StopPodSandbox:
            stopped.add(pod_id)
            count -= len(held.get(pod_id, ()))
            for late in held.pop(pod_id, ()):
                yield replace(late, altered_by="sent after StopPodSandbox")
    for delayed in held.values():
        yield from delayed
