# SPDX-License-Identifier: Apache-2.0
"""The foldable tree of pods, their containers and the containers' events."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual.binding import BindingType

from nri_scope.filter import Filter
from nri_scope.recording.file.sqlite_text import HIGHEST
from nri_scope.recording.query.event_scan import subjects_of_matches
from nri_scope.recording.query.subject_queries import events_of_container

from ..actions import Scope, bindings
from ..text.styled_line import Style, StyledLine, line
from ..widgets.messages import OpenEvent
from ..widgets.table_board import ColumnBoard
from .census_board import CensusBoard
from .outline import NO_POD, Depth, Outline, TreeNode
from .outline_lines import FIELDS, SubjectDetails, life_of, node_line, node_words, read


class ContainerBoard(ColumnBoard, CensusBoard):
    """Tree of pods and containers. Enter unfolds one of them, or goes to an event."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.CONTAINERS, of_lines=False)
    FIELDS = FIELDS
    FOOT_LINES = 2

    def on_mount(self) -> None:
        """Start empty."""
        self.outline = Outline()
        self._fresh: set[TreeNode] = set()
        """Nodes whose names were read since the recording last grew."""
        self._marked: set[TreeNode] = set()
        """Pods and containers with marked events."""
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

    async def _show(self, *, anew: bool, grown: bool) -> None:
        """Update the tree, or build a new one (``anew``); keeps the folding state."""
        if not anew and not grown:
            return
        if anew or not self.chosen.grow(self.census, self.outline):
            await self._build()
        await self._extend(self.outline, self.outline.opened())
        self._fresh.clear()
        self._update_cursor()

    async def _build(self) -> None:
        chosen, census, old = self.chosen, self.census, self.outline
        outline = await self.store.run(lambda _: chosen.outline(census))
        for pod in old.folded():
            if outline.position_of(TreeNode(pod)) is not None:
                outline.set_folded(pod, True)
        await self._extend(outline, [(node, 0) for node, _ in old.opened()])
        self.outline = outline

    async def _extend(self, outline: Outline, opened: list[tuple[TreeNode, int]]) -> None:
        where = self.chosen.where
        for node, newest in opened:
            if outline.position_of(node) is None:
                continue
            numbers = await self._numbers(node, newest, where)
            if newest:
                outline.extend(node, numbers)
            else:
                outline.open(node, numbers)

    async def _numbers(self, node: TreeNode, after: int, where: Filter | None) -> list[int]:
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

    def node_at(self, index: int) -> TreeNode | None:
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
        opened = self.outline.is_open(node) if node.level is not Depth.EVENT else None
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
        nodes = [
            TreeNode(NO_POD if pod is None else pod, container or 0) for pod, container in found
        ]
        self._marked = {*nodes, *(TreeNode(node.pod) for node in nodes)}
        self.body.changed()

    def _missing_nodes(self) -> list[TreeNode]:
        nodes = [self.outline.node_at(index) for index in self.body.visible_lines]
        return [node for node in nodes if node not in self._fresh or node not in self.subjects]

    def is_missing_data(self) -> bool:
        """Return whether names are missing, or were read before the recording grew."""
        return bool(self._missing_nodes())

    async def read_missing(self) -> bool:
        """Read the names of the visible lines."""
        census, nodes, analysis = self.census, self._missing_nodes(), self.store.analysis
        if not nodes:
            return False
        found = await self.store.run(lambda recording: read(recording, census, nodes, analysis))
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

    def remarks_on(self, node: TreeNode, subject: SubjectDetails) -> Sequence[StyledLine]:
        """Return what does not fit into the line."""
        findings = line("; ".join(subject.findings), Style.BAD)
        return (findings, node_words(subject, life_of(self.census, node), self.now_ns))

    def open_line(self) -> None:
        """Go to an event; unfold a pod or container, or fold it again."""
        node = self.node
        if node is not None and node.event:
            self.post_message(OpenEvent(node.event))
        elif node is not None and self.outline.is_open(node):
            self.action_collapse()
        else:
            self.action_expand()

    # -- folding --------------------------------------------------------------------------

    def action_expand(self) -> None:
        """Unfold the line under the cursor."""
        node = self.node
        if node is None or node.level is Depth.EVENT or self.outline.is_open(node):
            return
        if node.level is Depth.POD:
            self.outline.set_folded(node.pod, False)
            self.body.changed()
        else:
            self.begin("open", partial(self._open, node))

    def action_collapse(self) -> None:
        """Fold the line under the cursor, or go to its parent."""
        node = self.node
        if node is None:
            return
        if node.level is not Depth.EVENT and self.outline.is_open(node):
            if node.level is Depth.POD:
                self.outline.set_folded(node.pod, True)
            else:
                self.outline.close(node)
            self.body.changed()
            return
        above = self.outline.position_of(node.parent) if node.parent is not None else None
        if above is not None:
            self.body.go_to(above)

    async def _open(self, node: TreeNode) -> None:
        numbers = await self._numbers(node, 0, self.chosen.where)
        if self.outline.position_of(node) is not None:
            self.outline.open(node, numbers)
            self.body.changed()
