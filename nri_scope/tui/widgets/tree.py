# SPDX-License-Identifier: Apache-2.0
"""Pods, their containers and the events of these, to fold and unfold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual.binding import BindingType
from textual.cache import LRUCache

from nri_scope.errors import NriScopeError
from nri_scope.recorder.filter import Filter
from nri_scope.recorder.model import Container, Pod
from nri_scope.tui.bindings import bindings
from nri_scope.tui.model.census import Census
from nri_scope.tui.model.chosen import Chosen
from nri_scope.tui.model.grid import Grid
from nri_scope.tui.model.keys import Scope
from nri_scope.tui.model.line import Line
from nri_scope.tui.model.subjects import Subject, read
from nri_scope.tui.model.tree import Level, Node, Outline, events_of
from nri_scope.tui.model.treelines import FIELDS, life_of, node_line, node_words
from nri_scope.tui.widgets.board import Board, BoardLines, census_of, find_named
from nri_scope.tui.widgets.lines import Lines
from nri_scope.tui.widgets.messages import Failed, Narrow, OpenEvent, Said

_KEPT = 4_096
"""Lines whose names stay in memory."""


class TreeLines(BoardLines, inherit_bindings=False):
    """The lines of a tree; what they can do is the tree's."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.CONTAINERS)

    board: Tree

    def action_expand(self) -> None:
        """Unfold."""
        self.board.unfold()

    def action_collapse(self) -> None:
        """Fold, or go to what it is part of."""
        self.board.fold()

    def action_next_of_container(self) -> None:
        """To the next event of the container."""
        self.board.step(forwards=True)

    def action_previous_of_container(self) -> None:
        """To the previous event of the container."""
        self.board.step(forwards=False)


class _Source:
    """The lines of an outline, made when they are asked for."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def __len__(self) -> int:
        return len(self._tree.outline)

    def __getitem__(self, index: int) -> Line | None:
        return self._tree.line_at(index)


class Tree(Board):
    """Pods and containers. Enter narrows every view to one; on an event, it opens that."""

    body: TreeLines

    def make_body(self) -> TreeLines:
        """With a cursor."""
        made = TreeLines(cursor=True)
        made.board = self
        return made

    def on_mount(self) -> None:
        """Nothing is known yet."""
        super().on_mount()
        self.census: Census = census_of(self.store)
        self.outline = Outline()
        self._chosen = Chosen()
        self._shown_for: tuple[Filter | None, Pod | Container | None] | None = None
        self._subjects: LRUCache[Node, Subject] = LRUCache(_KEPT)
        self._fresh: set[Node] = set()
        """The lines whose names were read since the recording grew."""
        self._grid = Grid.of(FIELDS, 80)
        self._source = _Source(self)
        self._at: Node | None = None
        """The line under the cursor: it keeps the cursor when lines come."""
        self.body.empty = "reading…"
        self.body.show(self._source)

    # -- reading --------------------------------------------------------------------------

    async def work(self) -> None:
        """Read events that are new, then what of it is to be seen."""
        where = self.context.shown()
        key = (where, self.context.about)
        census = census_of(self.store)
        anew = census is not self.census or key != self._shown_for
        if anew:
            self.census, self._shown_for = census, key
            self._chosen = Chosen(where, self.context.about)
        more = True
        while more:
            more = await self.store.run(census.step)
            if census.outdated:
                await self.update()
                return
            if self._chosen.where is None:
                await self._grow(anew=anew)
                anew = False
            self.say_reading(self.part_of(census.newest) if more else "")
        if self._chosen.where is not None:
            await self._filter(anew=anew)
        self._say_empty()

    async def _filter(self, *, anew: bool) -> None:
        chosen, census = self._chosen, self.census
        looked = chosen.newest
        while await self.store.run(lambda recording: chosen.step(recording, census.newest)):
            self.say_reading(f"filtering: {100 * chosen.newest // max(1, census.newest)} %")
            if chosen is not self._chosen:
                return
        if anew or chosen.newest != looked:
            await self._grow(anew=True)

    async def _grow(self, *, anew: bool) -> None:
        """Show what is known by now; what is unfolded stays so."""
        chosen, census, old = self._chosen, self.census, self.outline
        if anew or not chosen.grow(census, old):
            outline = await self.store.run(lambda _: chosen.outline(census))
            for pod in old.folded():
                if outline.position_of(Node(pod)) is not None:
                    outline.set_folded(pod, True)
            opened = [(node, 0) for node, _ in old.opened()]
            if opened:
                await self._extend(outline, opened)
            self.outline = outline
        else:
            await self._extend(old, old.opened())
        self._fresh.clear()
        self._replace()

    async def _extend(self, outline: Outline, opened: list[tuple[Node, int]]) -> None:
        where = self._chosen.where
        for node, newest in opened:
            if outline.position_of(node) is None:
                continue
            numbers = await self._numbers(node, newest, where)
            if newest:
                outline.extend(node, numbers)
            else:
                outline.open(node, numbers)

    async def _numbers(self, node: Node, after: int, where: Filter | None) -> list[int]:
        return await self.store.run(lambda recording: events_of(recording, node, after, where))

    def _replace(self) -> None:
        """The same line under the cursor, wherever it is now; a pod that is new is not gone to."""
        at = self._at
        position = self.outline.position_of(at) if at is not None else None
        self.body.changed()
        if position is not None and position != self.body.cursor:
            self.body.go_to(position)

    def _say_empty(self) -> None:
        words = "no pod or container yet: they appear with the first event that is about one"
        if self.context.shown() is not None:
            what = "the filter matched no" if self.context.where_text else "no marked"
            words = f"{what} event of a pod or container"
        elif not self.store.facts.growing:
            words = "nothing in this recording is about a pod or container"
        if self.body.empty != words:
            self.body.empty = words
            self.body.changed()

    # -- lines ----------------------------------------------------------------------------

    def line_at(self, index: int) -> Line | None:
        """A line; None until its names are read."""
        try:
            node = self.outline.node_at(index)
        except IndexError:
            return ()
        subject = self._subjects.get(node)
        if subject is None:
            return None
        opened = self.outline.is_open(node) if node.level is not Level.EVENT else None
        life = life_of(self.census, node)
        marked = subject.event is not None and self.is_marked(subject.event)
        return node_line(node, subject, life, opened, self._grid, self.now_ns, marked=marked)

    def resized(self) -> None:
        """Other columns."""
        self._grid = Grid.of(FIELDS, self.room)
        self.head.show((self._grid.head(),))

    def _unread(self) -> list[Node]:
        nodes = [self.outline.node_at(index) for index in self.body.seen]
        return [node for node in nodes if node not in self._fresh or node not in self._subjects]

    def needs_look(self) -> bool:
        """Whether names are missing, or were read before the recording grew."""
        return bool(self._unread())

    async def look(self) -> bool:
        """Read the names of what is seen."""
        census, nodes = self.census, self._unread()
        if not nodes:
            return False
        found = await self.store.run(lambda recording: read(recording, census, nodes))
        for node, subject in found.items():
            self._subjects[node] = subject
        self._fresh.update(found)
        # Not only those lines: they may be elsewhere by now.
        self.body.changed()
        self.refresh_words()
        self.tell_row()
        return True

    async def find_line(self, text: str, start: int, *, forwards: bool) -> int | None:
        """By names and ids of pods and containers, whether they were read before or not."""
        end = len(self.outline) if forwards else -1
        steps = range(start, end, 1 if forwards else -1)
        return await find_named(self.store, text, steps, self._node_at)

    def _node_at(self, index: int) -> Node | None:
        return self.outline.node_at(index) if 0 <= index < len(self.outline) else None

    # -- the cursor -----------------------------------------------------------------------

    @property
    def node(self) -> Node | None:
        """What the cursor is on; None where there is nothing."""
        cursor = self.body.cursor
        return self.outline.node_at(cursor) if cursor < len(self.outline) else None

    @property
    def selected(self) -> Pod | Container | None:
        """The pod or container under the cursor, an event's container included; None: none, or
        its name is still being read.
        """
        node = self.node
        if node is None:
            return None
        above = Node(node.pod, node.container)
        subject = self._subjects.get(above)
        return None if subject is None else subject.container or subject.pod

    @property
    def selected_event_id(self) -> int | None:
        """The event under the cursor; of a pod or container its newest one."""
        node = self.node
        if node is None:
            return None
        return node.event or life_of(self.census, node).last_event or None

    def words(self) -> Sequence[Line]:
        """About the line under the cursor."""
        node = self.node
        subject = self._subjects.get(node) if node is not None else None
        if node is None or subject is None:
            return ()
        return (node_words(node, subject, life_of(self.census, node), self.now_ns),)

    def cursor_moved(self) -> None:
        """Remember what it is on."""
        self._at = self.node
        super().cursor_moved()

    def on_lines_opened(self, message: Lines.Opened) -> None:
        """Enter: narrow to a pod or container, or open an event."""
        message.stop()
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

    def unfold(self) -> None:
        """Unfold what is under the cursor."""
        node = self.node
        if node is None or node.level is Level.EVENT or self.outline.is_open(node):
            return
        if node.level is Level.POD:
            self.outline.set_folded(node.pod, False)
            self.body.changed()
        else:
            self.begin("open", partial(self._open, node))

    def fold(self) -> None:
        """Fold what is under the cursor, or go to what it is part of."""
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
        try:
            numbers = await self._numbers(node, 0, self._chosen.where)
        except NriScopeError as error:
            self.post_message(Failed(error))
            return
        if self.outline.position_of(node) is not None:
            self.outline.open(node, numbers)
            self.body.changed()

    def step(self, *, forwards: bool) -> None:
        """To the next or previous event of the container under the cursor, unfolding it."""
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
            self.post_message(Said(f"no {word} event of this container"))
