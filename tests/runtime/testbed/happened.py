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


class Parallel(tuple[tuple[Happened, ...], ...]):
    """Chains of events that all happen here; only the order within each chain is certain."""

    __slots__ = ()

    @property
    def events(self) -> list[Happened]:
        return [event for chain in self for event in chain]

    def allows(self, seen: Sequence[Happened]) -> bool:
        """Whether ``seen`` is these chains, in any interleaving."""
        return sorted(seen) == sorted(self.events) and all(
            [event for event in seen if event in chain] == list(chain) for chain in self
        )


Step = Happened | Parallel


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
            candidate = seen[len(expected) : len(expected) + len(step.events)]
            expected += candidate if step.allows(candidate) else step.events
    return expected
