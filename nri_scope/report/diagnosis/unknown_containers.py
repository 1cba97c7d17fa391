# SPDX-License-Identifier: Apache-2.0
"""Detect events of containers that a plugin was never informed of.

A container that is created while a plugin is being synchronized can be missing in both Synchronize
and CreateContainer (containerd#13698).
"""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.events import Event
from nri_scope.nri.events import Event as NriEvent

from ..finding import Finding, FindingKind, Level, Shown
from .recording_facts import Detector, Latest, RecordingFacts, Sequence

_LIVING = frozenset(
    {
        "PostCreateContainer",
        "StartContainer",
        "PostStartContainer",
        "UpdateContainer",
        "PostUpdateContainer",
    }
)
"""Events of successfully created containers only. A container whose creation an earlier plugin
refused is stopped and removed, although later plugins never saw it; that is correct."""
_ADVICE = (
    "Treat an unknown container as a new one, whichever event shows it first, and read its data "
    "from that event. The plugin did not adjust it at its creation: create it again. Avoid "
    "connecting plugins while pods are being started."
)
_CREATE_BIT = NriEvent.CreateContainer.bit


class Missed(Detector):
    """Detector of containers that a plugin was never informed of."""

    def __init__(self, scene: RecordingFacts, sequence: Sequence) -> None:
        """``sequence`` has seen each event before this detector."""
        super().__init__(scene)
        self._sequence = sequence
        self._known: Latest[tuple[int, str], bool] = Latest()
        self._existed: dict[int, frozenset[str]] = {}
        self._shown: dict[int, Shown] = {}

    def see(self, event: Event) -> None:
        """Check the first event of a container at each connection."""
        if not event.container_id:
            return
        key = event.session, event.container_id
        known = self._known.get(key)
        if event.event == "RemoveContainer":
            self._known.pop(key, None)
        if known is not None or event.event == "RemoveContainer":
            return
        self._known[key] = True
        if event.event in _LIVING and self._is_unknown(event) and self._scene.wanted(event):
            name = self._scene.name_of(event.container_id)
            self._shown.setdefault(event.session, Shown()).add(event.id, container=name)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each connection."""
        for number, shown in self._shown.items():
            session = self._scene.sessions[number]
            count = shown.count
            yield shown.finding(
                FindingKind.MISSED,
                Level.WARNING,
                f"{session.plugin} received events of {count:,} unknown container"
                f"{'s' if count != 1 else ''}",
                "Neither Synchronize nor CreateContainer contained "
                f"{'them' if count != 1 else 'it'} in session {number}, which lost no event and "
                "had subscribed to creations. A runtime can miss containers that are created while "
                "a plugin is being synchronized.",
                _ADVICE,
            )

    def _is_unknown(self, event: Event) -> bool:
        session = self._scene.sessions.get(event.session)
        if session is None or not session.is_connection or not self._sequence.is_whole(session.id):
            return False
        if session.mask and not session.mask & _CREATE_BIT:
            return False
        existed = self._existed.get(session.id)
        if existed is None:
            existed = self._existed[session.id] = self._scene.existed(session.id)
        return event.container_id not in existed
