# SPDX-License-Identifier: Apache-2.0
"""A recording that is being written, and the status of its recorder."""

from __future__ import annotations

from pathlib import Path

from nri_scope.events import CapturedCall, Role, SessionStart
from nri_scope.recorder.writer import Recorder
from tests.replay.recordings import START_NS, run_pod

SECOND = 10**9


class LiveRecording:
    """A recording and its recorder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recorder = Recorder.open(path)
        self.session: int | None = None
        self.at_ns = START_NS

    def begin(self) -> int:
        self.session = self.recorder.begin_session(
            SessionStart(
                role=Role.LOGGER,
                plugin_name="nri-scope",
                plugin_index="00",
                runtime_name="containerd",
                runtime_version="2.1.9",
                nri_version="0.8.0",
                nri_version_inferred=False,
                mask=0x7FF,
                registration_timeout_ms=5000,
                request_timeout_ms=2000,
                started_ns=self.at_ns,
            )
        )
        return self.session

    def record(self, count: int = 1) -> None:
        session = self.session or self.begin()
        method, message = run_pod()
        for _ in range(count):
            self.at_ns += SECOND
            self.recorder.capture(
                session,
                CapturedCall(
                    wall_ns=self.at_ns,
                    mono_ns=self.at_ns,
                    method=method,
                    request=message.SerializeToString(),
                    reply=b"",
                    status_code=0,
                    status_message="",
                    took_ns=90_000,
                    timeout_ns=2 * SECOND,
                ),
            )


class FixedStatus:
    """Fixed status of a recorder."""

    def __init__(self, status_text: str) -> None:
        self.status_text = status_text
        self.ended = False
        self.interruption = ""
