# SPDX-License-Identifier: Apache-2.0
"""Lines of the screen: the list of events, the content of one, and the words around them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from textwrap import wrap

from google.protobuf.message import Message

from nri_scope.nri.events import REGISTER
from nri_scope.replay.playback import ANSWERED, EDITED
from nri_scope.replay.replies import Verdict
from nri_scope.replay.report import ResultFormatter
from nri_scope.replay.result import PlayedEvent, PrintedLine
from nri_scope.scenario.messages import message_form
from nri_scope.text.escape import safe
from nri_scope.text.quantities import duration
from nri_scope.text.styled_text import spans_of
from nri_scope.text.yaml_text import yaml_lines
from nri_scope.tui.text.styled_line import (
    Span,
    Style,
    StyledLine,
    TableField,
    TableGrid,
    line,
    styled_yaml,
)

from .debugger import Debugger, SentEvent, UpcomingEvent

LINES_MAX = 20_000
"""Maximum number of lines of one event's content."""
YAML_LINES_MAX = 5_000
"""Maximum number of lines of one message."""
CHANGES_MAX = 500
"""Maximum number of changes of one event that are listed."""
_TEXT_MAX = 2_000
"""Maximum number of characters of a line."""

_FIELDS = (
    TableField("", 1),
    TableField("", 6, right=True),
    TableField("", 19, grows=True, most=27),
    TableField("", 16, grows=True),
    TableField("", 10, grows=True, most=22),
    TableField("", 7, right=True, rank=1),
)
_NARROW = (
    *_FIELDS[:2],
    TableField("", 10, grows=True, most=19),
    TableField("", 8, grows=True),
    TableField("", 9),
    _FIELDS[-1],
)
_NARROW_BELOW = 56
"""Columns for all fields in full."""


class EventRows:
    """The list of events: sent ones, the pending one, and the next ones."""

    def __init__(self, debugger: Debugger, width: int) -> None:
        self._debugger = debugger
        self._upcoming_events = [] if debugger.is_running else debugger.upcoming
        self._grid = TableGrid.of(_NARROW if width < _NARROW_BELOW else _FIELDS, width)

    def __len__(self) -> int:
        debugger, upcoming = self._debugger, self._upcoming_events
        return (
            len(debugger.sent) + 1 + len(upcoming) + bool(upcoming and debugger.has_more_upcoming)
        )

    def __getitem__(self, index: int, /) -> StyledLine:
        debugger = self._debugger
        if index < len(debugger.sent):
            return self._sent(debugger.sent[index])
        index -= len(debugger.sent) + 1
        if index < 0:
            return self._pending()
        if index < len(self._upcoming_events):
            return self._upcoming(self._upcoming_events[index])
        return line("         …", Style.DIM)

    def _sent(self, event: SentEvent) -> StyledLine:
        played = event.played
        words, style = _verdict(played)
        took = max((reply.took_ns for reply in played.replies), default=0)
        return self._line(
            " ", played.event_id, played.event, played.subject, Span(words, style), took
        )

    def _pending(self) -> StyledLine:
        debugger = self._debugger
        pending = debugger.pending
        if debugger.failure:
            return (Span("> ", Style.BAD), Span(debugger.failure_words, Style.BAD))
        if debugger.is_running:
            return (Span("> ", Style.STRONG), Span("sending events …", Style.STRONG))
        if pending is None:
            text = "the end" if debugger.is_at_end else debugger.starting_words
            return (Span("> ", Style.STRONG), Span(text, Style.STRONG))
        words = Span("not sent" if debugger.session.is_stopped else "…", Style.STRONG)
        return self._line(
            ">", pending.event_id, pending.event, pending.subject, words, 0, Style.STRONG
        )

    def _upcoming(self, event: UpcomingEvent) -> StyledLine:
        return self._line(" ", event.event_id, event.event, event.subject, Span(""), 0, Style.DIM)

    def _line(
        self,
        sign: str,
        number: int,
        event: str,
        subject: str,
        words: Span,
        took_ns: int,
        style: Style = Style.PLAIN,
    ) -> StyledLine:
        took = duration(took_ns) if took_ns else ""
        texts = [sign, str(number) if number else "+", event, subject]
        cells = [*(Span(text, style) for text in texts), words, Span(took, Style.DIM)]
        return self._grid.line(cells)


def _verdict(played: PlayedEvent) -> tuple[str, Style]:
    if played.skipped:
        return "skipped", Style.DIM
    bad = [reply for reply in played.replies if reply.verdict is not Verdict.OK]
    if bad:
        return str(bad[0].verdict), Style.BAD
    if played.failure:
        return "fails", Style.BAD
    count = len(played.changes)
    changes = f"{count} change{'s' if count > 1 else ''}" if count else ""
    edited = "edited, " if EDITED in played.note else ""
    if ANSWERED in played.note:
        edited = "by hand, "
    if changes:
        return f"{edited}{changes}", Style.WARN
    if played.replies:
        return f"{edited}ok", Style.GOOD
    return ("no plugin" if played.event_id else ""), Style.DIM


def sent_lines(event: SentEvent, *, has_request: bool = True) -> Iterator[StyledLine]:
    """Yield an event's replies, changes and, with ``has_request``, its request and reply."""
    played = event.played
    plugins = dict.fromkeys(reply.plugin for reply in played.replies)
    report = ResultFormatter(chain=True, plugins=plugins)
    number = f"{played.event_id}  " if played.event_id else ""
    yield line(f"{number}{played.event} {played.subject}".rstrip(), Style.STRONG)
    is_shown = False
    for text in report.event(replace(played, output=[], output_left_out=0)):
        is_shown = True
        yield _tidied(spans_of(text), played)
    if not is_shown and played.event != REGISTER:
        yield line("  no plugin subscribes to it", Style.DIM)
    several = len(plugins) > 1
    for change in played.changes[:CHANGES_MAX]:
        notes = [change.plugin] if several else []
        notes += [change.container] if change.container != played.subject else []
        note = f"  ({', '.join(notes)})" if notes else ""
        yield spans_of(report.change(change.change, note))
    if len(played.changes) > CHANGES_MAX:
        yield line(f"  … and {len(played.changes) - CHANGES_MAX} more", Style.DIM)
    if not has_request:
        return
    for reply in played.replies:
        if reply.message is not None and reply.message.ListFields():
            yield line()
            yield line(f"reply of {reply.plugin}:", Style.STRONG)
            yield from message_lines(reply.message)
    if event.request is not None:
        yield line()
        yield line("request:", Style.STRONG)
        yield from message_lines(event.request)


def _tidied(parts: StyledLine, played: PlayedEvent) -> StyledLine:
    """Remove the columns for number, event and subject, which are in the line above."""
    text = "".join(part.text for part in parts)
    start = text.find(played.subject) if played.subject else -1
    if start < 0 or len(parts) != 1:
        return parts
    rest = text[start + len(played.subject) :].strip()
    return line(f"  {rest}", parts[0].style)


def content_lines(debugger: Debugger, index: int, width: int) -> list[StyledLine]:
    """Return the lines of one of the sent events; for another ``index``, of the pending one."""
    is_sent = index < len(debugger.sent)
    lines = sent_lines(debugger.sent[index]) if is_sent else pending_lines(debugger, width)
    return list(islice(lines, LINES_MAX))


def pending_lines(debugger: Debugger, width: int) -> Iterator[StyledLine]:
    """Yield the newest sent event, then the request of the pending one.

    After a failure, its reason is first, wrapped to ``width``.
    """
    if debugger.failure:
        yield line(debugger.failure_words, Style.STRONG)
        for text in wrap(safe(debugger.failure), width, break_on_hyphens=False):
            yield line(text, Style.BAD)
        yield line()
    if debugger.sent and debugger.sent[-1].played.event != REGISTER:
        yield from sent_lines(debugger.sent[-1], has_request=False)
        yield line()
    pending = debugger.pending
    if debugger.failure:
        return
    if debugger.is_running:
        yield line("sending events …", Style.STRONG)
        return
    if pending is None:
        yield line("the end" if debugger.is_at_end else debugger.starting_words, Style.STRONG)
        return
    number = f"{pending.event_id}  " if pending.event_id else ""
    yield line(f"next: {number}{pending.event} {pending.subject}".rstrip(), Style.STRONG)
    plugins = ", ".join(pending.plugins) or "no plugin"
    yield line(f"  to {plugins}", Style.DIM)
    if pending.request is None:
        yield line("  it cannot be decoded, and is sent as it was recorded", Style.WARN)
    else:
        yield from message_lines(pending.request)


def output_line(printed: PrintedLine) -> StyledLine:
    """Return a line of a plugin's output."""
    style = Style.WARN if printed.stream == "stderr" else Style.PLAIN
    return (Span(f"{printed.plugin} ", Style.DIM), Span(printed.text, style))


def message_lines(message: Message) -> Iterator[StyledLine]:
    """Yield a message as YAML."""
    form = message_form(message)
    if not form:
        yield line("  (empty)", Style.DIM)
        return
    count = 0
    for text in islice(yaml_lines(form), YAML_LINES_MAX):
        count += 1
        cut = text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"
        yield styled_yaml(f"  {cut}")
    if count == YAML_LINES_MAX:
        yield line("  … the rest is omitted", Style.WARN)


def title_words(debugger: Debugger) -> str:
    """Return the plugins with their processes."""
    plugins = [f"{name} pid {pid}" for name, pid in debugger.processes]
    if not plugins and debugger.pending is not None:
        plugins = list(debugger.pending.plugins)
    return " · ".join(["debug", *plugins])


def status_words(debugger: Debugger) -> str:
    """Return what was sent, what it waits for, and where it stops."""
    parts: list[str] = []
    if debugger.failure:
        parts.append(restart_words(debugger))
    elif debugger.session.is_catching_up:
        parts.append(f"replaying to the same point …{_newest_words(debugger)}")
    elif not debugger.session.is_stopped and debugger.pending is not None:
        parts.append("waiting for the plugin; Esc stops at the next event")
    if words := debugger.breakpoints.words():
        parts.append(f"breaks: {words}")
    sent = debugger.sent_before_kept + len(debugger.sent)
    return " · ".join([f"{sent:,} sent", *parts])


def _newest_words(debugger: Debugger) -> str:
    """Return the event on which the plugin works, or "" before the first."""
    newest = debugger.newest
    if newest is None:
        return ""
    name = f"{newest.event_id or '+'} {newest.event} {safe(newest.subject)}".rstrip()
    return f" waiting for the reply to {name}; p goes back before it"


def restart_words(debugger: Debugger) -> str:
    """Return what failed, and the key that starts it again."""
    return f"{debugger.failure_words}: R starts it again"
