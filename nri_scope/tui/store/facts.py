# SPDX-License-Identifier: Apache-2.0
"""What a title says of a recording, and what a look at it found to be new."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nri_scope.recorder import display
from nri_scope.recorder.escape import safe
from nri_scope.recorder.event_pages import RecordingLook
from nri_scope.recorder.model import Role

_RUNTIME_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Facts:
    """What the title says of a recording."""

    path: Path
    kind: str
    """``live``, ``recording``, ``replay`` or ``tap``."""
    runtime: str
    """``containerd 2.1.9, NRI 0.12.0`` of the newest session, of one that knows NRI where there is
    one; safe to show; "" without any."""
    sessions: int
    connected: int
    """Sessions that have not ended, as far as the recording tells."""
    events: int
    """Exact once the view of everything is complete."""
    first_ns: int
    """Wall clock of the first event; 0 without events."""
    last_ns: int
    gaps: int
    lost: int
    """Events that gaps say were lost."""
    lost_unknown: bool
    """Whether there are gaps with an unknown number of lost events."""
    growing: bool
    """It is being written, or its writer was killed. (Not told of one that waits for its
    runtime to come back: see ``connected``.)"""
    damage: str
    """In words, what keeps the recording from being read to its end; "" for nothing."""


@dataclass(frozen=True, slots=True)
class Growth:
    """What a `Store.refresh` found; false where nothing is new."""

    events: int = 0
    """New ones."""
    removed: bool = False
    """The oldest events were removed."""
    between: bool = False
    """Gaps or sessions came, or are not what they were."""
    moved: bool = False
    """More was found out about what there was already: rows may be at other positions."""

    def __bool__(self) -> bool:
        return bool(self.events) or self.removed or self.between or self.moved


def facts_of(path: Path, look: RecordingLook, *, events: int, damage: str, live: bool) -> Facts:
    """Return what is known of a recording."""
    sessions = look.sessions
    # What a part of a recording leaves out was not lost; it has rows that say so.
    gaps = [gap for gap in look.gaps if not gap.is_left_out]
    # The CRI tells nothing of NRI; the plugin connections beside it do.
    newest = max(sessions, key=lambda one: (one.role != Role.CRI, one.id), default=None)
    runtime = display.runtime(newest) if newest is not None else ""
    return Facts(
        path=path,
        kind="live" if live else _kind({session.role for session in sessions}),
        runtime=safe(runtime[: 4 * _RUNTIME_WIDTH], _RUNTIME_WIDTH),
        sessions=len(sessions),
        connected=sum(session.ended_ns is None for session in sessions),
        events=events,
        first_ns=look.first_ns,
        last_ns=look.last_ns,
        gaps=len(gaps),
        lost=sum(gap.lost or 0 for gap in gaps),
        lost_unknown=any(gap.lost is None for gap in gaps),
        growing=live or look.growing,
        damage=damage,
    )


def _kind(roles: set[str]) -> str:
    if Role.TAP in roles:
        return "tap"
    return "replay" if roles == {Role.REPLAY} else "recording"
