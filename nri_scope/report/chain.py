# SPDX-License-Identifier: Apache-2.0
"""Collect the plugins of the chain, and the times of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nri_scope.differ.attribution.attributed_changes import RoundDiff, Span
from nri_scope.differ.latency import Times, Timing
from nri_scope.events import PASSIVE_ROLES, Event, Role, Session
from nri_scope.nri import invocation
from nri_scope.nri.events import Event as NriEvent

from .limits import PLUGINS_MAX
from .report_data import Link

_NAMES = frozenset(event.name for event in NriEvent)
_CALLS = _NAMES | frozenset(invocation.METHODS)
_ROLES: dict[str, str] = {
    Role.LOGGER: "passive connection of nri-scope",
    Role.PROBE: "passive probe of nri-scope",
    Role.TAP: "tapped",
    Role.REPLAY: "replayed",
    Role.SCENARIO: "scenario, not observed",
    Role.V01: "plugin of NRI 0.1",
}


class Links:
    """Collector of the chain from events and rounds. Uses 8 bytes for each measured time."""

    def __init__(self, sessions: Iterable[Session]) -> None:
        self._sessions = {one.id: one for one in sessions if one.role != Role.CRI}
        self._events: dict[str, int] = {}
        self._own: dict[str, Times] = {}
        """Times of each connection."""
        self._between: dict[tuple[str, str], Times] = {}
        self._listed: dict[str, None] = {}
        """Plugins that the runtime listed in requests to validators."""

    def see(self, event: Event) -> None:
        """Process an event of one connection."""
        session = self._sessions.get(event.session)
        if session is None:
            return
        plugin = session.plugin
        self._events[plugin] = self._events.get(plugin, 0) + 1
        if event.event in _CALLS and event.took_ns:
            self._own.setdefault(plugin, Times()).add(event.took_ns, event.timeout_ns)

    def round(self, diff: RoundDiff) -> None:
        """Process a round."""
        if len(self._listed) < PLUGINS_MAX:
            self._listed.update(dict.fromkeys(diff.chain))
        for span in diff.spans:
            if _is_between(span) and diff.name in _NAMES:
                key = span.after, span.before
                self._between.setdefault(key, Times()).add(span.ns, span.deadline_ns)

    def links(self) -> list[Link]:
        """Return the links in call order."""
        found: dict[str, Link] = {}
        for one in self._sessions.values():
            if one.plugin in self._events:
                found[one.plugin] = self._seen(one, found.get(one.plugin))
        for plugin in self._listed:
            if plugin not in found:
                found[plugin] = Link(
                    plugin, plugin[:2], "listed for validators", False, False, 0, None
                )
        order = sorted(found.values(), key=lambda link: (link.index, link.title))
        intervals = sorted(self._between.items())
        result: list[Link] = []
        for link in order:
            result.append(link)
            for (after, before), times in intervals:
                if after == link.title:
                    result += self._interval(after, before, times, order)
        return result

    def _seen(self, session: Session, known: Link | None) -> Link:
        how = _ROLES.get(session.role, session.role)
        if known is not None and how not in known.known_by:
            how = f"{known.known_by}, {how}"
        passive = session.role in PASSIVE_ROLES
        times = self._own.get(session.plugin)
        return Link(
            session.plugin,
            session.plugin_index,
            how,
            passive and (known is None or known.passive),
            False,
            self._events[session.plugin],
            None if times is None else Timing(*times.figures()),
            session.role != Role.V01,
        )

    def _interval(
        self, after: str, before: str, times: Times, order: Sequence[Link]
    ) -> Iterator[Link]:
        """Yield the interval between two connections, unless it is fast and without plugins."""
        titles = [link.title for link in order]
        inside = order[titles.index(after) + 1 : titles.index(before)]
        # Plugins in requests to validators without a connection of their own.
        unseen = [link.title for link in inside if not link.events]
        if self._listed and not unseen and not times.over_half:
            return
        who = ", ".join(unseen) or "unobserved plugins, if any"
        title = f"between {after} and {before}"
        yield Link(title, "", f"{who}, and the runtime", False, True, 0, Timing(*times.figures()))


def _is_between(span: Span) -> bool:
    return bool(span.after and span.before)
