# SPDX-License-Identifier: Apache-2.0
"""Common base of tree and timeline, which read and filter the same pods and containers."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import groupby

from textual.cache import LRUCache

from nri_scope.events import Container, Pod
from nri_scope.filter import Filter
from nri_scope.recording.query.event_scan import subjects_of_matches
from nri_scope.recording.query.subject_queries import keys_named
from nri_scope.recording.reading.reader import Recording

from ..store.rows import ListRow, line_row
from ..text.styled_line import StyledLine
from ..widgets.board import Board
from .census import Census
from .outline import LAST, NO_POD, Outline, TreeNode
from .outline_lines import NamedSubjects, SubjectDetails

STEP = 20_000
"""Number of events examined per step."""


class SubjectFilter:
    """The visible subset of a census: subjects of events that pass a filter, or one subject.

    A subject is a pod or container. Steps run in a thread, like those of the census.
    """

    def __init__(self, where: Filter | None = None, about: Pod | Container | None = None) -> None:
        self.where = where
        self.about = about
        self.newest = 0
        """Number of the newest event examined."""
        self._pods: set[int] = set()
        self._containers: set[int] = set()
        self._read = 0, 0
        """Number of pods and containers of the census already in the tree."""

    def step(self, recording: Recording, newest: int) -> bool:
        """Examine more events, up to ``newest``; return False if none is left.

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
    ) -> Iterator[tuple[int, int]]:
        """Yield the keys of visible pods and containers, each pod (with 0) before its containers.

        ``pods_from`` and ``containers_from``: positions in the census from which to start.
        """
        about = self.about
        one_pod = about.key if isinstance(about, Pod) else None
        one_container = about.key if isinstance(about, Container) else None
        pods = (
            (pod, 0)
            for pod in census.pods.keys[pods_from:]
            if one_container is None and one_pod in (None, pod) and self._passes(self._pods, pod)
        )
        pod_of, keys = census.pod_of, census.containers.keys
        # The census may grow during this call: ignore containers whose pod is not known yet.
        count = min(len(keys), len(pod_of))
        # Pod and position in one integer: tuples would take several times the memory.
        by_pod = sorted(
            (pod_of[position] or LAST) << 32 | position
            for position in range(containers_from, count)
            if one_pod in (None, pod_of[position])
            and one_container in (None, keys[position])
            and self._passes(self._containers, keys[position])
        )
        places = array("q", (number & 0xFFFF_FFFF for number in by_pod))
        del by_pod
        their_pods = ((pod_of[position] or LAST, 0) for position in places)
        containers = ((pod_of[position] or LAST, keys[position]) for position in places)
        for (pod, container), _ in groupby(merge(pods, their_pods, containers)):
            yield 0 if pod == LAST else pod, container

    def outline(self, census: Census) -> Outline:
        """Build the tree of visible pods and containers, in ascending order of keys."""
        self._read = len(census.pods), min(len(census.containers), len(census.pod_of))
        outline = Outline()
        outline.add(self.subjects(census))
        return outline

    def grow(self, census: Census, outline: Outline) -> bool:
        """Add new pods and containers; return False if the tree must be rebuilt."""
        if self.where is None:
            before = self._read
            self._read = len(census.pods), min(len(census.containers), len(census.pod_of))
            outline.add(self.subjects(census, *before))
        return self.where is None

    def _passes(self, chosen: set[int], key: int) -> bool:
        return self.where is None or key in chosen


_CACHED_NAMES = 2_048
"""Number of lines whose names are cached."""
_SEARCH_BATCH = 1_000
"""Number of lines that a search examines before yielding to other tasks."""


class CensusBoard(Board):
    """Base of boards with a line for each visible pod and container."""

    def on_mount(self) -> None:
        """Start empty."""
        self.census = self.store.shared(Census)
        """The census of the recording, shared by tree and timeline."""
        self.chosen = SubjectFilter()
        self.subjects: LRUCache[TreeNode, SubjectDetails] = LRUCache(_CACHED_NAMES)
        """Names of recently shown lines."""
        self.kept: TreeNode | None = None
        """Node that keeps the cursor when lines come or go; None before the first move."""
        self.body.on_cursor = self._save_cursor
        self._shown_for: tuple[Filter | None, Pod | Container | None, int] | None = None

    # -- to be overridden -------------------------------------------------------------------------

    def remarks_on(self, node: TreeNode, subject: SubjectDetails) -> Sequence[StyledLine]:
        """Return remarks on the node under the cursor."""
        raise NotImplementedError

    def node_at(self, index: int) -> TreeNode | None:
        """Return the node of a line; None if there is no such line."""
        raise NotImplementedError

    def begin_anew(self) -> None:
        """Prepare for reading the census anew, or for another restriction."""

    async def grown(self, *, anew: bool) -> None:
        """Show the data read so far, if there is no filter. Raises NriScopeError, like `read`.

        ``anew``: this is the first call since `begin_anew`.
        """

    async def read(self, *, anew: bool, found: bool) -> None:
        """Show the data after everything was read. ``found``: the filter examined new events."""

    # -- common part --------------------------------------------------------------------------

    async def work(self) -> None:
        """Read new events, apply the filter, and show the result."""
        where, about = self.context.shown(), self.context.about
        census, beginnings = self.census, self.census.beginnings
        anew = (where, about, beginnings) != self._shown_for
        if anew:
            self._shown_for = where, about, beginnings
            self.chosen = SubjectFilter(where, about)
            self.begin_anew()
        chosen, examined = self.chosen, self.chosen.newest
        more, first = True, anew
        while more:
            more = await self.store.run(census.step)
            if census.scan.outdated or census.beginnings != beginnings:
                await self.update()
                return
            if where is None:
                await self.grown(anew=first)
                first = False
            self.show_progress(self.progress_text(census.scan.newest) if more else "")
        while await self.store.run(lambda recording: chosen.step(recording, census.scan.newest)):
            self.show_progress(f"filtering: {100 * chosen.newest // max(1, census.scan.newest)} %")
            if (self.context.shown(), self.context.about) != (where, about):
                await self.update()
                return
        await self.read(anew=anew, found=chosen.newest != examined)

    def explain_empty(self) -> None:
        """Set the text shown if there are no lines."""
        words = "no pods or containers yet: they appear with their first event"
        if self.context.shown() is not None:
            reason = "the filter matched no" if self.context.where_text else "no marked"
            words = f"{reason} event of a pod or container"
        elif not self.store.facts.growing:
            words = "this recording has no events of pods or containers"
        words = self.store.facts.coverage.limited(words)
        if self.body.empty != words:
            self.body.empty = words
            self.body.changed()

    @property
    def node(self) -> TreeNode | None:
        """The node under the cursor; None if there is none."""
        return self.node_at(self.body.cursor)

    def remarks(self) -> Sequence[StyledLine]:
        """Return remarks on the line under the cursor, once its name has been read."""
        node = self.node
        subject = self.subjects.get(node) if node is not None else None
        return () if node is None or subject is None else self.remarks_on(node, subject)

    def _save_cursor(self) -> None:
        self.kept = self.node

    @property
    def selected(self) -> Pod | Container | None:
        """The pod or container under the cursor, or of the event under the cursor.

        None if there is none or its name has not been read.
        """
        row = self.row_without_event
        return None if row is None else row.subject

    @property
    def row_without_event(self) -> ListRow | None:
        """The row of `selected`, or of the heading of containers whose pod is unknown."""
        node = self.node
        subject = (
            self.subjects.get(TreeNode(node.pod, node.container)) if node is not None else None
        )
        if subject is None:
            return None
        return line_row(subject.full_name, subject=subject.container or subject.pod)

    async def find_line(self, text: str, start: int, *, forwards: bool) -> int | None:
        """Search names and ids of all pods and containers, including those not shown yet."""
        keys = await self.store.run(lambda recording: keys_named(recording, text))
        matches = NamedSubjects(*keys)
        if not matches.pods and not matches.containers:
            return None
        steps = range(start, len(self.body.source) if forwards else -1, 1 if forwards else -1)
        for count, index in enumerate(steps):
            node = self.node_at(index)
            if node is not None and matches.has(node):
                return index
            if count % _SEARCH_BATCH == _SEARCH_BATCH - 1:
                await asyncio.sleep(0)
        return None
