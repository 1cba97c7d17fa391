# SPDX-License-Identifier: Apache-2.0
"""Which pods and containers have events that a filter lets through."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.recorder.event_scan import subjects_of_matches
from nri_scope.recorder.filter import Filter
from nri_scope.recorder.model import Container, Pod
from nri_scope.recorder.reader import Recording
from nri_scope.tui.model.census import NO_POD, Census
from nri_scope.tui.model.tree import Outline

STEP = 20_000
"""Events that one step looks at."""


class Chosen:
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
        self._pods_read = 0
        self._containers_read = 0

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

    def outline(self, census: Census) -> Outline:
        """The tree of what is to be seen."""
        outline = Outline()
        for pod, container in self._subjects(census, 0, 0):
            if container:
                outline.add_container(pod, container)
            else:
                outline.add_pod(pod)
        self._pods_read, self._containers_read = len(census.pods), len(census.containers)
        return outline

    def grow(self, census: Census, outline: Outline) -> bool:
        """Add what came meanwhile, at the end; False where the tree has to be made anew."""
        if self.where is not None:
            return False
        for pod, container in self._subjects(census, self._pods_read, self._containers_read):
            if container:
                outline.add_container(pod, container)
            else:
                outline.add_pod(pod)
        self._pods_read, self._containers_read = len(census.pods), len(census.containers)
        return True

    def _subjects(
        self, census: Census, pods_from: int, containers_from: int
    ) -> Iterator[tuple[int, int]]:
        about = self.about
        one_pod = about.key if isinstance(about, Pod) else None
        one = about.key if isinstance(about, Container) else None
        for pod in census.pods.keys[pods_from:]:
            if one is None and one_pod in (None, pod) and self._lets(self._pods, pod):
                yield pod, 0
        # The numbers of what came while this is read stay for the next time.
        count = min(len(census.containers), len(census.pod_of))
        for at in range(containers_from, count):
            key, pod = census.containers.keys[at], census.pod_of[at]
            if one_pod in (None, pod) and one in (None, key) and self._lets(self._containers, key):
                yield pod, key

    def _lets(self, chosen: set[int], key: int) -> bool:
        return self.where is None or key in chosen
