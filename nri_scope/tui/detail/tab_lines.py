# SPDX-License-Identifier: Apache-2.0
"""The tabs of the detail pane, and their content for a row.

Functions of a recording only, for a thread that may read it; long ones end soon after
`CancelFlag.set`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from nri_scope.events import Event
from nri_scope.nri.plain import MALFORMED, RAW, Plain
from nri_scope.recording import lookup
from nri_scope.recording.display import mark_words
from nri_scope.recording.documents import reply_of, request_of
from nri_scope.recording.reader import Recording
from nri_scope.recording.subject_queries import container_of_event
from nri_scope.text.styled_text import spans_of

from ..store.reader_thread import CancelFlag
from ..store.rows import Row
from ..text.styled_line import Style, StyledLine, line
from ..text.wrapping import folded
from ..text.yaml_lines import MAX_TEXT, clipped, clipped_text, yaml_lines
from . import summary

if TYPE_CHECKING:
    from nri_scope.differ import blame


class Tab(StrEnum):
    """The tabs, in their order."""

    SUMMARY = "Summary"
    CONTAINER = "Container"
    CHANGES = "Changes"
    BLAME = "Blame"
    RAW = "Raw"


@dataclass(frozen=True, slots=True)
class TabRequest:
    """The content to be shown."""

    row: Row
    tab: Tab
    width: int
    """Available columns; longer lines are broken if the renderer supports that."""
    full: bool = False
    """Whether the blame tab shows every line instead of only changed ones."""
    comment: str = ""
    """The user's comment on the event."""


def detail(recording: Recording, wanted: TabRequest, stop: CancelFlag) -> list[StyledLine]:
    """Return the lines of a tab. Raises RecordingError, and CancelledError after `CancelFlag.set`.

    Their content is not escaped yet.
    """
    row = wanted.row
    if row.event is not None:
        # It may have been removed or updated.
        event = recording.event(row.event.id)
        if event is None:
            return _note("This event has been removed from the recording.")
        return list(_OF_EVENT[wanted.tab](recording, event, wanted, stop))
    if wanted.tab is not Tab.SUMMARY:
        return _note("This tab is only available for events.")
    if row.gap is not None:
        return list(_folded(summary.of_gap(recording, row.gap), wanted))
    if row.session is not None:
        return list(_folded(summary.of_session(row.session), wanted))
    return _note(row.text)


# -- tabs ---------------------------------------------------------------------------------------


def _summary(
    recording: Recording, event: Event, wanted: TabRequest, _stop: CancelFlag
) -> Iterator[StyledLine]:
    return _folded(summary.of_event(recording, event, wanted.comment), wanted)


def _folded(lines: Iterable[StyledLine], wanted: TabRequest) -> Iterator[StyledLine]:
    """Break long lines, with the rest indented to the text of the first line."""
    for one in lines:
        yield from folded(one, wanted.width, summary.INDENT)


def _container(
    recording: Recording, event: Event, _wanted: TabRequest, stop: CancelFlag
) -> Iterator[StyledLine]:
    """Return the container as shown by this event, or else the pod."""
    if event.mark:
        yield from _not_understood(event)
        return
    request = request_of(event, recording.request(event.id))
    told = request if isinstance(request, dict) else {}
    for kind in ("container", "pod"):
        message = told.get(kind)
        if not isinstance(message, dict) or (kind == "pod" and event.container_id):
            continue
        if kind == "pod":
            yield from _note("This event concerns a pod:")
        elif len(message) <= 1 and (last := _newest(recording, event)) is not None:
            yield from _note(
                f"This event contains only the container's id. The container as of event {last[1]}:"
            )
            message = last[0]
        yield from yaml_lines(message, stop)
        return
    yield from _note("This event contains no pod or container.")


def _changes(
    recording: Recording, event: Event, wanted: TabRequest, stop: CancelFlag
) -> Iterator[StyledLine]:
    """Return the differ's result for the event's round."""
    # The differ takes long to import: not before the first screen, nor while drawing.
    from nri_scope.differ import excerpt, render
    from nri_scope.differ.render import wording

    found = excerpt.of_event(recording, event, stop.check)
    diff = found.round_of(event.id)
    if diff is None and event.mark:
        yield from _not_understood(event)
        return
    if diff is None:
        yield from _note("Plugins cannot change anything in this event.")
        return
    renderer = render.renderer("text", width=wanted.width, live=True)
    yield from map(spans_of, renderer.round(diff, found.name_of))
    if wording.calm(diff) and event.container_id:
        yield ()
        yield from _note("The Blame tab shows changes of this container in other events.")


def _blame(
    recording: Recording, event: Event, wanted: TabRequest, stop: CancelFlag
) -> Iterator[StyledLine]:
    """Return the container's final state line by line, with the owner of each line."""
    from nri_scope.differ import blame, excerpt

    one = container_of_event(recording, event.id)
    if one is None:
        yield from _note("This event has no container.")
        return
    history = excerpt.of_container(recording, one, stop.check).history(one.id)
    if history is None or not (history.spec or history.base or history.steps or history.real):
        yield from _note(
            "The recording does not contain this container's spec: recording must begin before the",
            "container is created.",
        )
        return
    stop.check()
    lines = blame.lines(history)
    yield from map(spans_of, blame.head(history, lines, wanted.width))
    yield ()
    stop.check()
    rows = blame.view(lines, "full" if wanted.full else "usual")
    short = [_short(row) if isinstance(row, blame.OwnedLine) else row for row in rows]
    body, legend = blame.body(short, wanted.width)
    yield from map(spans_of, body)
    yield from map(spans_of, blame.legend(legend, wanted.width))


def _raw(
    recording: Recording, event: Event, _wanted: TabRequest, stop: CancelFlag
) -> Iterator[StyledLine]:
    """Return request and reply as they were on the wire, decoded if possible."""
    content, reply = recording.request(event.id), recording.reply(event.id)
    yield from _message("request", request_of(event, content), content, stop)
    yield ()
    if event.status_code:
        yield from yaml_lines(
            {"status": {"code": event.status_code, "message": event.status_message}}, stop
        )
    else:
        yield from _message("reply", reply_of(event, reply), reply, stop)


_OF_EVENT: dict[Tab, Callable[[Recording, Event, TabRequest, CancelFlag], Iterator[StyledLine]]] = {
    Tab.SUMMARY: _summary,
    Tab.CONTAINER: _container,
    Tab.CHANGES: _changes,
    Tab.BLAME: _blame,
    Tab.RAW: _raw,
}


# -- parts of tabs ------------------------------------------------------------------------------


def _not_understood(event: Event) -> Iterator[StyledLine]:
    yield from _note(f"Its content is unknown ({mark_words(event.mark)}): see the Raw tab.")


def _message(name: str, value: Plain, content: bytes, stop: CancelFlag) -> Iterator[StyledLine]:
    odd = {MALFORMED: "malformed", RAW: "unknown method or service, stored raw"}
    key = next((key for key in odd if isinstance(value, dict) and key in value), None)
    if key is not None:
        yield line(f"{name}: {len(content):,} bytes, {odd[key]}", Style.WARN)
        yield from map(line, _hex(content, stop))
    elif not value:
        yield line(f"{name}: empty", Style.DIM)
    else:
        yield from yaml_lines({name: value}, stop)


def _hex(content: bytes, stop: CancelFlag) -> Iterator[str]:
    """Format bytes as hexdump(1) does."""
    for at in range(0, min(len(content), _HEX_MAX), 16):
        if not at % 4096:
            stop.check()
        row = content[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"{at:08x}  {row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}  {text}"
    if len(content) > _HEX_MAX:
        yield f"… {len(content) - _HEX_MAX:,} more bytes"


_HEX_MAX = 64 << 10
"""Maximum bytes shown."""


def _newest(recording: Recording, event: Event) -> tuple[dict[str, Plain], int] | None:
    """Return the container as last shown, with that event; None if there is none."""
    one = container_of_event(recording, event.id)
    told = None if one is None else lookup.newest_message(recording, one)
    if told is None:
        return None
    teller = recording.event(told.event)
    if teller is None or teller.container_id != event.container_id:
        return None
    request = request_of(teller, recording.request(teller.id))
    message = request.get("container") if isinstance(request, dict) else None
    return (message, teller.id) if isinstance(message, dict) else None


def _short(one: blame.OwnedLine) -> blame.OwnedLine:
    """Return a line without text that is too long to be laid out or read."""
    return replace(
        one,
        label=clipped_text(one.label, MAX_TEXT),
        value=clipped(one.value),
        written=clipped(one.written),
        remarks=tuple(clipped_text(remark) for remark in one.remarks),
    )


def _note(*said: str) -> list[StyledLine]:
    return [line(text, Style.DIM) for text in said]
