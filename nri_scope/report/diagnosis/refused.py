# SPDX-License-Identifier: Apache-2.0
"""Conflicts between plugins, and other reasons why an event came to nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nri_scope.differ.model import RoundDiff
from nri_scope.differ.render.values import clipped
from nri_scope.differ.rounds import SEEMS
from nri_scope.recorder.model import Event
from nri_scope.report.finding import Finding, Kind, Level, Shown
from nri_scope.report.limits import CASES_MAX, WORDS_MAX

from .scene import Scene

_CONFLICT = "both tried to set"
"""The runtime's words, in all versions (containerd/nri, pkg/adaptation)."""
_FATAL = frozenset(
    {"RunPodSandbox", "UpdatePodSandbox", "CreateContainer", "StartContainer", "UpdateContainer"}
)
"""What fails in the CRI when a plugin answers with an error; of others it is only logged."""
_CONFLICT_ADVICE = (
    "Let one of the two leave that field alone. A plugin that means to replace what an earlier one "
    "set has to remove it in the same reply: a removal and a new value together are no conflict. "
    "`nri-scope blame FILE CONTAINER` shows who set what."
)
_ERROR_ADVICE = (
    "An error ends the chain: plugins behind never see the event. Have the plugin answer with no "
    "change where it cannot help, and return an error only to stop the container; its own log "
    "says more."
)
_REJECTED_ADVICE = (
    "A validator decides so on purpose. Its reason says what it will not have; `nri-scope blame` "
    "shows which plugin made that change."
)
_ENDED_ADVICE = (
    "Nobody saw why: it was an error or a conflict at a plugin in between, or that connection was "
    "filtered. The runtime's log has the words; probes closer together "
    "(`nri-scope diff --live --probes`) show the place."
)


@dataclass(slots=True)
class _Refused:
    name: str
    words: str
    shown: Shown = field(default_factory=Shown)


class Refused:
    """See `Part`."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._found: dict[tuple[str, str], _Refused] = {}

    def see(self, event: Event) -> None:
        """Rounds tell all."""

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Whether it failed."""
        if not (wanted and diff.failure):
            return
        key = clipped(diff.name, WORDS_MAX), clipped(diff.failure, WORDS_MAX)
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= CASES_MAX:
                return
            found = self._found[key] = _Refused(*key)
        name = self._scene.name_of(diff.container) if diff.container else ""
        found.shown.add(*diff.events, container=name)

    def findings(self) -> Iterator[Finding]:
        """One for each event's name and words."""
        for one in self._found.values():
            yield _finding(one)


def _finding(one: _Refused) -> Finding:
    fatal = one.name in _FATAL
    outcome = "The operation failed" if fatal else "The runtime only logs that"
    kind, level = Kind.FAILED, Level.PROBLEM if fatal else Level.WARNING
    title, advice = f"{one.name} failed: {one.words}", _ERROR_ADVICE
    detail = f"{outcome}, and plugins behind it in the chain did not see the event."
    if _CONFLICT in one.words:
        kind, advice = Kind.CONFLICT, _CONFLICT_ADVICE
        title = f"Conflict: {one.words}"
        detail = f"{one.name} fails when two plugins set one field, for all plugins alike."
    elif "rejected it" in one.words:
        detail, advice = "A validator said no to what the chain made of it.", _REJECTED_ADVICE
    elif one.words.startswith(SEEMS):
        level, advice = Level.WARNING, _ENDED_ADVICE
        title = f"{one.name} did not get through the chain"
        detail = f"{one.words[0].upper()}{one.words[1:]}, though it was there and had subscribed."
    shown = one.shown
    return Finding(
        kind,
        level,
        title,
        detail,
        advice,
        shown.events,
        shown.count,
        tuple(shown.containers),
    )
