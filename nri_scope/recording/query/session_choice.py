# SPDX-License-Identifier: Apache-2.0
"""Choose the session of a recording to play, and the events about a pod or container in it."""

from __future__ import annotations

from nri_scope.errors import THE_RECORDING, UsageError
from nri_scope.events import Event, Role, Session

from ..reading.reader import Recording


def subject_of(event: Event) -> str:
    """Return ``namespace/pod`` or ``namespace/pod/container``; "" for an event about neither."""
    pod = f"{event.namespace}/{event.pod}" if event.pod or event.namespace else event.pod_id
    container = event.container or event.container_id
    if not container:
        return pod
    return container if event.is_alone else f"{pod}/{container}"


def concerns(only: str, event: Event) -> bool:
    """Return whether ``event`` is about ``only`` or, if that is a container, about its pod."""
    subject = subject_of(event)
    return subject == only or subject.startswith(f"{only}/") or _is_pod_of(subject, only)


def _is_pod_of(subject: str, only: str) -> bool:
    return bool(subject) and subject.count("/") == 1 and only.startswith(f"{subject}/")


def find_session(recording: Recording, number: int | None) -> Session:
    """Return the session to play: a plugin connection. Raises UsageError if there is none."""
    every = recording.sessions()
    sessions = [session for session in every if session.is_connection]
    if not sessions and any(session.role == Role.V01 for session in every):
        raise UsageError(
            f"{THE_RECORDING}: contains only calls of NRI 0.1",
            "use a recording with NRI events; `log` shows the calls",
            recording.path,
        )
    if not sessions:
        problem = f"{THE_RECORDING}: contains no session"
        raise UsageError(problem, "use a recording with events", recording.path)
    if number is None:
        # The first plugin of the chain received containers as created by the runtime.
        sessions.sort(key=lambda session: (session.plugin_index, session.id))
        complete = (session for session in sessions if recording.state(session.id).complete)
        return next(complete, sessions[0])
    for session in sessions:
        if session.id == number:
            return session
    choices = ", ".join(f"{session.id} ({session.plugin})" for session in sessions[:20])
    problem = f"{THE_RECORDING}: contains no session {number}"
    raise UsageError(problem, f"it has {choices}", recording.path)


def sessions_of(recording: Recording, session: Session, *, is_chosen: bool) -> list[Session]:
    """Return the sessions that are played as one: those of a scenario, else only ``session``.

    ``is_chosen``: whether the user has chosen this session alone.
    """
    if session.role != Role.SCENARIO or is_chosen:
        return [session]
    later = (other for other in recording.sessions() if other.id > session.id)
    return [session, *(other for other in later if other.role == Role.SCENARIO)]
