# SPDX-License-Identifier: Apache-2.0
"""Answers of tapped plugins in production, used as the golden of a replay.

Answers are matched with replies in two ways. If the tapped session itself is replayed, by
the event's number. If another session is replayed, of this recording or of another one, by the
subject's name and the event, in order of occurrence.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RpcError, UsageError
from nri_scope.events import Event, Role, Session
from nri_scope.filter import parse
from nri_scope.nri.request_subject import UNKNOWN, decode_reply, decode_request, is_plugins_call
from nri_scope.recording.lookup import container_name
from nri_scope.recording.reader import Recording
from nri_scope.runtime.stored_requests import SETUP_METHODS
from nri_scope.text.escape import safe
from nri_scope.wire import Code

from .golden import Golden, Mismatch
from .replies import Reply, Verdict
from .result import Replayed
from .script import ReplaySelection, subject_of

_NAMED_MAX = 20
"""Maximum number of plugins named in an error if there are too many."""
_SYNCHRONIZE, _CREATE = "Synchronize", "CreateContainer"
_VALIDATE = "ValidateContainerAdjustment"


class Model(NamedTuple):
    """The tapped plugin whose answers are expected of a plugin of the replay."""

    plugin: str
    """``NN-name`` of the plugin that was tapped."""
    sessions: tuple[int, ...]
    """Its sessions, in order."""
    is_replayed: bool
    """Whether this session itself is replayed."""


@dataclass(frozen=True, slots=True)
class Production:
    """The tapped plugins of one recording."""

    path: Path
    tapped: Mapping[str, tuple[Session, ...]]
    """Sessions by ``NN-name``, in order; at least one each."""
    is_replayed: bool
    """Whether this recording is replayed."""
    whole: frozenset[int] = frozenset()
    """Sessions that can be replayed because their Synchronize is complete."""
    notes: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    """Remarks on each session, such as faults injected on purpose."""

    @classmethod
    def of(cls, path: Path, replayed: Path) -> Production:
        """Find the plugins that were tapped in the recording at ``path``.

        Raises `UsageError` if there are none, and `RecordingError`.
        """
        tapped: dict[str, tuple[Session, ...]] = {}
        with Recording.open(path) as recording:
            sessions = [one for one in recording.sessions() if one.role == Role.TAP]
            whole = frozenset(one.id for one in sessions if recording.state(one.id).complete)
            notes: dict[int, tuple[str, ...]] = {}
            for note in recording.notes():
                if note.session is not None:
                    notes[note.session] = (*notes.get(note.session, ()), note.text)
        for one in sessions:
            tapped[one.plugin] = (*tapped.get(one.plugin, ()), one)
        if not tapped:
            raise UsageError(
                f"{safe(str(path))}: no plugin was tapped in it, so no plugin's answers are known",
                "record with `tap`, or write a golden with --golden and --update-golden",
            )
        return cls(path, tapped, os.path.realpath(path) == os.path.realpath(replayed), whole, notes)

    def models(self, plugins: Sequence[str], selection: ReplaySelection) -> dict[str, Model]:
        """Return the recorded plugin whose answers each of ``plugins`` (``NN-name``) must give.

        It is the one of the same name, else the only one, or the one with the same index; none for
        plugins of a chain that were not tapped. Raises `UsageError` if none is left.
        """
        session = selection.session if self.is_replayed else None
        by_session = next((one for one in self._sessions() if one.id == session), None)
        found: dict[str, Model] = {}
        for plugin in plugins:
            alone = len(plugins) == 1
            if alone and by_session is not None:
                tapped = by_session.plugin
            elif plugin in self.tapped:
                tapped = plugin
            elif alone and len(self.tapped) == 1:
                (tapped,) = self.tapped
            else:
                same_index = [one for one in self.tapped if one[:2] == plugin[:2]]
                if len(same_index) != 1:
                    continue
                (tapped,) = same_index
            found[plugin] = self._model(tapped, session)
        if not found:
            raise self._nobody(plugins)
        inexact = [plugin for plugin, model in found.items() if not model.is_replayed]
        if inexact and (selection.where is not None or selection.begin is not None):
            raise UsageError(
                f"the session that is replayed is not the one of {safe(found[inexact[0]].plugin)} "
                f"in {safe(str(self.path))}, so its answers are told apart by counting events",
                "leave out --where and --from, or replay that session",
            )
        return found

    def session_for(self, plugins: Sequence[str], selection: ReplaySelection) -> int | None:
        """Return the default session to replay: that of the first one of ``plugins`` that was
        tapped; None if another recording is replayed. Raises UsageError.
        """
        if selection.session is not None or not self.is_replayed:
            return selection.session
        if not plugins and len(self.tapped) > 1:
            raise self._nobody(plugins)
        # There is at most one external plugin, which may have any name.
        if plugins:
            everything = ReplaySelection()
            tapped = min(model.plugin for model in self.models(plugins, everything).values())
        else:
            (tapped,) = self.tapped
        sessions = [one.id for one in self.tapped[tapped]]
        return next((one for one in sessions if one in self.whole), sessions[0])

    def compare(
        self, replayed: Replayed, models: Mapping[str, Model], selection: ReplaySelection
    ) -> list[Mismatch]:
        """Return where replies differ from the answers in production. Raises RecordingError."""
        with Recording.open(self.path) as recording:
            names = {one.id: container_name(one) for one in recording.containers()}
            answers = _Answers(recording, replayed, models, is_part=bool(selection.only))
            expected, unreadable = answers.all()

        def name_of(container_id: str) -> str:
            name = replayed.name_of(container_id)
            return names.get(container_id, name) if name == container_id else name

        self._check_any(expected, models)
        golden = Golden.of(expected, replayed.origin, name_of)
        counted = {plugin for plugin, model in models.items() if not model.is_replayed}
        places = {_place(reply) for reply in expected}
        got = [
            # The consequence of the answer here is decided by the runtime, which a tap does not
            # see.
            replace(reply, verdict=Verdict.OK) if reply.verdict is Verdict.CONFLICT else reply
            for reply in _comparable(replayed.replies())
            if reply.plugin in models
            and (
                _place(reply) in places
                or (reply.plugin in counted and _place(reply) not in unreadable)
                # The expected reply is unknown, but it should not be an error.
                or reply.verdict is not Verdict.OK
            )
        ]
        return golden.compare(got, name_of)

    def _check_any(self, expected: Sequence[Reply], models: Mapping[str, Model]) -> None:
        if not expected:
            whose = ", ".join(model.plugin for model in models.values())
            raise UsageError(
                f"{safe(str(self.path))} has no answer of {safe(whose)} to what was replayed",
                "replay a session that it was asked in",
            )

    def _sessions(self) -> Iterator[Session]:
        for sessions in self.tapped.values():
            yield from sessions

    def _model(self, tapped: str, session: int | None) -> Model:
        sessions = tuple(one.id for one in self.tapped[tapped])
        if session in sessions:
            assert session is not None
            return Model(tapped, (session,), True)
        return Model(tapped, sessions, False)

    def _nobody(self, plugins: Sequence[str]) -> UsageError:
        there = ", ".join(
            f"{plugin} (session {sessions[0].id})"
            for plugin, sessions in [*self.tapped.items()][:_NAMED_MAX]
        )
        ours = f"none of them is {' or '.join(plugins)}" if plugins else "which one is replayed?"
        return UsageError(
            f"{safe(str(self.path))} has the answers of {safe(there)}, and {safe(ours)}",
            "say which with --session, or name the plugin so with --index and --name",
        )


_Place = tuple[str, str, str, int]
"""Plugin, subject, event, and its ordinal number among its kind."""


def _place(reply: Reply) -> _Place:
    return reply.plugin, reply.subject, reply.event, reply.occurrence


def _comparable(replies: Iterator[Reply]) -> Iterator[Reply]:
    """Yield replies that are possible in production: not those that only this replay causes."""
    seen: set[tuple[str, int, str]] = set()
    for reply in replies:
        event = (reply.plugin, reply.event_id, reply.event)
        if (reply.event_id or reply.event == _SYNCHRONIZE) and event not in seen:
            seen.add(event)
            yield reply


class _Answers:
    """Reads the expected answers."""

    def __init__(
        self,
        recording: Recording,
        replayed: Replayed,
        models: Mapping[str, Model],
        *,
        is_part: bool,
    ) -> None:
        """Expect this session's replies. ``is_part``: the initial state may differ from the
        session's.
        """
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
        self._first = next((one.event_id for one in replayed.events if one.event_id), 0)
        self._got = {
            (reply.plugin, reply.event_id, reply.event): reply.occurrence
            for reply in _comparable(replayed.replies())
        }
        self._unreadable: set[_Place] = set()

    def all(self) -> tuple[list[Reply], set[_Place]]:
        """Return the expected replies, and the places where the reply is unknown."""
        found: list[Reply] = []
        for plugin, model in self._models.items():
            of_plugin = list(self._of(plugin, model))
            # Answers with a matching reply are placed first.
            found += sorted(of_plugin, key=lambda reply: reply.occurrence == 0)
            if self._is_part and not model.is_replayed:
                self._unreadable.add((plugin, "", _SYNCHRONIZE, 1))
        return [one for one in found if _place(one) not in self._unreadable], self._unreadable

    def _of(self, plugin: str, model: Model) -> Iterator[Reply]:
        counts: dict[tuple[str, str], int] = {}
        creations: dict[str, int] = {}
        is_first = True
        for session in model.sessions:
            for event, request, data in self._recording.exchanges(
                where=parse(f"session:{session}")
            ):
                if event.method == _SYNCHRONIZE:
                    if _is_last_part(request) and not counts.get((_SYNCHRONIZE, "")):
                        counts[_SYNCHRONIZE, ""] = 1
                        yield from self._reply(event, data, plugin, 0, 1)
                    continue
                if event.method in SETUP_METHODS or is_plugins_call(event.method, event.mark):
                    continue
                if event.event == _CREATE:
                    creations[event.container_id] = event.id
                subject = subject_of(event)
                if not model.is_replayed:
                    count = counts[event.event, subject] = counts.get((event.event, subject), 0) + 1
                    # The plugin of the replayed session may not have got the validation request.
                    told = _CREATE if event.event == _VALIDATE else event.event
                    if count <= self._happened[told, subject]:
                        yield from self._reply(event, data, plugin, event.id, count)
                    continue
                if is_first and event.id != self._first:
                    # The initial state differs from that in production.
                    self._unreadable.add((plugin, "", _SYNCHRONIZE, 1))
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
        subject = "" if event.method == _SYNCHRONIZE else subject_of(event)
        message, verdict, problem = None, Verdict.OK, ""
        # Late answers are answers, too.
        if event.status_code == Code.OK or (event.status_code == Code.DEADLINE_EXCEEDED and data):
            message = decode_reply(event.method, data)
        elif event.status_code not in (Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE):
            verdict = Verdict.ERROR
            problem = str(RpcError(event.status_code, event.status_message))
        if message is None and verdict is Verdict.OK and event.mark != UNKNOWN:
            # The answer cannot be read, or the runtime did not wait for it.
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
    message = decode_request(_SYNCHRONIZE, request).message
    return isinstance(message, api.SynchronizeRequest) and not message.more
