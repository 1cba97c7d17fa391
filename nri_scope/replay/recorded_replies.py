# SPDX-License-Identifier: Apache-2.0
"""Recorded replies of tapped plugins, used as the golden of a replay.

If the tapped session itself is replayed, recorded and new replies are matched by event number. If
another session or recording is replayed, they are matched by subject name and event, in order of
occurrence.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RpcError, UsageError
from nri_scope.events import Event, Role, Session
from nri_scope.filter import parse
from nri_scope.nri.events import CREATE, SYNCHRONIZE
from nri_scope.nri.request_subject import UNKNOWN, decode_reply, decode_request
from nri_scope.recording.query.lookup import container_name
from nri_scope.recording.query.session_choice import subject_of
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime.plugin_setup import is_setup
from nri_scope.text.escape import safe
from nri_scope.wire import Code

from .golden import Golden, Mismatch
from .replies import Reply, Verdict
from .result import Replayed
from .run import Job
from .script import ReplaySelection

if TYPE_CHECKING:
    from nri_scope.nri.plain import Plain


_LISTED = 20
"""Maximum number of plugins listed in an error."""
_VALIDATE = "ValidateContainerAdjustment"


class TappedPlugin(NamedTuple):
    """Tapped plugin whose recorded replies are expected of a plugin of the replay."""

    plugin: str
    """``NN-name`` of the plugin that was tapped."""
    sessions: tuple[int, ...]
    """Its sessions, in order."""
    is_replayed: bool
    """Whether its session itself is replayed."""


_Occurrence = tuple[str, str, str, int]
"""Plugin, subject, event, and ordinal number of this event for this subject."""


def _occurrence(reply: Reply) -> _Occurrence:
    return reply.plugin, reply.subject, reply.event, reply.occurrence


def _comparable(replies: Iterator[Reply]) -> Iterator[Reply]:
    """Yield replies to recorded events and Synchronize, without duplicates."""
    compared: set[tuple[str, int, str]] = set()
    for reply in replies:
        event = (reply.plugin, reply.event_id, reply.event)
        if (reply.event_id or reply.event == SYNCHRONIZE) and event not in compared:
            compared.add(event)
            yield reply


class _RecordedReplies:
    """Reader of the expected replies."""

    def __init__(
        self,
        recording: Recording,
        replayed: Replayed,
        models: Mapping[str, TappedPlugin],
        *,
        is_part: bool,
    ) -> None:
        """``is_part``: the initial state of the replay may differ from the session's."""
        self._is_part = is_part
        self._recording = recording
        self._models = models
        self._played = {
            event.event_id for event in replayed.events if event.event_id and not event.skipped
        }
        self._happened = Counter(
            (event.event, event.subject)
            for event in replayed.events
            if event.event_id in self._played
        )
        self._first = next((event.event_id for event in replayed.events if event.event_id), 0)
        self._got = {
            (reply.plugin, reply.event_id, reply.event): reply.occurrence
            for reply in _comparable(replayed.replies())
        }
        self._synchronized = {
            reply.plugin for reply in replayed.replies() if reply.event == SYNCHRONIZE
        }
        self._unreadable: set[_Occurrence] = set()

    def all(self) -> tuple[list[Reply], set[_Occurrence]]:
        """Return the expected replies, and the occurrences whose reply is unknown."""
        replies: list[Reply] = []
        for plugin, model in self._models.items():
            of_plugin = list(self._of(plugin, model))
            # Replies with a counterpart in this replay come first.
            replies += sorted(of_plugin, key=lambda reply: reply.occurrence == 0)
            if self._is_part and not model.is_replayed:
                self._unreadable.add((plugin, "", SYNCHRONIZE, 1))
        return [
            reply for reply in replies if _occurrence(reply) not in self._unreadable
        ], self._unreadable

    def _of(self, plugin: str, model: TappedPlugin) -> Iterator[Reply]:
        counts: dict[tuple[str, str], int] = {}
        creations: dict[str, int] = {}
        is_first = True
        for session in model.sessions:
            for event, request, data in self._recording.exchanges(
                where=parse(f"session:{session}")
            ):
                if event.method == SYNCHRONIZE:
                    # A runtime may send launched plugins no Synchronize.
                    if (
                        plugin in self._synchronized
                        and _is_last_part(request)
                        and not counts.get((SYNCHRONIZE, ""))
                    ):
                        counts[SYNCHRONIZE, ""] = 1
                        yield from self._reply(event, data, plugin, 0, 1)
                    continue
                if is_setup(event.method, event.mark) or event.is_sent_again:
                    continue
                if event.event == CREATE:
                    creations[event.container_id] = event.id
                subject = subject_of(event)
                if not model.is_replayed:
                    count = counts[event.event, subject] = counts.get((event.event, subject), 0) + 1
                    # The replayed session may lack validation requests, which follow creations.
                    method = CREATE if event.event == _VALIDATE else event.event
                    if count <= self._happened[method, subject]:
                        yield from self._reply(event, data, plugin, event.id, count)
                    continue
                if is_first and event.id != self._first:
                    # The replay's initial state differs from the recorded one.
                    self._unreadable.add((plugin, "", SYNCHRONIZE, 1))
                is_first = False
                number = event.id
                if event.event == _VALIDATE:
                    number = creations.get(event.container_id, 0)
                if number in self._played:
                    count = self._got.get((plugin, number, event.event), 0)
                    yield from self._reply(event, data, plugin, number, count)

    def _reply(
        self, event: Event, data: bytes, plugin: str, number: int, count: int
    ) -> Iterator[Reply]:
        subject = "" if event.method == SYNCHRONIZE else subject_of(event)
        message, verdict, problem = None, Verdict.OK, ""
        # Late replies are compared, too.
        if event.status_code == Code.OK or (event.status_code == Code.DEADLINE_EXCEEDED and data):
            message = decode_reply(event.method, data)
        elif event.status_code not in (Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE):
            verdict = Verdict.ERROR
            problem = str(RpcError(event.status_code, event.status_message))
        if message is None and verdict is Verdict.OK and event.mark != UNKNOWN:
            # The reply is malformed, or was not received.
            self._unreadable.add((plugin, subject, event.event, count))
            return
        yield Reply(
            event_id=number,
            event=event.event,
            plugin=plugin,
            subject=subject,
            occurrence=count,
            message=message,
            verdict=verdict,
            problem=problem,
            took_ns=event.took_ns,
            deadline_ns=event.timeout_ns,
        )


def _is_last_part(request: bytes) -> bool:
    message = decode_request(SYNCHRONIZE, request).message
    return isinstance(message, api.SynchronizeRequest) and not message.more


SOURCE_LABEL = "the tap in"
"""Label printed before the recording's path, where a golden's label is used otherwise."""
SESSIONS_LISTED = 20
"""Maximum number of sessions listed in a verdict."""
NOTES_MAX = 5
"""Maximum number of notes printed for one session."""
NOTE_WIDTH_MAX = 400
"""Maximum number of columns of a note."""


class TapComparison:
    """Comparison of one replay with a tap's recording: `prepared` before it, `compare` after it."""

    def __init__(self, path: Path, job: Job) -> None:
        """Open the recording, and find the plugins that were tapped.

        Raises `RecordingError` if it cannot be read, and `UsageError` if no plugin matches.
        """
        self.path = path
        self._tapped: dict[str, tuple[Session, ...]] = {}
        """Sessions by ``NN-name`` in order, at least one per plugin."""
        self._notes: dict[int, list[str]] = {}
        """Notes by session, for example on injected faults."""
        with Recording.open(path) as recording:
            sessions = [session for session in recording.sessions() if session.role == Role.TAP]
            self._usable = frozenset(tap.id for tap in sessions if recording.state(tap.id).complete)
            """Sessions that can be replayed because their Synchronize is complete."""
            for note in recording.notes():
                if note.session is not None:
                    self._notes.setdefault(note.session, []).append(note.text)
        for session in sessions:
            self._tapped[session.plugin] = (*self._tapped.get(session.plugin, ()), session)
        if not sessions:
            raise UsageError(
                f"{safe(str(path))}: contains no replies of a plugin: it is not a tap's recording",
                "record with `tap`, or write a golden with --golden and --update-golden",
            )
        self._is_replayed = os.path.realpath(path) == os.path.realpath(job.recording)
        """Whether this recording is replayed."""
        self._models: Mapping[str, TappedPlugin] = {}
        # Names of external plugins are unknown until they connect.
        plugin_set = job.plugin_set
        plugins = [] if plugin_set.has_externals else [plugin.id for plugin in plugin_set.plugins]
        chosen = self._session_for(plugins, job.selection)
        self._selection = replace(job.selection, session=chosen)
        if plugins:
            self._models = self._models_of(plugins, self._selection)

    def prepared(self, job: Job) -> Job:
        """Return the job with the tapped session selected, unless --session selects another."""
        return replace(job, selection=self._selection)

    def compare(self, replayed: Replayed) -> list[Mismatch]:
        """Return the mismatches of replies with the recorded ones.

        Raises `RecordingError`, and `UsageError` if no recorded plugin matches, or if there are no
        recorded replies.
        """
        plugins = [plugin.plugin for plugin in replayed.plugins]
        # A launched plugin that sets its own index was started again as an external one.
        if self._models.keys() != set(plugins):
            self._models = self._models_of(plugins, self._selection)
        models = self._models
        with Recording.open(self.path) as recording:
            names = {recorded.id: container_name(recorded) for recorded in recording.containers()}
            is_part = bool(self._selection.only)
            reader = _RecordedReplies(recording, replayed, models, is_part=is_part)
            expected, unreadable = reader.all()

        def name_of(container_id: str) -> str:
            name = replayed.name_of(container_id)
            return names.get(container_id, name) if name == container_id else name

        if not expected:
            tapped = ", ".join(model.plugin for model in models.values())
            raise UsageError(
                f"{safe(str(self.path))} has no reply of {safe(tapped)} to any replayed event",
                "replay a session in which the plugin received events",
            )
        golden = Golden.of(expected, replayed.origin, name_of)
        counted = {plugin for plugin, model in models.items() if not model.is_replayed}
        occurrences = {_occurrence(reply) for reply in expected}
        got = [
            # A conflict is the runtime's verdict, which a tap does not record.
            replace(reply, verdict=Verdict.OK) if reply.verdict is Verdict.CONFLICT else reply
            for reply in _comparable(replayed.replies())
            if reply.plugin in models
            and (
                _occurrence(reply) in occurrences
                or (reply.plugin in counted and _occurrence(reply) not in unreadable)
                # The recorded reply is unknown, but an error is a mismatch nevertheless.
                or reply.verdict is not Verdict.OK
            )
        ]
        return golden.compare(got, name_of)

    def warnings(self) -> Iterator[str]:
        """Yield the recording's notes on the compared sessions."""
        for model in self._models.values():
            for session in model.sessions:
                for note in self._notes.get(session, ())[:NOTES_MAX]:
                    yield safe(f"note in {self.path}, session {session}: {note}", NOTE_WIDTH_MAX)

    def verdict(self, mismatches: Sequence[Mismatch]) -> Iterator[str]:
        """Yield a line for each plugin: whether its replies equal the recorded plugin's."""
        for plugin, model in self._models.items():
            is_equal = not any(mismatch.key.plugin == plugin for mismatch in mismatches)
            subject = "replies" if plugin == model.plugin else f"replies of {plugin}"
            verdict = "equal those of" if is_equal else "differ from those of"
            numbers = ", ".join(map(str, model.sessions[:SESSIONS_LISTED]))
            sessions = f"session{'s' if len(model.sessions) > 1 else ''} {numbers}"
            yield safe(f"{subject} {verdict} {model.plugin} in {self.path}, {sessions}")

    def data(self) -> list[Plain]:
        """Return the compared plugins and sessions for JSON output."""
        return [
            {"plugin": plugin, "tapped": model.plugin, "sessions": list(model.sessions)}
            for plugin, model in self._models.items()
        ]

    def _models_of(
        self, plugins: Sequence[str], selection: ReplaySelection
    ) -> dict[str, TappedPlugin]:
        """Return the tapped plugin to compare with for each of ``plugins`` (``NN-name``).

        It is the plugin of the same name; else the only tapped plugin, if a single one is replayed;
        else the only one with the same index. Others have no entry. Raises `UsageError` if no
        plugin has one.
        """
        session = selection.session if self._is_replayed else None
        everything = chain.from_iterable(self._tapped.values())
        by_session = next((candidate for candidate in everything if candidate.id == session), None)
        models: dict[str, TappedPlugin] = {}
        for plugin in plugins:
            is_single = len(plugins) == 1
            if is_single and by_session is not None:
                tapped = by_session.plugin
            elif plugin in self._tapped:
                tapped = plugin
            elif is_single and len(self._tapped) == 1:
                (tapped,) = self._tapped
            else:
                same_index = [tapped for tapped in self._tapped if tapped[:2] == plugin[:2]]
                if len(same_index) != 1:
                    continue
                (tapped,) = same_index
            models[plugin] = self._model(tapped, session)
        if not models:
            raise self._no_match(plugins)
        inexact = [plugin for plugin, model in models.items() if not model.is_replayed]
        if inexact and (selection.where is not None or selection.begin is not None):
            raise UsageError(
                f"--where and --since need the tapped session of {safe(models[inexact[0]].plugin)} "
                f"in {safe(str(self.path))}: replies of other sessions are matched by counting "
                "events",
                "leave out --where and --since, or replay that session",
            )
        return models

    def _session_for(self, plugins: Sequence[str], selection: ReplaySelection) -> int | None:
        """Return the session to replay: as selected, else that of the first tapped plugin.

        None is the default session, if another recording is replayed. Raises UsageError.
        """
        if selection.session is not None or not self._is_replayed:
            return selection.session
        if not plugins and len(self._tapped) > 1:
            raise self._no_match(plugins)
        # Without names, the plugins are external.
        if plugins:
            models = self._models_of(plugins, ReplaySelection())
            tapped = min(model.plugin for model in models.values())
        else:
            (tapped,) = self._tapped
        sessions = [session.id for session in self._tapped[tapped]]
        return next((session for session in sessions if session in self._usable), sessions[0])

    def _model(self, tapped: str, session: int | None) -> TappedPlugin:
        sessions = tuple(session.id for session in self._tapped[tapped])
        if session in sessions:
            assert session is not None
            return TappedPlugin(tapped, (session,), True)
        return TappedPlugin(tapped, sessions, False)

    def _no_match(self, plugins: Sequence[str]) -> UsageError:
        tapped = ", ".join(
            f"{plugin} (session {sessions[0].id})"
            for plugin, sessions in [*self._tapped.items()][:_LISTED]
        )
        problem = f"not of {' or '.join(plugins)}" if plugins else "it is unclear which to compare"
        return UsageError(
            f"{safe(str(self.path))} has replies of {safe(tapped)}, {safe(problem)}",
            "select one with --session, or set the plugin's name with --index and --name",
        )
