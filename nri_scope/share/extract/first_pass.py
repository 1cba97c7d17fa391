# SPDX-License-Identifier: Apache-2.0
"""Let a `Change` learn from the whole original first.

The evidence that a value is a secret may be in an event that is left out, while the value itself
occurs in an event that is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nri_scope.events import Mark
from nri_scope.recording.marks.store import marks_of
from nri_scope.recording.message_parts import synchronize
from nri_scope.recording.reader import Recording
from nri_scope.recording.tap_tables import printed, tapped

from ..redaction import NameKind
from ..redaction.name_kinds import SESSION_NAMES
from .exchanges import Stopped, exchanges
from .message_changes import Change
from .sources import IncludedRows
from .wire_names import is_known


def learn(
    source: Recording,
    part: IncludedRows,
    change: Change,
    on_progress: Callable[[float], None],
    marks: Sequence[Mark] | None = None,
    learned: int = 0,
) -> None:
    """Let the change learn all up to `IncludedRows.until`, which is lowered at a damaged event.

    ``marks`` are the marks of the original; None: use the marks stored in it and beside it.
    ``learned``: the last event of this recording from which this change has already learned.

    Raises RecordingError if a table is damaged.
    """
    sessions = source.sessions()
    for session in sessions:
        for name, kind in SESSION_NAMES.items():
            change.learn_name(kind, getattr(session, name))
        change.learn_text(session.end_reason)
    for session in source.with_state(sessions):
        # Including sessions whose Synchronize event no longer exists.
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
    if part.until <= learned:
        return
    try:
        for some in exchanges(source, None, until=part.until):
            for one in some:
                method = one.event.method
                change.learn(method, one.request, one.reply, service=one.service)
                for name in {method, one.event.event, one.service}:
                    if not is_known(name):
                        change.learn_text(name)
                if one.event.status_message:
                    change.learn_text(one.event.status_message)
            for of_tap in tapped(source, [one.event.id for one in some]):
                for key, value in of_tap.metadata:
                    change.learn_keyed(key, value)
            if some:
                on_progress(some[-1].event.id / max(part.until, 1))
    except Stopped as stopped:
        # Later events were not learned from, so they must not be written.
        part.stop(stopped.event, stopped.cause)
