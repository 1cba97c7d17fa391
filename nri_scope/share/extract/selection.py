# SPDX-License-Identifier: Apache-2.0
"""The events of which a new recording is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nri_scope.filter import Filter


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions that all have to hold; without any, all events are chosen."""

    where: Filter | None = None
    since_ns: int | None = None
    """Wall clock, included."""
    until_ns: int | None = None
    """Wall clock, included."""
    pod: str = ""
    """``namespace/pod``: events about this pod and its containers."""
    numbers: Sequence[int] | None = None
    """Numbers of events; unknown ones are ignored."""
    bare: bool = False
    """Add only the context that a replay needs: the creation of pods and containers, but not their
    later changes, so `blame` knows less about them."""

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
