# SPDX-License-Identifier: Apache-2.0
"""Detect conflicts between plugins, and other failures of events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from nri_scope.differ.attribution.attributed_changes import NameOf, RequestFate, RoundDiff
from nri_scope.differ.attribution.differ import NOT_KNOWN
from nri_scope.differ.attribution.findings import BY_POLICY, UNVALIDATED
from nri_scope.differ.attribution.owner import OwnerKind
from nri_scope.differ.attribution.rounds import ENDED, SEEMS
from nri_scope.differ.render import wording as words
from nri_scope.differ.render.values import clipped
from nri_scope.nri.merging.isulad import REFUSALS
from nri_scope.recording.creation_outcomes import NO_POST, NO_STATE
from nri_scope.specs import label

from ..finding import Finding, FindingKind, Level, Shown
from ..limits import CASES_MAX, WORDS_MAX
from .recording_facts import Detector, RecordingFacts

_CONFLICT = "both tried to set"
"""Part of the runtime's error message, in all versions (containerd/nri, pkg/adaptation)."""
_FATAL = frozenset(
    {"RunPodSandbox", "UpdatePodSandbox", "CreateContainer", "StartContainer", "UpdateContainer"}
)
"""Events whose CRI call fails if a plugin returns an error. Runtimes only log errors of others."""
_CONFLICT_ADVICE = (
    "Let only one of the two plugins set that field. To replace the value of an earlier plugin, a "
    "plugin must also remove it in the same reply; a removal with a new value is no conflict. "
    "`nri-scope blame FILE CONTAINER` shows who set what."
)
_ERROR_ADVICE = (
    "An error ends the chain: later plugins never receive the event. Let the plugin reply without "
    "a change where it cannot help, and return an error only to stop the container. Its own log "
    "may contain details."
)
_REJECTED_ADVICE = (
    "A validator rejects containers on purpose. Its reason names the problem; `nri-scope blame` "
    "shows which plugin made that change."
)
_LOG_ADVICE = "Find out why it did not answer: its own log, or `nri-scope replay FILE -- ./plugin`."
_POLICY_ADVICE = (
    "The plugin requested this: without fail_request in its failure policy, the runtime continues "
    f"without the plugin. {_LOG_ADVICE}"
)
_REFUSED_ADVICE = (
    "Other runtimes may accept this reply. Leave out the setting, and try the plugin with "
    "`nri-scope replay FILE --profile isulad`."
)
_ENDED_ADVICE = (
    "No connection observed the reason: an error or a conflict at a plugin in between, unless that "
    "connection was filtered. The runtime's log contains the error; more probes "
    "(`nri-scope diff --live --probes`) show where it happens."
)
_AFTER_ADVICE = (
    "The runtime's log and the pod's events contain the error of the runtime or the OCI runtime "
    "that rejected the container. Compare it with the plugins' changes: "
    "`nri-scope blame FILE CONTAINER`."
)
_EVENT_ID = re.compile(r" \(event \d+\)")
_SUSPECTS_MAX = 4
"""Maximum number of plugins' changes and requests in a finding about a failure."""
_LATE_NS = 250_000_000
"""Minimum time without further events after which a creation is reported. Runtimes take some tens
of milliseconds from the end of the chain to PostCreateContainer."""


@dataclass(slots=True)
class _Refused:
    name: str
    words: str
    doubt: bool = False
    suspects: dict[str, None] = field(default_factory=dict)
    """Changes and requests of plugins that the runtime may have rejected."""
    shown: Shown = field(default_factory=Shown)


class Refused(Detector):
    """Detector of failed events."""

    def __init__(self, scene: RecordingFacts) -> None:
        super().__init__(scene)
        self._found: dict[tuple[str, str], _Refused] = {}

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Check whether the round failed, or may have failed."""
        reason = diff.failure or diff.doubt
        if not (wanted and reason) or (diff.doubt and diff.open_ns < _LATE_NS):
            return
        # The same failure of many containers is one finding, so the key has no event ids.
        key = clipped(diff.name, WORDS_MAX), clipped(_EVENT_ID.sub("", reason), WORDS_MAX)
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
    """Yield plugins' requests and changes, those first that a runtime may reject."""
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
        verb, path = _VERBS[step.change.kind], label(step.change.path)
        yield f"{words.owner(step.owner)} {verb} {path}{note}"


_VERBS = {"added": "added", "removed": "removed", "changed": "changed", "moved": "moved"}


def _finding(one: _Refused) -> Finding:
    fatal = one.name in _FATAL
    outcome = "The operation failed" if fatal else "The runtime only logs the error"
    kind, level = FindingKind.FAILED, Level.PROBLEM if fatal else Level.WARNING
    title, advice = f"{one.name} failed: {one.words}", _ERROR_ADVICE
    detail = f"{outcome}, and later plugins in the chain did not receive the event."
    if _CONFLICT in one.words:
        kind, advice = FindingKind.CONFLICT, _CONFLICT_ADVICE
        title = f"Conflict: {one.words}"
        detail = (
            f"{one.name} fails when two plugins set one field, and the changes that plugins made "
            "in it are not applied."
        )
    elif BY_POLICY in one.words:
        advice = _POLICY_ADVICE
    elif one.words.endswith(UNVALIDATED):
        detail, advice = "A validator that does not answer fails the creation.", _LOG_ADVICE
    elif any(reason in one.words for reason in REFUSALS):
        detail, advice = "The runtime rejected the merged adjustments.", _REFUSED_ADVICE
    elif "rejected it" in one.words:
        detail, advice = "A validator rejected the adjusted container.", _REJECTED_ADVICE
    elif one.words.startswith((SEEMS, ENDED)):
        advice = _ENDED_ADVICE
        level = Level.PROBLEM if one.words.startswith(f"{ENDED} ") else Level.WARNING
        title = f"{one.name} did not reach the end of the chain"
        detail = f"{one.words[0].upper()}{one.words[1:]}."
    elif one.doubt or one.words.startswith((NO_POST, NO_STATE)):
        advice = _AFTER_ADVICE
        title = "CreateContainer was not followed by PostCreateContainer"
        detail = (
            f"{one.words[0].upper()}{one.words[1:]}. No connection observed an error: an "
            "unobserved plugin, the runtime or the OCI runtime rejected the container."
        )
        if one.doubt:
            level = Level.WARNING
            detail = "The recording ended before the outcome was known."
        if one.suspects:
            detail += f" Requests and changes by plugins: {'; '.join(one.suspects)}."
    shown = one.shown
    return shown.finding(
        kind,
        level,
        title,
        detail,
        advice,
    )
