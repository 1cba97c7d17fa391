# SPDX-License-Identifier: Apache-2.0
"""A debug session: its breakpoints, what was sent so far, and the commands of people.

The replies of two runs are compared as compact lines.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from google.protobuf.message import Message

from nri_scope.errors import NriScopeError, UsageError
from nri_scope.filter import Filter, parse
from nri_scope.nri.events import CREATE, METHODS, REGISTER, STOP, UPDATE, VALIDATE
from nri_scope.nri.request_subject import container_of, pod_of
from nri_scope.recording.query.event_times import within
from nri_scope.recording.query.session_choice import subject_of
from nri_scope.recording.reading.reader import Recording
from nri_scope.replay.debug_session import DebugListener, DebugSession
from nri_scope.replay.golden import Mismatch, MismatchKind, ReplyKey
from nri_scope.replay.golden.compare import compare_entries
from nri_scope.replay.golden.entries import entries_in_order
from nri_scope.replay.golden.matchers import Expected
from nri_scope.replay.golden.reply_values import NameOf
from nri_scope.replay.playback import PendingEvent, StepDecision
from nri_scope.replay.replies import Reply
from nri_scope.replay.result import PlayedEvent, PrintedLine, Replayed
from nri_scope.replay.run import Job
from nri_scope.replay.script import Script
from nri_scope.scenario.document import message_text, read_message
from nri_scope.text.escape import safe
from nri_scope.text.styled_text import Style, styled
from nri_scope.text.yaml_text import YamlValue, inline

REPLIES_SHOWN = 50
"""Maximum number of differing replies listed."""
PATHS_SHOWN = 20
"""Maximum number of differing paths of one reply listed."""
_VALUE_MAX = 200
"""Maximum number of characters of one value."""

MAX_BREAKPOINTS = 50


class Breakpoints:
    """The breakpoints of a session."""

    def __init__(self, filters: Sequence[Filter] = ()) -> None:
        self.filters = list(filters)

    def add(self, where: Filter) -> None:
        """Add a breakpoint, unless it exists. Raises UsageError if there are too many."""
        if any(known.text == where.text for known in self.filters):
            return
        if len(self.filters) == MAX_BREAKPOINTS:
            raise UsageError(f"there are {MAX_BREAKPOINTS} breakpoints", "remove some first")
        self.filters.append(where)

    def clear(self) -> int:
        """Remove all breakpoints; return how many there were."""
        count = len(self.filters)
        self.filters.clear()
        return count

    def stop(self, pending: PendingEvent) -> bool:
        """Return whether to stop before an event."""
        # An event that the profile adds has no recorded one of its own.
        recorded = replace(pending.step.recorded, event=pending.event)
        return any(where.matches(recorded) for where in self.filters)

    def words(self) -> str:
        """Return the texts of all, numbered; "" if there is none."""
        return "  ".join(f"{number} {where.text}" for number, where in enumerate(self.filters, 1))


EVENTS_KEPT = 10_000
"""Maximum number of sent events that are stored, the newest."""
REQUESTS_KEPT = 500
"""Maximum number of their requests that are stored."""
LINES_KEPT = 5_000
"""Maximum number of lines of the plugins' output that are stored."""
UPCOMING_READ = 200
"""Number of later events that are read at once."""

_AT_THE_END = UsageError("the replay is at its end", "go back, or send the last event again")


@dataclass(slots=True)
class SentEvent:
    """An event that was reported, and the request that was sent."""

    played: PlayedEvent
    request: Message | None = None
    """None if it is not stored any more, or if nothing was sent."""


class UpcomingEvent(NamedTuple):
    """A later event of the recording."""

    event_id: int
    event: str
    subject: str


class Debugger(DebugListener):
    """A debug session, for a screen or for lines of text."""

    def __init__(self, job: Job, breakpoints: Sequence[Filter] = (), until: int = 0) -> None:
        """Create it. ``until``: number of the event before which to stop first; 0 for none."""
        self.session = DebugSession(job, self)
        self.breakpoints = Breakpoints(breakpoints)
        self.pending: PendingEvent | None = None
        """The event that is sent next; None at the end, and before the first one."""
        self.newest: PendingEvent | None = None
        """The event on which the plugin works, or worked last."""
        self.is_at_end = False
        self.failure = ""
        """Why the replay ended early; "" if it did not."""
        self.sent: deque[SentEvent] = deque(maxlen=EVENTS_KEPT)
        self.sent_before_kept = 0
        """Number of older events that are not stored any more."""
        self.output: deque[PrintedLine] = deque(maxlen=LINES_KEPT)
        self.upcoming: list[UpcomingEvent] = []
        """The next events of the recording after the pending one."""
        self.has_more_upcoming = True
        """Whether the recording has more events than `upcoming`."""
        self.processes: tuple[tuple[str, int], ...] = ()
        """Plugins that were launched and their process ids."""
        self.replayed: Replayed | None = None
        """The current replay, without its events."""
        self.on_change: Callable[[], object] = lambda: None
        """Called when anything above has changed."""
        self.on_stop: Callable[[], object] = lambda: None
        """Called at each stop, and after a failure."""
        self._job = job
        self._until = until
        """Number of the event before which to stop first; 0 for none, -1 after the first stop."""
        self._before: list[Reply] = []
        """Replies of the run before."""
        self._has_restarted = False

    # -- progress of the replay ---------------------------------------------------------------

    def began(self, replayed: Replayed) -> None:
        """Remember the result, which has the names of containers."""
        self.replayed = replayed

    def event(self, played: PlayedEvent) -> None:
        """Add an event of the current run."""
        if self.session.is_ending:
            return
        if len(self.sent) == EVENTS_KEPT:
            self.sent_before_kept += 1
        self.sent.append(SentEvent(played))
        self.on_change()

    def sending(self, pending: PendingEvent) -> None:
        """Remember the event, on which the plugin works now."""
        self.newest = pending
        self.on_change()

    def event_sent(self, pending: PendingEvent, played: PlayedEvent) -> None:
        """Store the request of an event that was sent."""
        if len(self.sent) > REQUESTS_KEPT:
            self.sent[-REQUESTS_KEPT - 1].request = None
        for event in reversed(self.sent):
            # A failed creation is followed by events that undo it.
            if event.played is played:
                event.request = pending.request
                return

    def printed(self, line: PrintedLine) -> None:
        """Add a line that a plugin printed."""
        self.output.append(line)
        self.on_change()

    def stopped(self, pending: PendingEvent | None, position: int) -> None:
        """Show the pending event, unless the first stop is elsewhere."""
        self.pending, self.is_at_end = pending, pending is None
        self.failure = ""
        if pending is not None:
            self.processes = pending.processes
            if self._starts_later(pending):
                return
        self.on_stop()

    def _starts_later(self, pending: PendingEvent) -> bool:
        """Go on to the first breakpoint or to `_until` at the start; return whether it does."""
        if self._until < 0:
            return False
        until, self._until = self._until, -1
        if until and until > pending.event_id:
            self.session.go_on(lambda at: self.breakpoints.stop(at) or at.event_id >= until)
            return True
        if not until and self.breakpoints.filters and not self.breakpoints.stop(pending):
            self.session.go_on(self.breakpoints.stop)
            return True
        return False

    def notice(self, text: str) -> None:
        """Add a message to the output."""
        self.printed(PrintedLine("nri-scope", "note", text, 0))

    def lost(self, plugin: str, reason: str) -> None:
        """Say that a plugin is gone, also while nothing is sent."""
        if not self.session.is_ending:
            self.notice(f"{plugin} disconnected: {reason}")

    def restarting(self) -> None:
        """Keep the replies for a comparison, and begin anew."""
        if not self._has_restarted:
            self._before = [reply for event in self.sent for reply in event.played.replies]
        # A run without a stop is nothing to compare with.
        self._has_restarted = self._until < 0
        self.pending, self.is_at_end, self.failure = None, False, ""
        self.newest, self.processes = None, ()
        self.sent.clear()
        self.sent_before_kept = 0
        self.upcoming, self.has_more_upcoming = [], True
        self.on_change()

    def failed(self, error: NriScopeError) -> None:
        """Show why the replay ended, which ended its processes."""
        self.failure = str(error)
        self.pending, self.processes = None, ()
        self.on_stop()

    @property
    def failure_words(self) -> str:
        """What failed, in a few words."""
        # Before a plugin is ready, only its start is reported.
        is_started = any(event.played.event != REGISTER for event in self.sent)
        return "the replay ended early" if is_started else "the plugin did not start"

    @property
    def is_running(self) -> bool:
        """Whether events after the last stop are being sent."""
        if self.pending is None or self.session.is_stopped or not self.sent:
            return False
        return self.sent[-1].played.event_id > self.pending.event_id

    @property
    def starting_words(self) -> str:
        """What it waits for before the first event, or before it is back at an event."""
        if self.session.is_catching_up and self.sent:
            return "replaying to the same point …"
        socket = self._job.plugin_set.listen
        return f"waiting for a plugin at {socket}" if socket is not None else "starting …"

    async def differences(self) -> list[str] | None:
        """Return what differs from the run before, after a restart; None without one."""
        if not self._has_restarted or self.failure or self.replayed is None:
            return None
        before, self._has_restarted = self._before, False
        now = [reply for event in self.sent for reply in event.played.replies]
        # A run to an earlier point has fewer replies.
        before = before[: len(now)] if len(now) < len(before) else before
        name_of = self.replayed.name_of
        return await asyncio.to_thread(lambda: list(run_differences(before, now, name_of)))

    async def read_upcoming(self) -> None:
        """Read the events after the pending one, if too few are known."""
        after = self.pending.step.recorded.id if self.pending is not None else math.inf
        self.upcoming = [event for event in self.upcoming if event.event_id > after]
        self.on_change()
        is_enough = len(self.upcoming) > UPCOMING_READ // 2
        if self.pending is None or not self.has_more_upcoming or is_enough:
            return
        number = self.pending.step.recorded.id
        upcoming = await asyncio.to_thread(_upcoming, self._job, number)
        self._take_upcoming(number, upcoming)

    def _take_upcoming(self, after: int, upcoming: list[UpcomingEvent]) -> None:
        """Show the events after one, if that is still the pending one."""
        if self.pending is not None and self.pending.step.recorded.id == after:
            self.upcoming, self.has_more_upcoming = upcoming, len(upcoming) == UPCOMING_READ
            self.on_change()

    # -- commands -----------------------------------------------------------------------------

    def step(self) -> None:
        """Send the pending event."""
        self._check_pending()
        self.session.step()

    def go_on(self) -> None:
        """Send events up to one at which a breakpoint stops, or to the end."""
        self._check_pending()
        self.session.go_on(self.breakpoints.stop)

    def run_to(self, text: str) -> None:
        """Send events up to the one with this number, or up to a breakpoint."""
        pending = self._check_pending()
        if not (text.isascii() and text.isdigit()) or len(text) > 15:
            raise UsageError(f"{text!r} is not the number of an event", "write for example 12")
        number = int(text)
        if number <= pending.step.recorded.id:
            raise UsageError(f"event {number} is not after the pending one", "go back first")
        self.session.go_on(lambda at: self.breakpoints.stop(at) or at.step.recorded.id >= number)

    def break_on(self, text: str) -> None:
        """Add a breakpoint, a filter. Raises FilterError."""
        where = parse(text)
        if "time" in where.fields:
            with Recording.open(self._job.recording) as recording:
                where = within(recording, where) or where
        self.breakpoints.add(where)
        self.on_change()

    def again(self) -> None:
        """Send the last event again."""
        self.session.step(StepDecision(again=True))

    def skip(self) -> None:
        """Let the pending event take effect without sending it."""
        self._check_pending()
        self.session.step(StepDecision(skip=True))

    def back(self, events: int = 1) -> None:
        """Replay to a new process of the plugin, up to earlier events."""
        self.session.back(events)

    def restart(self) -> None:
        """Replay to a new process of the plugin, up to the same event."""
        self.session.restart()

    # -- edited requests and replies ----------------------------------------------------------

    def request_text(self) -> str:
        """Return the pending request as YAML. Raises UsageError."""
        return message_text(self._request()[1])

    def send_text(self, text: str) -> None:
        """Send the request in a text in place of the pending one. Raises UsageError."""
        pending, request = self._request()
        self._send(pending, request, read_message(text, type(request), "the request"))

    def answering_plugin(self, name: str = "") -> str:
        """Return the plugin in whose place to reply. Raises UsageError."""
        pending = self._check_pending()
        if not pending.plugins:
            raise UsageError(f"no plugin subscribes to {pending.event}", "skip it, or send it")
        if name and name not in pending.plugins:
            raise UsageError(f"{name} is not asked", f"it is {', '.join(pending.plugins)}")
        return name or pending.plugins[0]

    def answer_template(self, plugin: str) -> str:
        """Return a text to edit for the reply in a plugin's place. Raises UsageError."""
        pending = self._check_pending()
        kind = self._reply_kind(pending)
        fields = [field.name for field in kind.DESCRIPTOR.fields]
        known = f"Fields: {', '.join(fields)}." if fields else "This reply has no fields."
        lines = [
            f"Reply to {pending.event} {pending.subject} in place of {plugin}.",
            f"{known} Without any, the reply is empty.",
        ]
        text = "".join(f"# {line}\n" for line in lines)
        example = _REPLY_EXAMPLES.get(pending.event, "")
        return text + "".join(f"# {line}\n" for line in example.splitlines())

    def answer(self, plugin: str, text: str) -> None:
        """Use the reply in a text without asking the plugin. Raises UsageError."""
        pending = self._check_pending()
        reply = read_message(text, self._reply_kind(pending), "the reply")
        content = reply.SerializeToString(deterministic=True)
        self.session.step(StepDecision(answers={plugin: content}))

    def _check_pending(self) -> PendingEvent:
        if self.failure:
            raise UsageError("the replay has ended", "go back, or restart the plugin")
        if self.pending is None:
            raise _AT_THE_END
        return self.pending

    def _request(self) -> tuple[PendingEvent, Message]:
        pending = self._check_pending()
        if pending.request is None:
            raise UsageError(f"the request of {pending.event} is unknown", "send it as it is")
        return pending, pending.request

    def _send(self, pending: PendingEvent, request: Message, edited: Message) -> None:
        for what, subject in (("pod", pod_of), ("container", container_of)):
            old, new = subject(pending.event, request), subject(pending.event, edited)
            if old is not None and (new is None or new.id != old.id):
                raise UsageError(
                    f"the request: {what}.id: must stay {old.id}, or later events are about "
                    f"another {what}",
                    "change other fields",
                )
        if edited == request:
            raise UsageError("the request was not changed", "nothing was sent")
        self.session.step(StepDecision(request=edited))

    @staticmethod
    def _reply_kind(pending: PendingEvent) -> type[Message]:
        method = METHODS.get(pending.event)
        if method is None:
            raise UsageError(f"the reply to {pending.event} is unknown", "send it as it is")
        return method.reply


_REPLY_EXAMPLES = {
    CREATE: "adjust:\n  env:\n    DEBUG: '1'\n  annotations:\n    example.com/by: hand",
    UPDATE: "update:\n- container_id: ID\n  linux:\n    resources: {cpu: {shares: 512}}",
    STOP: "update:\n- container_id: ID\n  linux:\n    resources: {cpu: {shares: 512}}",
    VALIDATE: "reject: true\nreason: not allowed",
}


def _upcoming(job: Job, after: int) -> list[UpcomingEvent]:
    """Read the next events; in another thread, as a filter may match few of many events."""
    upcoming: list[UpcomingEvent] = []
    with Recording.open(job.recording) as recording:
        for event in Script(recording, job.selection).events_after(after):
            upcoming.append(UpcomingEvent(event.id, event.event, subject_of(event)))
            if len(upcoming) == UPCOMING_READ:
                break
    return upcoming


def run_differences(
    before: Iterable[Reply], now: Iterable[Reply], name_of: NameOf
) -> Iterator[str]:
    """Yield a line for each reply that differs, and for each path in it; safe for a terminal.

    They are in the order of the replies; one that is missing now follows its predecessor.
    """
    expected = cast("dict[ReplyKey, Expected]", entries_in_order(before, name_of))
    got = entries_in_order(now, name_of)
    places = {key: (place, 0) for place, key in enumerate(got)}
    last = -1, 0
    for key in expected:
        last = places.setdefault(key, (last[0], last[1] + 1))
    mismatches = compare_entries(expected, got, {})
    mismatches.sort(key=lambda mismatch: places[mismatch.key])
    for mismatch in mismatches[:REPLIES_SHOWN]:
        yield from _lines(mismatch)
    if len(mismatches) > REPLIES_SHOWN:
        yield styled(Style.DIM, f"… and {len(mismatches) - REPLIES_SHOWN} more replies")


def count_words(lines: Iterable[str]) -> str:
    """Return how many replies the lines of `run_differences` are about, for a message."""
    count = sum(not line.startswith(" ") for line in lines)
    return f"{count} {'reply differs' if count == 1 else 'replies differ'} from the run before"


def _lines(mismatch: Mismatch) -> Iterator[str]:
    name = safe(str(mismatch.key))
    if mismatch.kind is MismatchKind.UNUSED:
        yield styled(Style.BAD, f"{name}: there is no reply any more")
        return
    if mismatch.kind is MismatchKind.MISSING:
        yield styled(Style.GOOD, f"{name}: there was no reply before")
        yield f"  got {_shown(mismatch.got)}"
        return
    yield styled(Style.STRONG, name)
    for difference in mismatch.differences[:PATHS_SHOWN]:
        path = safe(difference.path, _VALUE_MAX) or "/"
        before, now = cast("YamlValue", difference.expected), difference.got
        if before is None:
            yield styled(Style.GOOD, f"  + {path} = {_shown(now)}")
        elif now is None:
            yield styled(Style.BAD, f"  - {path} (was {_shown(before)})")
        else:
            yield styled(Style.WARN, f"  ~ {path} {_shown(before)} → {_shown(now)}")
    if len(mismatch.differences) > PATHS_SHOWN:
        yield styled(Style.DIM, f"  … and {len(mismatch.differences) - PATHS_SHOWN} more paths")


def _shown(value: YamlValue) -> str:
    text = inline(value)
    return text if len(text) <= _VALUE_MAX else f"{text[: _VALUE_MAX - 1]}…"
