# SPDX-License-Identifier: Apache-2.0
"""Write the requests of a scenario as a recording, as a passive plugin would have recorded them."""

from __future__ import annotations

from pathlib import Path

from nri_scope.events import CapturedCall, Role, SessionStart
from nri_scope.nri.events import PASSIVE_EVENTS, mask_of
from nri_scope.nri.failure_policy import NO_POLICY
from nri_scope.nri.no_change import no_change
from nri_scope.nri.runtime_setup import configure_reply
from nri_scope.recorder.complete_recording import CompleteRecording, complete_recording
from nri_scope.runtime import Profile, ProfileSetUp
from nri_scope.runtime.plugin_chain import request_for

from .event_sequence import EventSequence, MadeEvent, RuntimeStart
from .model import Scenario

PLUGIN_INDEX, PLUGIN_NAME = "00", "scenario"
"""The plugin of a scenario's sessions."""
NOTE = "made from a scenario; no runtime sent these requests"
"""Beginning of the note in each recording of a scenario."""

_AFTER_NS = 1_000_000
"""Time between the last event of a session and its end."""
_RESTARTED = "the runtime restarts, as the scenario says"
_ENDED = "end of the scenario"


def compile_scenario(scenario: Scenario, path: Path) -> int:
    """Write the recording to the new file ``path``; return the number of its events,
    Configure and Synchronize included.

    Raises UsageError for a scenario that cannot be played, and RecordingError.
    """
    profile = scenario.runtime.profile()
    sequence = EventSequence(scenario, profile)
    with complete_recording(path) as recording:
        writing = _Writing(recording, profile, f"{NOTE}: {scenario.source}")
        for one in sequence.play():
            if isinstance(one, MadeEvent):
                writing.event(one)
            else:
                writing.start(one)
        writing.end(_ENDED)
    return writing.events


class _Writing:
    def __init__(self, recording: CompleteRecording, profile: Profile, note: str) -> None:
        self._recording = recording
        self._profile = profile
        self._note = note
        self._session = 0
        self._now_ns = 0
        self.events = 0

    def start(self, one: RuntimeStart) -> None:
        """Begin a session, with Configure and Synchronize."""
        if self._session:
            self.end(_RESTARTED)
        profile = self._profile
        configure = profile.configure_request()
        mask = mask_of(PASSIVE_EVENTS) & profile.mask
        self._session = self._recording.begin_session(
            SessionStart(
                role=Role.SCENARIO,
                plugin_name=PLUGIN_NAME,
                plugin_index=PLUGIN_INDEX,
                runtime_name=profile.runtime_name,
                runtime_version=profile.runtime_version,
                nri_version=profile.nri_version,
                nri_version_inferred=not profile.sends_nri_version,
                mask=mask,
                registration_timeout_ms=configure.registration_timeout,
                request_timeout_ms=configure.request_timeout,
                started_ns=one.at_ns,
            )
        )
        self._recording.note(self._session, one.at_ns, self._note)
        reply = configure_reply(mask, NO_POLICY)
        self._capture(one.at_ns, "Configure", configure.SerializeToString(), reply)
        state = ProfileSetUp(profile, one.pods, one.containers)
        for part in state.synchronize(PLUGIN_NAME):
            self._capture(one.at_ns, "Synchronize", part, no_change("Synchronize", part))

    def event(self, one: MadeEvent) -> None:
        """Write an event."""
        method, payload = request_for(
            one.event, one.request, dedicated=self._profile.dedicated_rpcs
        )
        self._capture(one.at_ns, method, payload, no_change(method, payload))

    def end(self, reason: str) -> None:
        """End the session."""
        self._recording.end_session(self._session, reason, self._now_ns + _AFTER_NS)

    def _capture(self, at_ns: int, method: str, request: bytes, reply: bytes) -> None:
        self._now_ns = at_ns
        timeout_ns = self._profile.request_timeout_ms * 1_000_000
        item = CapturedCall(at_ns, at_ns, method, request, reply, 0, "", 0, timeout_ns)
        self._recording.capture(self._session, item)
        self.events += 1
