# SPDX-License-Identifier: Apache-2.0
"""The foldable tree of pods, their containers and the containers' events."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, partialmethod
from time import monotonic
from typing import ClassVar

from textual.binding import BindingType
from textual.timer import Timer

from nri_scope.filter import Filter
from nri_scope.recording.event_scan import subjects_of_matches
from nri_scope.recording.reader import Recording
from nri_scope.recording.sqlite_text import HIGHEST
from nri_scope.recording.subject_queries import events_of_container

from ..actions import Scope, bindings
from ..text.styled_line import StyledLine
from ..widgets.messages import Narrow, OpenEvent, StatusText
from ..widgets.table_board import SortableBoard
from .census_board import CensusBoard
from .outline import NO_POD, Level, Node, Outline
from .outline_lines import FIELDS, life_of, node_line, node_order, node_words, read

_PAUSE_FACTOR = 10
"""Pause before sorting again, as a multiple of the time that sorting took."""


class ContainerBoard(SortableBoard, CensusBoard):
    """Tree of pods and containers. Enter narrows all views to one of them, or opens an event.

    If sorted, the order is updated after pauses while the recording grows.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.CONTAINERS, of_lines=False)
    FIELDS = FIELDS

    def on_mount(self) -> None:
        """Start empty."""
        self.outline = Outline()
        self._fresh: set[Node] = set()
        """Nodes whose names were read since the recording last grew."""
        self._order: tuple[int | None, bool] = None, True
        """The field that sorts the tree, and whether it is ascending."""
        self._ordered_until = 0
        """Number of the newest event when the tree was sorted."""
        self._marked: set[Node] = set()
        """Pods and containers with marked events."""
        self._next_sort_s = 0.0
        self._sort_timer: Timer | None = None
        self.body.mark_at = self.marked_at

    # -- reading --------------------------------------------------------------------------

    async def grown(self, *, anew: bool) -> None:
        """Add new pods and containers to the tree."""
        await self._show(anew=anew, grown=True)

    async def read(self, *, anew: bool, found: bool) -> None:
        """Show the pods and containers that pass the filter."""
        if self.chosen.where is not None:
            await self._show(anew=anew, grown=found)
        self.explain_empty()

    def sort(self) -> None:
        """Sort the tree in the background."""
        self.begin("sort", self.update)

    async def _show(self, *, anew: bool, grown: bool) -> None:
        """Update the tree, or build a new one (``anew``); keeps the folding state."""
        if anew or self._order != (self.sorted_by, self.ascending):
            await self._build()
        elif not grown:
            return
        elif self.sorted_by is None:
            if not self.chosen.grow(self.census, self.outline):
                await self._build()
        elif self._ordered_until != self.census.scan.newest:
            wait_s = self._next_sort_s - monotonic()
            if wait_s <= 0:
                await self._build()
            elif self._sort_timer is None:
                self._sort_timer = self.set_timer(wait_s, self._sort_again)
        await self._extend(self.outline, self.outline.opened())
        self._fresh.clear()
        self._update_cursor()

    async def _sort_again(self) -> None:
        self._sort_timer = None
        await self.update()

    async def _build(self) -> None:
        chosen, census, old, now_ns = self.chosen, self.census, self.outline, self.now_ns
        field, ascending = order = self.sorted_by, self.ascending
        newest, began = census.scan.newest, monotonic()

        def build(recording: Recording) -> Outline:
            if field is None:
                return chosen.outline(census)
            by_field = node_order(recording, census, field, ascending=ascending, now_ns=now_ns)
            return chosen.outline(census, by_field)

        outline = await self.store.run(build)
        for pod in old.folded():
            if outline.position_of(Node(pod)) is not None:
                outline.set_folded(pod, True)
        await self._extend(outline, [(node, 0) for node, _ in old.opened()])
        self.outline, self._order, self._ordered_until = outline, order, newest
        self._next_sort_s = monotonic() + _PAUSE_FACTOR * (monotonic() - began)

    async def _extend(self, outline: Outline, opened: list[tuple[Node, int]]) -> None:
        where = self.chosen.where
        for node, newest in opened:
            if outline.position_of(node) is None:
                continue
            numbers = await self._numbers(node, newest, where)
            if newest:
                outline.extend(node, numbers)
            else:
                outline.open(node, numbers)

    async def _numbers(self, node: Node, after: int, where: Filter | None) -> list[int]:
        return await self.store.run(
            lambda recording: events_of_container(recording, node.container, after, where)
        )

    def _update_cursor(self) -> None:
        """Redraw, and move the cursor to the new position of its node."""
        at = self.kept
        position = self.outline.position_of(at) if at is not None else None
        self.body.changed()
        if position is not None and position != self.body.cursor:
            self.body.go_to(position)

    # -- lines ----------------------------------------------------------------------------

    @property
    def line_count(self) -> int:
        """Number of visible lines of the tree."""
        return len(self.outline)

    def node_at(self, index: int) -> Node | None:
        """Return the node of a line."""
        return self.outline.node_at(index) if 0 <= index < len(self.outline) else None

    def line_at(self, index: int) -> StyledLine | None:
        """Return a line; None if its name has not been read."""
        try:
            node = self.outline.node_at(index)
        except IndexError:
            return ()
        subject = self.subjects.get(node)
        if subject is None:
            return None
        opened = self.outline.is_open(node) if node.level is not Level.EVENT else None
        life = life_of(self.census, node)
        return node_line(node, subject, life, opened, self.grid, self.now_ns)

    def marked_at(self, index: int) -> bool:
        """Return whether a line's event, or an event of its pod or container, is marked."""
        node = self.node_at(index)
        if node is None or not node.event:
            return node in self._marked
        subject = self.subjects.get(node)
        return subject is not None and self.is_marked(subject.event)

    def marks_changed(self) -> None:
        """Read which pods and containers have marked events."""
        super().marks_changed()
        self.begin("marks", self._read_marks)

    async def _read_marks(self) -> None:
        where = self.context.marked()
        if where is None:
            return
        found = await self.store.run(
            lambda recording: subjects_of_matches(recording, where, 0, HIGHEST)
        )
        nodes = [Node(NO_POD if pod is None else pod, container or 0) for pod, container in found]
        self._marked = {*nodes, *(Node(node.pod) for node in nodes)}
        self.body.changed()

    def _missing_nodes(self) -> list[Node]:
        nodes = [self.outline.node_at(index) for index in self.body.visible_lines]
        return [node for node in nodes if node not in self._fresh or node not in self.subjects]

    def is_missing_data(self) -> bool:
        """Return whether names are missing, or were read before the recording grew."""
        return bool(self._missing_nodes())

    async def read_missing(self) -> bool:
        """Read the names of the visible lines."""
        census, nodes = self.census, self._missing_nodes()
        if not nodes:
            return False
        found = await self.store.run(lambda recording: read(recording, census, nodes))
        for node, subject in found.items():
            self.subjects[node] = subject
        self._fresh.update(found)
        # Redraw all lines: those read may have moved.
        self.body.changed()
        self.refresh_remarks()
        self.report_row()
        return True

    # -- the cursor -----------------------------------------------------------------------

    @property
    def selected_event_id(self) -> int | None:
        """The event under the cursor, or the newest one of the pod or container."""
        node = self.node
        if node is None:
            return None
        return node.event or life_of(self.census, node).last_event or None

    def remarks(self) -> Sequence[StyledLine]:
        """Return a remark on the line under the cursor."""
        node = self.node
        subject = self.subjects.get(node) if node is not None else None
        if node is None or subject is None:
            return ()
        return (node_words(node, subject, life_of(self.census, node), self.now_ns),)

    def open_line(self) -> None:
        """Narrow to a pod or container, or open an event."""
        node = self.node
        if node is None:
            return
        if node.event:
            self.post_message(OpenEvent(node.event))
            return
        selected = self.selected
        if selected is not None:
            self.post_message(Narrow(selected))

    # -- folding --------------------------------------------------------------------------

    def action_expand(self) -> None:
        """Unfold the line under the cursor."""
        node = self.node
        if node is None or node.level is Level.EVENT or self.outline.is_open(node):
            return
        if node.level is Level.POD:
            self.outline.set_folded(node.pod, False)
            self.body.changed()
        else:
            self.begin("open", partial(self._open, node))

    def action_collapse(self) -> None:
        """Fold the line under the cursor, or go to its parent."""
        node = self.node
        if node is None:
            return
        if node.level is not Level.EVENT and self.outline.is_open(node):
            if node.level is Level.POD:
                self.outline.set_folded(node.pod, True)
            else:
                self.outline.close(node)
            self.body.changed()
            return
        above = self.outline.position_of(node.parent) if node.parent is not None else None
        if above is not None:
            self.body.go_to(above)

    async def _open(self, node: Node) -> None:
        numbers = await self._numbers(node, 0, self.chosen.where)
        if self.outline.position_of(node) is not None:
            self.outline.open(node, numbers)
            self.body.changed()

    def _go_on(self, *, forwards: bool) -> None:
        """Go to the next or previous event of the container under the cursor, unfolding it."""
        node = self.node
        if node is not None and node.container:
            self.begin("open", partial(self._step, node, forwards))

    async def _step(self, node: Node, forwards: bool) -> None:
        above = Node(node.pod, node.container)
        if not self.outline.is_open(above):
            await self._open(above)
        start = self.outline.position_of(node)
        if start is None or not self.outline.is_open(above):
            return
        there = start + 1 if forwards else start - 1
        found = self.outline.node_at(there) if 0 <= there < len(self.outline) else None
        if found is not None and found.event and found.container == node.container:
            self.body.go_to(there)
        else:
            word = "later" if forwards else "earlier"
            self.post_message(StatusText(f"no {word} event of this container"))

    action_next_of_container = partialmethod(_go_on, forwards=True)
    action_previous_of_container = partialmethod(_go_on, forwards=False)
