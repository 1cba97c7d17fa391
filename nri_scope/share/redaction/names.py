# SPDX-License-Identifier: Apache-2.0
"""The names of a recording: pods, containers, namespaces, plugins and nodes, shown or replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

from nri_scope.recording.cache import RecentlyUsed

_MAX_NAMES = 100_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:@-]{1,299}")
_RUN = re.compile(r"[A-Za-z0-9]+")


class NameKind(StrEnum):
    """The kind of object that a name belongs to, for `Redactor.name`."""

    POD = "pod"
    NAMESPACE = "namespace"
    CONTAINER = "container"
    NODE = "node"
    PLUGIN = "plugin"
    """A plugin's name, with or without its index prefix (``10-name``)."""
    RUNTIME = "runtime"


SESSION_NAMES = {
    "plugin_name": NameKind.PLUGIN,
    "runtime_name": NameKind.RUNTIME,
    "runtime_version": NameKind.RUNTIME,
    "nri_version": NameKind.RUNTIME,
}
"""The kinds of the names in a session."""


class NameTokens:
    """Names that are known so far, up to a limit. The oldest are forgotten first.

    A name of a pod is shown in texts about that pod, and in texts about no pod. In texts about
    others it is not: it may have been chosen to find out whether it is then shown.
    """

    def __init__(self) -> None:
        self._shown: RecentlyUsed[tuple[str, str], bool] = RecentlyUsed(_MAX_NAMES)
        """By pod and name; "" stands for texts about no pod, "*" for all texts."""
        self._hidden: RecentlyUsed[str, tuple[tuple[str, str], ...]] = RecentlyUsed(_MAX_NAMES)
        """Names to replace, each with its rule, by their first run of letters and digits."""
        self.has_hidden = False

    def show(self, name: str, pod: str = "") -> None:
        """Note a name of a pod, or of the node."""
        for owner in (pod, "") if pod else ("*",):
            # Most names are repeated, in annotations.
            if not self._shown.get((owner, name)) and _NAME.fullmatch(name) is not None:
                self._shown.put((owner, name), True)

    def is_shown(self, text: str, pod: str) -> bool:
        """Return whether a text is a name that is shown in texts of a pod; "": of no pod."""
        shown = self._shown
        return (pod, text) in shown or ("*", text) in shown

    def hide(self, name: str, rule: str) -> bool:
        """Note a name that ``rule`` replaces wherever it stands as a word; return if it is new."""
        run = _RUN.search(name)
        if run is not None and len(name) > 2:
            known = self._hidden.get(run[0]) or ()
            hidden = name[run.start() :], rule
            if hidden not in known:
                self.has_hidden = True
                # The longest first.
                longest_first = sorted((*known, hidden), key=lambda pair: -len(pair[0]))
                self._hidden.put(run[0], tuple(longest_first))
                return True
        return False

    def hidden_in(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield where names to replace begin and end in a text, and their rule."""
        end = 0
        for run in _RUN.finditer(text):
            start = run.start()
            for name, rule in self._hidden.get(run[0]) or () if start >= end else ():
                after = start + len(name)
                if text.startswith(name, start) and not text[after : after + 1].isalnum():
                    yield start, after, rule
                    end = after
                    break
