# SPDX-License-Identifier: Apache-2.0
"""Record the CRI's answers as sessions."""

from __future__ import annotations

from collections.abc import Callable
from time import time_ns

from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE, CapturedCall, Role, SessionStart
from nri_scope.recorder.sink import Sink
from nri_scope.recording.cri_answers import status_request

from .channel import Answer, CriBegan, CriEnded

NAME = "cri"
"""Value of the plugin name in the CRI's sessions."""


class CriSessions:
    """Recorder of one session for each period in which the CRI is available."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._sink: Sink | None = None
        self._start: CriBegan | None = None
        self._session: int | None = None
        self._away = False
        self.answers = 0
        """Number of recorded answers."""

    def record_to(self, sink: Sink) -> None:
        """Set the recorder of the answers."""
        self._sink = sink

    def began(self, began: CriBegan) -> None:
        """Start a period in which the CRI is available."""
        self._start = began
        if self._away:
            self._away = False
            self._say(f"the CRI is available again: {began.name} {began.version}")

    def answered(self, answer: Answer) -> None:
        """Record an answer about a container."""
        sink, start = self._sink, self._start
        if sink is None or start is None:
            return
        try:
            request = status_request(answer.container)
        except ValueError:
            return
        if self._session is None:
            # A session without an answer is not recorded.
            self._session = sink.begin_session(_session(start))
        self.answers += 1
        sink.capture(
            self._session,
            CapturedCall(
                wall_ns=answer.wall_ns,
                mono_ns=answer.mono_ns,
                method=CONTAINER_STATUS,
                request=request,
                reply=answer.text.encode(errors="backslashreplace"),
                status_code=0,
                status_message="",
                took_ns=answer.took_ns,
                timeout_ns=0,
                service=CRI_SERVICE,
            ),
        )

    def ended(self, ended: CriEnded) -> None:
        """End the session: the CRI is no longer available."""
        self._away = True
        self._say(f"{ended.reason}; until the CRI is available, applied changes are not confirmed")
        self._end(ended.reason, ended.wall_ns)

    def end(self, reason: str) -> None:
        """End the session, if there is one, as no more answers follow."""
        self._end(reason, time_ns())

    def _end(self, reason: str, at_ns: int) -> None:
        if self._session is not None and self._sink is not None:
            self._sink.end_session(self._session, reason, at_ns)
        self._session = self._start = None


def _session(start: CriBegan) -> SessionStart:
    return SessionStart(
        role=Role.CRI,
        plugin_name=NAME,
        plugin_index="",
        runtime_name=start.name,
        runtime_version=start.version,
        nri_version="",
        nri_version_inferred=False,
        mask=0,
        registration_timeout_ms=0,
        request_timeout_ms=0,
        started_ns=start.wall_ns,
    )
