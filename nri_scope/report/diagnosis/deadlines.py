# SPDX-License-Identifier: Apache-2.0
"""Plugins near or over their deadline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nri_scope.differ.attribution.attributed_changes import RoundDiff, Span
from nri_scope.differ.render import wording
from nri_scope.events import Event, Role
from nri_scope.nri.request_subject import is_plugins_call
from nri_scope.recording.display import duration
from nri_scope.wire.status import Code

from ..finding import Finding, FindingKind, Level, Shown
from .recording_facts import Detector, RecordingFacts

_ADVICE = (
    "Answer first and do slow work (API calls, hardware, locks) afterwards or ahead of time. "
    "`nri-scope replay FILE -- ./plugin` measures the plugin alone. Where it cannot be faster, "
    "the runtime's limit for one request can be raised: plugin_request_timeout in containerd's "
    "NRI section, nri_plugin_request_timeout in CRI-O's; every container then waits that long."
)
_OWN_ADVICE = (
    "The node was probably short of CPU or memory then; compare with what else ran. "
    "`nri-scope stats` shows how long nri-scope itself took over all events."
)


@dataclass(slots=True)
class _Slow:
    title: str
    own: bool
    several: bool = False
    """Whether it may have been more than one plugin."""
    shown: Shown = field(default_factory=Shown)
    over: int = 0
    worst_ns: int = 0
    deadline_ns: int = 0
    worst_name: str = ""

    def add(self, number: int, name: str, ns: int, deadline_ns: int, *, late: bool) -> None:
        self.shown.add(number)
        self.over += late or ns > deadline_ns
        if ns >= self.worst_ns:
            self.worst_ns, self.worst_name, self.deadline_ns = ns, name, deadline_ns


class Times(Detector):
    """See `Detector`."""

    def __init__(self, scene: RecordingFacts) -> None:
        super().__init__(scene)
        self._found: dict[str, _Slow] = {}

    def see(self, event: Event) -> None:
        """Note the times of one connection."""
        session = self._scene.sessions.get(event.session)
        if session is None or session.role == Role.CRI or not self._scene.wanted(event):
            return
        # The set-up and a plugin's own calls have deadlines of their own.
        own = is_plugins_call(event.method, event.mark)
        if event.timeout_ns <= 0 or own or event.method == "Configure":
            return
        late = event.status_code == Code.DEADLINE_EXCEEDED
        if not late and 2 * event.took_ns <= event.timeout_ns:
            return
        ours = self._scene.is_passive(event.session)
        title = f"nri-scope's own connection {event.plugin}" if ours else event.plugin
        slow = self._found.setdefault(title, _Slow(title, ours))
        slow.add(event.id, event.event, event.took_ns, event.timeout_ns, late=late)

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Note the times between two connections."""
        if not wanted:
            return
        for span in diff.spans:
            if span.before and wording.slow(span):
                title = _title(span)
                slow = self._found.setdefault(
                    title, _Slow(title, own=False, several=len(span.owner.plugins) != 1)
                )
                number = diff.events[diff.seen_by.index(span.before)]
                slow.add(number, diff.name, span.ns, span.deadline_ns, late=False)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each plugin, or for the plugins between two connections."""
        for slow in self._found.values():
            count = slow.shown.count
            took, deadline = duration(slow.worst_ns), wording.deadline(slow.deadline_ns)
            told = f"{slow.worst_name} took {took} of {deadline}"
            if count > 1:
                over = f", {slow.over:,} of them all of it" if slow.over else ""
                told = f"{count:,} events took over half of the deadline{over}; the longest: {told}"
            yield slow.shown.finding(
                FindingKind.DEADLINE,
                Level.PROBLEM if slow.over else Level.WARNING,
                f"{slow.title} {_did(slow)}",
                f"{told}. One answer after the deadline makes the runtime drop the plugin's "
                "connection, and the container goes on without it.",
                _OWN_ADVICE if slow.own else _ADVICE,
            )


def _title(span: Span) -> str:
    plugins, between = span.owner.plugins, f"between {span.after} and {span.before}"
    if len(plugins) == 1:
        return f"{plugins[0]} ({between})"
    return f"What is at {span.owner.index or '?'} ({between})"


def _did(slow: _Slow) -> str:
    if slow.several:
        part = "longer than" if slow.over else "over half the time that"
        return f"took {part} one plugin may"
    return "missed its deadline" if slow.over else "came near its deadline"
