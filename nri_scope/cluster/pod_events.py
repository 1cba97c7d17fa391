# SPDX-License-Identifier: Apache-2.0
"""Kubernetes Events about a pod, which the user's kubectl reads, for a log and for findings."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from nri_scope.errors import UsageError
from nri_scope.recording.reading.records import rfc3339
from nri_scope.text.quantities import many

if TYPE_CHECKING:
    from nri_scope.nri.plain import Plain

    from .kubectl import Kubectl
    from .target import Target

EVENTS_MAX = 500
"""Maximum number of Kubernetes Events; the newest are kept."""
_TEXT_MAX = 2_000
"""Maximum number of characters of each text."""
_TIMES = ("lastTimestamp", "eventTime", "firstTimestamp")
Times = tuple[int | None, int | None]
"""Start and end in ns; the end is not included, and None means no limit."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PodEvent:
    """A Kubernetes Event. Texts are from the API server; nothing is escaped."""

    at_ns: int
    """When it occurred last."""
    type: str
    reason: str
    message: str
    count: int
    """How many times it occurred."""
    part: str
    """The part of the pod, such as ``spec.containers{app}``; "" for the whole pod."""

    @property
    def text(self) -> str:
        """The Event in a line."""
        count = f" ×{self.count}" if self.count > 1 else ""
        part = f" {self.part}" if self.part else ""
        return f"{self.type} {self.reason}{count}{part}: {' '.join(self.message.split())}"

    def record(self) -> dict[str, Plain]:
        """Return plain values for JSON."""
        values = asdict(self)
        return {"at": rfc3339(values.pop("at_ns")), **values}


@dataclass(frozen=True, slots=True)
class PodEvents:
    """The Kubernetes Events of a pod that the API server still has, by time."""

    pod: str
    events: tuple[PodEvent, ...] = ()

    def merged(
        self, items: Iterable[_T], time_of: Callable[[_T], int], times: Times, *, skip_earlier: bool
    ) -> Iterator[_T | PodEvent]:
        """Yield items with the Events between them, as far as they are within the times.

        ``skip_earlier``: without the Events before the first item.
        """
        since_ns, until_ns = times[0] or 0, times[1] or 1 << 63
        pending = deque(event for event in self.events if since_ns <= event.at_ns < until_ns)
        for number, item in enumerate(items):
            while pending and pending[0].at_ns < time_of(item):
                event = pending.popleft()
                if number or not skip_earlier:
                    yield event
            yield item
        yield from pending


async def pod_events(
    kubectl: Kubectl, target: Target, say: Callable[[str], None]
) -> PodEvents | None:
    """Return the Events of a pod, or of one container; None if they cannot be read.

    ``say`` is called with that, and with the number of those that are left out.
    """
    selector = f"involvedObject.kind=Pod,involvedObject.name={target.pod}"
    try:
        rows = await kubectl.get(
            ("@",), "events", f"--namespace={target.namespace}", f"--field-selector={selector}"
        )
        events = sorted(map(_pod_event, rows), key=lambda event: event.at_ns)
    except UsageError as error:
        say(f"Kubernetes Events are not shown: {error}")
        return None
    if target.container:
        events = [event for event in events if f"{{{target.container}}}" in event.part]
    if len(events) > EVENTS_MAX:
        say(f"{many(len(events) - EVENTS_MAX, 'older Kubernetes Event')} not shown")
    return PodEvents(target.name, tuple(events[-EVENTS_MAX:]))


def _pod_event(row: list[str]) -> PodEvent:
    try:
        event: dict[str, Any] = json.loads(row[0])
        series = event.get("series") or {}
        times = [series.get("lastObservedTime"), *map(event.get, _TIMES)]
        times.append(event["metadata"].get("creationTimestamp"))
        time = datetime.fromisoformat(next(filter(None, times), ""))
        at_ns = round(time.timestamp() * 1_000_000) * 1_000
        if not 0 <= at_ns < 1 << 63:
            raise ValueError
        texts = [str(event.get(name) or "")[:_TEXT_MAX] for name in ("type", "reason", "message")]
        part = str(event["involvedObject"].get("fieldPath") or "")[:_TEXT_MAX]
        count = min(int(series.get("count") or event.get("count") or 1), 1 << 31)
        return PodEvent(at_ns, texts[0], texts[1], texts[2], count, part)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        raise UsageError("kubectl get events: it printed something else") from None
