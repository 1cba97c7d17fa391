# SPDX-License-Identifier: Apache-2.0
"""Detect plugins near or over their deadline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nri_scope.differ.attribution.attributed_changes import PluginSpan, RoundDiff
from nri_scope.differ.render import wording
from nri_scope.events import Event
from nri_scope.nri.events import CONFIGURE, CREATE, SYNCHRONIZE, VALIDATE
from nri_scope.nri.request_subject import may_be_plugins_call
from nri_scope.nri.runtime_setup import NO_POLICY, FailurePolicy
from nri_scope.nri.versions import runtime_title
from nri_scope.text.quantities import deadline, duration, many
from nri_scope.wire.ttrpc import Code

from ..finding import Finding, FindingEvents, FindingKind, Level, capital
from .recording_facts import Detector, Latest, RecordingFacts, policy_of

_ADVICE = (
    "Reply first and do slow work (API calls, hardware, locks) afterwards or ahead of time. "
    "`nri-scope replay FILE -- ./plugin` measures the plugin alone. If it cannot be faster, raise "
    "the runtime's deadline: plugin_request_timeout in containerd's NRI section, "
    "nri_plugin_request_timeout in CRI-O's (Docker Engine's is fixed); a slow plugin can then "
    "delay each container that long."
)
_OWN_ADVICE = (
    "The node was probably short of CPU or memory; compare with its load at that time. "
    "`nri-scope log FILE --where problem:slow` shows all slow replies."
)


_LATE_SYNCHRONIZE = (
    "After a late reply to Synchronize no event comes: containerd 1.7.24 keeps the connection "
    "open, 2.1.9 and 2.4.2 close it"
)
_SET_APART = (SYNCHRONIZE, VALIDATE)
"""Requests for which a late reply has another effect than for others."""


@dataclass(slots=True)
class _Slow:
    title: str
    own: bool
    policy: FailurePolicy | None
    """None if the recording does not show it."""
    request: str = ""
    """The only kind of request, if that is one of `_SET_APART`."""
    runtime: str = ""
    several: bool = False
    """Whether more than one plugin may have used the time."""
    events: FindingEvents = field(default_factory=FindingEvents)
    missed: FindingEvents = field(default_factory=FindingEvents)
    """The events that took all of the deadline."""
    outcome: str = ""
    """What became of the newest operation in which it missed the deadline; "" if unknown."""
    later_event: int = 0
    """An event of its session after a missed deadline; 0 if there was none."""
    worst_ns: int = 0
    deadline_ns: int = 0
    worst_name: str = ""
    worst_arrival: int = 0
    """The event that arrived at the end of the longest time; 0 if that is the time of a reply."""

    @property
    def over(self) -> int:
        """Number of events that took all of the deadline."""
        return self.missed.count

    def add(
        self,
        number: int,
        name: str,
        ns: int,
        deadline_ns: int,
        subject: str,
        *,
        late: bool = False,
        is_arrival: bool = False,
    ) -> None:
        self.events.add(number, container=subject)
        if late or ns > deadline_ns:
            self.missed.add(number, container=subject)
        if ns >= self.worst_ns:
            self.worst_ns, self.worst_name, self.deadline_ns = ns, name, deadline_ns
            self.worst_arrival = number if is_arrival else 0


class SlowPluginDetector(Detector):
    """Detector of slow plugins."""

    def __init__(self, facts: RecordingFacts) -> None:
        super().__init__(facts)
        self._slow: dict[tuple[str, str], _Slow] = {}
        self._late: Latest[int, _Slow] = Latest()
        """Plugins that missed a deadline, by event."""
        self._late_in: dict[int, _Slow] = {}
        """The same, by session."""

    def see(self, event: Event) -> None:
        """Check the time of one connection."""
        late = event.status_code == Code.DEADLINE_EXCEEDED
        if (missed := self._late_in.get(event.session)) is not None:
            missed.later_event = event.id
        if event.timeout_ns <= 0 or not (late or 2 * event.took_ns > event.timeout_ns):
            return
        session = self._facts.sessions.get(event.session)
        if session is None or not session.is_connection or not self._facts.wanted(event):
            return
        # Set-up requests and a plugin's own calls have other deadlines.
        if may_be_plugins_call(event.method, event.mark) or event.method == CONFIGURE:
            return
        ours = self._facts.is_passive(event.session)
        title = f"nri-scope's own connection {event.plugin}" if ours else event.plugin
        request = event.method if event.method in _SET_APART else ""
        runtime = runtime_title(session.runtime_name)
        slow = self._slow.setdefault(
            (title, request), _Slow(title, ours, policy_of(session), request, runtime)
        )
        subject = event.container_id or event.pod_id
        name = self._facts.name_of(subject)
        slow.add(event.id, event.event, event.took_ns, event.timeout_ns, name, late=late)
        if misses_deadline(event):
            self._late[event.id] = self._late_in[event.session] = slow

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Check the times between two connections."""
        if not wanted:
            return
        for span in diff.spans:
            if span.before and wording.slow(span):
                title, policy = _title(span), self._facts.unobserved_policy
                several = len(span.owner.plugins) != 1
                slow = self._slow.setdefault(
                    (title, ""), _Slow(title, own=False, policy=policy, several=several)
                )
                number = diff.events[diff.seen_by.index(span.before)]
                name = wording.subject(diff, self._facts.name_of).removeprefix("pod ")
                slow.add(number, diff.name, span.ns, span.deadline_ns, name, is_arrival=True)
                if span.ns > span.deadline_ns:
                    self._late[number] = slow
        for number in diff.events:
            if (missed := self._late.get(number)) is not None and diff.name == CREATE:
                created = "the container was created" if diff.created else ""
                missed.outcome = "the creation failed" if diff.failure else created

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each plugin, or for the plugins between two connections."""
        for slow in self._slow.values():
            count = slow.events.count
            took, limit = duration(slow.worst_ns), deadline(slow.deadline_ns)
            times = f"{slow.worst_name} took {took} of {limit}"
            if slow.worst_arrival:
                times += f", until event {slow.worst_arrival} arrived"
            if count > 1:
                slow_only = f"{count - slow.over:,} took over half of it"
                text = f"{many(slow.over, 'event')} took longer than the deadline"
                text += f", and {slow_only}" if count > slow.over else ""
                text = text if slow.over else f"{count:,} events took over half of the deadline"
                times = f"{text}; the longest: {times}"
            # A finding about missed deadlines does not point to replies that were only slow.
            yield (slow.missed if slow.over else slow.events).finding(
                FindingKind.DEADLINE,
                Level.PROBLEM if slow.over else Level.WARNING,
                f"{slow.title} {_problem(slow)}",
                f"{times}. {_consequence(slow)}.",
                _OWN_ADVICE if slow.own else _ADVICE,
            )


def misses_deadline(event: Event) -> bool:
    """Return whether the reply of one connection came after the deadline, or not at all."""
    is_late = event.status_code == Code.DEADLINE_EXCEEDED or event.took_ns > event.timeout_ns
    return event.timeout_ns > 0 and is_late


def _consequence(slow: _Slow) -> str:
    policy = slow.policy
    if slow.later_event and not (policy and policy.keep_connected):
        reason = f"The connection stayed open: event {slow.later_event} came later"
        return "; ".join(filter(None, (reason, slow.outcome)))
    validates = slow.request == VALIDATE
    if slow.request == SYNCHRONIZE:
        if slow.runtime == "containerd":
            return _LATE_SYNCHRONIZE
        return "Whether events come after a late reply to Synchronize depends on the runtime"
    if policy is None:
        unknown = "the runtime then disconnects the plugin"
        effect = "Each late reply fails the creation. " if validates else ""
        if slow.outcome and not validates:
            effect = f"{capital(slow.outcome)}. "
        unknown += "" if effect else ", or fails the request,"
        return f"{effect}Whether {unknown} is unknown: its failure policy is not in the recording"
    which = "each" if policy.keep_connected else "one"
    whom = "this connection" if slow.own else "the plugin"
    connection = f"keeps {whom} connected" if policy.keep_connected else f"disconnects {whom}"
    by = f" (failure policy {policy})" if policy != NO_POLICY else ""
    if validates:
        # Under any policy.
        by = by if policy.keep_connected else ""
        return f"After {which} late reply the runtime fails the creation, and {connection}{by}"
    request = "fails the request" if policy.fail_request else "continues without it"
    return f"After {which} late reply the runtime {connection}, and {request}{by}"


def _title(span: PluginSpan) -> str:
    plugins, between = span.owner.plugins, f"between {span.after} and {span.before}"
    if len(plugins) == 1:
        return f"{plugins[0]} ({between})"
    if span.owner.is_unrecorded:
        return f"Unrecorded plugins ({between})"
    return f"Plugins at {span.owner.index or '?'} ({between})"


def _problem(slow: _Slow) -> str:
    if slow.over:
        return "took longer than one plugin's deadline" if slow.several else "missed its deadline"
    share = "almost all" if 10 * slow.worst_ns > 9 * slow.deadline_ns else "over half"
    whose = "one plugin's" if slow.several else "its"
    return f"took {share} of {whose} deadline"
