# SPDX-License-Identifier: Apache-2.0
"""Comparison of the OCI specs of two events' containers, on a modal screen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from nri_scope.differ.comparison import compare_containers
from nri_scope.differ.comparison_output import owners_of
from nri_scope.differ.render.values import clipped_pair, sides
from nri_scope.differ.render.wording import GLYPHS
from nri_scope.errors import NriScopeError, UsageError
from nri_scope.events import Container, Event
from nri_scope.nri.events import CREATE
from nri_scope.nri.request_subject import decode_request
from nri_scope.oci import spec_of
from nri_scope.recording import event_messages, lookup
from nri_scope.recording.display import subject
from nri_scope.recording.reader import Recording
from nri_scope.recording.subject_queries import container_of_event
from nri_scope.specs import Change, Spec, differences, label
from nri_scope.text.escape import columns, safe
from nri_scope.text.quantities import clock, day, many
from nri_scope.text.styled_text import break_text

from ..actions import ACTION_OF, Scope, actions_of, bindings, key_of
from ..store.reader_thread import CancelFlag
from ..store.store import Store
from ..text.styled_line import Span, Style, StyledLine, line
from ..textual_workarounds import begin
from ..widgets.lines import LinesView
from ..widgets.screens import ReadingScreen, help_lines

BESIDE_FROM = 100
"""Minimum width for values side by side, in columns."""
_VALUE_MAX = 400
"""Maximum characters of one value."""
_CHANGES_MAX = 5_000
_STYLES = {"added": Style.GOOD, "removed": Style.BAD, "changed": Style.WARN, "moved": Style.NOTE}
_NOWHERE = "—"


@dataclass(frozen=True, slots=True)
class ComparedContainer:
    """The container of one compared event."""

    event: Event
    shown_by_event: int
    """Number of the event that contains the spec: an earlier one if ``event`` has only the id."""
    container: Container | None
    spec: Spec | None
    """The container's spec; None if no event contains it."""

    @property
    def title(self) -> str:
        """Title such as ``#42 CreateContainer shop/web/app``; only the names are escaped."""
        return f"#{self.event.id} {self.event.event} {subject(self.event)}".rstrip()


@dataclass(frozen=True, slots=True)
class ContainerComparison:
    """The differences from `a` to `b`."""

    a: ComparedContainer
    b: ComparedContainer
    changes: tuple[Change, ...]
    same_container: bool
    owners: tuple[str, ...] | None = None
    """For two containers in their final state: the owners of each change. None: as of the
    events."""
    remark: str = ""
    """What was not compared; "" if all was."""

    def lines(self, width: int) -> list[StyledLine]:
        """Lay out lines for ``width``, with values side by side if they fit."""
        return [*self._head(), (), *self._body(width)]

    def _head(self) -> Iterator[StyledLine]:
        for name, side in (("A", self.a), ("B", self.b)):
            if self.owners is not None:
                yield Span(f"{name}  ", Style.KEY), Span(subject(side.event), Style.STRONG)
                continue
            at_ns = side.event.at_ns
            yield (
                Span(f"{name}  ", Style.KEY),
                Span(side.title, Style.STRONG),
                Span(f"  {day(at_ns)[:10]} {clock(at_ns)}", Style.DIM),
            )
            if side.spec is None:
                yield (Span("   no event contains the container's spec", Style.WARN),)
            elif side.shown_by_event != side.event.id:
                yield (Span(f"   container as of event {side.shown_by_event}", Style.DIM),)

    def _body(self, width: int) -> Iterator[StyledLine]:
        are_known = self.same_container and None not in (self.a.spec, self.b.spec)
        if self.owners is None and not are_known:
            yield (Span("There is nothing to compare."),)
            return
        if not self.changes:
            yield (Span("No differences."),)
        else:
            yield (Span(many(len(self.changes), "difference"), Style.STRONG),)
        if self.remark:
            yield (Span(self.remark, Style.WARN),)
        if not self.same_container:
            what = "ids, random names and timestamps specific to each container are omitted"
            yield (Span(what, Style.DIM),)
        for at, change in enumerate(self.changes[:_CHANGES_MAX]):
            yield ()
            owner = self.owners[at] if self.owners else ""
            yield (
                Span(f"{GLYPHS[change.kind]} {label(change.path)}", _STYLES[change.kind]),
                Span(f"  {owner}" if owner else "", Style.DIM),
            )
            yield from _values(change, width)
        if len(self.changes) > _CHANGES_MAX:
            yield (Span(f"… {len(self.changes) - _CHANGES_MAX:,} more", Style.WARN),)


def compare(recording: Recording, a: Event, b: Event, stop: CancelFlag) -> ContainerComparison:
    """Compare the containers of two events: one container as of both events, or two containers in
    their final state, as ``diff FILE A B`` does.

    Raises RecordingError, and CancelledError after `CancelFlag.set`.
    """
    side_a, side_b = _compared_container(recording, a), _compared_container(recording, b)
    stop.check()
    same = bool(a.container_id) and a.container_id == b.container_id
    changes: tuple[Change, ...] = ()
    if same and side_a.spec is not None and side_b.spec is not None:
        changes = differences(side_a.spec, side_b.spec)
    elif not same and side_a.container is not None and side_b.container is not None:
        # No event but a creation contains all of a spec, so the last event would not do.
        with suppress(UsageError):
            compared = compare_containers(recording, side_a.container, recording, side_b.container)
            owned = compared.differ[0].differences if compared.differ else ()
            changed = tuple(difference.change for difference in owned)
            owners = tuple(map(owners_of, owned))
            return ContainerComparison(side_a, side_b, changed, same, owners, compared.remark)
    return ContainerComparison(side_a, side_b, changes, same)


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


def _values(change: Change, width: int) -> Iterator[StyledLine]:
    before, after = (safe(text) for text in clipped_pair(*sides(change), _VALUE_MAX))
    if width < BESIDE_FROM:
        room = width - 5
        for name, text, style in (("A", before, Style.BAD), ("B", after, Style.GOOD)):
            for at, piece in enumerate(break_text(text or _NOWHERE, room, room)):
                yield Span(" " * 5 if at else f"  {name}: ", Style.KEY), Span(piece, style)
        return
    half = (width - 5) // 2
    left = break_text(before or _NOWHERE, half, half)
    right = break_text(after or _NOWHERE, half, half)
    for at in range(max(len(left), len(right))):
        half_line = left[at] if at < len(left) else ""
        other = right[at] if at < len(right) else ""
        yield (
            Span("  "),
            Span(half_line + " " * max(0, half - columns(half_line)), Style.BAD),
            Span(" │ ", Style.DIM),
            Span(other, Style.GOOD),
        )


class _Differences(LinesView, inherit_bindings=False):
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.COMPARE)

    comparison: ContainerComparison | None = None

    def resized(self) -> None:
        """Lay out lines for the new width, once it is known."""
        super().resized()
        self.call_after_refresh(self.lay_out)

    def lay_out(self) -> None:
        """Lay out lines for the current width."""
        if self.comparison is not None:
            width = max(20, self.scrollable_content_region.width)
            self.show(self.comparison.lines(width), keep_position=True)


class CompareScreen(ModalScreen[None], inherit_bindings=False):
    """Screen of the differences between two events' containers. Escape closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,backspace,d,ctrl+c", "dismiss", show=False),
        Binding(",".join(ACTION_OF["help"].keys), "help", show=False, id="help"),
    ]
    DEFAULT_CSS = """
    CompareScreen { align: center middle; }
    CompareScreen > LinesView {
        width: 100%; height: 100%; border: round $primary; padding: 0 1;
    }
    """

    def __init__(
        self,
        store: Store,
        a: Event,
        b: Event,
        title: str = "compare",
    ) -> None:
        """Compare from ``a`` to ``b``."""
        super().__init__()
        self._title = title
        self._store = store
        self._events = a, b
        self._stop = CancelFlag()
        self._lines = _Differences([line("…", Style.DIM)], wrap=True)

    def compose(self) -> ComposeResult:
        """Compose the lines."""
        self._lines.border_title = self._title
        self._lines.border_subtitle = f"Esc closes · {key_of('help')} keys"
        yield self._lines

    def on_mount(self) -> None:
        """Read the two events."""
        begin(self, self._read, "compare", exclusive=True)

    def on_unmount(self) -> None:
        """Cancel reading."""
        self._stop.set()

    def action_help(self) -> None:
        """Show the keys of the comparison."""
        names = frozenset(action.name for action in actions_of(Scope.COMPARE))
        lines = help_lines((Scope.COMPARE,), names)
        self.app.push_screen(ReadingScreen("keys of the comparison", lines))

    async def _read(self) -> None:
        a, b = self._events
        try:
            found = await self._store.run(lambda recording: compare(recording, a, b, self._stop))
        except NriScopeError as error:
            self._lines.show([line(str(error), Style.BAD)])
            return
        self._lines.comparison = found
        self._lines.lay_out()
