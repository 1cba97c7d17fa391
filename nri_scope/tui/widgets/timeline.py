# SPDX-License-Identifier: Apache-2.0
"""The lives of pods and containers to scale."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.cache import LRUCache

from nri_scope.errors import NriScopeError
from nri_scope.recorder.filter import Filter
from nri_scope.recorder.model import Container, Pod
from nri_scope.tui.bindings import bindings
from nri_scope.tui.model.census import Census
from nri_scope.tui.model.chosen import Chosen
from nri_scope.tui.model.keys import Scope
from nri_scope.tui.model.lanes import (
    Lanes,
    axis_line,
    label,
    legend,
    life_line,
    near,
    point_line,
    ruled,
)
from nri_scope.tui.model.line import Line
from nri_scope.tui.model.points import Points, next_point, read_points
from nri_scope.tui.model.subjects import Subject, read
from nri_scope.tui.model.timeline import Interval, Point, Window, joined, lane, pack, unobserved
from nri_scope.tui.model.tree import Node
from nri_scope.tui.model.treelines import life_of
from nri_scope.tui.widgets.board import Board, BoardLines, census_of, find_named
from nri_scope.tui.widgets.lines import Lines
from nri_scope.tui.widgets.messages import Failed, OpenEvent, Said

_KEPT = 4_096
"""Lanes whose names stay in memory."""
_REST = 10
"""So many times as long as it took to put all lanes together, they are not put together again."""
_NEWEST = (1 << 63) - 1


class TimelineLines(BoardLines, inherit_bindings=False):
    """The lanes; what they can do is the timeline's."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.TIMELINE)

    board: Timeline

    def action_pan_left(self) -> None:
        """The cursor one column earlier."""
        self.board.move(-1)

    def action_pan_right(self) -> None:
        """The cursor one column later."""
        self.board.move(1)

    def action_page_left(self) -> None:
        """Half a screen earlier."""
        self.board.pan(-1)

    def action_page_right(self) -> None:
        """Half a screen later."""
        self.board.pan(1)

    def action_zoom_in(self) -> None:
        """Half as much time."""
        self.board.zoom(closer=True)

    def action_zoom_out(self) -> None:
        """Twice as much time."""
        self.board.zoom(closer=False)

    def action_zoom_all(self) -> None:
        """The whole time."""
        self.board.zoom_all()

    def action_next_of_container(self) -> None:
        """To the next event of the lane."""
        self.board.step(forwards=True)

    def action_previous_of_container(self) -> None:
        """To the previous event of the lane."""
        self.board.step(forwards=False)

    def on_click(self, event: events.Click) -> None:
        """The cursor goes there, in time too."""
        super().on_click(event)
        self.board.go_to_column(event.x - self.board.margin)


class _Source:
    """The lanes as lines, made when they are asked for."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def __len__(self) -> int:
        return len(self._timeline.packed)

    def __getitem__(self, index: int) -> Line | None:
        return self._timeline.line_at(index)


class Timeline(Board):
    """One lane for each pod and container. Enter opens the event that the cursor is nearest to."""

    FOOT_LINES: ClassVar[int] = 3
    body: TimelineLines

    def make_body(self) -> TimelineLines:
        """With a cursor."""
        made = TimelineLines(cursor=True)
        made.board = self
        return made

    def on_mount(self) -> None:
        """Nothing is known yet."""
        super().on_mount()
        self.census: Census = census_of(self.store)
        self.packed: array[int] = array("q")
        """The numbers of the lanes that have something in the window."""
        self.window = Window(0, 10**9)
        self.whole = self.window
        self.at_ns = 0
        """The cursor's moment."""
        self._event = 0
        """The event that was gone to; 0 once the cursor moved on."""
        self._lanes = self._known = Lanes()
        """Those that are drawn, and those that will be once it is known which are in the window."""
        self._chosen = Chosen()
        self._shown_for: tuple[Filter | None, Pod | Container | None] | None = None
        self._again_at = 0.0
        self._is_whole = True
        self._blind: tuple[Interval, ...] = ()
        self._subjects: LRUCache[Node, Subject] = LRUCache(_KEPT)
        self._points: dict[Node, Points] = {}
        self._current: set[Node] = set()
        """The lanes whose points are those of the window."""
        self._at: Node | None = None
        self.body.empty = "reading…"
        self.body.show(_Source(self))

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
            self._is_whole = True
        gaps = await self.store.run(lambda recording: recording.gaps())
        self._blind = unobserved(self.store.sessions, gaps)
        more = True
        while more:
            more = await self.store.run(census.step)
            if census.outdated:
                await self.update()
                return
            self.say_reading(self.part_of(census.newest) if more else "")
        chosen = self._chosen
        while await self.store.run(lambda recording: chosen.step(recording, census.newest)):
            self.say_reading(f"filtering: {100 * chosen.newest // max(1, census.newest)} %")
        if not anew and time.monotonic() < self._again_at:
            self.set_timer(max(0.1, self._again_at - time.monotonic()), self.update)
            return
        began = time.monotonic()
        lanes = self._known = await self.store.run(lambda _: Lanes.of(census, chosen))
        self._again_at = began + _REST * (time.monotonic() - began)
        whole = lanes.whole(self.now_ns)
        if whole is not None:
            self.whole = whole
        self.window = self.whole if self._is_whole else self.window.within(self.whole)
        self._current.clear()
        if not self.window.shows(self.at_ns):
            first = min(filter(None, lanes.first_ns), default=0)
            shown = self.window.shows(first)
            self.at_ns = first if shown else self.window.middle(0, self.width)
        await self._pack()
        self._say_empty()

    def _show(self, window: Window) -> None:
        """Draw another window, with what is known of it already."""
        self.window = window
        self._current.clear()
        self._redraw()
        self.begin("pack", self._pack)

    async def _pack(self) -> None:
        """Leave out lanes without anything in the window; keep the cursor's lane."""
        window, lanes = self.window, self._known
        try:
            packed = await self.store.run(lambda _: pack(lanes, window))
        except NriScopeError as error:
            self.post_message(Failed(error))
            return
        at = self._at
        self._lanes, self.packed = lanes, packed
        self.body.changed()
        if at is not None and at != self.node:
            number = lanes.number_of(at)
            # What it was in is the next best: lanes are in order.
            here = 0 if number is None else _place(packed, number)
            self.body.go_to(here)
            self._at = self.node
        self._redraw()

    def _say_empty(self) -> None:
        words = "no pod or container yet: they appear with the first event that is about one"
        if len(self._known):
            key = self.keymap.first("zoom_all")
            words = f"nothing was there at this time; {key} shows the whole time"
        elif self.context.shown() is not None:
            what = "the filter matched no" if self.context.where_text else "no marked"
            words = f"{what} event of a pod or container"
        elif not self.store.facts.growing:
            words = "nothing in this recording is about a pod or container"
        if self.body.empty != words:
            self.body.empty = words
            self.body.changed()

    def _seen(self) -> list[Node]:
        return [self._lanes.node(self.packed[index]) for index in self.body.seen]

    def needs_look(self) -> bool:
        """Whether names are missing, or events of this window."""
        return any(node not in self._subjects or node not in self._current for node in self._seen())

    async def look(self) -> bool:
        """Read names and events of the lanes that are seen."""
        census, window, width, where = self.census, self.window, self.width, self._chosen.where
        seen = self._seen()
        unnamed = [node for node in seen if node not in self._subjects]
        old = [node for node in seen if node not in self._current]
        if not unnamed and not old:
            return False
        names = await self.store.run(lambda recording: read(recording, census, unnamed))
        for node, subject in names.items():
            self._subjects[node] = subject
        points = await self.store.run(
            lambda recording: read_points(recording, census, old, window, width, where)
        )
        if window == self.window and width == self.width and where is self._chosen.where:
            # Only those of this window: others would be wrong soon.
            kept = {node: known for node, known in self._points.items() if node in self._current}
            self._points = {**kept, **points} if len(kept) < _KEPT else points
            self._current = set(self._points)
        self._redraw()
        self.tell_row()
        return True

    # -- drawing --------------------------------------------------------------------------

    @property
    def margin(self) -> int:
        """Columns of the names."""
        return min(36, max(10, self.room // 4)) + 1

    @property
    def width(self) -> int:
        """Columns of the lanes."""
        return max(1, self.room - self.margin)

    @property
    def column(self) -> int:
        """The cursor's."""
        return self.window.column(self.at_ns, self.width)

    def line_at(self, index: int) -> Line | None:
        """A lane; None until its name is read."""
        if index >= len(self.packed):
            return ()
        node = self._lanes.node(self.packed[index])
        subject = self._subjects.get(node)
        if subject is None:
            return None
        points = self._points.get(node)
        cells = lane(
            life_of(self.census, node),
            points.points if points is not None else (),
            self.window,
            self.width,
            until_ns=self.now_ns,
            blind=self._blind,
        )
        name = label(node, subject, self.margin - 1)
        return (name, *joined([name._replace(text=" "), *ruled(cells, self.column)]))

    def resized(self) -> None:
        """Other columns."""
        self._current.clear()
        self._redraw()

    def _redraw(self) -> None:
        self.head.show((axis_line(self.window, self.width, self.column, self.margin),))
        self.body.changed()
        self.refresh_words()

    def words(self) -> Sequence[Line]:
        """The event that the cursor is nearest to, the lane's life, and the signs."""
        node = self.node
        subject = self._subjects.get(node) if node is not None else None
        if node is None or subject is None:
            return ()
        points = self._points.get(node, Points())
        return (
            point_line(points, self.point, self.window, self.width),
            life_line(subject, life_of(self.census, node), self.now_ns),
            legend(),
        )

    async def find_line(self, text: str, start: int, *, forwards: bool) -> int | None:
        """By names and ids of pods and containers, of those that have lanes now."""
        end = len(self.packed) if forwards else -1
        steps = range(start, end, 1 if forwards else -1)
        return await find_named(self.store, text, steps, self._node_at)

    def _node_at(self, index: int) -> Node | None:
        if not 0 <= index < len(self.packed):
            return None
        return self._lanes.node(self.packed[index])

    # -- the cursor -----------------------------------------------------------------------

    @property
    def node(self) -> Node | None:
        """The lane under the cursor; None where there is none."""
        cursor = self.body.cursor
        return self._lanes.node(self.packed[cursor]) if cursor < len(self.packed) else None

    @property
    def selected(self) -> Pod | Container | None:
        """Whose lane it is; None: none, or its name is still being read."""
        node = self.node
        subject = self._subjects.get(node) if node is not None else None
        return None if subject is None else subject.container or subject.pod

    @property
    def point(self) -> Point | None:
        """The event of the lane that the cursor is nearest to."""
        node = self.node
        points = self._points.get(node) if node is not None else None
        return near(points, self.at_ns, self._event)

    @property
    def selected_event_id(self) -> int | None:
        """That event's number."""
        point = self.point
        return point.event if point is not None else None

    def cursor_moved(self) -> None:
        """Another lane."""
        self._at = self.node
        self._event = 0
        super().cursor_moved()

    def on_lines_opened(self, message: Lines.Opened) -> None:
        """Enter: open the event."""
        message.stop()
        number = self.selected_event_id
        if number is not None:
            self.post_message(OpenEvent(number))

    def go_to_column(self, column: int) -> None:
        """The cursor to a column that is on the screen."""
        if 0 <= column < self.width:
            self._go(self.window.middle(column, self.width))

    def move(self, by: int) -> None:
        """The cursor so many columns later."""
        at_ns = self.window.middle(self.column + by, self.width)
        if self.whole.shows(at_ns):
            self._go(at_ns)

    def _go(self, at_ns: int, event: int = 0) -> None:
        """The cursor to a moment, with the window around it where it is not in it."""
        window = self.window
        if not window.shows(at_ns):
            # Some columns stay, so that one sees where one came from.
            by = window.span // 2 if window.from_ns <= at_ns < window.to_ns + window.span else 0
            by = -by if at_ns < window.from_ns else by
            moved = window.moved(self.whole, by)
            if not moved.shows(at_ns):
                moved = window.moved(self.whole, at_ns - window.from_ns - window.span // 2)
            self._is_whole = False
            self.at_ns, self._event = at_ns, event
            self._show(moved)
        else:
            self.at_ns, self._event = at_ns, event
            self._redraw()
        self.tell_row()

    def pan(self, by: int) -> None:
        """Half a screen later, or earlier; the cursor keeps its column as far as it can."""
        column = self.column
        window = self.window.moved(self.whole, by * self.window.span // 2)
        if window == self.window:
            return
        self._is_whole = False
        self.at_ns, self._event = window.middle(column, self.width), 0
        self._show(window)

    def zoom(self, *, closer: bool) -> None:
        """Half or twice as much time around the cursor."""
        window = self.window.zoomed(self.whole, self.at_ns, closer=closer)
        if window != self.window:
            self._is_whole = window == self.whole
            self._show(window)

    def zoom_all(self) -> None:
        """The whole time."""
        self._is_whole = True
        self._show(self.whole)

    def step(self, *, forwards: bool) -> None:
        """To the lane's next or previous event."""
        node = self.node
        if node is not None:
            self.begin("step", partial(self._step, node, forwards))

    async def _step(self, node: Node, forwards: bool) -> None:
        point, where = self.point, self._chosen.where
        start = point.event if point is not None else 0 if forwards else _NEWEST
        try:
            found = await self.store.run(
                lambda recording: next_point(recording, node, start, where, forwards=forwards)
            )
        except NriScopeError as error:
            self.post_message(Failed(error))
            return
        if found is None:
            word = "later" if forwards else "earlier"
            self.post_message(Said(f"no {word} event in this lane"))
        else:
            self._go(found[1], found[0])


def _place(packed: array[int], number: int) -> int:
    """Where a lane is among those that are shown, or the one before it."""
    here = 0
    for place, one in enumerate(packed):
        if one > number:
            break
        here = place
    return here
