# SPDX-License-Identifier: Apache-2.0
"""Which pods and containers have events that a filter lets through."""

from __future__ import annotations

from nri_scope.recorder.event_scan import subjects_of_matches
from nri_scope.recorder.filter import Filter
from nri_scope.recorder.model import Container, Pod
from nri_scope.recorder.reader import Recording
from nri_scope.tui.containers.census import Census
from nri_scope.tui.containers.outline import LAST, NO_POD, Outline

STEP = 20_000
"""Events that one step looks at."""


class SubjectFilter:
    """What is to be seen of a census: of one pod or container, and of what a filter lets through.

    Steps are made in a thread, as those of the census.
    """

    def __init__(self, where: Filter | None = None, about: Pod | Container | None = None) -> None:
        self.where = where
        self.about = about
        self.newest = 0
        """The number of the newest event that was looked at."""
        self._pods: set[int] = set()
        self._containers: set[int] = set()
        self._read = 0, 0
        """How many pods and containers are in the tree."""

    def step(self, recording: Recording, newest: int) -> bool:
        """Look at more events, up to the number ``newest``; False where nothing is left.

        Raises RecordingError.
        """
        if self.where is None or self.newest >= newest:
            self.newest = newest
            return False
        last = min(self.newest + STEP, newest)
        for pod, container in subjects_of_matches(recording, self.where, self.newest, last):
            self._pods.add(NO_POD if pod is None else pod)
            if container is not None:
                self._containers.add(container)
        self.newest = last
        return last < newest

    def subjects(
        self, census: Census, pods_from: int = 0, containers_from: int = 0
    ) -> list[tuple[int, int]]:
        """Return the keys of what is to be seen, each pod (with 0) before its containers; of those
        that appeared from some places on.
        """
        about = self.about
        one_pod = about.key if isinstance(about, Pod) else None
        one = about.key if isinstance(about, Container) else None
        found = {
            (pod, 0)
            for pod in census.pods.keys[pods_from:]
            if one is None and one_pod in (None, pod) and self._lets(self._pods, pod)
        }
        # The pod of what came while this is read is not known yet.
        count = min(len(census.containers), len(census.pod_of))
        for at in range(containers_from, count):
            key, pod = census.containers.keys[at], census.pod_of[at]
            if one_pod in (None, pod) and one in (None, key) and self._lets(self._containers, key):
                found.add((pod or LAST, 0))
                found.add((pod or LAST, key))
        return [(0 if pod == LAST else pod, container) for pod, container in sorted(found)]

    def outline(self, census: Census) -> Outline:
        """Make the tree of what is to be seen."""
        self._read = len(census.pods), min(len(census.containers), len(census.pod_of))
        outline = Outline()
        outline.add(self.subjects(census))
        return outline

    def grow(self, census: Census, outline: Outline) -> bool:
        """Add what came meanwhile; False where the tree has to be made anew."""
        if self.where is None:
            before = self._read
            self._read = len(census.pods), min(len(census.containers), len(census.pod_of))
            outline.add(self.subjects(census, *before))
        return self.where is None

    def _lets(self, chosen: set[int], key: int) -> bool:
        return self.where is None or key in chosen
