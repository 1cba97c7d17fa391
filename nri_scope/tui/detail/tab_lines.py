# SPDX-License-Identifier: Apache-2.0
"""Content of the tabs of the detail pane.

These functions run in a reading thread. Long ones end soon after `CancelFlag.set`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from nri_scope.events import Container, Event, Pod
from nri_scope.nri.plain import MALFORMED_KEY, RAW, Plain
from nri_scope.nri.v01 import is_invocation
from nri_scope.recording.display import mark_words
from nri_scope.recording.documents import newest_message
from nri_scope.recording.query import lookup
from nri_scope.recording.query.subject_queries import container_of_event
from nri_scope.recording.reading.event_messages import reply_of, request_of
from nri_scope.recording.reading.reader import Recording
from nri_scope.text.quantities import many
from nri_scope.text.styled_text import spans_of

from ..store.reader_thread import CancelFlag
from ..store.rows import ListRow
from ..text.styled_line import (
    MAX_TEXT,
    Style,
    StyledLine,
    clipped,
    clipped_text,
    folded,
    line,
    yaml_lines,
)
from . import summary

if TYPE_CHECKING:
    from nri_scope.differ.attribution.history import History
    from nri_scope.differ.blame.owned_lines import OwnedLine


class Tab(StrEnum):
    """The tabs, in display order."""

    SUMMARY = "Summary"
    CONTAINER = "Container"
    CHANGES = "Changes"
    BLAME = "Blame"
    RAW = "Raw"


@dataclass(frozen=True, slots=True)
class TabRequest:
    """The content to show: a tab of a row."""

    row: ListRow
    tab: Tab
    width: int
    """Available columns, to which most tabs wrap their lines."""
    full: bool = False
    """Whether the Blame tab shows all lines instead of only changed ones."""
    comment: str = ""
    """The user's comment on the event."""
    findings: tuple[str, ...] = ()
    """Titles of the findings that the event shows."""


def detail(recording: Recording, tab_request: TabRequest, stop: CancelFlag) -> list[StyledLine]:
    """Return the lines of a tab, not escaped.

    Raises RecordingError, and CancelledError after `CancelFlag.set`.
    """
    row = tab_request.row
    if row.event is not None:
        # Read it again: it may have been removed or updated.
        number = row.event.id
        if tab_request.tab is Tab.CONTAINER and row.events:
            # As the last connection saw it.
            number = [event.id for event in row.events if event.event == row.event.event][-1]
        event = recording.event(number)
        if event is None:
            return _note("This event has been removed from the recording.")
        return list(_OF_EVENT[tab_request.tab](recording, event, tab_request, stop))
    if row.subject is not None and (of_subject := _OF_SUBJECT.get(tab_request.tab)) is not None:
        return list(of_subject(recording, row.subject, tab_request, stop))
    if tab_request.tab is not Tab.SUMMARY:
        also = ", pods and containers" if tab_request.tab in _OF_SUBJECT else ""
        return _note(f"This tab is only available for events{also}.")
    if row.summary is not None:
        return list(row.summary(recording, tab_request.width))
    if row.gap is not None:
        return list(_wrapped(summary.of_gap(recording, row.gap), tab_request))
    if row.session is not None:
        return list(_wrapped(summary.of_session(row.session), tab_request))
    return _note(row.text)


# -- tabs ---------------------------------------------------------------------------------------


def _summary(
    recording: Recording, event: Event, tab_request: TabRequest, _stop: CancelFlag
) -> Iterator[StyledLine]:
    row = tab_request.row
    if row.events:
        found = summary.of_operation(recording, row, tab_request.comment, tab_request.findings)
    else:
        found = summary.of_event(recording, event, tab_request.comment, tab_request.findings)
    return _wrapped(found, tab_request)


def _wrapped(lines: Iterable[StyledLine], tab_request: TabRequest) -> Iterator[StyledLine]:
    """Wrap long lines, indented to the column of values."""
    for shown in lines:
        yield from folded(shown, tab_request.width, summary.INDENT)


def _container(
    recording: Recording, event: Event, _request: TabRequest, stop: CancelFlag
) -> Iterator[StyledLine]:
    """Yield the container in this event's request, or else the pod."""
    if event.mark:
        yield from _undecoded(event)
        return
    request = request_of(event, recording.request(event.id))
    fields = request if isinstance(request, dict) else {}
    if is_invocation(event.method, event.mark):
        yield from _note("NRI 0.1 sends this part of the spec:")
        yield from yaml_lines({"spec": fields.get("spec"), "labels": fields.get("labels")}, stop)
        return
    for kind in ("container", "pod"):
        message = fields.get(kind)
        if not isinstance(message, dict) or (kind == "pod" and event.container_id):
            continue
        if kind == "pod":
            yield from _note("This event concerns a pod:")
        elif len(message) <= 1 and (last := _newest_container(recording, event)) is not None:
            yield from _note(
                f"This event contains only the container's id. The container as of event {last[1]}:"
            )
            message = last[0]
        yield from yaml_lines(message, stop)
        return
    yield from _note("This event contains no pod or container.")


def _changes(
    recording: Recording, event: Event, tab_request: TabRequest, stop: CancelFlag
) -> Iterator[StyledLine]:
    """Yield the differ's result for the event's round."""
    # Imported late, because importing the differ takes long.
    from nri_scope.differ import render
    from nri_scope.differ.recording_differ import excerpt_of_events
    from nri_scope.differ.render import wording

    excerpt = excerpt_of_events(recording, [event], stop.check)
    diff = excerpt.round_of(event.id)
    if diff is None and event.mark:
        yield from _undecoded(event)
        return
    if diff is None:
        yield from _note("Plugins cannot change anything in this event.")
        return
    renderer = render.renderer("text", width=tab_request.width, live=True)
    yield from map(spans_of, renderer.round(diff, excerpt.name_of))
    if wording.calm(diff) and event.container_id:
        yield ()
        yield from _note("The Blame tab shows changes of this container in other events.")


def _blame(
    recording: Recording, event: Event, tab_request: TabRequest, stop: CancelFlag
) -> Iterator[StyledLine]:
    """Yield the history of the event's container, or of the only container of the row's pod."""
    about = container_of_event(recording, event.id) or tab_request.row.subject
    if about is None:
        yield from _note("This event has no container.")
    else:
        yield from _blame_of_subject(recording, about, tab_request, stop)


def _blame_of_subject(
    recording: Recording, about: Pod | Container, tab_request: TabRequest, stop: CancelFlag
) -> Iterator[StyledLine]:
    """Yield a container's final state line by line, with the owner of each line.

    As by `blame`, a pod means its newest container if all of them have the same name.
    """
    from nri_scope.differ.blame import text as blame
    from nri_scope.differ.blame.owned_lines import OwnedLine, lines
    from nri_scope.differ.recording_differ import excerpt_of_container

    named = lookup.containers_of(recording, about) if isinstance(about, Pod) else [about]
    if not named:
        yield from _note("This pod has no container.")
        return
    if len({container.name for container in named}) > 1:
        yield from _note(f"This pod has {len(named):,} containers: select one of them.")
        return
    one = max(named, key=lambda container: container.key)
    history = excerpt_of_container(recording, one, stop.check).history(one.id)
    if history is None or not (history.spec or history.base or history.steps or history.real):
        yield from _note(
            "The recording does not contain this container's spec: recording must begin before the",
            "container is created.",
        )
        return
    stop.check()
    known = lines(history)
    width = tab_request.width
    yield from map(spans_of, blame.alerts(history, width))
    yield line(blame.summary(known, width))
    yield from map(spans_of, blame.requests(history.without_effect, width))
    yield line(_as_of(history, tab_request.row), Style.DIM)
    stop.check()
    rows = blame.view(known, "full" if tab_request.full else "usual")
    short = [_truncated(row) if isinstance(row, OwnedLine) else row for row in rows]
    body, legend = blame.body(short, width)
    yield from map(spans_of, body)
    yield ()
    yield from map(spans_of, blame.limits(history, width))
    yield from map(spans_of, blame.legend(legend, width))
    yield from map(spans_of, blame.name_lines(history, width))


def _as_of(history: History, row: ListRow) -> str:
    if row.event is None:
        return "as of the recording's end"
    newest = max(event.id for event in (row.event, *row.events))
    later = sum(step.event > newest for step in history.steps)
    changes = many(later, "change") if later else "no change"
    this = "operation" if row.events else "event"
    return f"as of the recording's end, {changes} after this {this}"


def _raw(
    recording: Recording, event: Event, _request: TabRequest, stop: CancelFlag
) -> Iterator[StyledLine]:
    """Yield request and reply, decoded if possible, else as a hex dump."""
    content, reply = recording.request(event.id), recording.reply(event.id)
    yield from _message("request", request_of(event, content), content, stop)
    yield ()
    if event.status_code:
        yield from yaml_lines(
            {"status": {"code": event.status_code, "message": event.status_message}}, stop
        )
    if reply or not event.status_code:
        yield from _message("reply", reply_of(event, reply), reply, stop)


_OF_EVENT: dict[Tab, Callable[[Recording, Event, TabRequest, CancelFlag], Iterator[StyledLine]]] = {
    Tab.SUMMARY: _summary,
    Tab.CONTAINER: _container,
    Tab.CHANGES: _changes,
    Tab.BLAME: _blame,
    Tab.RAW: _raw,
}


def _summary_of_subject(
    recording: Recording, about: Pod | Container, tab_request: TabRequest, _stop: CancelFlag
) -> Iterator[StyledLine]:
    return _wrapped(summary.of_subject(recording, about), tab_request)


def _newest_message(
    recording: Recording, about: Pod | Container, _request: TabRequest, stop: CancelFlag
) -> Iterator[StyledLine]:
    """Yield the newest message about a pod or container, as `show` does."""
    found = newest_message(recording, about)
    message = found["message"]
    if not (isinstance(message, dict) and message):
        yield from _note("The recording does not describe it.")
        return
    yield from _note(f"As of event {found['told_by_event']}:")
    yield from yaml_lines(message, stop)


_OF_SUBJECT: dict[
    Tab, Callable[[Recording, Pod | Container, TabRequest, CancelFlag], Iterator[StyledLine]]
] = {
    Tab.SUMMARY: _summary_of_subject,
    Tab.CONTAINER: _newest_message,
    Tab.BLAME: _blame_of_subject,
}


# -- parts of tabs ------------------------------------------------------------------------------


def _undecoded(event: Event) -> Iterator[StyledLine]:
    yield from _note(f"Its content is unknown ({mark_words(event.mark)}): see the Raw tab.")


def _message(name: str, value: Plain, content: bytes, stop: CancelFlag) -> Iterator[StyledLine]:
    odd = {MALFORMED_KEY: "malformed", RAW: "unknown method or service, stored raw"}
    key = next((key for key in odd if isinstance(value, dict) and key in value), None)
    if key is not None:
        yield line(f"{name}: {len(content):,} bytes, {odd[key]}", Style.WARN)
        yield from map(line, _hex(content, stop))
    elif not value:
        yield line(f"{name}: empty", Style.DIM)
    else:
        yield from yaml_lines({name: value}, stop)


def _hex(content: bytes, stop: CancelFlag) -> Iterator[str]:
    """Format bytes like hexdump(1)."""
    for at in range(0, min(len(content), _HEX_MAX), 16):
        if not at % 4096:
            stop.check()
        row = content[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"{at:08x}  {row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}  {text}"
    if len(content) > _HEX_MAX:
        yield f"… {len(content) - _HEX_MAX:,} more bytes"


_HEX_MAX = 64 << 10
"""Maximum bytes in a hex dump."""


def _newest_container(recording: Recording, event: Event) -> tuple[dict[str, Plain], int] | None:
    """Return the newest container message of the event's container, and the number of its event.

    Returns None if there is none.
    """
    container = container_of_event(recording, event.id)
    newest = None if container is None else lookup.newest_message(recording, container)
    if newest is None:
        return None
    source = recording.event(newest.event)
    if source is None or source.container_id != event.container_id:
        return None
    request = request_of(source, recording.request(source.id))
    message = request.get("container") if isinstance(request, dict) else None
    return (message, source.id) if isinstance(message, dict) else None


def _truncated(owned: OwnedLine) -> OwnedLine:
    """Return a line with long texts truncated."""
    return replace(
        owned,
        label=clipped_text(owned.label, MAX_TEXT),
        value=clipped(owned.value),
        written=clipped(owned.written),
        remarks=tuple(clipped_text(remark) for remark in owned.remarks),
    )


def _note(*texts: str) -> list[StyledLine]:
    return [line(text, Style.DIM) for text in texts]
