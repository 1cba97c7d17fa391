# SPDX-License-Identifier: Apache-2.0
"""Events expected by a passive plugin, and their comparison with received ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Happened(NamedTuple):
    """One NRI event with its identities; container fields are empty for pod events."""

    event: str
    namespace: str
    pod: str
    container: str
    pod_id: str
    container_id: str


class Parallel(tuple[tuple[Happened, ...], ...]):
    """Concurrent chains of events; only the order within each chain is certain."""

    __slots__ = ()

    @property
    def events(self) -> list[Happened]:
        return [event for chain in self for event in chain]

    def allows(self, seen: Sequence[Happened]) -> bool:
        """Whether ``seen`` consists of these chains, in any interleaving."""
        return sorted(seen) == sorted(self.events) and all(
            [event for event in seen if event in chain] == list(chain) for chain in self
        )


Step = Happened | Parallel


def in_order(steps: Iterable[Step], seen: Sequence[Happened]) -> list[Happened]:
    """Return all events of ``steps``, with parallel chains in the order of ``seen`` if it is valid.

    So ``in_order(steps, seen) == seen`` is true if ``seen`` is correct, and a diff of the two shows
    the errors.
    """
    expected: list[Happened] = []
    for step in steps:
        if isinstance(step, Happened):
            expected.append(step)
        else:
            candidate = seen[len(expected) : len(expected) + len(step.events)]
            expected += candidate if step.allows(candidate) else step.events
    return expected
