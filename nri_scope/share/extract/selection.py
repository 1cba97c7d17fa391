# SPDX-License-Identifier: Apache-2.0
"""Which events a new recording is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nri_scope.filter import Filter


@dataclass(frozen=True, slots=True)
class Selection:
    """Every condition has to hold; without any, all events are chosen."""

    where: Filter | None = None
    since_ns: int | None = None
    """Wall clock, included."""
    until_ns: int | None = None
    """Wall clock, included."""
    pod: str = ""
    """``namespace/pod``: events about this pod and its containers."""
    numbers: Sequence[int] | None = None
    """Numbers of events; those that the recording does not have are none."""
    bare: bool = False
    """What comes along is only what a replay cannot do without: how the pods and containers came
    into being. What changed them meanwhile does not, so `blame` finds them less well known."""

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return (
            self.where is None
            and self.since_ns is None
            and self.until_ns is None
            and not self.pod
            and self.numbers is None
        )
