# SPDX-License-Identifier: Apache-2.0
"""Detect disconnected plugins, and containers that were created without them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.attribution.rounds import CREATE
from nri_scope.events import Event, Session
from nri_scope.nri.events import Event as NriEvent
from nri_scope.recording.display import deadline, duration
from nri_scope.wire.status import Code

from ..finding import Finding, FindingKind, Level, Shown
from ..limits import CASES_MAX
from .recording_facts import Detector, RecordingFacts

_REASONS: dict[int, str] = {
    Code.DEADLINE_EXCEEDED: "did not reply in time",
    Code.UNAVAILABLE: "closed its connection during a request",
}
"""Status codes that show the end of a connection, not a reply."""
_ADVICE = (
    "Find the reason (the plugin's own log, `nri-scope replay FILE -- ./plugin`), and make the "
    "plugin reconnect by itself: a runtime never restarts an external plugin. The listed "
    "containers lack its changes: delete and create them again. Newer runtimes have a validator "
    "for required plugins, which prevents the creation of containers without them."
)
_ONE_TIMEOUT = 1.25
"""Maximum time of a span with one plugin that misses its deadline, as a multiple of the deadline,
including other plugins' time. A longer time means several plugins, each possibly in time."""
_CREATE_BIT = NriEvent.CreateContainer.bit


@dataclass(slots=True)
class _Gone:
    plugin: str
    why: str
    level: Level
    last: int
    shown: Shown = field(default_factory=Shown)
    has_reconnected: bool = False
    is_probable: bool = False
    """Whether the disconnection is only probable, as the connection was not observed."""


class Vanished(Detector):
    """Detector of disconnected plugins."""

    def __init__(self, scene: RecordingFacts) -> None:
        super().__init__(scene)
        self._gone: dict[str, _Gone] = {}
        """Newest disconnection of each plugin that has not reconnected."""
        self._closed_cases: list[_Gone] = []
        self._newest: dict[int, int] = {}
        """Newest event of each session, by session id."""
        self._newest_chain: dict[str, int] = {}
        """Plugins in the newest request to validators, with the id of its event."""

    def see(self, event: Event) -> None:
        """Check the status of the exchange with a plugin."""
        if self._scene.is_passive(event.session) or not self._is_plugin(event.session):
            return
        self._newest[event.session] = event.id
        policy = self._scene.sessions[event.session].failure_policy
        stays = policy is None or policy.keep_connected
        if event.status_code == Code.DEADLINE_EXCEEDED and stays:
            # With an unknown policy, the end of the session shows a disconnection.
            return
        if event.status_code in _REASONS:
            if event.plugin not in self._gone:
                why = f"{_REASONS[event.status_code]} ({event.event}, event {event.id})"
                self._gone[event.plugin] = gone = _Gone(event.plugin, why, Level.PROBLEM, event.id)
                if self._scene.wanted(event):
                    gone.shown.add(event.id)
        else:
            self._reconnected(event.plugin)

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Check whether the chain continued without one of its plugins."""
        if wanted:
            self._check_times(diff)
        if diff.name != CREATE:
            return
        self._check_sessions(diff)
        self._check_chain(diff)
        if not wanted or diff.failure or not self._scene.covers(diff.container):
            return
        for gone in self._gone.values():
            at_it = gone.last in diff.events
            if at_it or (gone.plugin not in diff.seen_by and gone.plugin not in diff.chain):
                number = gone.last if at_it else diff.event
                gone.shown.add(number, container=self._scene.name_of(diff.container))

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each disconnection of a plugin."""
        for gone in (*self._closed_cases, *self._gone.values()):
            count = len(gone.shown.containers)
            if not gone.shown.count or (not count and gone.level is not Level.PROBLEM):
                # No container was created without the plugin.
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
        return session is not None and session.is_connection

    def _reconnected(self, plugin: str) -> None:
        gone = self._gone.pop(plugin, None)
        if gone is not None:
            gone.has_reconnected = True
            if gone.shown.count and len(self._closed_cases) < CASES_MAX:
                self._closed_cases.append(gone)

    def _check_times(self, diff: RoundDiff) -> None:
        """Find spans in which one plugin probably missed its deadline."""
        for span in diff.spans:
            if not (span.before and span.deadline_ns <= span.ns < _ONE_TIMEOUT * span.deadline_ns):
                continue
            if span.deadline_ns <= 0 or len(self._closed_cases) >= CASES_MAX:
                continue
            plugins = span.owner.plugins
            who = f"A plugin at {span.owner.index or '?'}"
            if span.owner.is_unrecorded:
                who = "An unrecorded plugin"
            elif len(plugins) == 1:
                who = plugins[0]
            took, limit = duration(span.ns), deadline(span.deadline_ns)
            why = (
                f"probably did not reply in time: {diff.name} took {took} of {limit} "
                f"between {span.after} and {span.before}, and then continued"
            )
            number = diff.events[diff.seen_by.index(span.before)]
            gone = _Gone(who, why, Level.WARNING, number, is_probable=True)
            without = "" if diff.failure or not diff.container else diff.container
            gone.shown.add(number, container=self._scene.name_of(without) if without else "")
            self._closed_cases.append(gone)

    def _check_sessions(self, diff: RoundDiff) -> None:
        """Find plugins whose observed connection ended before this round."""
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
            why = f"was disconnected after event {newest}"
            if session.end_reason:
                why += f": {session.end_reason}"
            self._gone[plugin] = _Gone(plugin, why, Level.WARNING, newest)

    def _outlived(self, session: Session, diff: RoundDiff) -> bool:
        """Return whether a concurrent connection still exists; if not, the runtime restarted."""
        return any(
            other.plugin in diff.seen_by
            and other.id != session.id
            and session.ended_ns is not None
            and other.started_ns < session.ended_ns
            and (other.ended_ns is None or other.ended_ns >= diff.at_ns)
            for other in self._scene.sessions.values()
        )

    def _check_chain(self, diff: RoundDiff) -> None:
        """Find plugins that the chain in requests to validators no longer contains."""
        if not diff.chain:
            return
        there = set(diff.chain)
        for plugin, event in self._newest_chain.items():
            if len(self._gone) >= CASES_MAX:
                break
            if plugin in there or plugin in self._gone or plugin in self._scene.passive_plugins:
                continue
            why = (
                f"was in the chain that the runtime sent to validators at event {event}, but not "
                f"at event {diff.event}"
            )
            self._gone[plugin] = _Gone(plugin, why, Level.WARNING, event)
        for plugin in diff.chain:
            gone = self._gone.get(plugin)
            # The round of the disconnection still lists the plugin.
            if gone is not None and gone.last not in diff.events and gone.last < diff.event:
                self._reconnected(plugin)
        self._newest_chain = dict.fromkeys(diff.chain, diff.event)


def _creates(session: Session) -> bool:
    return session.mask == 0 or bool(session.mask & _CREATE_BIT)


def _title(gone: _Gone, count: int) -> str:
    if gone.is_probable:
        return f"{gone.plugin} was probably disconnected"
    return f"{gone.plugin} was disconnected" + (
        ", and containers were created without it" if count else ""
    )


def _outcome(gone: _Gone, count: int) -> str:
    if gone.is_probable:
        return "The runtime disconnects a plugin that replies too late."
    outcome = "No container creation was observed after that."
    if count:
        were = "s were" if count != 1 else " was"
        outcome = f"The runtime continued: {count:,} container{were} created without it."
    return f"{outcome} It reconnected later." if gone.has_reconnected else outcome
