# SPDX-License-Identifier: Apache-2.0
"""The Summary tab: the main facts of an event, a gap or a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nri_scope.events import Container, Event, Gap, Pod, Role, Session, Status, is_set_up
from nri_scope.nri.events import events_in, mask_of
from nri_scope.nri.request_subject import is_plugins_call
from nri_scope.recording.display import mark_words, of_target, outcome_sign, runtime, subject
from nri_scope.recording.query import lookup
from nri_scope.recording.query.subject_queries import neighbours, pod_of_event
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.tap_tables import printed_by, tapped
from nri_scope.specs import label
from nri_scope.text.quantities import clock, day, deadline, duration, size

from ..store.rows import ListRow
from ..text.styled_line import Span, Style, StyledLine, clipped_text

INDENT = 12
"""Columns for labels, before the values."""
_LONG = 1_000
"""Maximum characters of a value."""
_LISTED = 200
"""Maximum number of changed paths or owners listed."""
_PRINTED = 100
"""Maximum number of lines of a plugin's output."""
_STATUS_STYLES = {Status.OK: Style.GOOD, Status.ERROR: Style.BAD, Status.TIMEOUT: Style.BAD}
_SLOW = 0.5
"""Share of the deadline from which a reply is called slow."""


def of_event(
    recording: Recording, event: Event, comment: str = "", findings: Sequence[str] = ()
) -> Iterator[StyledLine]:
    """Yield an event's facts, and the events before and after it. Raises RecordingError.

    ``findings``: titles of the findings that the event shows.
    """
    session = _session(recording, event.session)
    method = f"  {event.method}" if event.method != event.event else ""
    by = "  called by the plugin" if is_plugins_call(event.method, event.mark) else ""
    yield fact("event", (event.event, Style.STRONG), method, by)
    yield from _remarks(comment, findings)
    yield fact("number", f"{event.id}, the {_ordinal(event.seq)} of session {event.session}")
    yield fact("time", _moment(event.at_ns))
    yield from _reply(event)
    for known in tapped(recording, [event.id]):
        if known.held_ns is not None:
            yield fact("tap", duration(known.held_ns), "  in the tap, both directions")
        for key, value in known.metadata:
            yield fact("metadata", f"{key}: {value}")
    if event.mark:
        yield fact("marked", (mark_words(event.mark), Style.WARN))
    yield ()
    yield from _subject(recording, event)
    yield from _changed(event)
    yield ()
    yield fact("plugin", event.plugin, _role(session))
    yield fact("runtime", event.runtime if session is None else runtime(session))
    yield fact("request", size(event.size))
    yield ()
    yield from _printed(recording, event)
    yield from _neighbours(recording, event, event)


def of_operation(
    recording: Recording, row: ListRow, comment: str = "", findings: Sequence[str] = ()
) -> Iterator[StyledLine]:
    """Yield the facts of an operation, and what each connection saw. Raises RecordingError.

    ``findings``: titles of the findings that its events show.
    """
    event = row.event
    assert event is not None
    of_set_up = is_set_up(row.events)
    if of_set_up:
        session = (f"{event.session}", Style.STRONG)
        yield fact("session", session, f"  set-up of {event.plugin}")
    else:
        yield fact("operation", (event.event, Style.STRONG))
    yield from _remarks(comment, findings)
    first, last = row.events[0], row.events[-1]
    yield fact("events", f"{first.id} to {last.id}, {len(row.events)} in all")
    within = "in all" if of_set_up else "in the chain for"
    chain = f"  {within} {duration(event.took_ns)}" if event.took_ns else ""
    yield fact("time", _moment(event.at_ns), chain)
    status, style = row.cell("status"), _STATUS_STYLES.get(event.status, Style.WARN)
    yield fact("result", (status, style if status == event.status else Style.BAD))
    if row.slowest:
        yield fact("slowest", row.slowest)
    yield ()
    yield from _subject(recording, event)
    yield from _changed(event)
    yield ()
    for call in row.events:
        after = duration(max(0, call.mono_ns - first.mono_ns))
        name = call.event if of_set_up else "validates" if call.event != event.event else ""
        state = (call.status, _STATUS_STYLES.get(call.status, Style.WARN))
        took = f" in {duration(call.took_ns)}" if call.took_ns else ""
        text = f"+{after:<7} {call.plugin}  "
        yield fact(f"#{call.id}", text, state, took, (f"  {name}" if name else "", Style.DIM))
    yield ()
    yield from _neighbours(recording, first, last)


def _remarks(comment: str, findings: Sequence[str]) -> Iterator[StyledLine]:
    if comment:
        yield fact("comment", (comment, Style.NOTE))
    for title in findings:
        yield fact("finding", (title, Style.WARN))


def of_subject(recording: Recording, about: Pod | Container) -> Iterator[StyledLine]:
    """Yield the facts of a pod or container without a selected event. Raises RecordingError."""
    pod = about if isinstance(about, Pod) else about.pod
    if isinstance(about, Container):
        yield fact("container", (about.name or "(no name)", Style.STRONG))
        yield fact("", about.id)
    if pod is not None:
        yield from _pod(pod.namespace, pod.name, pod.id, pod.uid)
    if isinstance(about, Pod):
        for at, each in enumerate(lookup.containers_of(recording, about)[:_LISTED]):
            yield fact("" if at else "containers", each.name or "(no name)", f"  {each.id}")
    if not lookup.events_about(recording, about):
        yield fact("events", "none")


def of_gap(recording: Recording, gap: Gap) -> Iterator[StyledLine]:
    """Yield the facts of a gap. Raises RecordingError."""
    lost = "an unknown number" if gap.lost is None else f"{gap.lost:,}"
    if gap.is_left_out:
        yield fact("events", (f"{lost} left out of this part of the recording", Style.STRONG))
    else:
        yield fact("gap", ("not or only partly observed", Style.STRONG))
    yield fact("from", _moment(gap.from_ns))
    yield fact("to", _moment(gap.to_ns), f"  ({duration(max(0, gap.to_ns - gap.from_ns))})")
    yield fact("reason", (gap.reason or "unknown", Style.WARN))
    if not gap.is_left_out:
        yield fact("events lost", (lost, Style.BAD if gap.lost else Style.PLAIN))
    session = None if gap.session is None else _session(recording, gap.session)
    if session is not None:
        yield fact("session", f"{session.id}: {session.plugin} of {runtime(session)}")
    yield ()
    text = (
        "Events of this interval may be missing: changes in later events may have no visible cause."
    )
    yield (Span(text, Style.DIM),)


def of_session(session: Session) -> Iterator[StyledLine]:
    """Yield the facts of a session."""
    yield fact("session", (str(session.id), Style.STRONG))
    yield fact("plugin", session.plugin, _role(session))
    yield fact("runtime", runtime(session))
    yield fact("started", _moment(session.started_ns))
    if session.ended_ns is None:
        yield fact("ended", "not recorded: the session is open, or its recorder was killed")
    else:
        lasted = duration(max(0, session.ended_ns - session.started_ns))
        yield fact("ended", _moment(session.ended_ns), f"  (after {lasted})")
        yield fact("reason", session.end_reason or "unknown")
    if not session.is_connection:
        return
    yield fact("deadlines", *_deadlines(session))
    known = events_in(session.mask)
    unknown = session.mask & ~mask_of(known)
    names = [event.name for event in known]
    if unknown:
        names.append(f"unknown 0x{unknown:x}")
    yield fact("events", ", ".join(names) or "all events: the plugin set no mask")


def _reply(event: Event) -> Iterator[StyledLine]:
    took = f"in {duration(event.took_ns)}{_of_deadline(event)}"
    if not event.took_ns:
        took = "its time was not measured"
    style = _STATUS_STYLES.get(event.status, Style.WARN)
    code = f"  {_code(event.status_code)}" if event.status_code else ""
    yield fact("reply", (event.status, style), code, f"  {took}")
    if event.status_message:
        yield fact("message", (event.status_message, Style.BAD))


def _code(number: int) -> str:
    # Imported late: no other part of the terminal interface needs the protocol.
    from nri_scope.wire.ttrpc import Code

    known = f" ({Code(number).name.lower().replace('_', ' ')})" if number in set(Code) else ""
    return f"code {number}{known}"


def _of_deadline(event: Event) -> str:
    if event.timeout_ns <= 0:
        return ", without a deadline"
    part = event.took_ns / event.timeout_ns
    percent = f"{part:.0%}" if part >= 0.095 else f"{part * 100:.2g} %"
    slow = ": too late" if part > 1 else ": slow" if part >= _SLOW else ""
    return f", {percent} of the {deadline(event.timeout_ns)} deadline{slow}"


def _subject(recording: Recording, event: Event) -> Iterator[StyledLine]:
    about = subject(event)
    if not about:
        text = "unknown" if event.mark else "no pod or container"
        yield fact("about", (text, Style.DIM))
        return
    if event.container or event.container_id:
        yield fact("container", (event.container or "(no name)", Style.STRONG))
        yield fact("", event.container_id)
    if event.pod or event.pod_id:
        pod = pod_of_event(recording, event.id)
        uid = "" if pod is None else pod.uid
        yield from _pod(event.namespace, event.pod, event.pod_id, uid)


def _pod(namespace: str, name: str, pod_id: str, uid: str) -> Iterator[StyledLine]:
    full_name = f"{namespace}/{name}" if namespace else name
    yield fact("pod", (full_name or "(no name)", Style.STRONG))
    yield fact("", pod_id)
    if uid not in ("", pod_id):
        yield fact("uid", uid)


def _changed(event: Event) -> Iterator[StyledLine]:
    """Yield the changes and other requests that the event shows, with their outcomes."""
    title = ""
    for at, path in enumerate(event.changed[:_LISTED]):
        known = at < len(event.outcomes)
        words = "asked for" if outcome_sign(event, at) else "changed"
        outcome = f"  {event.outcomes[at] if known else 'outcome not analysed yet'}"
        of = of_target(event.targets[at]) if known else ""
        by = f"  by {event.owners[at]}" if known else ""
        key = "" if words == title else words
        yield fact(key, (label(path), Style.WARN), of, by, (outcome, Style.DIM))
        title = words
    if len(event.changed) > _LISTED:
        yield fact("", f"… {len(event.changed) - _LISTED:,} more")
    if event.owners and not event.outcomes:
        yield fact("by", ", ".join(event.owners[:_LISTED]))


def _neighbours(recording: Recording, first: Event, last: Event) -> Iterator[StyledLine]:
    before, after = neighbours(recording, first, last, of_container=False)
    beside = [("before", first, before), ("after", last, after)]
    if first.container_id:
        earlier, later = neighbours(recording, first, last, of_container=True)
        beside += [("earlier", first, earlier), ("later", last, later)]
    for name, event, other in beside:
        of_same = " of this container" if name in ("earlier", "later") else ""
        if other is None:
            yield fact(name, (f"no event{of_same}", Style.DIM))
            continue
        apart = abs(other.at_ns - event.at_ns)
        about = of_same or f"  {subject(other)}"
        yield fact(name, f"{duration(apart)}: {other.id} {other.event}", (about, Style.DIM))


def _printed(recording: Recording, event: Event) -> Iterator[StyledLine]:
    """Yield the plugin's output from this event to its next one."""
    lines, count = printed_by(recording, event, _PRINTED)
    for line in lines:
        yield fact(line.stream, line.text)
    if count > len(lines):
        yield fact("", (f"and {count - len(lines):,} more lines", Style.DIM))
    if lines:
        yield ()


def _session(recording: Recording, number: int) -> Session | None:
    return next((session for session in recording.sessions() if session.id == number), None)


def _role(session: Session | None) -> str:
    if session is None or session.role == Role.LOGGER:
        return ""
    return f"  ({session.role})"


def _deadlines(session: Session) -> Iterator[str]:
    if session.request_timeout_ms:
        yield f"{duration(session.request_timeout_ms * 10**6)} for a reply"
    if session.registration_timeout_ms:
        between = ", " if session.request_timeout_ms else ""
        yield f"{between}{duration(session.registration_timeout_ms * 10**6)} to register"
    if not (session.request_timeout_ms or session.registration_timeout_ms):
        yield "not reported by the runtime"


def _moment(at_ns: int) -> str:
    date, _, zone = day(at_ns).partition(" ")
    return f"{date} {clock(at_ns)} {zone}"


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{'th' if number % 100 in (11, 12, 13) else ending}"


def fact(key: str, *values: str | tuple[str, Style]) -> StyledLine:
    """Return a line of a label and a value, in several parts; long texts are cut."""
    parts = [Span(f"{key:<{INDENT}}", Style.KEY)]
    for value in values:
        text, style = (value, Style.PLAIN) if isinstance(value, str) else value
        if text:
            parts.append(Span(clipped_text(text, _LONG), style))
    return tuple(parts)
