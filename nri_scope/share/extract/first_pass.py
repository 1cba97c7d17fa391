# SPDX-License-Identifier: Apache-2.0
"""Let a `Change` learn from the whole original before anything is copied.

The evidence that a value is a secret may be in an omitted event, while the value itself occurs in a
copied event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nri_scope.events import EVENT_TEXTS, Event, Mark
from nri_scope.recording.marks.sidecar import marks_of
from nri_scope.recording.message_parts import synchronize
from nri_scope.recording.reader import Recording
from nri_scope.recording.tap_tables import printed, tapped

from ..redaction import NameKind
from ..redaction.name_kinds import SESSION_NAMES
from .exchanges import Stopped, exchanges
from .message_changes import Change, is_known
from .sources import IncludedRows

_TOGETHER = 16
"""Number of events that are read together; learning from one may take 10 ms."""


def learn(
    source: Recording,
    part: IncludedRows,
    change: Change,
    on_progress: Callable[[float], None],
    marks: Sequence[Mark] | None = None,
    learned: int = 0,
) -> None:
    """Pass all events up to ``part.until`` and all table texts to ``change`` to learn from.

    ``part.until`` is lowered if an event is damaged.

    ``marks`` are the marks of the original; None: use the marks stored in it and beside it.
    ``learned`` is the last event from which ``change`` has already learned.

    Raises RecordingError if a table is damaged.
    """
    sessions = source.sessions()
    for session in sessions:
        for name, kind in SESSION_NAMES.items():
            change.learn_name(kind, getattr(session, name))
        change.learn_text(session.end_reason)
    for session in source.sessions_with_state(sessions):
        # This includes sessions whose Synchronize event no longer exists.
        state = source.state(session.id)
        if state.pods or state.containers:
            change.learn("Synchronize", synchronize(b"", state.pods, state.containers), b"")
    for container in source.containers():
        change.learn_name(NameKind.CONTAINER, container.name)
    for pod in source.pods():
        change.learn_name(NameKind.NAMESPACE, pod.namespace)
        change.learn_name(NameKind.POD, pod.name)
    for gap in source.gaps():
        change.learn_text(gap.reason)
    for note in source.notes():
        change.learn_text(note.text)
    for mark in marks_of(source) if marks is None else marks:
        change.learn_text(mark.comment)
    for line in printed(source):
        change.learn_text(line.text)
    for event in learn_events(source, part, change, learned):
        on_progress(event.id / max(part.until, 1))


def learn_events(
    source: Recording, part: IncludedRows, change: Change, after: int
) -> Iterator[Event]:
    """Pass the events after a number up to ``part.until`` to ``change`` to learn from.

    Yields some of the events, each after learning from it and all earlier ones. ``part.until`` is
    lowered if an event is damaged.
    """
    try:
        for page in exchanges(source, None, until=part.until, after=after, together=_TOGETHER):
            for one in page:
                method = one.event.method
                change.learn(method, one.request, one.reply, service=one.service)
                for name in {method, one.event.event, one.service}:
                    if not is_known(name):
                        change.learn_text(name)
                for text in filter(None, (getattr(one.event, name) for name in EVENT_TEXTS)):
                    change.learn_text(text)
            for observation in tapped(source, [one.event.id for one in page]):
                for key, value in observation.metadata:
                    change.learn_keyed(key, value)
            if page:
                yield page[-1].event
    except Stopped as stopped:
        # Later events were not learned from, so they must not be written.
        part.stop(stopped.event, stopped.cause)
