# SPDX-License-Identifier: Apache-2.0
"""Detect plugins that share an index, or index and name."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.render import wording
from nri_scope.events import Event

from ..finding import Finding, FindingEvents, FindingKind, Level
from .recording_facts import Detector, RecordingFacts

_TITLE = re.compile(r"[0-9]{2}-.")
_SAME_ADVICE = (
    "Give each plugin its own name and index. Often one plugin runs twice: an old instance that "
    "was not stopped, or an instance launched by the runtime and another from a DaemonSet."
)
_INDEX_ADVICE = "Give them different indices: runtimes call the lower index first."


class NameClashDetector(Detector):
    """Detector of name clashes. Alternating events show which connections coexist."""

    def __init__(self, facts: RecordingFacts) -> None:
        super().__init__(facts)
        self._newest: dict[str, int] = {}
        """Session of the newest event, by ``NN-name``."""
        self._seen_sessions: set[int] = set()
        self._coexisting: dict[str, FindingEvents] = {}
        self._chains: dict[tuple[str, ...], int] = {}

    def see(self, event: Event) -> None:
        """Check whether events of two connections with the same name alternate."""
        if self._newest.get(event.plugin) != event.session:
            session = self._facts.sessions.get(event.session)
            if session is None or not session.is_connection:
                return
            if event.session in self._seen_sessions:
                self._coexisting.setdefault(event.plugin, FindingEvents()).add(event.id)
            self._seen_sessions.add(event.session)
            self._newest[event.plugin] = event.session

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Store the chain that the runtime listed, or that was observed."""
        chain = diff.chain or diff.seen_by
        if len(chain) > 1 and len(self._chains) < 1_000:
            self._chains.setdefault(tuple(chain), diff.event)

    def findings(self) -> Iterator[Finding]:
        """Yield findings about plugins with one name and index, then about those with one index."""
        same = dict(self._coexisting)
        for chain, event in self._chains.items():
            for plugin in _duplicates(chain):
                same.setdefault(plugin, FindingEvents()).add(event)
        for plugin, events in same.items():
            yield events.finding(
                FindingKind.DUPLICATE,
                Level.PROBLEM,
                f"Two plugins are called {plugin}",
                "Both were connected at the same time. The order of their calls is not defined, "
                "and the runtime's list of owners does not distinguish them.",
                _SAME_ADVICE,
            )
        yield from self._sharing(same)

    def _sharing(self, same: Iterable[str]) -> Iterator[Finding]:
        by_index: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for chain, event in self._chains.items():
            others = [
                plugin
                for plugin in chain
                if plugin not in self._facts.passive_plugins
                and plugin not in same
                and _TITLE.match(plugin)
            ]
            shared = _duplicates(plugin[:2] for plugin in others)
            for plugin in others:
                if plugin[:2] in shared:
                    by_index[plugin[:2]].setdefault(plugin, event)
        for index, plugins in by_index.items():
            yield Finding(
                FindingKind.ORDER,
                Level.NOTE,
                f"{wording.all_of([*plugins])} share the index {index}",
                "The order of their calls is not defined, and may change with each restart; the "
                "later plugin sees the changes of the earlier plugin.",
                _INDEX_ADVICE,
                tuple(sorted({*plugins.values()})),
                len({*plugins.values()}),
            )


def _duplicates(items: Iterable[str]) -> list[str]:
    return [item for item, count in Counter(items).items() if count > 1]
