# SPDX-License-Identifier: Apache-2.0
"""The timeline: lifetimes of pods and containers, to scale."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial, partialmethod
from typing import ClassVar

from textual import events
from textual.binding import BindingType

from nri_scope.filter.moments import range_text
from nri_scope.recording.query.subject_queries import next_event

from ..actions import Scope, bindings
from ..containers.census_board import CensusBoard
from ..containers.outline import TreeNode
from ..containers.outline_lines import SubjectDetails, life_of, read
from ..text.styled_line import Style, StyledLine, line
from ..widgets.board import GUTTER, BoardLines
from ..widgets.messages import AddToFilter, OpenEvent, StatusText
from .lane_drawing import (
    LanePoint,
    TimeInterval,
    TimeWindow,
    joined_cells,
    lane_cells,
    lanes_within,
)
from .lanes import (
    LanePoints,
    TimelineLanes,
    axis_line,
    label,
    legend,
    life_line,
    near,
    no_event_words,
    point_line,
    read_points,
    ruled,
)


class TimelineLines(BoardLines, inherit_bindings=False):
    """Lines of the lanes, which report the clicked column."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.TIMELINE, of_lines=True)

    on_column: Callable[[int], None] = lambda _: None
    on_end: Callable[[int], None] = lambda _: None
    """Called to move the cursor to the first time (0) or the last one (-1)."""

    def action_home(self) -> None:
        """Go to the first time."""
        self.on_end(0)

    def action_end(self) -> None:
        """Go to the last time."""
        self.on_end(-1)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked line and time."""
        super().on_click(event)
        self.on_column(event.x - GUTTER)


_CACHED_LANES = 4_096
"""Maximum number of lanes whose events are cached."""
_PAUSE_FACTOR = 10
"""Pause before building all lanes again, as a multiple of the time that building took."""
_NEWEST = (1 << 63) - 1


class TimelineBoard(CensusBoard):
    """Timeline with one lane per pod and container.

    Enter opens the event nearest to the cursor.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.TIMELINE, of_lines=False)
    BODY = TimelineLines
    FOOT_LINES: ClassVar[int] = 4
    body: TimelineLines

    def on_mount(self) -> None:
        """Start empty."""
        self.body.on_column = self._go_to_column
        self.body.on_end = self._go_to_end
        self.packed: array[int] = array("I")
        """Indices of the drawn lanes."""
        self._has_lives = True
        """Whether any lane has content in the window."""
        self.window = TimeWindow(0, 10**9)
        self.whole = self.window
        self.at_ns = 0
        """The cursor's time."""
        self._event = 0
        """The event to which the cursor jumped; 0 after another move."""
        self._lanes = self._new_lanes = TimelineLanes()
        """The drawn lanes, and the newest ones, which are drawn after `_pack`."""
        self._next_build_s = 0.0
        self._is_whole = True
        self._filters = False
        """Whether the next filter is that of the window."""
        self._filtered: TimeWindow | None = None
        """The window to which the views are filtered, if the filter was made from it."""
        self._unobserved: list[TimeInterval] = []
        self._points: dict[TreeNode, LanePoints] = {}
        self._current: set[TreeNode] = set()
        """Lanes whose points have been read for the current window."""
        self._state: tuple[object, ...] = ()
        """State of the data from which lanes were last built."""
        self._now_ns = 0
        """`now_ns` when lanes were last built."""

    # -- reading --------------------------------------------------------------------------

    def begin_anew(self) -> None:
        """Return to the whole time range, unless the window has become the filter."""
        self._filtered = self.window if self._filters else None
        self._is_whole, self._filters = not self._filters, False

    async def read(self, *, anew: bool, found: bool) -> None:
        """Build the lanes from the data read."""
        census, chosen = self.census, self.chosen
        gaps = await self.store.run(lambda recording: recording.gaps())
        self._unobserved = [
            TimeInterval(gap.from_ns, max(gap.to_ns, gap.from_ns + 1)) for gap in gaps
        ]
        state = (census.scan.newest, len(census.pods), len(census.containers), len(gaps))
        if not anew and state == self._state and self.now_ns == self._now_ns:
            return
        if not anew and time.monotonic() < self._next_build_s:
            self.set_timer(max(0.1, self._next_build_s - time.monotonic()), self.update)
            return
        began, self._now_ns = time.monotonic(), self.now_ns
        lanes = self._new_lanes
        if anew or state != self._state:
            self._state = state
            lanes = self._new_lanes = await self.store.run(
                lambda _: TimelineLanes.of(census, chosen)
            )
        self._next_build_s = began + _PAUSE_FACTOR * (time.monotonic() - began)
        ends = lanes.ends(self._now_ns)
        if ends is not None:
            whole = TimeWindow.around(*ends)
            self.whole = whole if self._filtered is None else whole.joined(self._filtered)
        self.window = self.whole if self._is_whole else self.window.within(self.whole)
        self._current.clear()
        if not self.window.shows(self.at_ns):
            first = min(filter(None, lanes.first_ns), default=0)
            shown = self.window.shows(first)
            self.at_ns = first if shown else self.window.middle(0, self.width)
        await self._pack()
        self.explain_empty()

    def _show(self, window: TimeWindow) -> None:
        """Switch to a window: draw its known content, then read the rest."""
        self.window = window
        self._current.clear()
        self._redraw()
        self.begin("pack", self._pack)

    async def _pack(self) -> None:
        """Select the lanes with content in the window, keeping the cursor's lane if possible.

        If there are none, all lanes are selected, so that the view stays recognizable.
        """
        window, lanes = self.window, self._new_lanes
        packed = await self.store.run(lambda _: lanes_within(lanes, window))
        at = self.kept
        self._lanes, self.packed = lanes, packed or array("q", range(len(lanes)))
        self._has_lives = bool(packed)
        self.body.changed()
        if at is not None and at != self.node:
            number = lanes.number_of(at)
            # If its lane is omitted, go to the previous one, such as its pod's.
            here = 0 if number is None else bisect_right(packed, number) - 1
            self.body.go_to(max(0, here))
            self.kept = self.node
        self._redraw()

    def _visible_lanes(self) -> list[TreeNode]:
        return [self._lanes.node(self.packed[index]) for index in self.body.visible_lines]

    def is_missing_data(self) -> bool:
        """Return whether names of visible lanes, or their events, are missing."""
        return any(
            node not in self.subjects or node not in self._current for node in self._visible_lanes()
        )

    async def read_missing(self) -> bool:
        """Read names and events of the visible lanes."""
        census, window, width, where = self.census, self.window, self.width, self.chosen.where
        seen = self._visible_lanes()
        unnamed = [node for node in seen if node not in self.subjects]
        old = [node for node in seen if node not in self._current]
        if not unnamed and not old:
            return False
        names = await self.store.run(lambda recording: read(recording, census, unnamed))
        for node, subject in names.items():
            self.subjects[node] = subject
        points = await self.store.run(
            lambda recording: read_points(recording, old, window, width, where)
        )
        if window == self.window and width == self.width and where is self.chosen.where:
            # Keep only points of this window.
            kept = {node: known for node, known in self._points.items() if node in self._current}
            self._points = {**kept, **points} if len(kept) < _CACHED_LANES else points
            self._current = set(self._points)
        self._redraw()
        self.report_row()
        return True

    # -- drawing --------------------------------------------------------------------------

    @property
    def margin(self) -> int:
        """Width of the names in columns."""
        return min(48, max(10, self.room // 4)) + 1

    @property
    def width(self) -> int:
        """Width of the lanes in columns."""
        return max(1, self.room - self.margin)

    @property
    def column(self) -> int:
        """The cursor's column."""
        return self.window.column(self.at_ns, self.width)

    @property
    def line_count(self) -> int:
        """Number of drawn lanes."""
        return len(self.packed)

    def node_at(self, index: int) -> TreeNode | None:
        """Return the node of a lane."""
        return self._lanes.node(self.packed[index]) if 0 <= index < len(self.packed) else None

    def line_at(self, index: int) -> StyledLine | None:
        """Return the line of a lane; None if its name has not been read."""
        if index >= len(self.packed):
            return ()
        node = self._lanes.node(self.packed[index])
        subject = self.subjects.get(node)
        if subject is None:
            return None
        points = self._points.get(node)
        cells = lane_cells(
            life_of(self.census, node),
            points.points if points is not None else (),
            self.window,
            self.width,
            until_ns=self.now_ns,
            blind=self._unobserved,
        )
        name = label(node, subject, self.margin - 1)
        return (name, *joined_cells([name._replace(text=" "), *ruled(cells, self.column)]))

    def resized(self) -> None:
        """Redraw the lanes for the new width."""
        self._current.clear()
        self._redraw()

    def _redraw(self) -> None:
        # Without a known start, there is no time to show.
        known = len(self._lanes) > 0 and any(self._lanes.first_ns)
        axis = axis_line(self.window, self.width, self.column, self.margin) if known else ()
        self.head.show((axis,))
        self.body.changed()
        self.refresh_remarks()

    def remarks_on(self, node: TreeNode, subject: SubjectDetails) -> Sequence[StyledLine]:
        """Describe the event nearest to the cursor and the lane's lifetime; add the legend."""
        points, point = self._points.get(node, LanePoints()), self.point
        if point is None:
            words = no_event_words(
                "container" if node.container else "pod",
                matched=self._lanes.matched,
                is_filtered=bool(self.context.where_text),
                has_lives=self._has_lives,
                is_whole=self.window == self.whole,
            )
            nearest = line(self.store.facts.coverage.limited(words), Style.WARN)
        else:
            nearest = point_line(points, point, self.window, self.width)
        return (nearest, life_line(subject, life_of(self.census, node), self.now_ns), *legend())

    def legend(self) -> Sequence[StyledLine]:
        """Return the legend of signs and lines, which a narrow screen cuts below the lanes."""
        return legend()

    # -- the cursor -----------------------------------------------------------------------

    @property
    def point(self) -> LanePoint | None:
        """The lane's event nearest to the cursor; None if there is none."""
        node = self.node
        points = self._points.get(node) if node is not None else None
        return near(points, self.at_ns, self._event)

    @property
    def selected_event_id(self) -> int | None:
        """Number of the event nearest to the cursor."""
        point = self.point
        return point.event if point is not None else None

    def cursor_moved(self) -> None:
        """Handle a move of the cursor to another lane."""
        self._event = 0
        super().cursor_moved()

    def open_line(self) -> None:
        """Open the event nearest to the cursor."""
        number = self.selected_event_id
        if number is not None:
            self.post_message(OpenEvent(number))

    def _go_to_column(self, column: int) -> None:
        """Move the cursor to a column of the line, whose first columns are the name."""
        if 0 <= column - self.margin < self.width:
            self._go(self.window.middle(column - self.margin, self.width))

    def _go_to_end(self, end: int) -> None:
        """Move the cursor to the first time (0) or the last one (-1) of all lanes."""
        ends = self._new_lanes.ends(self._now_ns)
        if ends is not None:
            self._go(ends[end])

    def _move(self, by: int) -> None:
        """Move the cursor by ``by`` columns."""
        at_ns = self.window.middle(self.column + by, self.width)
        if self.whole.shows(at_ns):
            self._go(at_ns)

    def _go(self, at_ns: int, event: int = 0) -> None:
        """Move the cursor to a time, and the window if the time is outside."""
        self.at_ns, self._event = at_ns, event
        if self.window.shows(at_ns):
            self._redraw()
        else:
            self._is_whole = False
            self._show(self.window.moved_to(self.whole, at_ns))
        self.report_row()

    def go_to(self, at_ns: int) -> bool:
        """Go to a time; return False if it is outside."""
        if not self.whole.shows(at_ns):
            return False
        self._go(at_ns)
        return True

    def action_filter_window(self) -> None:
        """Filter all views by the window, to four digits of its length."""
        # The window gets the limits of the filter, so that it shows exactly the filtered events.
        self.window = self.window.rounded()
        self._filters = True
        text = range_text(self.window.from_ns, self.window.to_ns, self.store.facts.span)
        self.post_message(AddToFilter(f"time:{text}", out=False))

    def _pan(self, by: int) -> None:
        """Move the window by half a screen; the cursor keeps its column if possible."""
        column = self.column
        window = self.window.moved(self.whole, by * self.window.span // 2)
        if window == self.window:
            return
        self._is_whole = False
        self.at_ns, self._event = window.middle(column, self.width), 0
        self._show(window)

    def _zoom(self, *, closer: bool) -> None:
        """Halve (``closer``) or double the window around the cursor."""
        window = self.window.zoomed(self.whole, self.at_ns, closer=closer)
        if window != self.window:
            self._is_whole = window == self.whole
            self._show(window)

    def action_zoom_all(self) -> None:
        """Show the whole time range."""
        self._is_whole = True
        self._show(self.whole)

    def _go_on(self, *, forwards: bool) -> None:
        """Go to the lane's next or previous event."""
        node = self.node
        if node is not None:
            self.begin("step", partial(self._step, node, forwards))

    async def _step(self, node: TreeNode, forwards: bool) -> None:
        point, where = self.point, self.chosen.where
        start = point.event if point is not None else 0 if forwards else _NEWEST
        following = await self.store.run(
            lambda recording: next_event(
                recording, (node.pod, node.container), start, where, forwards=forwards
            )
        )
        if following is None:
            word = "later" if forwards else "earlier"
            kind = "container" if node.container else "pod"
            self.post_message(StatusText(f"no {word} event of this {kind}"))
        else:
            self._go(following[1], following[0])

    def action_page_left(self) -> None:
        """Move the window to the left."""
        self._pan(-1)

    def action_page_right(self) -> None:
        """Move the window to the right."""
        self._pan(1)

    action_pan_left = partialmethod(_move, -1)
    action_pan_right = partialmethod(_move, 1)
    action_zoom_in = partialmethod(_zoom, closer=True)
    action_zoom_out = partialmethod(_zoom, closer=False)
    action_next_of_container = partialmethod(_go_on, forwards=True)
    action_previous_of_container = partialmethod(_go_on, forwards=False)
