# SPDX-License-Identifier: Apache-2.0
"""Detect failed calls of plugins of NRI 0.1."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.differ.render.values import clipped
from nri_scope.events import Event, Role
from nri_scope.nri import invocation
from nri_scope.wire.status import Code

from ..finding import Finding, FindingKind, Level, Shown
from ..limits import CASES_MAX, WORDS_MAX
from .recording_facts import Detector, RecordingFacts

_ADVICE = (
    "The runtime's log contains the error. Try the plugin with "
    "`nri-scope replay FILE --v01 --on-this-host -- ./plugin`."
)


class FailedCalls(Detector):
    """Detector of failed calls. They belong to no round, as they are not part of NRI's chain."""

    def __init__(self, scene: RecordingFacts) -> None:
        super().__init__(scene)
        self._found: dict[tuple[str, str, str], Shown] = {}

    def see(self, event: Event) -> None:
        """Check the status of a call."""
        # After data loss, the outcome is not known.
        if event.status_code in (0, Code.DATA_LOSS):
            return
        session = self._scene.sessions.get(event.session)
        if session is None or session.role != Role.V01 or not self._scene.wanted(event):
            return
        # The same failure of many calls is one finding.
        words = clipped(event.status_message or "unknown reason", WORDS_MAX)
        key = clipped(event.plugin, WORDS_MAX), clipped(event.method, WORDS_MAX), words
        if key not in self._found and len(self._found) >= CASES_MAX:
            return
        about = event.container_id or event.pod_id
        shown = self._found.setdefault(key, Shown())
        shown.add(event.id, container=self._scene.name_of(about) if about else "")

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each plugin, state and error."""
        for (plugin, method, words), shown in self._found.items():
            fatal = method == invocation.CREATE
            outcome = (
                "the pod or container is not started" if fatal else "the runtime logs the error"
            )
            yield shown.finding(
                FindingKind.FAILED,
                Level.PROBLEM if fatal else Level.WARNING,
                f"{plugin}: {method} failed: {words}",
                f"Later plugins of NRI 0.1 are not called, and {outcome}.",
                _ADVICE,
            )
