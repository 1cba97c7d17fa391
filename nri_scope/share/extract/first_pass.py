# SPDX-License-Identifier: Apache-2.0
"""Let a redactor learn from the whole original before anything is copied.

The evidence that a value is a secret may be in an omitted event, while the value itself occurs in a
copied event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from nri_scope.entries import Began, EarlierState, Entry
from nri_scope.events import Event, Mark
from nri_scope.recording.entries import IncludedRows, Stopped, exchanges
from nri_scope.recording.marks.sidecar import marks_of
from nri_scope.recording.message_parts import synchronize
from nri_scope.recording.reader import Recording
from nri_scope.recording.tap_tables import printed

from ..redacted_entries import learn as learn_entry
from ..redaction import Redactor

_TOGETHER = 16
"""Number of events that are read together; learning from one may take 10 ms."""


def learn(
    source: Recording,
    part: IncludedRows,
    redactor: Redactor,
    on_progress: Callable[[float], None],
    marks: Sequence[Mark] | None = None,
    learned: int = 0,
) -> None:
    """Let ``redactor`` learn from all events up to ``part.until`` and from all tables.

    ``part.until`` is lowered if an event is damaged.

    ``marks`` are the marks of the original; None: use the marks stored in it and beside it.
    ``learned`` is the last event from which ``redactor`` has already learned.

    Raises RecordingError if a table is damaged.
    """
    sessions = source.sessions()
    entries: Iterator[Entry] = chain[Entry](
        map(Began, sessions),
        # This includes sessions whose Synchronize event no longer exists.
        (_state(source, session.id) for session in source.sessions_with_state(sessions)),
        source.containers(),
        source.pods(),
        source.gaps(),
        source.notes(),
        marks_of(source) if marks is None else marks,
        printed(source),
    )
    for entry in entries:
        learn_entry(redactor, entry)
    for event in learn_events(source, part, redactor, learned):
        on_progress(event.id / max(part.until, 1))


def _state(source: Recording, session: int) -> EarlierState:
    state = source.state(session)
    return EarlierState(session, 0, None, synchronize(b"", state.pods, state.containers))


def learn_events(
    source: Recording, part: IncludedRows, redactor: Redactor, after: int
) -> Iterator[Event]:
    """Let ``redactor`` learn from the events after a number up to ``part.until``.

    Yields some of the events, each after learning from it and all earlier ones. ``part.until`` is
    lowered if an event is damaged.
    """
    every = IncludedRows(until=part.until)
    try:
        for page in exchanges(source, every, after=after, together=_TOGETHER):
            for exchange in page:
                learn_entry(redactor, exchange)
            yield page[-1].event
    except Stopped as stopped:
        # Later events were not learned from, so they must not be written.
        part.stop(stopped.event, stopped.cause)
