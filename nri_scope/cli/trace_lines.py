# SPDX-License-Identifier: Apache-2.0
"""Format an exchange between a runtime and a plugin as a line, or as a JSON record."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from google.protobuf.message import Message

from nri_scope.events import CapturedCall, Event
from nri_scope.nri.changes import evictions_in
from nri_scope.nri.plain import Plain
from nri_scope.nri.request_subject import UNKNOWN, decode_reply, decode_request, is_plugins_call
from nri_scope.oci import runtime_rules_of
from nri_scope.recording.display import Days, clock, duration, mark_words, response_time, subject
from nri_scope.recording.records import deadline_ms, event_record
from nri_scope.replay.golden.one_line import NOTHING, reply_words, request_words, synchronized_names
from nri_scope.replay.golden.reply_values import plain_reply
from nri_scope.text.escape import safe
from nri_scope.text.styled_text import Span, Style, StyledText, styled
from nri_scope.wire import Code

NAMES_MAX = 20_000
"""Maximum number of stored container names: several times the containers of a large node."""
DETAIL_MAX = 1000
"""Maximum number of columns of requests, replies and output, if the width is not limited."""


class Exchange(NamedTuple):
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

    def learn(self, exchange: Exchange) -> None:
        """Store the names of the containers in this exchange, by their ids."""
        event, captured = exchange
        if event.container_id and event.container:
            self._name(event.container_id, f"{event.namespace}/{event.pod}/{event.container}")
        if captured is None or event.method != "Synchronize":
            return
        message = decode_request(captured.method, captured.request, captured.service).message
        if message is not None:
            for container_id, name in synchronized_names(message):
                self._name(container_id, name)

    def of(self, exchange: Exchange) -> list[str]:
        """Return the lines of an exchange, without line ends."""
        event = exchange.event
        is_bad = event.status != "ok" or bool(event.mark)
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

    def record(self, exchange: Exchange) -> dict[str, Plain]:
        """Return the JSON record of an exchange: the keys of `log`, and the messages."""
        event, captured = exchange
        record = event_record(event)
        record["called_by"] = "plugin" if is_plugins_call(event.method, event.mark) else "runtime"
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

    def _call(self, exchange: Exchange) -> str:
        event, captured = exchange
        arguments = [subject(event)]
        if captured is not None and not event.mark:
            message = decode_request(captured.method, captured.request, captured.service).message
            if message is not None:
                arguments.append(request_words(message, self._name_of))
        # Calls by the plugin go in the other direction.
        marked = f" ({mark_words(event.mark)})" if event.mark else ""
        arrow = "← " if is_plugins_call(event.method, event.mark) else ""
        call = f"{event.event}({', '.join(filter(None, arguments))})"
        return f"{arrow}{call} = {self._outcome(exchange)}{_eviction(exchange)}{marked}"

    def _outcome(self, exchange: Exchange) -> str:
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


def _eviction(exchange: Exchange) -> str:
    """Return a remark if the runtime ignores requested evictions; else ""."""
    event, captured = exchange
    if captured is None or event.mark or not runtime_rules_of(event.runtime).ignores_evictions:
        return ""
    request = decode_request(captured.method, captured.request, captured.service).message
    messages = (request, None if event.status_code else _reply(event, captured))
    return "; the runtime ignores evictions" if any(map(evictions_in, messages)) else ""


def _reply(event: Event, captured: CapturedCall) -> Message | None:
    # A request for another service may have any reply.
    return None if event.mark == UNKNOWN else decode_reply(captured.method, captured.reply)
