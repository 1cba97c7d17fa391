# SPDX-License-Identifier: Apache-2.0
"""Print a log: events, or operations in their place, as lines for people or as JSON.

`main` is the entry point of a process that writes a recording and prints its events, without
delaying the recorder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from nri_scope.cluster.pod_events import PodEvent
from nri_scope.differ.operations import Operation
from nri_scope.entries import Began, Ended, Item, time_of
from nri_scope.events import (
    LATE,
    CapturedCall,
    Event,
    Gap,
    Note,
    Printed,
    Problem,
    Session,
    Status,
    is_set_up,
)
from nri_scope.nri.identity import index_of
from nri_scope.nri.request_subject import is_plugins_call
from nri_scope.recording.display import (
    changes_count,
    changes_words,
    left_out_words,
    mark_words,
    runtime,
    short_subject,
    subject,
)
from nri_scope.recording.query.log_rows import sessions_overlap
from nri_scope.recording.reading.records import (
    deadline_ms,
    event_record,
    gap_record,
    printed_record,
    to_json,
)
from nri_scope.specs import label
from nri_scope.text.escape import columns, safe
from nri_scope.text.quantities import Days, clock, duration, response_time
from nri_scope.text.styled_text import Style, paint
from nri_scope.writer.background_output import Background
from nri_scope.writer.main import serve

from .output import Output

_EVENT_WIDTH = len("PostUpdatePodSandbox")
"""Fits every event name but ValidateContainerAdjustment, which shifts the rest of its line."""
_PLUGIN_WIDTH = 20
"""Maximum width of the plugin's column."""
_NARROW = 100
"""Below this width, plugins with an index are shown by their index only."""
_NAME_WIDTH = 20
"""Minimum columns for the names of a pod and a container, if there are as many."""
_DETAIL_WIDTH = 16
"""Minimum columns for changes; in less, only their number is shown."""
_MAX_PRINTED = 4_000
"""Maximum number of columns of a line of a plugin's output, if the width is not limited."""
_MAX_DETAIL = 300
"""Maximum number of columns of an error's text, if the width is not limited."""


LogItem = Item | Operation | PodEvent


def time_of_line(item: Item | Operation) -> int:
    """Return the time that the line of an item shows."""
    return item.first.at_ns if isinstance(item, Operation) else time_of(item)


class LogLines:
    """Formatter of log items, with an extra line for each new day.

    ``width``: maximum number of columns; None: no limit. ``delay_of``: returns what delayed an
    event before it was sent, or "".
    """

    def __init__(
        self,
        *,
        colour: bool = False,
        width: int | None = None,
        delay_of: Callable[[int], str] = lambda event: "",
    ) -> None:
        self._colour = colour
        self._width = width
        self._delay_of = delay_of
        self._with_session = False
        self._plugin_width = 0
        self._only_index = False
        self._plugins: dict[int, str] = {}
        self._days = Days()
        self.has_plugins = True
        """Whether lines of events have a column for the plugin, if there are several."""

    def add_columns(self, sessions: Iterable[Session]) -> None:
        """Show the plugin if there are several, and the session if that does not identify it."""
        by_plugin: dict[str, list[Session]] = {}
        for session in sessions:
            by_plugin.setdefault(session.plugin, []).append(session)
            self._plugins[session.id] = session.plugin
        self._with_session = any(map(sessions_overlap, by_plugin.values()))
        indices = set(map(index_of, by_plugin))
        if self._width is not None and self._width < _NARROW:
            self._only_index = len(indices) == len(by_plugin)
        if len(by_plugin) > 1 and self.has_plugins:
            shown = indices if self._only_index else by_plugin
            longest = max(columns(safe(plugin, _PLUGIN_WIDTH)) for plugin in shown)
            self._plugin_width = max(self._plugin_width, longest)

    def head(self, facts: Iterable[tuple[str, str]], left_out: int) -> list[str]:
        """Return what the sender of a bundle says of it, and how many events a part omits."""
        words = [f"{name}: {text}" for name, text in facts]
        words += [left_out_words(left_out)] if left_out else []
        return [self._rule(f"── {each}") for each in words]

    def of(self, item: LogItem) -> list[str]:
        """Return the lines of an item, without line ends; none for omitted events."""
        match item:
            case Event():
                delay = self._delay_of(item.id) if item.problem == Problem.SLOW else ""
                return [*self._new_day(item.at_ns), self._event(item, _detail(item, delay))]
            case Operation():
                event = item.summary()
                if is_set_up(item.events):
                    event = replace(event, event="set-up", method="")
                detail = _operation_detail(item, event)
                return [*self._new_day(event.at_ns), self._event(event, detail)]
            case Gap():
                if item.is_left_out:
                    return []
                return [*self._new_day(item.from_ns), self._gap(item)]
            case Began(session):
                return [*self._new_day(session.started_ns), self._rule(_began(session))]
            case Ended(session):
                return [self._rule(_ended(session))]
            case Note():
                return [*self._new_day(item.at_ns), self._note(item)]
            case Printed():
                return [*self._new_day(item.at_ns), self._printed(item)]
            case PodEvent():
                return [*self._new_day(item.at_ns), self.pod_event(item)]

    def _new_day(self, at_ns: int) -> list[str]:
        return [self._rule(line) for line in self._days.turn(at_ns)]

    def _rule(self, text: str) -> str:
        return self._paint(Style.STRONG, safe(text, self._width))

    def _event(self, event: Event, detail: str) -> str:
        session = f" s{event.session}" if self._with_session else ""
        is_failed = event.problem == Problem.FAILED or event.status != Status.OK
        mark = "!" if (is_failed and not event.is_sent_again) or event.mark else " "
        first = f"{event.id:>6}{session} "
        took = f"{response_time(event.took_ns):>6}"
        plugin = self._plugin(event.plugin)
        rest = f" {mark} {plugin}{safe(event.event):<{_EVENT_WIDTH}} "
        about, at = subject(event), clock(event.at_ns)
        if self._width is not None:
            left = self._width - len(first) - len(at) - len(took) - 1
            if left < 0:
                # Not even number, time and duration fit; omit colour, too.
                return safe(f"{first}{at} {took}", self._width)
            room = left - len(rest)
            if len(about) + len(detail) > room:
                # Names are cut first, down to what tells replicas and containers apart.
                least = min(room, max(room // 2, _NAME_WIDTH))
                if event.changed and room - least < _DETAIL_WIDTH:
                    detail = f"  {changes_count(event)}"
                about = short_subject(event, about, max(room - len(detail), least, 0))
            rest = f"{rest}{about}{detail}"
            if len(rest) > left or not rest.isascii():
                rest = safe(rest, left)
        else:
            rest = f"{rest}{about}{detail}"
        if mark == "!":
            return self._paint(Style.BAD, f"{first}{at} {took}{rest}".rstrip())
        if self._colour:
            return f"{paint(Style.DIM, first + at)} {took}{rest}".rstrip()
        return f"{first}{at} {took}{rest}".rstrip()

    def _plugin(self, name: str) -> str:
        if not self._plugin_width:
            return ""
        text = safe(index_of(name) if self._only_index else name, self._plugin_width)
        return f"{text}{' ' * (self._plugin_width - columns(text))} "

    def _gap(self, gap: Gap) -> str:
        session = f", session {gap.session}" if gap.session is not None else ""
        lost = "unknown" if gap.lost is None else str(gap.lost)
        length = duration(max(0, gap.to_ns - gap.from_ns))
        text = (
            f"   gap {clock(gap.from_ns)} {length:>6} ! events lost: {lost}{session}"
            f" ({_cut(gap.reason)})"
        )
        return self._paint(Style.WARN, safe(text, self._width))

    def _note(self, note: Note) -> str:
        session = f"session {note.session}: " if note.session is not None else ""
        return self._paint(
            Style.WARN, safe(f"  note {clock(note.at_ns)} {session}{note.text}", self._width)
        )

    def pod_event(self, event: PodEvent) -> str:
        """Return the line of a Kubernetes Event."""
        text = safe(f"   k8s {clock(event.at_ns)} {event.text}", self._width)
        return self._paint(Style.NOTE if event.type == "Normal" else Style.WARN, text)

    def _printed(self, line: Printed) -> str:
        session = f" s{line.session}" if self._with_session else ""
        plugin = self._plugin(self._plugins.get(line.session, ""))
        text = f"{'':>6}{session} {clock(line.at_ns)} {line.stream:>6} | {plugin}{line.text}"
        return self._paint(Style.DIM, safe(text, self._width or _MAX_PRINTED))

    def _paint(self, style: Style, text: str) -> str:
        # Faster than `StyledText` when the output is a pipe.
        return paint(style, text) if self._colour else text


class LogPrinter:
    """Printer of log items: lines for people, or one JSON object per line."""

    def __init__(
        self,
        output: Output,
        *,
        jsonl: bool,
        operations: bool = False,
        delay_of: Callable[[int], str] = lambda event: "",
    ) -> None:
        self._output = output
        self._lines = None
        if not jsonl:
            self._lines = LogLines(colour=output.colour, width=output.width, delay_of=delay_of)
            self._lines.has_plugins = not operations

    def begin(self, facts: Iterable[tuple[str, str]], left_out: int) -> None:
        """Print what the sender of a bundle says of it, and how many events a part omits.

        JSON does not say so.
        """
        for line in self._lines.head(facts, left_out) if self._lines is not None else ():
            self._output.line(line)

    def print_new(self, items: Iterable[LogItem], sessions: Iterable[Session]) -> int:
        """Print items, and write them; return the number of events and operations among them.

        Text gets the columns that these ``sessions`` need, see `LogLines.add_columns`.
        """
        if self._lines is not None:
            self._lines.add_columns(sessions)
        events = 0
        for item in items:
            self.print(item)
            events += isinstance(item, Event | Operation)
        self._output.flush()
        return events

    def print(self, item: LogItem) -> None:
        """Print one item. JSON omits notes, sessions, and events left out of a part."""
        if self._lines is not None:
            for line in self._lines.of(item):
                self._output.line(line)
            return
        match item:
            case Event():
                self._output.line(to_json(event_record(item)))
            case Operation():
                self._output.line(to_json(item.record()))
            case Gap() if not item.is_left_out:
                self._output.line(to_json(gap_record(item)))
            case Printed():
                self._output.line(to_json(printed_record(item)))
            case PodEvent():
                self._output.line(to_json({"kubernetes_event": item.record()}))
            case _:
                pass


def _detail(event: Event, delay: str = "") -> str:
    """Return errors, changes and other details of an event. ``delay``: what delayed it, or ""."""
    parts: list[str] = []
    is_failed_later = event.problem == Problem.FAILED and event.status == Status.OK
    if is_failed_later:
        parts.append("the operation failed")
    if delay:
        parts.append(f"slow before it: {_cut(delay)}")
    if event.mark:
        parts.append(safe(mark_words(event.mark), _MAX_DETAIL))
    if event.status == Status.TIMEOUT:
        deadline = deadline_ms(event.timeout_ns)
        limit = f" (deadline {duration(deadline * 1_000_000)})" if deadline else ""
        if event.status_message in ("", LATE):
            parts.append(f"reply too late{limit}")
        else:
            # The message is from the side that waited; whether a reply came later is unknown.
            parts.append(f"no reply in time{limit}: {_cut(event.status_message)}")
    elif event.is_sent_again:
        parts.append("the plugin lacks this call, StateChange follows")
    elif event.status != Status.OK:
        words = f": {_cut(event.status_message)}" if event.status_message else ""
        parts.append(f"error {event.status_code}{words}")
    if is_plugins_call(event.method, event.mark):
        parts.append("called by the plugin")
    if event.changed:
        parts.append(changes_words(event, lambda path: _cut(label(path)), _cut))
    return f"  {'; '.join(parts)}" if parts else ""


def _cut(text: str) -> str:
    return safe(text, _MAX_DETAIL)


def _operation_detail(operation: Operation, event: Event) -> str:
    """Return the result, changes, connections and longest time of an operation, which is shown as
    ``event``.
    """
    parts = [part for part in (_detail(event).strip(),) if part]
    if len(operation.events) > 1:
        parts.append(f"events {operation.first.id} to {operation.events[-1].id}")
    if is_set_up(operation.events):
        parts.append(f"of {_cut(event.plugin)}")
    elif operation.slowest_words:
        parts.append(f"slowest: {_cut(operation.slowest_words)}")
    return f"  {'; '.join(parts)}" if parts else ""


def _began(session: Session) -> str:
    return (
        f"── session {session.id}: {session.plugin} on {runtime(session)}, "
        f"from {clock(session.started_ns)[:8]}"
    )


def _ended(session: Session) -> str:
    assert session.ended_ns is not None
    why = f": {session.end_reason}" if session.end_reason else ""
    return f"── session {session.id} ended {clock(session.ended_ns)[:8]}{why}"


WAITING_MAX = 10_000
"""Maximum number of events queued for a slow terminal or pipe. Later events are recorded but not
printed, and the output shows their number."""


class Printer:
    """Prints events as they are recorded, as `log` does."""

    def __init__(self, print_format: str) -> None:
        self._output = Output()
        self._jsonl = print_format == "jsonl"
        self._background = Background[Event](
            LogPrinter(self._output, jsonl=self._jsonl).print,
            flush=self._output.flush,
            skipped=self._print_skipped,
            waiting_max=WAITING_MAX,
        )

    def show(self, event: Event, captured: CapturedCall) -> None:
        """Queue an event. Called in the writer's thread for each stored event."""
        self._background.put(event)

    def close(self) -> None:
        """Print the queued events, within a limited time."""
        self._background.close()

    def _print_skipped(self, count: int) -> None:
        text = f"{count} events were recorded but not printed"
        self._output.line(to_json({"skipped": count}) if self._jsonl else text)


def main(descriptor: int, print_format: str) -> int:
    """Write and print the events received through a channel; return the exit status."""
    printer = Printer(print_format)
    return serve(descriptor, printer.show, finish=printer.close)
