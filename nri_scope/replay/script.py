# SPDX-License-Identifier: Apache-2.0
"""The script of a replay: one session of a recording: its initial state, then its events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from google.protobuf.message import Message

from nri_scope.errors import THE_RECORDING, UsageError, did_you_mean
from nri_scope.events import Event, Role
from nri_scope.filter import Filter, parse
from nri_scope.nri.events import (
    CONFIGURE,
    DEFAULT_REGISTRATION_TIMEOUT_MS,
    DEFAULT_REQUEST_TIMEOUT_MS,
    EventKind,
)
from nri_scope.nri.request_subject import container_of
from nri_scope.recording.query.coverage import range_words
from nri_scope.recording.query.session_choice import concerns, find_session, sessions_of, subject_of
from nri_scope.recording.reading.reader import Recording
from nri_scope.runtime import Profile, recorded_profile
from nri_scope.runtime.lifecycle import recorded_request
from nri_scope.runtime.plugin_setup import is_setup
from nri_scope.scenario.recorded_scenario import initial_state

BUDGET_FACTOR = 0.5
"""Factor for the usual decoding budget: an event takes longer here, and is one of one session."""
_BATCH_BYTES = 32 << 10
"""Bytes of requests that are read in one batch."""


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """One recorded event."""

    recorded: Event
    event: EventKind | None
    """None for an unknown event, which is sent as recorded if selected."""
    message: Message | None
    """The event's own request message, converted from StateChange if necessary; None if `event` is
    None."""
    request: bytes
    """The request as recorded."""
    selected: bool = True
    """Whether to send this event. Events that are not sent still change the replayed state."""
    skipped_by: str = ""
    """Description of the fault that suppresses this event; "" if none."""
    altered_by: str = ""
    """Description of the fault that changes how this event is sent; "" if none."""
    restarts: bool = False
    """Whether this stands for a restart of the runtime; `recorded` is its Configure then."""

    @property
    def subject(self) -> str:
        """``namespace/pod`` or ``namespace/pod/container``; "" if it has neither."""
        return subject_of(self.recorded)


@dataclass(frozen=True, slots=True)
class RecordingPlace:
    """Place in a recording: an event's number or a time."""

    event_id: int | None = None
    at_ns: int | None = None

    def reached(self, event: Event) -> bool:
        """Return whether the event is at or after this place."""
        if self.event_id is not None:
            return event.id >= self.event_id
        return self.at_ns is None or event.at_ns >= self.at_ns

    def is_at_or_after(self, other: RecordingPlace) -> bool:
        """Return whether this place is at or after ``other``; False if they are not comparable."""
        if self.event_id is not None and other.event_id is not None:
            return self.event_id >= other.event_id
        return self.at_ns is not None and other.at_ns is not None and self.at_ns >= other.at_ns


@dataclass(frozen=True, slots=True)
class ReplaySelection:
    """Part of a recording to play."""

    session: int | None = None
    """Session to play; None for that of the first plugin in the chain."""
    where: Filter | None = None
    only: str = ""
    """``namespace/pod`` or ``namespace/pod/container``: play events of it and of its pod only."""
    begin: RecordingPlace | None = None
    end: RecordingPlace | None = None
    """End, exclusive: this event and later ones are not played."""

    def selects(self, recorded: Event) -> bool:
        """Return whether an event between begin and end is selected."""
        matches = self.where is None or self.where.matches(recorded)
        return matches and (not self.only or concerns(self.only, recorded))


class SelectionSpan:
    """Progress from the begin of a selection to its end, event by event."""

    def __init__(self, selection: ReplaySelection) -> None:
        self._selection = selection
        self.begun = selection.begin is None
        """Whether the begin was reached."""

    def reach(self, event: Event) -> bool:
        """Take an event into account; return False if it is at or after the end."""
        begin, end = self._selection.begin, self._selection.end
        self.begun = self.begun or (begin is not None and begin.reached(event))
        return end is None or not end.reached(event)


class Script:
    """One session of a recording, which can be played repeatedly.

    The sessions of a scenario are one script: the runtime restarts before each but the first.
    """

    def __init__(self, recording: Recording, selection: ReplaySelection) -> None:
        """Select the session. Raises UsageError if it does not exist or has no initial state."""
        self._recording = recording
        self._selection = selection
        self.session = find_session(recording, selection.session)
        state = recording.state(self.session.id)
        self.is_partial = not state.complete and self._never_synchronized()
        """Whether containers may exist that are unknown until their first event, because the
        recorded runtime sent the launched plugin no Synchronize."""
        self.pods, self.containers = initial_state(
            recording, self.session, state, may_lack_it=self.is_partial
        )
        is_chosen = selection.session is not None
        self._sessions = sessions_of(recording, self.session, is_chosen=is_chosen)
        if selection.only:
            self._check_only(selection.only)

    @property
    def profile(self) -> Profile:
        """Profile of the recorded runtime."""
        session = self.session
        profile = recorded_profile(
            session.runtime_name, session.runtime_version, session.nri_version
        )
        return replace(
            profile,
            registration_timeout_ms=session.registration_timeout_ms
            or DEFAULT_REGISTRATION_TIMEOUT_MS,
            request_timeout_ms=session.request_timeout_ms or DEFAULT_REQUEST_TIMEOUT_MS,
        )

    def steps(self) -> Iterator[ReplayStep]:
        """Yield the session's events up to `ReplaySelection.end`.

        Excludes the set-up of the session and requests by the plugin. Includes events
        that are not selected, as the replayed state depends on them.
        """
        span = SelectionSpan(self._selection)
        for recorded, request in self._exchanges():
            if recorded.method == CONFIGURE and recorded.session != self.session.id:
                yield ReplayStep(recorded, None, None, b"", selected=span.begun, restarts=True)
            if is_setup(recorded.method, recorded.mark) or recorded.is_sent_again:
                continue
            if not span.reach(recorded):
                return
            yield self._step(recorded, request, span.begun and self._selection.selects(recorded))

    def _exchanges(self) -> Iterator[tuple[Event, bytes]]:
        allowance = self._recording.allowance(BUDGET_FACTOR)
        for session in self._sessions:
            for recorded, request, _ in self._recording.exchanges(
                where=parse(f"session:{session.id}"),
                allowance=allowance,
                # Small batches, as they are read while a plugin works on its reply.
                together=_BATCH_BYTES,
            ):
                yield recorded, request

    def events_after(self, event_id: int) -> Iterator[Event]:
        """Yield the selected events after one, without their messages."""
        span = SelectionSpan(self._selection)
        sessions = " OR ".join(f"session:{session.id}" for session in self._sessions)
        for recorded in self._recording.events(where=parse(sessions), after_id=event_id):
            if is_setup(recorded.method, recorded.mark) or recorded.is_sent_again:
                continue
            if not span.reach(recorded):
                return
            if span.begun and self._selection.selects(recorded):
                yield recorded

    def before(self) -> Iterator[ReplayStep]:
        """Yield the events before the first selected one.

        Raises `UsageError` at the end if selection options were given and no event is selected.
        """
        for step in self.steps():
            if step.selected:
                return
            yield step
        selection = self._selection
        if selection.where or selection.only or selection.begin or selection.end:
            raise UsageError(
                f"{THE_RECORDING}: no event of session {self.session.id} is selected",
                f"{range_words(self._recording)}; widen --where, --only, --since or --until",
                self._recording.path,
            )

    def _step(self, recorded: Event, request: bytes, selected: bool) -> ReplayStep:
        decoded = recorded_request(recorded.method, request, recorded.mark)
        if decoded is None:
            return ReplayStep(recorded, None, None, request, selected=selected)
        event, message = decoded
        container = container_of(event.name, message)
        if container is not None and not container.id:
            # iSulad assigns it later; for the plugins, the profile removes it again.
            container.id = recorded.container_id
        return ReplayStep(recorded, event, message, request, selected=selected)

    def _never_synchronized(self) -> bool:
        session = self.session
        return (
            session.role in (Role.TAP, Role.REPLAY)
            and not self.profile.synchronizes_launched
            and not any(
                self._recording.events(where=parse(f"session:{session.id} event:Synchronize"))
            )
        )

    def _check_only(self, only: str) -> None:
        names = {
            subject_of(event)
            for session in self._sessions
            for event in self._recording.events(where=parse(f"session:{session.id}"))
        }
        if only in names or any(name.startswith(f"{only}/") for name in names):
            return
        hint = did_you_mean(only, names) or "write ns/pod or ns/pod/container"
        problem = f"{THE_RECORDING}: session {self.session.id} has no event of {only}"
        raise UsageError(problem, hint, self._recording.path)
