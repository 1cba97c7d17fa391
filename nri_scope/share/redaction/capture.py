# SPDX-License-Identifier: Apache-2.0
"""Redact at the source: all data for a recorder is redacted before it is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from nri_scope.errors import RecordingError, UsageError
from nri_scope.events import REDACTED, CapturedCall
from nri_scope.nri import invocation
from nri_scope.nri.methods import METHODS
from nri_scope.recorder.inbox import (
    Begin,
    ControlEntry,
    End,
    GapEntry,
    MetricsEntry,
    NoteEntry,
    PluginLine,
    Resume,
    ShownLine,
)

from .memory_limits import Memory
from .name_kinds import NameKind
from .redactor import Redactor
from .rules import Rules
from .user_key import derive, local_key

RECORDER_LIMITS = Memory(
    values=20_000, shown=128 << 10, cached=4 << 20, part=512 << 10, message=4 << 20
)
"""Limits for a recorder, which runs for weeks. Pauses of Python's garbage collector grow with the
memory in use, and while one message is redacted, all others wait in the queue."""


class SourceRedaction:
    """Redacts the data written by one recorder. Used only in the recorder's writer thread."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    @classmethod
    def to(cls, path: Path, rules: Rules) -> SourceRedaction:
        """Return redaction for the recording ``path``, with a key derived from the user's key.

        Raises UsageError.
        """
        key = derive(local_key(), b"record\0" + bytes(path.absolute()))
        return cls(Redactor(rules, key, memory=RECORDER_LIMITS))

    def redact_call(self, call: CapturedCall) -> CapturedCall:
        """Return an event, redacted for writing."""
        redactor = self._redactor
        is_invocation = call.service == invocation.SERVICE
        known = call.method in METHODS or is_invocation
        # The request must come first: it sets the container to which the other texts belong.
        request = redactor.request(call.method, call.request, service=call.service)
        reply = redactor.reply(call.method, call.reply, service=call.service)
        texts: dict[str, Any] = redactor.event_texts(call)
        return call._replace(
            method=call.method if known else redactor.text(call.method, "event.method"),
            request=request,
            reply=reply,
            service=call.service if is_invocation else redactor.text(call.service, "event.service"),
            metadata=tuple(
                redactor.keyed(key, value, "tapped.metadata") for key, value in call.metadata
            ),
            **texts,
        )

    def redact_entry(self, entry: ControlEntry) -> ControlEntry:
        """Return an entry other than an event, redacted for writing."""
        redactor = self._redactor
        match entry:
            case Begin(start=start) | Resume(start=start):
                names: dict[str, Any] = redactor.session_names(start)
                return replace(entry, start=replace(start, **names))
            case End():
                return replace(entry, reason=redactor.text(entry.reason, "session.end_reason"))
            case GapEntry():
                return replace(entry, reason=redactor.text(entry.reason, "gap.reason"))
            case NoteEntry():
                return replace(entry, text=redactor.text(entry.text, "note.text"))
            case MetricsEntry():
                calls = ((redactor.name(NameKind.PLUGIN, one[0]), *one[1:]) for one in entry.calls)
                return replace(entry, calls=tuple(calls))
            case PluginLine():
                return replace(entry, text=redactor.text(entry.text, "output.text"))
            case ShownLine():
                plugin = redactor.name(NameKind.PLUGIN, entry.plugin)
                return replace(entry, plugin=plugin, text=redactor.text(entry.text, "output.text"))


def check_continued(path: Path, *, redacts: bool) -> None:
    """Raise UsageError if redacted and other events would be mixed in one file.

    An unreadable file is accepted: opening it for writing raises a better error.
    """
    from nri_scope.recording.reader import Recording
    from nri_scope.recording.writable_file import check_journal

    try:
        if not path.exists():
            return
        # Opening the file might roll back a hot journal; a recorder refuses such a file.
        check_journal(path)
        with Recording.open(path) as recording:
            # Not via the reader's list of notes, which is limited in length.
            notes = recording.rows("SELECT 1 FROM note WHERE text = ? LIMIT 1", [REDACTED])
            sessions = recording.rows("SELECT 1 FROM session LIMIT 1")
    except (OSError, RecordingError):
        return
    if notes and not redacts:
        raise UsageError(f"{path} is redacted", "add --redact, or name another file")
    if redacts and sessions and not notes:
        raise UsageError(f"{path} contains events recorded without --redact", "name another file")
