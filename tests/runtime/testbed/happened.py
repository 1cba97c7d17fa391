# SPDX-License-Identifier: Apache-2.0
"""What a passive plugin must have been told, to compare with what it was told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Happened(NamedTuple):
    """One NRI event with the identities in it; container fields are empty for pod events."""

    event: str
    namespace: str
    pod: str
    container: str
    pod_id: str
    container_id: str


class Unordered(tuple[Happened, ...]):
    """Events that all happen here, but only those of one pod or container in this order."""

    __slots__ = ()


Step = Happened | Unordered


def in_order(steps: Iterable[Step], seen: Sequence[Happened]) -> list[Happened]:
    """All events of ``steps``, where the order is free in that of ``seen`` if it is a lawful one.

    So ``in_order(steps, seen) == seen`` says that ``seen`` is right, and a difference shows where
    it is not.
    """
    expected: list[Happened] = []
    for step in steps:
        if isinstance(step, Happened):
            expected.append(step)
        else:
            candidate = seen[len(expected) : len(expected) + len(step)]
            expected += candidate if _by_object(candidate) == _by_object(step) else step
    return expected


def _by_object(events: Iterable[Happened]) -> dict[tuple[str, str], list[Happened]]:
    found: dict[tuple[str, str], list[Happened]] = {}
    for event in events:
        found.setdefault((event.pod_id, event.container_id), []).append(event)
    return found
