# SPDX-License-Identifier: Apache-2.0
"""Differences between two recordings, or between two events' containers, on a modal screen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeAlias

from textual.binding import Binding, BindingType

from nri_scope.differ.blame.path_history import history_body, path_histories
from nri_scope.differ.blame.text import alerts, name_lines
from nri_scope.differ.blame.text import legend as blame_legend
from nri_scope.differ.comparison import Comparison, compare_containers, compare_recordings
from nri_scope.differ.comparison_output import (
    DifferenceRow,
    change_row,
    legend,
    row_lines,
    rows,
    tally,
    title,
)
from nri_scope.differ.render.values import clipped_pair
from nri_scope.errors import NriScopeError, UsageError
from nri_scope.events import Container, Event
from nri_scope.nri.events import CREATE
from nri_scope.nri.request_subject import decode_request
from nri_scope.oci import spec_of
from nri_scope.recording.display import subject
from nri_scope.recording.query import lookup
from nri_scope.recording.query.subject_queries import container_of_event
from nri_scope.recording.reading import event_messages
from nri_scope.recording.reading.reader import Recording
from nri_scope.specs import Spec, differences
from nri_scope.text.quantities import clock, day, many
from nri_scope.text.styled_text import spans_of

from ..actions import ACTION_OF, Scope, actions_of, bindings, key_of
from ..store.reader_thread import CancelFlag, LateReader
from ..store.store import Store
from ..text.styled_line import Span, Style, StyledLine, clipped_text, folded, line
from ..textual_workarounds import begin
from ..widgets.board import GUTTER
from ..widgets.lines import LinesView
from ..widgets.screens import ReadingScreen, help_lines

_VALUE_MAX = 400
"""Maximum characters of one value in a row."""
_ROWS_MAX = 5_000
_PAGE_WIDTH = 66
"""Columns of the page of a row: those in a terminal with 80; narrower ones wrap its lines."""


@dataclass(frozen=True, slots=True)
class Differences:
    """Rows of the differences from A to B, with the lines above and below them."""

    head: Sequence[StyledLine]
    rows: Sequence[DifferenceRow] = ()
    legend: Sequence[StyledLine] = ()

    @classmethod
    def of(cls, a: str, b: str, result: Comparison) -> Differences:
        """Return the rows that the command diff prints; ``a`` and ``b`` are named in the head."""
        head = (*title(a, b, result), *tally(result))
        legend_lines = [line(text, Style.DIM) for text in legend(result)]
        return cls([(span,) for span in head], [*rows(result)], legend_lines)

    def lines(self, width: int) -> tuple[list[StyledLine], int]:
        """Return lines for ``width``, and the index of that of the first row."""
        head = [part for each in self.head for part in folded(each, width, 2)]
        shown = [
            row._replace(values=clipped_pair(*row.values, _VALUE_MAX))
            for row in self.rows[:_ROWS_MAX]
        ]
        lines = [*head, (), *map(spans_of, row_lines(shown, width)), ()]
        if len(self.rows) > _ROWS_MAX:
            lines.append(line(f"… {len(self.rows) - _ROWS_MAX:,} more", Style.WARN))
        lines += [part for each in self.legend for part in folded(each, width, 2)]
        return lines, len(head) + 1


def page_of(row: DifferenceRow) -> list[StyledLine]:
    """Return the whole values and owners of a difference, and the history of its path in A and B.

    If a creation failed, that is the history of all paths of the container.
    """
    lines: list[StyledLine] = [(Span(f"{row.what}  ", Style.STRONG), Span(row.name))]
    for side, value, owner in zip("AB", row.values, row.owners, strict=True):
        if value:
            whole = Span(clipped_text(value))
            lines.append((Span(f"{side}: ", Style.KEY), whole, Span(f"  {owner}", Style.DIM)))
    if row.pair is not None:
        for side, history in (("A", row.pair.a), ("B", row.pair.b)):
            shown, items = history_body(history, path_histories(history, row.path), _PAGE_WIDTH)
            head = (*name_lines(history, _PAGE_WIDTH), *alerts(history, _PAGE_WIDTH))
            lines += [(), line(f"{side}: blame", Style.KEY)]
            lines += map(spans_of, (*head, "", *shown, "", *blame_legend(items, _PAGE_WIDTH)))
    return lines


Read: TypeAlias = Callable[[CancelFlag], Awaitable[Differences]]
"""Returns differences. Raises NriScopeError, and CancelledError after `CancelFlag.set`."""


def of_events(store: Store, a: Event, b: Event) -> Read:
    """Return a reader of the differences between two events' containers."""
    return lambda stop: store.run(lambda recording: compare(recording, a, b, stop))


def of_recordings(path: Path, other: Path) -> Read:
    """Return a reader of the differences between two recordings, with a thread of its own."""

    async def read(stop: CancelFlag) -> Differences:
        def work(b: Recording) -> Differences:
            with Recording.open(path) as a:
                result = compare_recordings(a, b, stop.check)
            return Differences.of(str(path), str(other), result)

        reader = LateReader(other)
        try:
            return await reader.soon(work)
        finally:
            stop.set()
            await reader.close()

    return read


def compare(recording: Recording, a: Event, b: Event, stop: CancelFlag) -> Differences:
    """Compare the containers of two events: one container as of both events, or two containers in
    their final state, as ``diff FILE A B`` does.

    Raises RecordingError, and CancelledError after `CancelFlag.set`.
    """
    sides = [_compared_container(recording, event) for event in (a, b)]
    side_a, side_b = sides
    stop.check()
    is_same = bool(a.container_id) and a.container_id == b.container_id
    if not is_same and side_a.container is not None and side_b.container is not None:
        # No event but a creation contains all of a spec, so the last event would not do.
        with suppress(UsageError):
            result = compare_containers(recording, side_a.container, recording, side_b.container)
            return Differences.of(subject(a), subject(b), result)
    head = [part for name, side in zip("AB", sides, strict=True) for part in side.title(name)]
    if not is_same or side_a.spec is None or side_b.spec is None:
        return Differences([*head, (), line("There is nothing to compare.")])
    changed = [change_row(change) for change in differences(side_a.spec, side_b.spec)]
    words = many(len(changed), "difference") if changed else "no differences"
    return Differences([*head, line(words, Style.STRONG)], changed)


@dataclass(frozen=True, slots=True)
class ComparedContainer:
    """The container of one compared event."""

    event: Event
    shown_by_event: int
    """Number of the event that contains the spec: an earlier one if ``event`` has only the id."""
    container: Container | None
    spec: Spec | None
    """The container's spec; None if no event contains it."""

    def title(self, name: str) -> Iterator[StyledLine]:
        """Yield lines such as ``A: #42 CreateContainer shop/web/app``, with the time."""
        at_ns, event = self.event.at_ns, self.event
        yield (
            Span(f"{name}: #{event.id} {event.event} {subject(event)}".rstrip(), Style.STRONG),
            Span(f"  {day(at_ns)[:10]} {clock(at_ns)}", Style.DIM),
        )
        if self.spec is None:
            yield (Span("   no event contains the container's spec", Style.WARN),)
        elif self.shown_by_event != event.id:
            yield (Span(f"   container as of event {self.shown_by_event}", Style.DIM),)


def _compared_container(recording: Recording, event: Event) -> ComparedContainer:
    container = container_of_event(recording, event.id)
    shown = None
    if not event.mark and container is not None:
        shown = decode_request(event.method, recording.request(event.id)).container
    if shown is not None and len(shown.ListFields()) > 1:
        return ComparedContainer(event, event.id, container, spec_of(shown))
    newest = None if container is None else lookup.newest_message(recording, container)
    if newest is None:
        return ComparedContainer(event, event.id, container, None)
    message = decode_request(CREATE, event_messages.request(CREATE, b"", None, newest.content))
    spec = None if message.container is None else spec_of(message.container)
    return ComparedContainer(event, newest.event, container, spec)


class _Rows(LinesView, inherit_bindings=False):
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.COMPARE)

    laid_out: Callable[[], None] = lambda: None
    """Lays out lines for the current width."""
    action_open_row = LinesView.action_open

    def resized(self) -> None:
        """Lay out lines for the new width, once it is known."""
        super().resized()
        self.call_after_refresh(self.laid_out)


class CompareScreen(ReadingScreen, inherit_bindings=False):
    """Screen of differences, a row for each. Enter shows all of one; Escape closes the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,backspace,d,ctrl+c", "dismiss", show=False),
        Binding(",".join(ACTION_OF["help"].keys), "help", show=False, id="help"),
    ]
    HINT = f"{key_of('open_row')} whole values, blame · Esc closes · {key_of('help')} keys"
    DEFAULT_CSS = "CompareScreen > LinesView { width: 100%; max-width: 100%; height: 100%; }"

    def __init__(self, read: Read, title: str = "compare") -> None:
        """Show the differences that ``read`` returns."""
        self._rows = _Rows([line("comparing…", Style.DIM)], cursor=True)
        super().__init__(title, self._rows)
        self._read_differences = read
        self._found = Differences(())
        self._first = 0
        """Index of the line of the first row."""
        self._stop = CancelFlag()
        self._rows.laid_out, self._rows.gutter_width = self._lay_out, GUTTER

    def on_mount(self) -> None:
        """Read the differences."""
        begin(self, self._read, "compare", exclusive=True)

    def on_unmount(self) -> None:
        """Cancel reading."""
        self._stop.set()

    def action_help(self) -> None:
        """Show the keys of the comparison."""
        names = frozenset(action.name for action in actions_of(Scope.COMPARE))
        lines = help_lines((Scope.COMPARE,), names)
        self.app.push_screen(ReadingScreen("keys of the comparison", lines))

    def on_lines_view_opened(self, message: LinesView.Opened) -> None:
        """Show all of a difference."""
        at = message.index - self._first
        if 0 <= at < min(len(self._found.rows), _ROWS_MAX):
            begin(self, partial(self._open, self._found.rows[at]), "row", exclusive=True)

    async def _open(self, row: DifferenceRow) -> None:
        lines = await asyncio.to_thread(page_of, row)
        await self.app.push_screen(ReadingScreen("difference", lines, wrap=True))

    async def _read(self) -> None:
        try:
            self._found = await self._read_differences(self._stop)
        except NriScopeError as error:
            self._rows.show([line(str(error), Style.BAD)])
            return
        self._lay_out()
        self._rows.cursor = self._first if self._found.rows else 0

    def _lay_out(self) -> None:
        if self._found.head:
            width = max(20, self._rows.scrollable_content_region.width - GUTTER)
            lines, self._first = self._found.lines(width)
            self._rows.show(lines, keep_position=True)
