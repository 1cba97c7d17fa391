# SPDX-License-Identifier: Apache-2.0
"""The course of a replay, to find out why a test failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from nri_scope.text.escape import safe

from ..replies import Verdict
from ..report import Report
from ..result import PlayedEvent
from .result import Result

_EVENTS = 60
"""Maximum lines of events; the first ones are the most informative."""
_CONTAINERS = 60
_TRACEBACK = 40


def story(result: Result) -> Iterator[str]:
    """Yield lines, safe for a terminal: the events with non-empty replies, tracebacks of handlers,
    changes to containers, and the summary.
    """
    replayed = result.replayed
    report = Report(chain=len(replayed.plugins) > 1)
    yield safe(f"{replayed.source}, as profile {replayed.profile}")
    told = (line for event in replayed.events if _tells(event) for line in report.event(event))
    yield from _some(told, _EVENTS)
    for error in result.handler_errors[:1]:
        yield ""
        yield safe(error.where)
        yield from (f"  {safe(line)}" for line in _some(error.lines(), _TRACEBACK))
    yield from _some(report.containers(replayed), _CONTAINERS)
    yield from report.summary(replayed)


def _tells(event: PlayedEvent) -> bool:
    return bool(
        event.changes
        or event.dropped
        or event.failure
        or event.logged
        or event.fault
        or event.output
        or any(reply.verdict is not Verdict.OK or reply.slow for reply in event.replies)
    )


def _some(lines: Iterable[str], most: int) -> Iterator[str]:
    lines = iter(lines)
    yield from islice(lines, most)
    left = sum(1 for _ in lines)
    if left:
        yield f"… and {left} more lines"
