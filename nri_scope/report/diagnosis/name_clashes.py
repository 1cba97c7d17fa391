# SPDX-License-Identifier: Apache-2.0
"""Plugins that share a name, or an index."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.render import wording
from nri_scope.events import Event, Role

from ..finding import Finding, FindingKind, Level, Shown
from .recording_facts import Detector, RecordingFacts

_TITLE = re.compile(r"[0-9]{2}-.")
_SAME_ADVICE = (
    "Give each plugin a name and index of its own. Often it is one plugin twice: an old instance "
    "that was not ended, or one that the runtime launches and a DaemonSet besides."
)
_NAME_ADVICE = (
    "See whether both are meant. Launched plugins of one name share the configuration file "
    "/etc/nri/conf.d/NAME.conf; and in logs without the index they cannot be told apart."
)
_INDEX_ADVICE = "Give them different indices: the lower one is asked first."


class Names(Detector):
    """See `Detector`. Alternating events show which connections coexist; clocks do not."""

    def __init__(self, scene: RecordingFacts) -> None:
        super().__init__(scene)
        self._ours = scene.passive_plugins()
        self._newest: dict[str, int] = {}
        """The session of the newest event under each ``NN-name``."""
        self._heard: set[int] = set()
        self._together: dict[str, Shown] = {}
        self._chains: dict[tuple[str, ...], int] = {}

    def see(self, event: Event) -> None:
        """Note whether events of two connections with the same name alternate."""
        session = self._scene.sessions.get(event.session)
        if session is None or session.role == Role.CRI:
            return
        newest = self._newest.get(event.plugin)
        if newest != event.session:
            if event.session in self._heard:
                self._together.setdefault(event.plugin, Shown()).add(event.id)
            self._heard.add(event.session)
            self._newest[event.plugin] = event.session

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Note the chain that the runtime listed, or that was observed."""
        chain = diff.chain or diff.seen_by
        if len(chain) > 1 and len(self._chains) < 1_000:
            self._chains.setdefault(tuple(chain), diff.event)

    def findings(self) -> Iterator[Finding]:
        """Yield findings about names, then about indices."""
        same = dict(self._together)
        for chain, event in self._chains.items():
            for plugin in _twice(chain):
                same.setdefault(plugin, Shown()).add(event)
        for plugin, shown in same.items():
            yield shown.finding(
                FindingKind.DUPLICATE,
                Level.PROBLEM,
                f"Two plugins are called {plugin}",
                "Both were there at the same time. Which of them is asked first is not defined, "
                "and as owners of changes the runtime cannot tell them apart.",
                _SAME_ADVICE,
            )
        yield from self._sharing(same)

    def _sharing(self, same: Iterable[str]) -> Iterator[Finding]:
        by_name: defaultdict[str, dict[str, int]] = defaultdict(dict)
        by_index: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for chain, event in self._chains.items():
            others = [
                one
                for one in chain
                if one not in self._ours and one not in same and _TITLE.match(one)
            ]
            for shared, key in ((by_name, slice(3, None)), (by_index, slice(0, 2))):
                for value in _twice([one[key] for one in others]):
                    for one in others:
                        if one[key] == value:
                            shared[value].setdefault(one, event)
        for name, plugins in by_name.items():
            yield Finding(
                FindingKind.DUPLICATE,
                Level.NOTE,
                f"{wording.all_of([*plugins])} share the name {name}",
                "They are in one chain at different indices.",
                _NAME_ADVICE,
                tuple(sorted({*plugins.values()})),
                len({*plugins.values()}),
            )
        for index, plugins in by_index.items():
            yield Finding(
                FindingKind.ORDER,
                Level.NOTE,
                f"{wording.all_of([*plugins])} share the index {index}",
                "Which of them is asked first is not defined, and may be another one after each "
                "restart: the later one sees what the earlier one did.",
                _INDEX_ADVICE,
                tuple(sorted({*plugins.values()})),
                len({*plugins.values()}),
            )


def _twice(items: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    found: dict[str, None] = {}
    for item in items:
        if item in seen:
            found[item] = None
        seen.add(item)
    return [*found]
