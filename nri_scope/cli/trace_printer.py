# SPDX-License-Identifier: Apache-2.0
"""Print a plugin's requests and replies as they happen, like strace: as lines, or as JSON records.

`main` is the entry point of a process that writes the recording of a tap and prints the trace.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from contextlib import suppress
from time import time_ns
from typing import NamedTuple

from google.protobuf.message import Message

from nri_scope.capture.sink import ShownLine
from nri_scope.events import CapturedCall, Event, Status
from nri_scope.nri.changes import evictions_in
from nri_scope.nri.events import RUNTIME_SERVICE, SYNCHRONIZE
from nri_scope.nri.merging import EVICTION_IGNORED
from nri_scope.nri.plain import Plain
from nri_scope.nri.request_subject import UNKNOWN, decode_reply, decode_request, is_plugins_call
from nri_scope.oci import runtime_rules_of
from nri_scope.recording.display import mark_words, subject
from nri_scope.recording.reading.records import deadline_ms, event_record, rfc3339, to_json
from nri_scope.replay.golden.render import NOTHING, reply_words, request_words, synchronized_names
from nri_scope.replay.golden.reply_values import plain_reply
from nri_scope.text.escape import safe
from nri_scope.text.quantities import Days, clock, duration, response_time
from nri_scope.text.styled_text import Span, Style, StyledText, styled
from nri_scope.wire import Code
from nri_scope.writer.background_output import Background
from nri_scope.writer.main import serve

from .output import Output

NAMES_MAX = 20_000
"""Maximum number of stored container names: several times the containers of a large node."""
DETAIL_MAX = 1000
"""Maximum number of columns of requests, replies and output, if the width is not limited."""


class TracedExchange(NamedTuple):
    """One request with its reply."""

    event: Event
    captured: CapturedCall | None
    """The messages; None if they exceeded the memory limit for waiting messages."""


class TraceLines:
    """Formatter of exchanges, with an extra line for each new day.

    ``width``: maximum number of columns; None: `DETAIL_MAX`. ``with_plugin``: show the plugin's
    name. ``with_tap``: reserve columns for the tap's own time after the plugin's.
    """

    def __init__(
        self,
        *,
        width: int | None = None,
        with_plugin: bool = False,
        with_tap: bool = False,
    ) -> None:
        self._width = width
        self._took_width = len("1.23ms+999µs") if with_tap else len("1.23ms")
        self._with_plugin = with_plugin
        self._days = Days()
        self._names: OrderedDict[str, str] = OrderedDict()

    def learn(self, exchange: TracedExchange) -> None:
        """Store the names of the containers in this exchange, by their ids."""
        event, captured = exchange
        if event.container_id and event.container:
            self._name(event.container_id, f"{event.pod_prefix}{event.container}")
        if captured is None or event.method != SYNCHRONIZE:
            return
        message = decode_request(captured.method, captured.request, captured.service).message
        if message is not None:
            for container_id, name in synchronized_names(message):
                self._name(container_id, name)

    def of(self, exchange: TracedExchange) -> list[str]:
        """Return the lines of an exchange, without line ends."""
        event = exchange.event
        is_bad = event.status != Status.OK or bool(event.mark)
        plugin = f"{safe(event.plugin)} " if self._with_plugin else ""
        start = f"{event.id:>6} {clock(event.at_ns)} "
        took = response_time(event.took_ns)
        if exchange.captured is not None and exchange.captured.held_ns is not None:
            took += f"+{duration(exchange.captured.held_ns)}"
        rest = f"{took:>{self._took_width}} {'!' if is_bad else ' '} {plugin}{self._call(exchange)}"
        rest = safe(rest, DETAIL_MAX if self._width is None else max(0, self._width - len(start)))
        if is_bad:
            line = styled(Style.BAD, f"{start}{rest}")
        else:
            line = StyledText(Span(start, Style.DIM), rest)
        return [*self._new_day(event.at_ns), line]

    def printed(self, at_ns: int, plugin: str, stream: str, text: str) -> list[str]:
        """Return the lines for one line that a plugin printed."""
        prefix = f"{plugin} " if self._with_plugin else ""
        line = f"{'':>6} {clock(at_ns)} {stream:>{self._took_width}} | {prefix}{text}"
        return [*self._new_day(at_ns), styled(Style.DIM, safe(line, self._width or DETAIL_MAX))]

    def record(self, exchange: TracedExchange) -> dict[str, Plain]:
        """Return the JSON record of an exchange: the keys of `log`, and the messages."""
        event, captured = exchange
        record = event_record(event)
        record["called_by"] = _caller(exchange)
        record["error"] = None
        if event.status_code:
            record["error"] = {"code": event.status_code, "message": event.status_message}
        record["changed"] = list(event.changed)
        held_ns = None if captured is None else captured.held_ns
        record["tap_us"] = None if held_ns is None else held_ns // 1000
        record["request"] = record["reply"] = None
        if captured is not None:
            decoded = decode_request(captured.method, captured.request, captured.service)
            if decoded.message is not None:
                record["request"] = request_words(decoded.message, self._name_of)
            reply = None if event.status_code else _reply(event, captured)
            if reply is not None:
                record["reply"] = plain_reply(reply, self._name_of)
        return record

    # -- parts ------------------------------------------------------------------------------

    def _call(self, exchange: TracedExchange) -> str:
        event, captured = exchange
        arguments = [subject(event)]
        if captured is not None and not event.mark:
            message = decode_request(captured.method, captured.request, captured.service).message
            if message is not None:
                arguments.append(request_words(message, self._name_of))
        # Calls by the plugin go in the other direction.
        marked = f" ({mark_words(event.mark)})" if event.mark else ""
        arrow = "← " if _caller(exchange) == "plugin" else ""
        call = f"{event.event}({', '.join(filter(None, arguments))})"
        return f"{arrow}{call} = {self._outcome(exchange)}{_eviction(exchange)}{marked}"

    def _outcome(self, exchange: TracedExchange) -> str:
        """Return the result of the call."""
        event, captured = exchange
        message = f": {event.status_message}" if event.status_message else ""
        if event.status_code == Code.DEADLINE_EXCEEDED:
            limit = deadline_ms(event.timeout_ns)
            within = f" within {duration(limit * 1_000_000)}" if limit else " in time"
            reply = _reply(event, captured) if captured is not None and captured.reply else None
            late = "" if reply is None else f"; late reply: {reply_words(reply, self._name_of)}"
            return f"{event.status_message or f'no reply{within}'}{late}"
        if event.status_code == Code.UNAVAILABLE:
            return f"no reply{message}"
        if event.status_code:
            return f"error {event.status_code}{message}"
        if captured is None:
            return "(not shown: the output is too slow)"
        if not captured.reply:
            return NOTHING
        reply = _reply(event, captured)
        if reply is None:
            malformed = "" if event.mark == UNKNOWN else ", malformed"
            return f"{len(captured.reply)} bytes{malformed}"
        return reply_words(reply, self._name_of)

    def _new_day(self, at_ns: int) -> list[str]:
        return [styled(Style.STRONG, safe(line, self._width)) for line in self._days.turn(at_ns)]

    def _name(self, container_id: str, name: str) -> None:
        self._names[container_id] = name
        self._names.move_to_end(container_id)
        if len(self._names) > NAMES_MAX:
            self._names.popitem(last=False)

    def _name_of(self, container_id: str) -> str:
        return self._names.get(container_id, "")


def _eviction(exchange: TracedExchange) -> str:
    """Return a remark if the runtime ignores requested evictions; else ""."""
    event, captured = exchange
    if captured is None or event.mark or event.status_code:
        return ""
    request = decode_request(captured.method, captured.request, captured.service).message
    asked = any(map(evictions_in, (request, _reply(event, captured))))
    is_ignored = asked and runtime_rules_of(event.runtime).ignores_evictions
    return f"; {EVICTION_IGNORED}" if is_ignored else ""


def _caller(exchange: TracedExchange) -> str:
    """Return which side called the other one; "unknown" for a service of a newer protocol."""
    event, captured = exchange
    service = "" if captured is None else captured.service
    if is_plugins_call(event.method, event.mark) or service == RUNTIME_SERVICE:
        return "plugin"
    return "unknown" if service and event.mark == UNKNOWN else "runtime"


def _reply(event: Event, captured: CapturedCall) -> Message | None:
    # A request for another service may have any reply.
    return None if event.mark == UNKNOWN else decode_reply(captured.method, captured.reply)


WAITING_MAX = 10_000
"""Maximum number of items queued for a slow terminal or pipe. Later exchanges are recorded but not
printed, and the output shows the number of skipped items."""
WAITING_BYTES_MAX = 16 << 20
"""Maximum number of bytes of queued messages; further exchanges are printed without messages."""


OUTPUT_DELAY_S = 0.12
"""Seconds that a plugin's output waits for earlier exchanges, which the recorder forwards once they
are written, up to 50 ms later."""


class _OutputTurn(NamedTuple):
    """Queue entry that prints the waiting output: now if ``ready``, else after `OUTPUT_DELAY_S`."""

    ready: bool


class Trace:
    """Printer of recorded exchanges, and of plugins' output.

    Its methods can be called from any thread, and never block or raise. Only `close` waits.
    """

    def __init__(
        self,
        print_format: str,
        *,
        several: bool = False,
    ) -> None:
        """Start the output. ``print_format``: text or jsonl. ``several``: show the plugin in each
        line of text.
        """
        self._output = Output()
        self._jsonl = print_format == "jsonl"
        self._lines = TraceLines(
            width=self._output.width,
            with_plugin=several,
            with_tap=True,
        )
        # Each of the two counters is changed by one thread only.
        self._bytes_in = self._bytes_out = 0
        self._output_lines: deque[ShownLine] = deque(maxlen=WAITING_MAX)
        self._closing = threading.Event()
        self._background = Background[TracedExchange | _OutputTurn](
            self._print,
            flush=self._output.flush,
            skipped=self._print_skipped,
            waiting_max=WAITING_MAX,
        )

    def show(self, event: Event, captured: CapturedCall) -> None:
        """Queue one exchange that was recorded."""
        size = len(captured.request) + len(captured.reply)
        if self._bytes_in - self._bytes_out + size > WAITING_BYTES_MAX:
            self._background.put(TracedExchange(event, None))
            return
        self._bytes_in += size
        self._background.put(TracedExchange(event, captured))

    def printed(self, line: ShownLine) -> None:
        """Queue a line that a plugin printed."""
        self._output_lines.append(line)
        self._background.put(_OutputTurn(ready=False))

    def close(self) -> None:
        """Print the queued lines, within a limited time."""
        self._closing.set()
        self._background.put(_OutputTurn(ready=True))
        self._background.close()

    def _print(self, item: TracedExchange | _OutputTurn) -> None:
        if isinstance(item, _OutputTurn):
            self._take_turn(item)
            return
        if item.captured is not None:
            self._bytes_out += len(item.captured.request) + len(item.captured.reply)
        with suppress(Exception):
            # Also for exchanges that are not printed.
            self._lines.learn(item)
        self._print_output(item.event.at_ns)
        try:
            lines = self._rendered(item)
        except Exception:  # noqa: BLE001 - a peer's message must not end the trace
            lines = self._rendered(item._replace(captured=None))
        for line in lines:
            self._output.line(line)

    def _take_turn(self, turn: _OutputTurn) -> None:
        if turn.ready:
            self._print_output(
                None if self._closing.is_set() else time_ns() - int(OUTPUT_DELAY_S * 1e9)
            )
        elif self._output_lines:
            left = OUTPUT_DELAY_S - (time_ns() - self._output_lines[0].at_ns) / 1e9
            if 0 < left <= OUTPUT_DELAY_S:
                self._closing.wait(left)
            # Behind the exchanges that were queued meanwhile.
            self._background.put(_OutputTurn(ready=True))

    def _rendered(self, item: TracedExchange) -> list[str]:
        return [to_json(self._lines.record(item))] if self._jsonl else self._lines.of(item)

    def _print_output(self, until_ns: int | None) -> None:
        """Print the plugins' output from before ``until_ns``; None: all."""
        lines = self._output_lines
        while lines and (until_ns is None or lines[0].at_ns < until_ns):
            self._print_line(lines.popleft())

    def _print_line(self, printed: ShownLine) -> None:
        if self._jsonl:
            line: dict[str, Plain] = {"at": rfc3339(printed.at_ns), "plugin": printed.plugin}
            line |= {"stream": printed.stream, "text": printed.text}
            self._output.line(to_json({"output": line}))
            return
        for text in self._lines.printed(
            printed.at_ns, printed.plugin, printed.stream, printed.text
        ):
            self._output.line(text)

    def _print_skipped(self, count: int) -> None:
        text = f"{count} lines were not printed; recorded events are in the recording"
        self._output.line(to_json({"skipped": count}) if self._jsonl else text)


def main(descriptor: int, print_format: str, *several: str) -> int:
    """Write and print what is received through a channel; return the exit status."""
    trace = Trace(print_format, several=bool(several))
    return serve(descriptor, trace.show, trace.printed, trace.close)
