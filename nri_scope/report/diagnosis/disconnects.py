# SPDX-License-Identifier: Apache-2.0
"""Plugins that were disconnected, and events that the runtime continued without them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.attribution.rounds import CREATE
from nri_scope.differ.render import wording
from nri_scope.events import Event, Role, Session
from nri_scope.nri.events import Event as NriEvent
from nri_scope.recording.display import duration
from nri_scope.wire.status import Code

from ..finding import Finding, FindingKind, Level, Shown
from ..limits import CASES_MAX
from .recording_facts import Detector, RecordingFacts

_WORDS: dict[int, str] = {
    Code.DEADLINE_EXCEEDED: "did not answer in time",
    Code.UNAVAILABLE: "closed its connection while it was asked",
}
"""Status codes that mean the end of a plugin, not an answer."""
_ADVICE = (
    "Find out why it went (its own log, `nri-scope replay FILE -- ./plugin`), and have it connect "
    "again by itself: a runtime never starts an external plugin anew. What it should have done to "
    "the containers named here was not done: delete and create them again. Newer runtimes have a "
    "validator for required plugins, which keeps containers from being created without them."
)
_ONE_TIMEOUT = 1.25
"""Maximum time of a span in which one plugin does not answer, as a multiple of its deadline,
including the other plugins' time. A longer time means several plugins, each possibly in time."""
_CREATE_BIT = NriEvent.CreateContainer.bit


@dataclass(slots=True)
class _Gone:
    plugin: str
    why: str
    level: Level
    last: int
    shown: Shown = field(default_factory=Shown)
    back: bool = False
    seems: bool = False
    """Whether the plugin's connection was not observed."""


class Vanished(Detector):
    """See `Detector`."""

    def __init__(self, scene: RecordingFacts) -> None:
        super().__init__(scene)
        self._gone: dict[str, _Gone] = {}
        """The newest disconnection of each plugin, until the plugin is back."""
        self._over: list[_Gone] = []
        self._newest: dict[int, int] = {}
        """The newest event of each plugin's session."""
        self._told: dict[str, int] = {}
        """The plugins of the validators' last request, with its event."""
        self._ours = scene.passive_plugins()

    def see(self, event: Event) -> None:
        """Note how the exchange with a plugin ended."""
        if self._scene.is_passive(event.session) or not self._is_plugin(event.session):
            return
        self._newest[event.session] = event.id
        if event.status_code in _WORDS:
            if event.plugin not in self._gone:
                why = f"{_WORDS[event.status_code]} ({event.event}, event {event.id})"
                self._gone[event.plugin] = gone = _Gone(event.plugin, why, Level.PROBLEM, event.id)
                if self._scene.wanted(event):
                    gone.shown.add(event.id)
        else:
            self._is_back(event.plugin)

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Note whether the chain continued without one of its plugins."""
        if wanted:
            self._by_the_time(diff)
        if diff.name != CREATE:
            return
        self._ended_meanwhile(diff)
        self._by_the_chain(diff)
        if not wanted or diff.failure:
            return
        for gone in self._gone.values():
            at_it = gone.last in diff.events
            if at_it or (gone.plugin not in diff.seen_by and gone.plugin not in diff.chain):
                number = gone.last if at_it else diff.event
                gone.shown.add(number, container=self._scene.name_of(diff.container))

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each disconnection of a plugin."""
        for gone in (*self._over, *self._gone.values()):
            count = len(gone.shown.containers)
            if not gone.shown.count or (not count and gone.level is not Level.PROBLEM):
                # No container was created without it.
                continue
            yield gone.shown.finding(
                FindingKind.DISCONNECTED,
                gone.level,
                _title(gone, count),
                f"It {gone.why}. {_outcome(gone, count)}",
                _ADVICE,
            )

    def _is_plugin(self, number: int) -> bool:
        session = self._scene.sessions.get(number)
        return session is not None and session.role != Role.CRI

    def _is_back(self, plugin: str) -> None:
        gone = self._gone.pop(plugin, None)
        if gone is not None:
            gone.back = True
            if gone.shown.count and len(self._over) < CASES_MAX:
                self._over.append(gone)

    def _by_the_time(self, diff: RoundDiff) -> None:
        """Find two connections between which one plugin's deadline passed before the chain
        continued.
        """
        for span in diff.spans:
            if not (span.before and span.deadline_ns <= span.ns < _ONE_TIMEOUT * span.deadline_ns):
                continue
            if span.deadline_ns <= 0 or len(self._over) >= CASES_MAX:
                continue
            plugins = span.owner.plugins
            who = plugins[0] if len(plugins) == 1 else f"A plugin at {span.owner.index or '?'}"
            took, deadline = duration(span.ns), wording.deadline(span.deadline_ns)
            why = (
                f"did not answer in time, as it seems: {diff.name} took {took} of {deadline} "
                f"between {span.after} and {span.before}, and then went on there"
            )
            number = diff.events[diff.seen_by.index(span.before)]
            gone = _Gone(who, why, Level.WARNING, number, seems=True)
            without = "" if diff.failure or not diff.container else diff.container
            gone.shown.add(number, container=self._scene.name_of(without) if without else "")
            self._over.append(gone)

    def _ended_meanwhile(self, diff: RoundDiff) -> None:
        """Find plugins whose own connection was seen to end before this round."""
        for number, newest in list(self._newest.items()):
            session = self._scene.sessions[number]
            if session.ended_ns is None or session.ended_ns >= diff.at_ns:
                continue
            del self._newest[number]
            plugin = session.plugin
            if plugin in self._gone or plugin in diff.seen_by or not _creates(session):
                continue
            if not self._outlived(session, diff):
                continue
            why = f"was gone after event {newest}"
            if session.end_reason:
                why += f": {session.end_reason}"
            self._gone[plugin] = _Gone(plugin, why, Level.WARNING, newest)

    def _outlived(self, session: Session, diff: RoundDiff) -> bool:
        """Return whether another connection of that time still exists: else the runtime
        restarted.
        """
        return any(
            other.plugin in diff.seen_by
            and other.id != session.id
            and session.ended_ns is not None
            and other.started_ns < session.ended_ns
            and (other.ended_ns is None or other.ended_ns >= diff.at_ns)
            for other in self._scene.sessions.values()
        )

    def _by_the_chain(self, diff: RoundDiff) -> None:
        """Find plugins that the validators' chain no longer lists."""
        if not diff.chain:
            return
        there = set(diff.chain)
        for plugin, event in self._told.items():
            if len(self._gone) >= CASES_MAX:
                break
            if plugin in there or plugin in self._gone or plugin in self._ours:
                continue
            why = (
                f"was in the chain that the runtime told validators at event {event}, and is not "
                f"at event {diff.event}"
            )
            self._gone[plugin] = _Gone(plugin, why, Level.WARNING, event)
        for plugin in diff.chain:
            gone = self._gone.get(plugin)
            # The round in which it was disconnected still lists it.
            if gone is not None and gone.last not in diff.events and gone.last < diff.event:
                self._is_back(plugin)
        self._told = dict.fromkeys(diff.chain, diff.event)


def _creates(session: Session) -> bool:
    return session.mask == 0 or bool(session.mask & _CREATE_BIT)


def _title(gone: _Gone, count: int) -> str:
    if gone.seems:
        return f"{gone.plugin} was probably disconnected"
    return f"{gone.plugin} was disconnected" + (
        ", and containers were created without it" if count else ""
    )


def _outcome(gone: _Gone, count: int) -> str:
    if gone.seems:
        return "The runtime closes the connection of a plugin that answers too late."
    told = "No creation of a container was seen after that."
    if count:
        were = "s were" if count != 1 else " was"
        told = f"The runtime went on: {count:,} container{were} created without it."
    return f"{told} It came back later." if gone.back else told
