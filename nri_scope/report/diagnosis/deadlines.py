# SPDX-License-Identifier: Apache-2.0
"""Detect plugins near or over their deadline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nri_scope.differ.attribution.attributed_changes import RoundDiff, Span
from nri_scope.differ.attribution.rounds import VALIDATE
from nri_scope.differ.render import wording
from nri_scope.events import Event
from nri_scope.nri.failure_policy import NO_POLICY, FailurePolicy
from nri_scope.nri.request_subject import is_plugins_call
from nri_scope.recording.display import deadline, duration
from nri_scope.wire.status import Code

from ..finding import Finding, FindingKind, Level, Shown
from .recording_facts import Detector, RecordingFacts

_ADVICE = (
    "Reply first and do slow work (API calls, hardware, locks) afterwards or ahead of time. "
    "`nri-scope replay FILE -- ./plugin` measures the plugin alone. If it cannot be faster, raise "
    "the runtime's deadline: plugin_request_timeout in containerd's NRI section, "
    "nri_plugin_request_timeout in CRI-O's; a slow plugin can then delay each container that long."
)
_OWN_ADVICE = (
    "The node was probably short of CPU or memory; compare with its load at that time. "
    "`nri-scope stats` shows the times of nri-scope's connections over all events."
)


@dataclass(slots=True)
class _Slow:
    title: str
    own: bool
    policy: FailurePolicy | None = NO_POLICY
    validates: bool = False
    """Whether these are the requests to a validator."""
    several: bool = False
    """Whether more than one plugin may have used the time."""
    shown: Shown = field(default_factory=Shown)
    missed: Shown = field(default_factory=Shown)
    """The events that took all of the deadline."""
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
        *,
        late: bool = False,
        is_arrival: bool = False,
    ) -> None:
        self.shown.add(number)
        if late or ns > deadline_ns:
            self.missed.add(number)
        if ns >= self.worst_ns:
            self.worst_ns, self.worst_name, self.deadline_ns = ns, name, deadline_ns
            self.worst_arrival = number if is_arrival else 0


class Times(Detector):
    """Detector of slow plugins."""

    def __init__(self, scene: RecordingFacts) -> None:
        super().__init__(scene)
        self._found: dict[tuple[str, bool], _Slow] = {}

    def see(self, event: Event) -> None:
        """Check the time of one connection."""
        late = event.status_code == Code.DEADLINE_EXCEEDED
        if event.timeout_ns <= 0 or not (late or 2 * event.took_ns > event.timeout_ns):
            return
        session = self._scene.sessions.get(event.session)
        if session is None or not session.is_connection or not self._scene.wanted(event):
            return
        # Set-up requests and a plugin's own calls have other deadlines.
        if is_plugins_call(event.method, event.mark) or event.method == "Configure":
            return
        ours = self._scene.is_passive(event.session)
        title = f"nri-scope's own connection {event.plugin}" if ours else event.plugin
        validates = event.method == VALIDATE
        slow = self._found.setdefault(
            (title, validates), _Slow(title, ours, session.failure_policy, validates)
        )
        slow.add(event.id, event.event, event.took_ns, event.timeout_ns, late=late)

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Check the times between two connections."""
        if not wanted:
            return
        for span in diff.spans:
            if span.before and wording.slow(span):
                title = _title(span)
                slow = self._found.setdefault(
                    (title, False), _Slow(title, own=False, several=len(span.owner.plugins) != 1)
                )
                number = diff.events[diff.seen_by.index(span.before)]
                slow.add(number, diff.name, span.ns, span.deadline_ns, is_arrival=True)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each plugin, or for the plugins between two connections."""
        for slow in self._found.values():
            count = slow.shown.count
            took, limit = duration(slow.worst_ns), deadline(slow.deadline_ns)
            times = f"{slow.worst_name} took {took} of {limit}"
            if slow.worst_arrival:
                times += f", until event {slow.worst_arrival} arrived"
            if count > 1:
                over = f", {slow.over:,} of them all of the deadline" if slow.over else ""
                times = (
                    f"{count:,} events took over half of the deadline{over}; the longest: {times}"
                )
            # A finding about missed deadlines does not point to replies that were only slow.
            yield (slow.missed if slow.over else slow.shown).finding(
                FindingKind.DEADLINE,
                Level.PROBLEM if slow.over else Level.WARNING,
                f"{slow.title} {_problem(slow)}",
                f"{times}. {_consequence(slow)}.",
                _OWN_ADVICE if slow.own else _ADVICE,
            )


def _consequence(slow: _Slow) -> str:
    policy = slow.policy
    if policy is None:
        unknown = "the runtime then disconnects the plugin"
        effect = "Each late reply fails the creation. " if slow.validates else ""
        unknown += "" if slow.validates else ", or fails the request,"
        return f"{effect}Whether {unknown} is unknown: its failure policy is not in the recording"
    which = "each" if policy.keep_connected else "one"
    connection = "keeps the plugin connected" if policy.keep_connected else "disconnects the plugin"
    by = f" (failure policy {policy})" if policy != NO_POLICY else ""
    if slow.validates:
        # Under any policy.
        by = by if policy.keep_connected else ""
        return f"After {which} late reply the runtime fails the creation, and {connection}{by}"
    request = "fails the request" if policy.fail_request else "continues without it"
    return f"After {which} late reply the runtime {connection}, and {request}{by}"


def _title(span: Span) -> str:
    plugins, between = span.owner.plugins, f"between {span.after} and {span.before}"
    if len(plugins) == 1:
        return f"{plugins[0]} ({between})"
    if span.owner.is_unrecorded:
        return f"Unrecorded plugins ({between})"
    return f"Plugins at {span.owner.index or '?'} ({between})"


def _problem(slow: _Slow) -> str:
    if slow.several:
        part = "longer than" if slow.over else "over half of"
        return f"took {part} one plugin's deadline"
    return "missed its deadline" if slow.over else "took over half of its deadline"
