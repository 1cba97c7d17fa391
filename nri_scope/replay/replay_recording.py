# SPDX-License-Identifier: Apache-2.0
"""Record a replay: one session for each plugin, with role replay."""

from __future__ import annotations

from pathlib import Path
from time import monotonic_ns, time_ns

from google.protobuf.message import DecodeError

from nri_scope._gen.nri.api_pb2 import ConfigureResponse
from nri_scope.errors import ConnectionClosed, DeadlineExceeded, NriScopeError, RpcError
from nri_scope.events import CapturedCall, Role, SessionStart
from nri_scope.nri.events import PLUGIN_SERVICE
from nri_scope.recorder.writer import Recorder
from nri_scope.runtime import Exchange, Plugin, Profile
from nri_scope.wire import Code


class ReplayRecorder:
    """Recorder of every exchange of a replay. Call `close` at the end."""

    def __init__(self, path: Path, profile: Profile) -> None:
        """Create the file. Raises RecordingError if that fails."""
        self._profile = profile
        self._recorder = Recorder.open(path)
        self._sessions: dict[Plugin, int] = {}
        self._offset = time_ns() - monotonic_ns()

    def exchanged(self, plugin: Plugin, exchange: Exchange) -> None:
        """Record one request and its reply."""
        if exchange.method == "Configure" and plugin not in self._sessions:
            self._sessions[plugin] = self._recorder.begin_session(self._start(plugin, exchange))
        session = self._sessions.get(plugin)
        if session is None:
            return
        code, message = _status(exchange.error)
        self._recorder.capture(
            session,
            CapturedCall(
                wall_ns=self._offset + exchange.started_ns,
                mono_ns=exchange.started_ns,
                method=exchange.method,
                request=exchange.request,
                reply=exchange.reply,
                status_code=code,
                status_message=message,
                took_ns=exchange.took_ns,
                timeout_ns=exchange.timeout_ns,
                service="" if exchange.service == PLUGIN_SERVICE else exchange.service,
            ),
        )

    def ended(self, plugin: Plugin) -> None:
        """Record that a plugin's connection has ended."""
        session = self._sessions.pop(plugin, None)
        if session is not None:
            self._recorder.end_session(session, plugin.end_reason, time_ns())

    def close(self) -> None:
        """Write the remaining data."""
        for plugin in list(self._sessions):
            self.ended(plugin)
        self._recorder.close()

    def _start(self, plugin: Plugin, configure: Exchange) -> SessionStart:
        profile = self._profile
        try:
            mask = ConfigureResponse.FromString(configure.reply).events
        except DecodeError:
            mask = 0
        return SessionStart(
            role=Role.REPLAY,
            plugin_name=plugin.name,
            plugin_index=plugin.index,
            runtime_name=profile.runtime_name,
            runtime_version=profile.runtime_version,
            nri_version=profile.nri_version,
            nri_version_inferred=not profile.sends_nri_version,
            mask=mask,
            registration_timeout_ms=profile.registration_timeout_ms,
            request_timeout_ms=profile.request_timeout_ms,
            started_ns=self._offset + configure.started_ns,
        )


def _status(error: NriScopeError | None) -> tuple[int, str]:
    match error:
        case None:
            return Code.OK, ""
        case RpcError():
            return error.code, error.message
        case DeadlineExceeded():
            return Code.DEADLINE_EXCEEDED, str(error)
        case ConnectionClosed():
            return Code.UNAVAILABLE, str(error)
    return Code.INTERNAL, str(error)
