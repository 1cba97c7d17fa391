# SPDX-License-Identifier: Apache-2.0
"""Report a replay in a failed test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from nri_scope.specs import changes, label
from nri_scope.text.escape import safe

from ..report import Report
from ..result import ContainerResult, PlayedEvent
from .result import Result


def explain(operator: str, left: object, right: object) -> list[str] | None:
    """Return lines that explain why ``left == right`` fails; None if they are not containers."""
    if operator != "==":
        return None
    if not isinstance(left, ContainerResult) or not isinstance(right, ContainerResult):
        return None
    return [safe(f"{left!r} == {right!r}"), *_differences(left, right)]


def _differences(left: ContainerResult, right: ContainerResult) -> Iterator[str]:
    report = Report()
    if left.created != right.created:
        yield f"only the {'left' if left.created else 'right'} container was created"
    for title, one, other in (
        ("spec without plugins", left.before, right.before),
        ("resulting spec", left.spec, right.spec),
    ):
        if found := changes(one, other):
            yield f"{title}, from left to right:"
            yield from (report.change(change) for change in found)
    ours, theirs = left.owners, right.owners
    for path in sorted(ours.keys() | theirs.keys()):
        if ours.get(path) != theirs.get(path):
            name = label(path)
            yield safe(f"owner of {name}: {ours.get(path, 'none')} != {theirs.get(path, 'none')}")


_EVENT_LINES = 60
"""Maximum number of lines of events; the first ones are the most informative."""
_CONTAINER_LINES = 60
_TRACEBACK_LINES = 40


def failure_report(result: Result) -> Iterator[str]:
    """Yield lines, safe for a terminal: notable events, the first handler's traceback, changes to
    containers, and the summary.
    """
    replayed = result.replayed
    report = Report(chain=len(replayed.plugins) > 1)
    yield safe(f"{replayed.source}, as profile {replayed.profile}")
    lines = (
        line for event in replayed.events if _is_notable(event) for line in report.event(event)
    )
    yield from _first(lines, _EVENT_LINES)
    for error in result.handler_errors[:1]:
        yield ""
        yield safe(error.where)
        yield from (f"  {safe(line)}" for line in _first(error.lines(), _TRACEBACK_LINES))
    yield from _first(report.containers(replayed), _CONTAINER_LINES)
    yield from report.summary(replayed)


def _is_notable(event: PlayedEvent) -> bool:
    return event.is_remarkable or bool(event.note or event.output)


def _first(lines: Iterable[str], most: int) -> Iterator[str]:
    lines = iter(lines)
    yield from islice(lines, most)
    left = sum(1 for _ in lines)
    if left:
        yield f"… and {left} more lines"
