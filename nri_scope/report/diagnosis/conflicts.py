# SPDX-License-Identifier: Apache-2.0
"""Conflicts between plugins, and other reasons why an event had no effect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from nri_scope.differ.attribution.attributed_changes import NameOf, RequestFate, RoundDiff
from nri_scope.differ.attribution.differ import NOT_KNOWN
from nri_scope.differ.attribution.owner import OwnerKind
from nri_scope.differ.attribution.rounds import ENDED, SEEMS
from nri_scope.differ.render import wording as words
from nri_scope.differ.render.values import clipped
from nri_scope.recording.creation_outcomes import NO_POST, NO_STATE

from ..finding import Finding, FindingKind, Level, Shown
from ..limits import CASES_MAX, WORDS_MAX
from .recording_facts import Detector, RecordingFacts

_CONFLICT = "both tried to set"
"""Part of the runtime's error, in all versions (containerd/nri, pkg/adaptation)."""
_FATAL = frozenset(
    {"RunPodSandbox", "UpdatePodSandbox", "CreateContainer", "StartContainer", "UpdateContainer"}
)
"""Events that fail in the CRI when a plugin answers with an error; for others it is only logged."""
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
    "No connection saw why: it was an error or a conflict at a plugin in between, or that "
    "connection was filtered. The runtime's log has the words; probes closer together "
    "(`nri-scope diff --live --probes`) show the place."
)
_AFTER_ADVICE = (
    "The runtime's log and the events of the pod have the words of the runtime or of the OCI "
    "runtime that refused the container. Compare with what plugins changed: "
    "`nri-scope blame FILE CONTAINER`."
)
_EVENT = re.compile(r" \(event \d+\)")
_SUSPECTS_MAX = 4
"""Maximum number of changes by plugins that are named with a failure."""
_LATE_NS = 250_000_000
"""Time after which a creation without further events is worth reporting: runtimes take some tens of
milliseconds from the chain's end to PostCreateContainer."""


@dataclass(slots=True)
class _Refused:
    name: str
    words: str
    doubt: bool = False
    suspects: dict[str, None] = field(default_factory=dict)
    """Changes and requests of plugins that the runtime may not have accepted."""
    shown: Shown = field(default_factory=Shown)


class Refused(Detector):
    """See `Detector`."""

    def __init__(self, scene: RecordingFacts) -> None:
        super().__init__(scene)
        self._found: dict[tuple[str, str], _Refused] = {}

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Note whether the round failed, or may have failed."""
        said = diff.failure or diff.doubt
        if not (wanted and said) or (diff.doubt and diff.open_ns < _LATE_NS):
            return
        # The same failure of many containers, each shown by other events, is one finding.
        key = clipped(diff.name, WORDS_MAX), clipped(_EVENT.sub("", said), WORDS_MAX)
        if diff.doubt:
            key = diff.name, NOT_KNOWN
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= CASES_MAX:
                return
            found = self._found[key] = _Refused(*key, doubt=bool(diff.doubt))
        name = self._scene.name_of(diff.container) if diff.container else ""
        found.shown.add(*diff.events, container=name)
        for suspect in _suspects(diff, self._scene.name_of):
            if len(found.suspects) < _SUSPECTS_MAX:
                found.suspects[clipped(suspect, WORDS_MAX)] = None

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each event name and error."""
        for one in self._found.values():
            yield _finding(one)


def _suspects(diff: RoundDiff, name_of: NameOf) -> Iterator[str]:
    """Yield requests of plugins, those first that a runtime may refuse."""
    for one in diff.asked:
        if one.fate is RequestFate.UNKNOWN:
            yield words.request(
                one, "" if one.container == diff.container else name_of(one.container)
            )
    steps = [
        step for step in diff.own if step.owner.who not in (OwnerKind.RUNTIME, OwnerKind.REQUEST)
    ]
    for step in sorted(steps, key=lambda step: not step.note):
        note = f" ({step.note})" if step.note else ""
        yield f"{words.owner(step.owner)} {_DID[step.change.kind]} {step.change.path}{note}"


_DID = {"added": "added", "removed": "removed", "changed": "changed", "moved": "moved"}


def _finding(one: _Refused) -> Finding:
    fatal = one.name in _FATAL
    outcome = "The operation failed" if fatal else "The runtime only logs that"
    kind, level = FindingKind.FAILED, Level.PROBLEM if fatal else Level.WARNING
    title, advice = f"{one.name} failed: {one.words}", _ERROR_ADVICE
    detail = f"{outcome}, and plugins behind it in the chain did not see the event."
    if _CONFLICT in one.words:
        kind, advice = FindingKind.CONFLICT, _CONFLICT_ADVICE
        title = f"Conflict: {one.words}"
        detail = f"{one.name} fails when two plugins set one field, for all plugins alike."
    elif "rejected it" in one.words:
        detail, advice = "A validator said no to what the chain made of it.", _REJECTED_ADVICE
    elif one.words.startswith((SEEMS, ENDED)):
        advice = _ENDED_ADVICE
        level = Level.PROBLEM if one.words.startswith(f"{ENDED} ") else Level.WARNING
        title = f"{one.name} did not get through the chain"
        detail = f"{one.words[0].upper()}{one.words[1:]}."
    elif one.doubt or one.words.startswith((NO_POST, NO_STATE)):
        advice = _AFTER_ADVICE
        title = "CreateContainer was not followed by PostCreateContainer"
        detail = (
            f"{one.words[0].upper()}{one.words[1:]}. No connection saw an error: a plugin that "
        )
        detail += "was not seen, the runtime or the OCI runtime refused it."
        if one.doubt:
            level = Level.WARNING
            detail = "The recording ended before anything told what became of it."
        if one.suspects:
            detail += f" Plugins had asked for this: {'; '.join(one.suspects)}."
    shown = one.shown
    return shown.finding(
        kind,
        level,
        title,
        detail,
        advice,
    )
