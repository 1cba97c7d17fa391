# SPDX-License-Identifier: Apache-2.0
"""Detect plugins that receive no events any more, and pods and containers that they missed.

Crashes of iSulad because of an update explain such ends; they are findings of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.attribution.observed_round import RETURNED
from nri_scope.differ.attribution.owner import Owner
from nri_scope.differ.render.values import clipped
from nri_scope.end_reasons import oversized_message, parse_end_reason
from nri_scope.events import PASSIVE_ROLES, Event, Session
from nri_scope.nri.events import (
    CONFIGURE,
    CREATE,
    SYNCHRONIZE,
    UNSOLICITED,
    UPDATE,
    EventKind,
    events_in,
)
from nri_scope.nri.merging.isulad import UPDATE_EVENT_CRASH
from nri_scope.nri.request_subject import may_be_plugins_call
from nri_scope.nri.versions import SPLIT_ADVICE, NriVersion, runtime_words, valid_mask
from nri_scope.oci.runtime_rules import runtime_rules_of
from nri_scope.recording.query.runtime_crash import crash_event
from nri_scope.text.quantities import deadline, duration
from nri_scope.wire.ttrpc import Code

from ..finding import Finding, FindingEvents, FindingKind, FindingText, Level, capital
from ..limits import CASES_MAX, TRACKED_MAX, WORDS_MAX
from .recording_facts import Detector, RecordingFacts, policy_of

_KINDS = {
    UPDATE: (
        "iSulad ended at an UpdateContainerResources request of the CRI",
        "without PostUpdateContainer",
        UPDATE_EVENT_CRASH,
        "Do not update resources of containers on this runtime (`crictl update`, in-place resizes "
        "by the kubelet, its CPU manager). No plugin can prevent the crash.",
    ),
    UNSOLICITED: (
        "iSulad ended at an UpdateContainers request of a plugin",
        "without an answer",
        "iSulad 2.1 crashes on any such request, also on one with an eviction only",
        "Let the plugin adjust containers only when they are created on this runtime.",
    ),
}
"""Title, missing event, rule and advice, by the name of the last event."""


class _LastEvents(Detector):
    def __init__(self, facts: RecordingFacts) -> None:
        super().__init__(facts)
        self._newest: dict[int, Event] = {}

    def see(self, event: Event) -> None:
        """Store the newest event of each session."""
        self._newest[event.session] = event


class CrashDetector(_LastEvents):
    """Detector of crashes of iSulad, by the last events of its sessions."""

    def last_events(self) -> dict[int, str]:
        """Return the events of which iSulad died: their ids, and their names."""
        newest = [
            (self._facts.sessions[number], event)
            for number, event in self._newest.items()
            if number in self._facts.sessions
        ]
        causes = {event.id: crash_event(session, event, newest) for session, event in newest}
        return {number: name for number, name in causes.items() if name}

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each kind of request."""
        cases = self.last_events()
        events = {event.id: event for event in self._newest.values()}
        for name, (title, missing, rule, advice) in _KINDS.items():
            crashes = FindingEvents()
            for number in sorted(cases):
                about = events[number].container_id
                if cases[number] == name and self._facts.wanted(events[number]):
                    crashes.add(number, container=self._facts.name_of(about))
            if crashes.count:
                detail = (
                    "These are the last events of their connections, which the runtime then "
                    f"closed, {missing}. {rule}."
                )
                yield crashes.finding(FindingKind.CRASH, Level.PROBLEM, title, detail, advice)


_REASONS: dict[int, str] = {
    Code.DEADLINE_EXCEEDED: "did not reply in time",
    Code.UNAVAILABLE: "lost its connection during a request",
}
"""Status codes that show the end of a connection, not a reply."""
_ADVICE = (
    "The runtime does not start the plugin again: an external one must reconnect by itself. What "
    "the plugin missed lacks its changes: create it again."
)
_SYNCHRONIZE_ADVICE = (
    "Reply to Synchronize first and process the state afterwards, or raise the runtime's "
    "plugin_request_timeout. A reply that was late cannot be repaired on this connection: restart "
    "the plugin."
)
_ONE_TIMEOUT = 1.25
"""Maximum time of a span with one plugin that misses its deadline, as a multiple of the deadline,
including other plugins' time. A longer time means several plugins, each possibly in time."""


@dataclass(slots=True)
class _Gone:
    plugin: str
    why: str
    level: Level
    last: int
    events: FindingEvents = field(default_factory=FindingEvents)
    without: set[str] = field(default_factory=set)
    """Containers that were created without the plugin."""
    undecided: set[str] = field(default_factory=set)
    """Containers whose creation it missed, and whose outcome is not known."""
    session: int = 0
    """The plugin's session, if it was recorded."""
    synchronized_ns: int = 0
    """Time of a late Synchronize; 0 for another reason."""
    has_reconnected: bool = False
    probable: Owner | None = None
    """The possible plugins, if the disconnection is only probable, as no connection was observed.
    """


class DisconnectDetector(Detector):
    """Detector of disconnected plugins."""

    def __init__(self, facts: RecordingFacts, crashes: CrashDetector) -> None:
        super().__init__(facts)
        self._crashes = crashes
        self._gone: dict[str, _Gone] = {}
        """Newest disconnection of each plugin that has not reconnected."""
        self._closed_cases: list[_Gone] = []
        self._newest: dict[int, int] = {}
        """Newest event of each session, by session id."""
        self._newest_chain: dict[str, int] = {}
        """Plugins in the newest request to validators, with the id of its event."""

    def see(self, event: Event) -> None:
        """Check the status of the exchange with a plugin."""
        session = self._facts.sessions.get(event.session)
        if session is None or not session.is_connection or self._facts.is_passive(session.id):
            return
        if may_be_plugins_call(event.method, event.mark):
            # A failure is the runtime's, and a plugin that could not register was not connected.
            return
        self._newest[event.session] = event.id
        late = event.status_code == Code.DEADLINE_EXCEEDED
        policy = policy_of(session)
        if late and (policy is None or policy.keep_connected):
            # With an unknown policy, the end of the session shows a disconnection.
            return
        reason = _REASONS.get(event.status_code, "")
        if event.status_code and not runtime_rules_of(session.runtime_name).has_ordered_chain:
            message = clipped(event.status_message, WORDS_MAX) or "no message"
            reason = reason or f"{RETURNED}, and this runtime continues without it: {message}"
        if reason:
            if event.plugin not in self._gone:
                why = f"{reason} ({event.event}, event {event.id})"
                self._gone[event.plugin] = gone = _Gone(event.plugin, why, Level.PROBLEM, event.id)
                gone.session = event.session
                if late and event.event == SYNCHRONIZE:
                    gone.synchronized_ns = event.at_ns
                if self._facts.wanted(event):
                    about = "" if event.container_id else event.pod_id
                    gone.events.add(event.id, container=self._facts.name_of(about))
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
        if not wanted or diff.failure or not self._facts.covers(diff.container):
            return
        for gone in self._gone.values():
            at_it = gone.last in diff.events
            if at_it or (gone.plugin not in diff.seen_by and gone.plugin not in diff.chain):
                number = gone.last if at_it else diff.event
                name = self._facts.name_of(diff.container)
                gone.events.add(number, container=name)
                missed = gone.without if diff.created else gone.undecided
                if len(missed) < TRACKED_MAX:
                    missed.add(name)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each disconnection of a plugin, unless the runtime itself died."""
        crashes = self._crashes.last_events()
        everything = (*self._closed_cases, *self._gone.values())
        certain = {case.plugin for case in everything if case.probable is None}
        for gone in everything:
            if gone.probable is not None and any(map(gone.probable.may_be, certain)):
                continue
            missed = gone.without or gone.undecided or gone.events.containers
            if not gone.events.count or not (missed or gone.level is Level.PROBLEM):
                # The recording shows no container that the plugin missed.
                continue
            if gone.last in crashes:
                continue
            title, why, advice = f"{gone.plugin} was disconnected", gone.why, _ADVICE
            ended = self._facts.sessions.get(gone.session)
            if gone.probable is not None:
                title = f"{gone.plugin} was probably disconnected"
            elif open_until := self._open_until(gone):
                title = f"{gone.plugin} got no event after its late reply to Synchronize"
                why += f". {open_until}"
                advice = _SYNCHRONIZE_ADVICE
            elif gone.without:
                title += ", and containers were created without it"
            reason = "" if ended is None or gone.synchronized_ns else ended.end_reason
            if parse_end_reason(reason).has_plugin_exit:
                why += f". {capital(clipped(reason, WORDS_MAX))}"
            yield gone.events.finding(
                FindingKind.DISCONNECTED,
                gone.level,
                title,
                f"It {why}. {_outcome(gone)}",
                advice,
            )

    def _open_until(self, gone: _Gone) -> str:
        """Describe a connection that stayed open after Synchronize; "" if the runtime closed it."""
        session = self._facts.sessions.get(gone.session)
        if (
            session is None
            or not gone.synchronized_ns
            or parse_end_reason(session.end_reason).is_by_runtime
        ):
            return ""
        text = "The recording does not show the end of its connection"
        if session.ended_ns is not None:
            reason = f": {session.end_reason}" if session.end_reason else ""
            open_ns = session.ended_ns - gone.synchronized_ns
            text = f"Its connection stayed open for {duration(open_ns)}{reason}"
        return f"{text}. The plugin itself may not notice that it gets no events"

    def _reconnected(self, plugin: str) -> None:
        gone = self._gone.pop(plugin, None)
        if gone is not None:
            gone.has_reconnected = True
            if gone.events.count and len(self._closed_cases) < CASES_MAX:
                self._closed_cases.append(gone)

    def _check_times(self, diff: RoundDiff) -> None:
        """Find spans in which one plugin probably missed its deadline."""
        for span in diff.spans:
            if not (span.before and span.deadline_ns <= span.ns < _ONE_TIMEOUT * span.deadline_ns):
                continue
            if span.deadline_ns <= 0 or len(self._closed_cases) >= CASES_MAX:
                continue
            if self._facts.unobserved_policy is None:
                # The plugin may have stayed connected.
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
            gone = _Gone(who, why, Level.WARNING, number, probable=span.owner)
            about = "" if diff.failure else diff.container or diff.pod
            gone.events.add(number, container=self._facts.name_of(about))
            self._closed_cases.append(gone)

    def _check_sessions(self, diff: RoundDiff) -> None:
        """Find plugins whose observed connection ended before this round."""
        for number, newest in list(self._newest.items()):
            session = self._facts.sessions[number]
            if session.ended_ns is None or session.ended_ns >= diff.at_ns:
                continue
            del self._newest[number]
            plugin = session.plugin
            if plugin in self._gone or plugin in diff.seen_by:
                continue
            creates = session.subscribes_to(EventKind.CreateContainer)
            if not (creates and self._outlived(session, diff)):
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
            for other in self._facts.sessions.values()
        )

    def _check_chain(self, diff: RoundDiff) -> None:
        """Find plugins that the chain in requests to validators no longer contains."""
        if not diff.chain:
            return
        members = set(diff.chain)
        for plugin, event in self._newest_chain.items():
            if len(self._gone) >= CASES_MAX:
                break
            if plugin in members or plugin in self._gone or plugin in self._facts.passive_plugins:
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


def _outcome(gone: _Gone) -> str:
    if gone.probable is not None:
        return "The runtime disconnects a plugin that replies too late."
    outcome = ""
    if gone.without:
        were = "container was" if len(gone.without) == 1 else "containers were"
        outcome = f"The runtime continued: {len(gone.without):,} {were} created without it."
    if gone.undecided:
        more = "more " if gone.without else ""
        count = len(gone.undecided)
        outcome += (
            f" It missed {count:,} {more}creation{'s' if count != 1 else ''} of containers, and no "
            "event shows whether they exist."
        )
    if not outcome:
        pods = ", ".join(gone.events.containers)
        outcome = "No container that it missed is in the recording."
        outcome = f"The runtime continued with the pod {pods} without it." if pods else outcome
    return f"{outcome.strip()} It reconnected later." if gone.has_reconnected else outcome.strip()


_REQUIRED_ADVICE = (
    "Create them again when the plugin is connected. The default validator of NRI refuses such "
    "containers, but not if the plugin was late, and no pods. `nri-scope missing FILE` lists all."
)


class RequiredPluginDetector(Detector):
    """Detector of pods and containers created without a plugin that an annotation requires."""

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each plugin."""
        findings: dict[str, FindingText] = {}
        for created in self._facts.created_without():
            why = f"{created.name}: {created.required_by} requires it, and {created.evidence}."
            title = f"{created.plugin} is required, and pods or containers were created without it"
            finding = findings.setdefault(created.plugin, FindingText(title, why, _REQUIRED_ADVICE))
            finding.events.add(created.event, container=created.name)
        for finding in findings.values():
            yield finding.finding(FindingKind.REQUIRED, Level.PROBLEM)


_REFUSED_ADVICE = (
    "The plugin receives no events. Change what the error names, often the plugin's index or name."
)
_WITH_RUNTIME_ADVICE = (
    "An external plugin must connect again by itself when the runtime is back; the runtime starts "
    "only plugins that it launches."
)
_ENDED_ADVICE = (
    "It receives no events until it is started again. A runtime kills the plugins that it launched "
    "when they fail, and when the runtime itself ends."
)
_SILENT_ADVICE = (
    "iSulad sends no Synchronize over 4 MiB, and no event after that: use fewer "
    "containers and annotations. It sends none to a plugin that it launched."
)
_UNKNOWN_EVENTS_ADVICE = (
    "The plugin receives no events. Subscribe only to events of this runtime's NRI version, or "
    "update the runtime."
)
_INCOMPLETE_ADVICE = (
    "The connection observed nothing, and what existed before is unknown. See why it ended."
)
_SILENT_NS = 10_000_000_000
"""Minimum time without Synchronize after which a connection is reported. Runtimes send it within
milliseconds after Configure."""


class FailedConnectionDetector(_LastEvents):
    """Detector of connections that failed as a whole, by the reason of their end."""

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each plugin and reason."""
        cases: dict[tuple[Level, str, str, str], FindingEvents] = {}
        for number, newest in self._newest.items():
            session = self._facts.sessions.get(number)
            if session is None or not session.is_connection or not self._facts.wanted(newest):
                continue
            texts = self._of(session, newest)
            if texts is not None and len(cases) < CASES_MAX:
                cases.setdefault(texts, FindingEvents()).add(newest.id)
        for (level, title, detail, advice), events in cases.items():
            yield events.finding(FindingKind.DISCONNECTED, level, title, detail, advice)

    def _of(self, session: Session, newest: Event) -> tuple[Level, str, str, str] | None:
        """Return level, title, detail and advice; None for an end that is no finding."""
        plugin, reason = session.plugin, parse_end_reason(session.end_reason)
        end = f"{capital(clipped(session.end_reason, WORDS_MAX))}."
        gaps = [gap.reason for gap in self._facts.gaps if gap.session == session.id]
        oversized = oversized_message((session.end_reason, *gaps))
        if oversized is not None:
            method, size, limit = oversized
            name = "A message" if method in ("message", "frame") else method
            title = f"{name} of {size:,} bytes to {plugin} is over the limit of {limit:,} bytes"
            detail = "The recording has later events of this connection, but not that message."
            if newest.event == CONFIGURE:
                detail = "The runtime sent it after Configure; no later event is recorded."
            condition = "" if method == SYNCHRONIZE else "If it was Synchronize: "
            return Level.PROBLEM, title, detail, f"{condition}{SPLIT_ADVICE}."
        if reason.is_refusal:
            title = f"The runtime refused the registration of {plugin}"
            return Level.PROBLEM, title, end, _REFUSED_ADVICE
        # The failure of the last event, which explains the end, is a finding of its own.
        if not newest.status_code and session.role not in PASSIVE_ROLES:
            if reason.is_plugin_failure:
                return Level.WARNING, f"{plugin} ended", end, _ENDED_ADVICE
            if reason.is_exit_with_runtime:
                title = f"{plugin} ended with its connection"
                return Level.NOTE, title, end, _WITH_RUNTIME_ADVICE
        version = NriVersion.parse(session.nri_version)
        unknown = session.mask & ~valid_mask(version) if version is not None else 0
        if newest.event == CONFIGURE and reason.is_by_runtime and unknown:
            title = f"{plugin} subscribes to events that are unknown to the runtime"
            names = ", ".join(event.name for event in events_in(unknown)) or f"{unknown:#x}"
            runtime = runtime_words(session.runtime_name, session.runtime_version)
            detail = f"{runtime} (NRI {version}) does not have {names}, and closed the connection."
            return Level.PROBLEM, title, f"{detail} {end}", _UNKNOWN_EVENTS_ADVICE
        silent_ns = (session.ended_ns or 0) - newest.at_ns
        if newest.event == SYNCHRONIZE and session.synced_ns is None and session.end_reason:
            title = f"Synchronize of {plugin} was never complete"
            detail = "Only a part of it arrived before the connection ended."
            return Level.WARNING, title, f"{detail} {end}", _INCOMPLETE_ADVICE
        if newest.event == CONFIGURE and silent_ns > _SILENT_NS:
            title = f"{plugin} received no Synchronize"
            detail = f"Nothing came in the {duration(silent_ns)} after Configure."
            return Level.WARNING, title, detail, _SILENT_ADVICE
        return None
