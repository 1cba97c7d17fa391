# SPDX-License-Identifier: Apache-2.0
"""Which containers the CRI is to be asked about, once something happened to them."""

from __future__ import annotations

from collections.abc import Iterable

from nri_scope.differ.model import RoundDiff
from nri_scope.differ.rounds import CONTAINER_STATUS, CREATE
from nri_scope.recorder.model import Event

_DONE = frozenset({"PostCreateContainer", "PostStartContainer", "PostUpdateContainer"})
"""After these the runtime has done to the container what the event before was about."""


def worth_asking(event: Event | None, rounds: Iterable[RoundDiff]) -> set[str]:
    """The ids of containers whose spec is another one now, as far as these say so."""
    wanted: set[str] = set()
    if event is not None and event.event in _DONE:
        wanted.add(event.container_id)
    for one in rounds:
        if one.name == CONTAINER_STATUS:
            continue
        wanted.update(step.container for step in one.steps)
        if one.name == CREATE:
            # It is not there yet; what follows its creation says when it is.
            wanted.discard(one.container)
    wanted.discard("")
    return wanted


def is_gone(event: Event | None) -> str:
    """The id of a container about which there is nothing to ask any more; "" for none."""
    return event.container_id if event is not None and event.event == "RemoveContainer" else ""
