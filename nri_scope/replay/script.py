# SPDX-License-Identifier: Apache-2.0
"""The script of a replay: one session of a recording, from a state through its events."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from google.protobuf.message import DecodeError, Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RecordingError, UsageError
from nri_scope.events import Event as Recorded
from nri_scope.events import Role, Session
from nri_scope.filter import Filter, parse
from nri_scope.nri.events import Event
from nri_scope.nri.methods import (
    DEFAULT_REGISTRATION_TIMEOUT_MS,
    DEFAULT_REQUEST_TIMEOUT_MS,
    METHODS,
)
from nri_scope.nri.request_subject import decode_request, is_plugins_call
from nri_scope.recording.reader import Recording
from nri_scope.runtime import Profile
from nri_scope.runtime.state_change import own_request
from nri_scope.runtime.stored_requests import SETUP_METHODS

_TOGETHER = 32 << 10
"""Bytes of requests that are read at once."""


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """One recorded event."""

    recorded: Recorded
    event: Event | None
    """None for an unknown event, which is sent as recorded, or not at all."""
    message: Message | None
    """The event's own request message, taken from its StateChange if it had one; None if `event`
    is None."""
    request: bytes
    """The request as recorded."""
    wanted: bool = True
    """Whether to send this event. Events that are not sent still change the replayed state."""
    left_out: str = ""
    """The fault that suppresses this event, which would have been sent; "" if none."""
    added: str = ""
    """The fault that changes how this event is sent; "" if none."""

    @property
    def subject(self) -> str:
        """``namespace/pod`` or ``namespace/pod/container``; "" if it has neither."""
        return subject_of(self.recorded)


def subject_of(event: Recorded) -> str:
    """Name the subject of a recorded event."""
    pod = f"{event.namespace}/{event.pod}" if event.pod or event.namespace else event.pod_id
    if not event.container and not event.container_id:
        return pod
    return f"{pod}/{event.container or event.container_id}"


@dataclass(frozen=True, slots=True)
class RecordingPlace:
    """A place in a recording: an event's number or a moment."""

    event_id: int | None = None
    at_ns: int | None = None

    def reached(self, event: Recorded) -> bool:
        """Return whether the event is at or after this place."""
        if self.event_id is not None:
            return event.id >= self.event_id
        return self.at_ns is None or event.at_ns >= self.at_ns

    def is_at_or_after(self, other: RecordingPlace) -> bool:
        """Return whether this place is known to be at or after ``other``."""
        if self.event_id is not None and other.event_id is not None:
            return self.event_id >= other.event_id
        return self.at_ns is not None and other.at_ns is not None and self.at_ns >= other.at_ns


@dataclass(frozen=True, slots=True)
class ReplaySelection:
    """The part of a recording to play."""

    session: int | None = None
    """The session; None for that of the first plugin in the chain."""
    where: Filter | None = None
    only: str = ""
    """``namespace/pod`` or ``namespace/pod/container``: play events of it and of its pod only."""
    begin: RecordingPlace | None = None
    end: RecordingPlace | None = None
    """The end, exclusive: this event and later ones are not played."""


class Script:
    """One session of a recording, which can be played repeatedly."""

    def __init__(self, recording: Recording, selection: ReplaySelection) -> None:
        """Choose the session. Raises UsageError if it is missing, or has no state."""
        self._recording = recording
        self._selection = selection
        self.session = _choose(recording, selection.session)
        state = recording.state(self.session.id)
        if not state.complete:
            raise UsageError(
                f"{recording.path}: session {self.session.id} holds no complete Synchronize, so "
                "what existed when it began is unknown",
                "choose another one with --session, or record without --where",
            )
        try:
            self.pods = [api.PodSandbox.FromString(data) for data in state.pods]
            self.containers = [api.Container.FromString(data) for data in state.containers]
        except DecodeError as error:
            raise RecordingError(
                recording.path, f"Synchronize cannot be decoded: {error}"
            ) from error
        if selection.only:
            self._check_only(selection.only)

    @property
    def profile(self) -> Profile:
        """How the recorded runtime behaves."""
        session = self.session
        profile = Profile.of(
            "recorded", session.runtime_name, session.runtime_version, session.nri_version
        )
        return replace(
            profile,
            registration_timeout_ms=session.registration_timeout_ms
            or DEFAULT_REGISTRATION_TIMEOUT_MS,
            request_timeout_ms=session.request_timeout_ms or DEFAULT_REQUEST_TIMEOUT_MS,
            # The recorded plugin got Synchronize; so does its substitute, however it connects.
            synchronizes_launched=True,
        )

    def steps(self) -> Iterator[ReplayStep]:
        """Yield every event of the session up to the end, including those not to be played: the
        state in Synchronize depends on them.
        """
        selection = self._selection
        begun = selection.begin is None
        for recorded, request, _ in self._recording.exchanges(
            where=parse(f"session:{self.session.id}"),
            # Few at once: they are read while a plugin is busy.
            together=_TOGETHER,
        ):
            if recorded.method in SETUP_METHODS or is_plugins_call(recorded.method, recorded.mark):
                continue
            begun = begun or (selection.begin is not None and selection.begin.reached(recorded))
            if selection.end is not None and selection.end.reached(recorded):
                return
            wanted = begun and (selection.where is None or selection.where.matches(recorded))
            wanted = wanted and (not selection.only or concerns(selection.only, recorded))
            yield self._step(recorded, request, wanted)

    def before(self) -> Iterator[ReplayStep]:
        """Yield the events before the first one to be played.

        Raises `UsageError` at the end if the selection leaves no events to be played.
        """
        for step in self.steps():
            if step.wanted:
                return
            yield step
        selection = self._selection
        if selection.where or selection.only or selection.begin or selection.end:
            raise UsageError(
                f"{self._recording.path}: session {self.session.id} has no event that you chose",
                "see `log` for what it has, and widen --where, --only, --from or --to",
            )

    def _step(self, recorded: Recorded, request: bytes, wanted: bool) -> ReplayStep:
        decoded = decode_request(recorded.method, request)
        method = METHODS.get(decoded.event)
        if recorded.mark or decoded.message is None or method is None or method.event is None:
            return ReplayStep(recorded, None, None, request, wanted=wanted)
        message = decoded.message
        if isinstance(message, api.StateChangeEvent):
            message = own_request(method.request, message)
        return ReplayStep(recorded, method.event, message, request, wanted=wanted)

    def _check_only(self, only: str) -> None:
        events = self._recording.events(where=parse(f"session:{self.session.id}"))
        names = set(map(subject_of, events))
        if only in names or any(name.startswith(f"{only}/") for name in names):
            return
        nearest = difflib.get_close_matches(only, names, n=1)
        hint = f"did you mean {nearest[0]}?" if nearest else "write ns/pod or ns/pod/container"
        raise UsageError(
            f"{self._recording.path}: session {self.session.id} has no event of {only}", hint
        )


def concerns(only: str, event: Recorded) -> bool:
    """Return whether ``event`` is about ``only`` or, if that is a container, about its pod."""
    subject = subject_of(event)
    return subject == only or subject.startswith(f"{only}/") or _is_pod_of(subject, only)


def _is_pod_of(subject: str, only: str) -> bool:
    return bool(subject) and subject.count("/") == 1 and only.startswith(f"{subject}/")


def _choose(recording: Recording, wanted: int | None) -> Session:
    sessions = [one for one in recording.sessions() if one.role != Role.CRI]
    if not sessions:
        raise UsageError(f"{recording.path}: it has no session to replay", "record something first")
    if wanted is None:
        # This plugin was asked first: it saw containers as created by the runtime.
        sessions.sort(key=lambda session: (session.plugin_index, session.id))
        told = (one for one in sessions if recording.state(one.id).complete)
        return next(told, sessions[0])
    for session in sessions:
        if session.id == wanted:
            return session
    there = ", ".join(f"{session.id} ({session.plugin})" for session in sessions[:20])
    raise UsageError(f"{recording.path}: it has no session {wanted}", f"there is: {there}")
