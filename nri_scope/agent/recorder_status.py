# SPDX-License-Identifier: Apache-2.0
"""The state of a node's recordings and of the recorders that write them."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import time_ns

from nri_scope import __version__
from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.errors import RecordingError
from nri_scope.events import LEFT_OUT, RING_REMOVED, Gap, Role, Session, plugin_title
from nri_scope.filter import parse
from nri_scope.nri.changes import consulted_plugins
from nri_scope.nri.events import VALIDATE
from nri_scope.recording.file.file_errors import error_words
from nri_scope.recording.file.heartbeat import read_heartbeat
from nri_scope.recording.query.lookup import event_range
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.sessions import gaps_between, with_ends
from nri_scope.share.agent_messages import session_message
from nri_scope.share.redacted_entries import redacted_session
from nri_scope.share.redaction import NameKind, Redactor

from .node_recordings import (
    FolderError,
    NodeRecording,
    NodeRecordings,
    UnchangedContents,
    time_of_event,
)

_PLUGINS_MAX = 100
_VALIDATIONS = parse(f"event:{VALIDATE}")
NO_LOSS = frozenset({LEFT_OUT, RING_REMOVED})
"""Reasons of gaps whose events were recorded."""


@dataclass(slots=True)
class _Validation:
    """The newest request to a validator, among the events up to ``until``."""

    until: int = 0
    """Number of the last event that was searched."""
    until_ns: int = 0
    """Time of that event, which identifies the recording."""
    session: int = 0
    """Session of the request."""
    at_ns: int = 0
    plugins: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class _Contents:
    """Content of a recording, apart from whether a recorder is writing it."""

    status: v1.RecordingStatus
    sessions: Sequence[Session]
    gaps: Sequence[Gap]
    session: Session | None
    """The last session of a recorder; None if there is none."""
    is_synchronized: bool
    """Whether the runtime had sent all containers to that session."""
    validation: _Validation


class RecorderStatus:
    """Reader of states, for any number of threads."""

    def __init__(self, recordings: NodeRecordings, node: str, redactor: Redactor | None) -> None:
        """``redactor``: for the names of plugins and runtimes."""
        self._recordings = recordings
        self._node = node
        self._redactor = redactor
        self._validations: dict[tuple[str, int], _Validation] = {}
        self._unchanged = UnchangedContents[_Contents]()
        self._lock = threading.Lock()

    def read(self) -> v1.GetStatusResponse:
        """Return the state of the node. Raises FolderError."""
        with self._lock:
            return self._read()

    def _read(self) -> v1.GetStatusResponse:
        files = self._recordings.all()
        present = {file.key for file in files}
        for key in self._validations.keys() - present:
            del self._validations[key]
        self._unchanged.keep(files)
        try:
            system = os.statvfs(self._recordings.folder)
        except OSError as error:
            raise FolderError(f"{self._recordings.folder}: {error_words(error)}") from error
        # When recorders observed the node.
        sessions: list[Session] = []
        gaps: list[Gap] = []
        recordings = [self._of(file, sessions, gaps) for file in files]
        return v1.GetStatusResponse(
            node=self._node,
            version=__version__,
            redacted=self._redactor is not None,
            now_ns=time_ns(),
            recorded_bytes=sum(file.size for file in files),
            free_bytes=system.f_bavail * system.f_frsize,
            recordings=recordings,
            gaps_between=len(gaps_between(sessions, gaps)),
        )

    def _of(
        self, file: NodeRecording, sessions: list[Session], gaps: list[Gap]
    ) -> v1.RecordingStatus:
        """Return the status of a recording; add its sessions and gaps to those of all."""
        status = v1.RecordingStatus(recording=file.name, size=file.size)
        try:
            contents = self._contents(file)
        except RecordingError as error:
            status.problem = error.problem
            return status
        status = replace(contents.status, size=file.size)
        heartbeat = read_heartbeat(file.path)
        if heartbeat is not None:
            status.recording_now = True
            status.heartbeat_ns, status.queued = heartbeat.at_ns, heartbeat.queued
            status.unwritten_since_ns = heartbeat.oldest_ns
            status.trouble = heartbeat.trouble(time_ns())
            # The recording does not have all of them yet.
            status.lost = max(status.lost, heartbeat.lost)
        session = contents.session
        status.connected = status.recording_now and session is not None and session.ended_ns is None
        status.synchronized = status.connected and contents.is_synchronized and not status.trouble
        validation = contents.validation
        if status.connected and session is not None and validation.session == session.id:
            status.plugins = validation.plugins
            status.plugins_at_ns = validation.at_ns
        gaps += contents.gaps
        own = contents.sessions
        sessions += own if status.recording_now else with_ends(own, status.newest_ns)
        return status

    def _contents(self, file: NodeRecording) -> _Contents:
        contents = self._unchanged.get(file)
        if contents is None:
            with Recording.open(file.path) as recording:
                contents = self._read_contents(file, recording)
            self._unchanged.put(file, contents)
        return contents

    def _read_contents(self, file: NodeRecording, recording: Recording) -> _Contents:
        status = v1.RecordingStatus(recording=file.name)
        sessions, gaps = recording.sessions(), recording.gaps()
        validation = self._validation(file, recording)
        session = next((known for known in reversed(sessions) if known.role == Role.LOGGER), None)
        if session is not None:
            redactor = self._redactor
            shown = session if redactor is None else redacted_session(redactor, session)
            status.session = session_message(file.name, shown)
        oldest, newest = event_range(recording)
        if newest:
            status.events = newest - oldest + 1
            status.oldest_ns = time_of_event(recording, oldest)
            status.newest_ns = time_of_event(recording, newest)
        losses = [gap for gap in gaps if gap.id and gap.reason not in NO_LOSS]
        status.gaps = len(losses)
        status.gaps_of_unknown_size = sum(gap.lost is None for gap in losses)
        status.lost = sum(gap.lost or 0 for gap in losses)
        is_synchronized = session is not None and recording.is_synchronized(session.id)
        return _Contents(status, sessions, gaps, session, is_synchronized, validation)

    def _validation(self, file: NodeRecording, recording: Recording) -> _Validation:
        """Return the newest request to a validator; only new events are searched for it."""
        validation = self._validations.get(file.key, _Validation())
        if validation.until and time_of_event(recording, validation.until) != validation.until_ns:
            # Another recording has the same name and inode.
            validation = _Validation()
        _, newest = event_range(recording)
        for event in recording.events(where=_VALIDATIONS, after_id=validation.until, last=1):
            plugins = (consulted_plugins(recording.request(event.id)) or [])[:_PLUGINS_MAX]
            validation.plugins = [self._shown(plugin_title(*plugin)) for plugin in plugins]
            validation.session, validation.at_ns = event.session, event.at_ns
        if newest:
            validation.until, validation.until_ns = newest, time_of_event(recording, newest)
        self._validations[file.key] = validation
        return validation

    def _shown(self, title: str) -> str:
        return title if self._redactor is None else self._redactor.name(NameKind.PLUGIN, title)
