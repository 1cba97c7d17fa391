# SPDX-License-Identifier: Apache-2.0
"""The list of events, which draws only visible rows and reads only rows near them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.cache import LRUCache
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer

from nri_scope.events import Event, is_set_up
from nri_scope.filter.fields import BY_NAME
from nri_scope.filter.tree import Matches, quote
from nri_scope.specs import label
from nri_scope.text.quantities import duration

from ..actions import Scope, bindings
from ..store.markers import RowKey
from ..store.rows import COLUMNS, POSITION, ListRow, RowKind, RowStyle
from ..store.store import Store
from ..store.view import View
from ..text.filter_text import check
from ..widgets.messages import AddToFilter, RowChosen, RowOpened, StatusText, ToggleOperations
from .columns import longest, place
from .row_painter import GUTTER, PREFIX, EventHeader, RowPainter
from .row_reader import RowReader
from .scroll_state import FollowState, RowWindow, ScrollState

_CACHED_STRIPS = 256
_DRAW_DELAY_S = 0.03
"""Seconds to wait for rows before they are drawn as placeholders."""


class EventList(RowWindow, can_focus=True, inherit_bindings=False):
    """The list of a view's rows, positioned by a `ScrollState`."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.EVENTS)
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(f"{PREFIX}{name}" for name in ("cursor", "field", "dim", "mark", "match")),
        *(f"{PREFIX}{style}" for style in RowStyle),
    }
    DEFAULT_CSS = """
    EventList { background: $background; color: $foreground; scrollbar-size-vertical: 1;
                overflow-x: hidden; }
    EventList > .event-list--changed { color: $text-accent; }
    EventList > .event-list--slow { color: $text-warning; }
    EventList > .event-list--timeout { color: $text-error; text-style: bold; }
    EventList > .event-list--error { color: $text-error; text-style: bold; }
    EventList > .event-list--odd { color: $text-warning; }
    EventList > .event-list--gap { color: $text-warning; text-style: bold; }
    EventList > .event-list--session { color: $text-primary; }
    EventList > .event-list--damaged { color: $text-error; text-style: bold; }
    EventList > .event-list--gone { color: $text-muted; text-style: italic; }
    EventList > .event-list--dim { color: $text-muted; }
    EventList > .event-list--mark { color: $text-accent; text-style: bold; }
    EventList > .event-list--match { text-style: reverse; }
    EventList > .event-list--field { text-style: underline; }
    EventList > .event-list--cursor { background: $block-cursor-blurred-background; }
    EventList:focus > .event-list--cursor { background: $block-cursor-background;
                                            color: $block-cursor-foreground; }
    EventList:nocolor > .event-list--cursor { text-style: reverse; }
    """

    class Moved(Message):
        """The window, the cursor or the follow state changed."""

    def __init__(
        self,
        store: Store,
        *,
        follows: bool,
        header: EventHeader,
        grouped: bool = False,
        is_marked: Callable[[ListRow], bool] = lambda row: False,
        grows: Callable[[], bool] = lambda: True,
    ) -> None:
        """Create the list. ``is_marked``: predicate for marked rows; see `refresh_marks`.

        ``grouped``: begin with a row for each operation. ``grows`` returns whether new events may
        still arrive.
        """
        super().__init__()
        self.store = store
        self.listing = ScrollState(store.grouping.view if grouped else store.all, follows=follows)
        self.grows = grows
        self._header = header
        self._painter = RowPainter(self)
        self._painter.field = "subject"
        self._reader = RowReader(self, store, is_marked, self._rows_read)
        self._rows = self._reader.rows
        self._strips: LRUCache[tuple[RowKey, bool], Strip] = LRUCache(_CACHED_STRIPS)
        self._reported: tuple[RowKey | None, ListRow | None] | None = None
        self._widest_id = 0
        self._placed_for = ""
        """`View.noun` for which the columns were placed."""
        self._delayed_draw: Timer | None = None
        self._reads_after_draw = False
        """Whether to read the rows around the screen once it has been drawn."""
        self._has_drawn = False
        """Whether all rows of a screen have been drawn."""
        self.drawn: Callable[[], object] = lambda: None
        """Callback while all rows of a screen are drawn for the first time."""

    # -- for other widgets --------------------------------------------------------------------

    @property
    def view(self) -> View:
        """The current view."""
        return self.listing.view

    @property
    def selected_event_id(self) -> int | None:
        """Number of the event under the cursor; None if there is none."""
        return self.listing.selected_event

    @property
    def selected_events(self) -> Sequence[int]:
        """The event under the cursor, or all events of the operation; () if there is none."""
        key = self.listing.selected
        if key is None or not key.is_event:
            return ()
        return self.view.events_of(key.event) if key.is_event == 1 else (key.event,)

    @property
    def selected_row(self) -> ListRow | None:
        """The row under the cursor; None if it has not been read or the view is empty."""
        key = self.listing.selected
        return self._rows.get(key) if key is not None else None

    @property
    def search_text(self) -> str:
        """The highlighted text; "" for none."""
        return self._painter.search_text

    @search_text.setter
    def search_text(self, text: str) -> None:
        self._painter.search_text = text
        self.restyle()

    def show(self, view: View) -> None:
        """Show another view, at the selected row or the nearest one."""
        if (view.groups is None) != (self.view.groups is None):
            # Rows of operations and events have the same keys.
            self._rows.clear()
            selected = self.selected_event_id
            self.listing.show(view)
            if selected is not None and self.listing.state is not FollowState.FOLLOWING:
                self.listing.go_to(view.position_of(selected))
            self._place_columns()
        else:
            if view is not self.view:
                # The time since the event before may differ.
                self._rows.outdate(events=True)
            self.listing.show(view)
        self._moved()

    def grow(self, *, between: bool = False, events: bool = False) -> None:
        """Show the view's new rows; ``between``: markers, or with ``events`` all rows, may have
        changed.
        """
        if self.view.groups is not None:
            self._rows.outdate_events(self.view.groups.take_touched())
        if self.view.noun != self._placed_for:
            self._place_columns()
        if between or events:
            self._rows.outdate(events=events)
            self._strips.clear()
            self._place_columns()
        self.listing.grow()
        self._moved()

    def go_to(self, position: int) -> None:
        """Move the cursor to the row at ``position``."""
        self.listing.go_to(position)
        self._moved()

    def go_to_event(self, event_id: int) -> bool:
        """Move the cursor to an event; return False if it is not in the view."""
        if not self.view.shows(event_id):
            return False
        self.go_to(self.view.position_of(event_id))
        return True

    def refresh_marks(self) -> None:
        """Redraw after marks or comments have changed."""
        self._reader.refresh_marks()
        self._reported = None
        self.restyle()
        self._report_row()

    def restyle(self) -> None:
        """Redraw everything, for a new theme or a new highlighted text."""
        self._strips.clear()
        self.refresh()
        self._read_missing()

    # -- drawing ------------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw rows of the screen, and then read those around it."""
        strips = super().render_lines(crop)
        if self._reads_after_draw:
            self._reads_after_draw = False
            self.call_later(self._read_missing)
        if not self._has_drawn and self._strips and not self._is_missing_rows():
            self._has_drawn = True
            self.drawn()
        return strips

    def render_line(self, y: int) -> Strip:
        """Draw row ``y`` of the screen."""
        width = self.scrollable_content_region.width
        position = self.listing.top + y
        blank = self.rich_style
        if y >= self.listing.height or position >= self.listing.length:
            return Strip.blank(width, blank)
        try:
            key = self.view.key_at(position)
        except IndexError:
            return Strip.blank(width, blank)
        at_cursor = position == self.listing.cursor
        row = self._rows.get(key)
        if row is None:
            return self._painter.placeholder(at_cursor=at_cursor, width=width)
        strip = self._strips.get((key, at_cursor))
        if strip is None:
            strip = self._painter.strip(row, at_cursor=at_cursor, width=width)
            self._strips[key, at_cursor] = strip
        return strip

    # -- reading ------------------------------------------------------------------------------

    def _read_missing(self) -> None:
        """Start reading missing rows on the screen, and then around it."""
        self._reader.read_missing(self.view, self.listing.top, self.listing.height)

    def _is_missing_rows(self) -> bool:
        top = self.listing.top
        return self._rows.missing(self.view, top, top + self.listing.height) is not None

    def _rows_read(self, view: View, rows: Sequence[ListRow]) -> None:
        if view is not self.view:
            self._rows.outdate(events=True)
        self._drop_strips(rows)
        top = self.listing.top
        bottom = min(top + self.listing.height, self.view.length)
        on_screen = {self.view.key_at(position) for position in range(top, bottom)}
        drawn = any(row.key in on_screen for row in rows)
        if drawn:
            self._draw()
        self._report_row()
        if drawn:
            # The reading thread would compete with drawing.
            self._reads_after_draw = True
        elif rows or view is not self.view:
            self._read_missing()

    def _drop_strips(self, rows: Sequence[ListRow]) -> None:
        widest = max((len(str(row.event.id)) for row in rows if row.event), default=0)
        if widest > self._widest_id:
            self._widest_id = widest
            self._place_columns()
            self.refresh()
        for row in rows:
            for at_cursor in (False, True):
                self._strips.discard((row.key, at_cursor))

    async def read_ahead(self) -> None:
        """Read the rows that will be on the screen after `grow`, so that no placeholder is drawn.

        Raises NriScopeError.
        """
        height = self.listing.height
        following = self.listing.state is FollowState.FOLLOWING
        first = self.view.length - height if following else self.listing.top
        view = self.view
        rows = await self._reader.read(view, first, height)
        if view is not self.view:
            self._rows.outdate(events=True)
        self._drop_strips(rows)

    # -- updates after a move ----------------------------------------------------------------

    def _move(self, by: int) -> None:
        """Move the cursor, redrawing as little as possible: the terminal may be slow."""
        top, cursor = self.listing.top, self.listing.cursor
        self.listing.move(by)
        same = top == self.listing.top
        self._moved(*(cursor, self.listing.cursor) if same else ())

    def _moved(self, *positions: int) -> None:
        """Draw, read and report after a move; with ``positions``, redraw only these rows."""
        self.follow_listing()
        top, width = self.listing.top, self.scrollable_content_region.width
        if not self._is_missing_rows():
            if self._delayed_draw is None:
                self.post_message(self.Moved())
            self._draw(*(Region(0, each - top, width, 1) for each in positions))
        elif self._delayed_draw is None:
            # Rows usually arrive earlier, so that the screen is drawn only once, without flicker.
            self._delayed_draw = self.set_timer(_DRAW_DELAY_S, self._draw)
        self._read_missing()
        self._report_row()

    def listing_moved(self) -> None:
        """Update after scrolling by mouse."""
        self._moved()

    def _draw(self, *regions: Region) -> None:
        """Redraw these regions, or everything if a redraw was delayed."""
        if self._delayed_draw is not None:
            self._delayed_draw.stop()
            self._delayed_draw, regions = None, ()
            self.post_message(self.Moved())
        self.draw_bar()
        self.refresh(*regions)

    def _report_row(self) -> None:
        """Report the row under the cursor if it has been read, and this view is shown."""
        if not all(node.display for node in self.ancestors_with_self):
            return
        key = self.listing.selected
        row = self._rows.get(key) if key is not None else None
        if key is not None and row is None:
            return
        if self._reported is None or self._reported != (key, row):
            self._reported = (key, row)
            self.post_message(RowChosen(row))

    def _place_columns(self) -> None:
        width = self.scrollable_content_region.width - GUTTER
        plugins = {session.plugin for session in self.store.sessions}
        self._painter.placed = place(
            max(1, width),
            digits=max(3, self._widest_id),
            plugins=len(plugins) > 1,
            longest_plugin=longest(plugins),
            grouped=self.view.noun == "operation",
        )
        self._placed_for = self.view.noun
        self._strips.clear()
        names = [each.column.name for each in self._painter.placed]
        if self._painter.field not in names:
            self._painter.field = "event"
        self._header.show(self._painter.placed, self._painter.field)

    def on_mount(self) -> None:
        """Start reading."""
        # Until the first layout, the height is unknown, but at most that of the screen.
        self.listing.resize(self.app.size.height)
        self._moved()

    def resized(self) -> None:
        """Lay out columns and rows for the current size."""
        self._place_columns()
        self.listing.resize(max(1, self.scrollable_content_region.height))
        self._moved()

    def on_focus(self) -> None:
        """Redraw the cursor, and report its row for the detail pane."""
        self._strips.clear()
        self._reported = None
        self._report_row()

    def on_blur(self) -> None:
        """Redraw the cursor."""
        self._strips.clear()

    # -- mouse --------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked row; a double click opens it."""
        position = self.listing.top + event.y
        if position >= self.listing.length:
            return
        is_double = event.chain == 2
        self.go_to(position)
        if is_double:
            self.action_open()

    # -- actions ------------------------------------------------------------------------------

    def action_up(self) -> None:
        """Go one row up."""
        self._move(-1)

    def action_down(self) -> None:
        """Go one row down."""
        self._move(1)

    def action_page_up(self) -> None:
        """Go one screen up."""
        self.listing.page(-1)
        self._moved()

    def action_page_down(self) -> None:
        """Go one screen down."""
        self.listing.page(1)
        self._moved()

    def action_home(self) -> None:
        """Go to the first row."""
        self.listing.home()
        self._moved()

    def action_end(self) -> None:
        """Go to the last row; from there, follow."""
        self.listing.end()
        self._moved()

    action_first_line, action_last_line = action_home, action_end

    def action_follow(self) -> None:
        """Follow new events."""
        if not self.grows():
            self._say_ended("there is nothing to follow")
            return
        self.listing.follow()
        self._moved()

    def action_pause(self) -> None:
        """Stop following, or follow again."""
        if not self.grows():
            self._say_ended("there is nothing to pause")
            return
        self.listing.pause()
        self._moved()

    def _say_ended(self, words: str) -> None:
        self.post_message(StatusText(f"this recording has ended: {words}", problem=True))

    def action_open(self) -> None:
        """Show the details of the row under the cursor."""
        row = self.selected_row
        if row is not None and row.events and row.event_id is not None:
            self.view.toggle(row.event_id)
            self._rows.outdate_events(range(row.event_id, row.event_id + 1))
            self._moved()
        elif row is not None:
            self.post_message(RowOpened(row))

    def action_field_left(self) -> None:
        """Select the field to the left."""
        self._select_field(-1)

    def action_field_right(self) -> None:
        """Select the field to the right."""
        self._select_field(1)

    def _select_field(self, by: int) -> None:
        names = [each.column.name for each in self._painter.placed]
        at = names.index(self._painter.field) if self._painter.field in names else 0
        self.select_field(names[min(max(0, at + by), len(names) - 1)])

    def select_field(self, name: str) -> None:
        """Select the field of a column that is shown."""
        self._painter.field = name
        self._header.show(self._painter.placed, self._painter.field)
        self._strips.clear()
        self.refresh()

    def action_filter_by(self) -> None:
        """Show only events with the same value in the selected field."""
        self._filter_by(out=False)

    def action_filter_out(self) -> None:
        """Show only events with another value in the selected field."""
        self._filter_by(out=True)

    def _filter_by(self, *, out: bool) -> None:
        row = self.selected_row
        if row is None:
            return
        field = self._painter.field
        if term := row_term(row, field):
            self.post_message(AddToFilter(term, out=out))
        else:
            self.post_message(StatusText(why_no_filter(row, field), problem=True))

    def action_toggle_operations(self) -> None:
        """Switch between rows for operations and rows for events."""
        self.post_message(ToggleOperations())


def why_no_event(row: ListRow) -> str:
    """Explain what a row is if it is not an event; "" for an event."""
    match row.kind:
        case RowKind.EVENT:
            return ""
        case RowKind.GAP:
            return "this row is a gap, not an event"
        case RowKind.BEGAN | RowKind.ENDED:
            return "this row is a session, not an event"
        case RowKind.DAMAGED:
            return "this row cannot be read"
        case RowKind.GONE:
            return "this event was removed from the recording"
        case RowKind.LINE:
            return "this row is not an event"


def why_no_filter(row: ListRow, column: str) -> str:
    """Explain why this cell cannot be used as a filter, and what to do."""
    if row.session is not None:
        return f"{why_no_event(row)}; type session:{row.session.id} as a filter to see its events"
    if row.event is None:
        return f"{why_no_event(row)}; there is no value to filter by"
    title = COLUMNS[POSITION[column]].title
    return f"{title} has no value to filter by here; ← and → select another field"


def row_term(row: ListRow, column: str) -> str:
    """Return a filter for the value of a row in a column; "" if there is none."""
    if row.event is None or (row.events and COLUMNS[POSITION[column]].of_one_event):
        return ""
    if column in ("event", "subject") and is_set_up(row.events):
        return f"session:{row.event.session}"
    return term(row.event, column)


def term(event: Event, column: str) -> str:
    """Return a filter for events with the same value in a column; "" if there is none."""
    match column:
        case "event":
            by_name = f"event:{quote(event.event)}"
            if check(by_name).filter:
                return by_name
            # Unknown events are only accepted as a regular expression.
            return str(Matches(BY_NAME["event"], f"^{re.escape(event.event)}$"))
        case "subject":
            names = [f"pod:{quote(event.pod, is_name=True)}"] if event.pod else []
            if event.container:
                names.append(f"container:{quote(event.container, is_name=True)}")
            if not names and (event.container_id or event.pod_id):
                names = [f"id:{quote(event.container_id or event.pod_id)}"]
            return " ".join(names)
        case "plugin":
            return f"plugin:{quote(event.plugin)}" if event.plugin else ""
        case "status":
            return f"status:{quote(event.status)}"
        case "changed":
            return f"changed:{quote(label(event.changed[0]))}" if event.changed else ""
        case "took":
            return f"took:>={_shown_duration(max(0, event.took_ns))}"
        case _:
            return ""


def _shown_duration(ns: int) -> str:
    """Return a duration as shown in the list, in units of the filter language."""
    shown = duration(ns)
    return f"{ns // 1_000_000_000}s" if ns >= 60_000_000_000 else shown.replace("µ", "u")
