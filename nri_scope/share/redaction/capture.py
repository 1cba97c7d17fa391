# SPDX-License-Identifier: Apache-2.0
"""Redaction at the source: what a recorder is handed, before any of it is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nri_scope.errors import RecordingError, UsageError
from nri_scope.events import Captured
from nri_scope.nri.methods import METHODS
from nri_scope.recorder.inbox import Begin, End, Missed, PluginLine, Remark, Resumed, Told

from .memory_limits import Memory
from .name_kinds import NameKind
from .redactor import Redactor
from .rules import Rules
from .user_key import derive, local_key

NOTE = "what is secret was replaced by tokens while this was recorded (--redact)"
"""A note that every recording of this kind has."""

MEMORY = Memory(values=20_000, shown=128 << 10, cached=4 << 20, part=512 << 10, message=4 << 20)
"""A recorder runs for weeks, and pauses of Python's garbage collector, in which the runtime waits
for an answer, grow with what it keeps. And while it works on one message, all others wait."""


class AtSource:
    """Redacts what one recorder writes. For its writer's thread."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    @classmethod
    def to(cls, path: Path, rules: Rules) -> AtSource:
        """For the recording at ``path``, with this machine's key. Raises UsageError."""
        key = derive(local_key(), b"record\0" + bytes(path.absolute()))
        return cls(Redactor(rules, key, memory=MEMORY))

    def captured(self, item: Captured) -> Captured:
        """An event as it may be written."""
        redactor = self._redactor
        known = item.method in METHODS
        # In this order: what is not in the request itself is of the container that it is about.
        request = redactor.request(item.method, item.request, service=item.service)
        reply = redactor.reply(item.method, item.reply, service=item.service)
        said = redactor.text(item.status_message, "event.status_message", of_event=True)
        return item._replace(
            method=item.method if known else redactor.text(item.method, "event.method"),
            request=request,
            reply=reply,
            status_message=said,
            service=redactor.text(item.service, "event.service"),
            metadata=tuple(
                redactor.keyed(key, value, "tapped.metadata") for key, value in item.metadata
            ),
        )

    def told(self, entry: Told) -> Told:
        """What is no event, likewise."""
        redactor = self._redactor
        match entry:
            case Begin(start=start) | Resumed(start=start):
                start = replace(
                    start,
                    plugin_name=redactor.name(NameKind.PLUGIN, start.plugin_name),
                    runtime_name=redactor.name(NameKind.RUNTIME, start.runtime_name),
                    runtime_version=redactor.name(NameKind.RUNTIME, start.runtime_version),
                    nri_version=redactor.name(NameKind.RUNTIME, start.nri_version),
                )
                return replace(entry, start=start)
            case End():
                return replace(entry, reason=redactor.text(entry.reason, "session.end_reason"))
            case Missed():
                return replace(entry, reason=redactor.text(entry.reason, "gap.reason"))
            case Remark():
                return replace(entry, text=redactor.text(entry.text, "note.text"))
            case PluginLine():
                return replace(entry, text=self.printed(entry.text))

    def printed(self, text: str) -> str:
        """A line that a plugin printed, likewise."""
        return self._redactor.text(text, "output.text")


def check_continued(path: Path, *, redacts: bool) -> None:
    """Refuse to mix events that are redacted with others in one file. Raises UsageError.

    A file that cannot be read is left to whoever wants to write it, and knows more to say.
    """
    from nri_scope.recording.reader import Recording

    try:
        if not path.exists():
            return
        with Recording.open(path) as recording:
            # However many there are: where they are too many to be read, they count all the same.
            notes = recording.rows("SELECT 1 FROM note WHERE text = ? LIMIT 1", [NOTE])
            sessions = recording.rows("SELECT 1 FROM session LIMIT 1")
    except (OSError, RecordingError):
        return
    if notes and not redacts:
        raise UsageError(f"{path} was recorded with --redact", "add it, or name another file")
    if redacts and sessions and not notes:
        raise UsageError(
            f"{path} holds events that were recorded without --redact", "name another file"
        )
