# SPDX-License-Identifier: Apache-2.0
"""Select the rounds that concern one subject."""

from __future__ import annotations

from dataclasses import replace

from nri_scope.events import Container, Event, Pod
from nri_scope.recording import lookup
from nri_scope.recording.reader import Recording

from .attributed_changes import RoundDiff


class Choice:
    """Selection of the rounds about one subject. Other events still serve as evidence."""

    def __init__(self, recording: Recording, thing: lookup.Found) -> None:
        self._event = thing.id if isinstance(thing, Event) else 0
        self._pod = thing.id if isinstance(thing, Pod) else ""
        self._containers: set[str] = set()
        if isinstance(thing, Container):
            self._containers = {thing.id}
        elif isinstance(thing, Pod):
            self._containers = {one.id for one in lookup.containers_of(recording, thing)}

    def part_of(self, diff: RoundDiff) -> RoundDiff | None:
        """Return a round about the subject, or only its side effects on the subject, or None."""
        if self._event:
            return diff if self._event in diff.events else None
        if diff.container in self._containers or (self._pod and diff.pod == self._pod):
            return diff
        steps = tuple(step for step in diff.steps if step.container in self._containers)
        settled = tuple(step for step in diff.settled if step.container in self._containers)
        if not steps and not settled:
            return None
        return replace(diff, steps=steps, settled=settled)
