# SPDX-License-Identifier: Apache-2.0
"""Detect conflicts between plugins, failed starts of containers, and other failures of events.

Failed calls of plugins of NRI 0.1 are found here, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from nri_scope.differ.attribution.attributed_changes import (
    ChangeStep,
    NameOf,
    OutcomeKind,
    RoundDiff,
    Shows,
)
from nri_scope.differ.attribution.findings import BY_POLICY, RETURNED, UNVALIDATED
from nri_scope.differ.attribution.history import History
from nri_scope.differ.attribution.owner import OwnerKind
from nri_scope.differ.attribution.round_evaluation import NOT_KNOWN
from nri_scope.differ.attribution.rounds import ENDED, SEEMS
from nri_scope.differ.render import wording
from nri_scope.differ.render.values import clipped
from nri_scope.entries import NO_STATE
from nri_scope.events import CONTAINER_STATUS, Event, Role
from nri_scope.nri import v01
from nri_scope.nri.events import (
    CREATE,
    POST_CREATE,
    POST_UPDATE,
    RUN_POD,
    START,
    UNSOLICITED,
    UPDATE,
    UPDATE_POD,
)
from nri_scope.oci.isulad_spec import REFUSALS
from nri_scope.specs import Json, label, split
from nri_scope.wire.ttrpc import Code

from ..finding import Finding, FindingKind, Level, Shown, Told
from ..limits import CASES_MAX, WORDS_MAX
from .ignored_requests import is_of_plugin
from .recording_facts import Detector, Latest, RecordingFacts

_FIELDS = {
    "/linux/resources/cpu/cpus": "cpuset.cpus",
    "/linux/resources/cpu/mems": "cpuset.mems",
    "/linux/resources/unified/": "unified",
    "/linux/sysctl/": "sysctl",
    "/process/oomScoreAdj": "oom_score_adj",
    "/process/rlimits/": "rlimit",
    "/hooks/": "hook",
}
"""Beginnings of paths, and the word for that field in errors of runc and crun."""
_NAMING = ("source", "destination", "path")
"""Members of a value by which an error names a mount, a hook or a device."""
_HARMLESS = ("/annotations/", "/process/env/", "/cdiDevices/", "/nri")
"""Beginnings of paths without which the OCI runtime fails no start."""
_TERM_MIN = 3
"""Minimum length of a key or a value that is searched in an error."""
_WITH_SOURCE = ("/mounts/", "/linux/devices/")
_REQUESTS_MAX = 6
"""Maximum number of requests in one finding."""
_START_ADVICE = (
    "Check this value on the node, for example whether the mount's source or the hook's program "
    "exists. `nri-scope blame FILE CONTAINER` shows all requests."
)
_NO_REQUEST_ADVICE = (
    "Compare the runtime's log with what was asked for: `nri-scope blame FILE CONTAINER`."
)


def is_failed_start(diff: RoundDiff) -> bool:
    """Return whether a round shows that a container was created, but never ran."""
    by_post = f"Post{START} did not follow"
    return (diff.name == CONTAINER_STATUS and bool(diff.failure)) or (
        diff.name == START and diff.failure.startswith(by_post)
    )


class FailedStarts(Detector):
    """Detector of failed starts, by the CRI's answer or by a missing PostStartContainer."""

    def __init__(self, scene: RecordingFacts, history_of: Callable[[str], History | None]) -> None:
        super().__init__(scene)
        self._history_of = history_of
        self._found: dict[tuple[str, str], Told] = {}
        self._of: Latest[str, Told] = Latest()
        """The finding about each container; the CRI can be asked more than once."""

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Check whether the round shows a failed start."""
        if not (wanted and is_failed_start(diff)):
            return
        found = self._of.get(diff.container) or self._failed(diff)
        if found is not None:
            self._of[diff.container] = found
            found.shown.add(*diff.events, container=self._scene.name_of(diff.container))

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each error, or for each request that an error names."""
        for one in self._found.values():
            yield one.shown.finding(
                FindingKind.FAILED,
                Level.WARNING if one.advice == _NO_REQUEST_ADVICE else Level.PROBLEM,
                one.title,
                one.detail,
                one.advice,
            )

    def _failed(self, diff: RoundDiff) -> Told | None:
        error = diff.failure.replace(diff.container, "ID") if diff.container else diff.failure
        history = self._history_of(diff.container)
        requests = [
            step
            for step in (*(history.steps if history else ()), *diff.settled, *diff.steps)
            if step.container == diff.container
            and step.outcome.kind is OutcomeKind.REFUSED
            and is_of_plugin(step.owner)
            and not step.change.path.startswith(_HARMLESS)
        ]
        requests = [*{id(step): step for step in requests}.values()]
        by_rule = [step for step in requests if step.outcome.shown_by is Shows.RULE]
        named = by_rule or named_by(requests, error)
        title = "A container failed to start"
        if named:
            what = ", ".join(dict.fromkeys(label(step.change.path) for step in named))
            who = ", ".join(dict.fromkeys(wording.owner(step.owner) for step in named))
            names = "the runtime refuses" if by_rule else "the error names"
            title += f", and {names} {what}, requested by {who}"
        about, advice = "", _START_ADVICE if named else _NO_REQUEST_ADVICE
        if by_rule:
            advice = _REFUSED_ADVICE
            about = f"{'; '.join(map(wording.request, by_rule[:_REQUESTS_MAX]))}."
        elif named:
            about = f"It names what was asked for: {_asked(named, _unnamed)}."
        elif requests:
            has_error = diff.name == CONTAINER_STATUS
            names = "The error names none of the plugins' requests" if has_error else "Requests"
            about = (
                f"{names}: {_asked(requests, _unnamed)}. One of these requests, or the container's "
                "own settings, made the start fail."
            )
        key = clipped(title, WORDS_MAX), clipped(error, WORDS_MAX)
        if key not in self._found and len(self._found) < CASES_MAX:
            detail = f"{clipped(error[:1].upper() + error[1:], 2 * WORDS_MAX)}. {about}"
            self._found[key] = Told(key[0], detail.rstrip(), advice)
        return self._found.get(key)


def _unnamed(_: ChangeStep) -> str:
    return ""


def _asked(requests: Sequence[ChangeStep], name_of: Callable[[ChangeStep], str]) -> str:
    """List requests, and the number of those beyond `_REQUESTS_MAX`.

    ``name_of`` returns the name of a request's container, or "" to leave it out.
    """
    asked = [
        clipped(wording.asked(step, name_of(step)), WORDS_MAX)
        + (f" ({step.note})" if step.note else "")
        for step in requests[:_REQUESTS_MAX]
    ]
    more = len(requests) - len(asked)
    return "; ".join([*asked, *([f"and {more:,} more"] if more else [])])


def named_by(requests: Sequence[ChangeStep], error: str) -> list[ChangeStep]:
    """Return the requests that an error names: by a key or a value, otherwise by the field."""
    exactly = [step for step in requests if any(_occurs(term, error) for term in _terms(step))]
    return exactly or [
        step
        for step in requests
        for path, word in _FIELDS.items()
        if step.change.path.startswith(path) and word in error
    ]


def _terms(step: ChangeStep) -> Iterator[str]:
    """Yield the texts by which an error can name a request."""
    path, value = step.change.path, step.change.after
    key = split(path)[-1] if path else ""
    if path.startswith(("/mounts/", "/linux/devices/", "/linux/sysctl/")):
        yield key
    elif path.startswith("/process/rlimits/"):
        yield key.removeprefix("RLIMIT_")
    for one in value if isinstance(value, list) else [value]:
        yield from _naming(one)
    if path.startswith("/process/args") and isinstance(value, list) and value:
        yield str(value[0])


def _naming(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        texts = (value.get(name) for name in _NAMING)
        yield from (text for text in texts if isinstance(text, str) and "/" in text)


def _occurs(term: str, error: str) -> bool:
    """Return whether a text occurs in an error as a whole word or path."""
    if len(term) < _TERM_MIN or term not in error:
        return False
    return re.search(rf"(?<![\w/.-]){re.escape(term)}(?![\w/-]|\.\w)", error) is not None


_CONFLICT = re.compile(r'plugins "([^"]*)" and "([^"]*)" (both tried to set .*)')
"""The runtime's error message, in all versions (containerd/nri, pkg/adaptation)."""
_FATAL = frozenset({RUN_POD, UPDATE_POD, CREATE, START, UPDATE})
"""Events whose CRI call fails if a plugin returns an error. Runtimes only log errors of others."""
_CONFLICT_ADVICE = (
    "Let only one of the two plugins set that field. To replace the value of an earlier plugin, a "
    "plugin must also remove it in the same reply; a removal with a new value is no conflict. "
    "`nri-scope blame FILE CONTAINER` shows who set what."
)
_TWICE_ADVICE = "Let the plugin set that field only once in a reply."
_ERROR_ADVICE = (
    "Let the plugin reply without a change where it cannot help, and return an error only to stop "
    "the container. Its own log may contain details."
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
_OWN_CALL_ADVICE = "The plugin got the error as the answer to its call; its own log may contain it."
_ENDS_CHAIN = "The chain ended: later plugins did not receive the event."
_WITHOUT_POST = (NO_STATE, *(f"{post} did not follow" for post in (POST_CREATE, POST_UPDATE)))
_EVENT_ID = re.compile(r" \(event \d+\)")
_LATE_NS = 250_000_000
"""Minimum time without further events after which a creation is reported. Runtimes take some tens
of milliseconds from the end of the chain to PostCreateContainer."""


@dataclass(slots=True)
class _Refused:
    name: str
    words: str
    requests: Sequence[ChangeStep]
    """Requests that the runtime may have rejected, the most likely ones first."""
    doubt: bool
    shown: Shown = field(default_factory=Shown)


class Refused(Detector):
    """Detector of failed events."""

    def __init__(self, scene: RecordingFacts) -> None:
        super().__init__(scene)
        self._found: dict[tuple[str, ...], _Refused] = {}

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Check whether the round failed, or may have failed."""
        reason = diff.failure or diff.doubt
        if not (wanted and reason) or (diff.doubt and diff.open_ns < _LATE_NS):
            return
        if is_failed_start(diff):
            return
        name = clipped(diff.name, WORDS_MAX)
        words = NOT_KNOWN if diff.doubt else clipped(_EVENT_ID.sub("", reason), WORDS_MAX)
        is_open = diff.doubt or words.startswith(_WITHOUT_POST)
        requests = _suspects(diff) if is_open else []
        # The same failure of many containers is one finding, so the key has no ids.
        texts = (wording.asked(step) for step in requests)
        key = name, words, *(clipped(one, WORDS_MAX) for one in texts)
        if key not in self._found and len(self._found) >= CASES_MAX:
            return
        found = self._found.setdefault(key, _Refused(name, words, requests, bool(diff.doubt)))
        about = self._scene.name_of(diff.container)
        found.shown.add(*diff.events, container=about)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each event name and error."""
        for one in self._found.values():
            yield _finding(one, self._scene.name_of)


def _suspects(diff: RoundDiff) -> list[ChangeStep]:
    """Return the requests of which one may have made an operation fail, the most likely first."""
    is_update = diff.name == UPDATE
    steps = [
        step
        for step in diff.steps
        if not (step.is_change or step.outcome.kind is OutcomeKind.DROPPED)
        and (is_of_plugin(step.owner) or (is_update and step.owner.who is OwnerKind.REQUEST))
    ]
    return sorted(
        steps,
        key=lambda step: (
            step.is_expected,
            not step.note,
            not is_of_plugin(step.owner),
            not step.change.path.startswith((*_FIELDS, *_WITH_SOURCE)),
            step.change.path.startswith(_HARMLESS),
        ),
    )


def _finding(one: _Refused, name_of: NameOf) -> Finding:
    def other(step: ChangeStep) -> str:
        """Return the name of a container that the finding is not about; "" if it is."""
        name = name_of(step.container) if step.container else ""
        return "" if name in one.shown.containers else name

    fatal = one.name in _FATAL
    kind, level = FindingKind.FAILED, Level.PROBLEM if fatal else Level.WARNING
    title, detail, advice = (
        f"{one.name} failed: {one.words}",
        "The operation failed.",
        _NO_REQUEST_ADVICE,
    )
    conflict = _CONFLICT.search(one.words)
    if conflict is not None:
        kind, advice = FindingKind.CONFLICT, _CONFLICT_ADVICE
        title = f"Conflict: {one.words}"
        first, second, field_ = conflict.groups()
        if first == second:
            title = f'Conflict: plugin "{first}" {field_.removeprefix("both ")} twice'
            advice = _TWICE_ADVICE
        detail = (
            f"{one.name} fails when one field is set twice, and the changes that plugins made in "
            "it are not applied."
        )
    elif BY_POLICY in one.words:
        detail, advice = _ENDS_CHAIN, _POLICY_ADVICE
    elif one.words.endswith(UNVALIDATED):
        detail, advice = "A validator that does not answer fails the creation.", _LOG_ADVICE
    elif any(reason in one.words for reason in REFUSALS):
        detail, advice = "The runtime rejected the merged adjustments.", _REFUSED_ADVICE
    elif "rejected it" in one.words:
        detail, advice = "A validator rejected the adjusted container.", _REJECTED_ADVICE
    elif RETURNED in one.words:
        detail, advice = _ENDS_CHAIN, _ERROR_ADVICE
        if not fatal:
            detail += " The runtime only logs the error."
    elif one.words.startswith((SEEMS, ENDED)):
        advice = _ENDED_ADVICE
        level = Level.PROBLEM if one.words.startswith(f"{ENDED} ") else Level.WARNING
        title = f"{one.name} did not reach the end of the chain"
        detail = f"{one.words[0].upper()}{one.words[1:]}."
    elif one.name == UNSOLICITED:
        detail, advice = (
            "The runtime answered the plugin's own call with an error.",
            _OWN_CALL_ADVICE,
        )
    elif one.name in (CREATE, UPDATE) and (one.doubt or one.words.startswith(_WITHOUT_POST)):
        title = f"{one.name} was not followed by Post{one.name}"
        detail = (
            f"{one.words[0].upper()}{one.words[1:]}. No connection observed an error: an "
            "unobserved plugin, the runtime or the OCI runtime rejected "
            f"{'the update' if one.name == UPDATE else 'the container'}."
        )
        if one.doubt:
            level = Level.WARNING
            detail = "No event shows the outcome before the end of the connection."
        if one.requests:
            detail += f" Requests: {_asked(one.requests, other)}."
    return one.shown.finding(kind, level, title, detail, advice)


class FailedCalls(Detector):
    """Detector of failed calls. They belong to no round, as they are not part of NRI's chain."""

    def __init__(self, scene: RecordingFacts) -> None:
        super().__init__(scene)
        self._found: dict[tuple[str, str, str], Shown] = {}

    def see(self, event: Event) -> None:
        """Check the status of a call."""
        # After data loss, the outcome is not known.
        if event.status_code in (0, Code.DATA_LOSS):
            return
        session = self._scene.sessions.get(event.session)
        if session is None or session.role != Role.V01 or not self._scene.wanted(event):
            return
        # The same failure of many calls is one finding.
        words = clipped(event.status_message or "unknown reason", WORDS_MAX)
        key = clipped(event.plugin, WORDS_MAX), clipped(event.method, WORDS_MAX), words
        if key not in self._found and len(self._found) >= CASES_MAX:
            return
        about = event.container_id or event.pod_id
        shown = self._found.setdefault(key, Shown())
        shown.add(event.id, container=self._scene.name_of(about))

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each plugin, state and error."""
        for (plugin, method, words), shown in self._found.items():
            fatal = method == v01.CREATE
            outcome = (
                "the pod or container is not started" if fatal else "the runtime logs the error"
            )
            yield shown.finding(
                FindingKind.FAILED,
                Level.PROBLEM if fatal else Level.WARNING,
                f"{plugin}: {method} failed: {words}",
                f"Later plugins of NRI 0.1 are not called, and {outcome}.",
                "The runtime's log contains the error.",
            )
