# SPDX-License-Identifier: Apache-2.0
"""Detect conflicts between plugins, failed starts of containers, and other failures of events.

`NameClashDetector` finds plugins that share an index, or index and name.

Failed calls of plugins of NRI 0.1 are found here, too.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from nri_scope.differ.attribution.attributed_changes import (
    ChangeStep,
    Failure,
    FailureKind,
    NameOf,
    OutcomeKind,
    RoundDiff,
    Shows,
)
from nri_scope.differ.attribution.history import History
from nri_scope.differ.attribution.owner import OwnerKind
from nri_scope.differ.attribution.round_results import NOT_KNOWN
from nri_scope.differ.render import wording
from nri_scope.differ.render.values import clipped
from nri_scope.events import CONTAINER_STATUS, Event, Role
from nri_scope.nri import v01
from nri_scope.nri.events import CREATE, RUN_POD, START, UPDATE, UPDATE_POD
from nri_scope.specs import label, split
from nri_scope.wire.ttrpc import Code

from ..finding import Finding, FindingEvents, FindingKind, FindingText, Level, capital
from ..limits import CASES_MAX, WORDS_MAX
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
    return diff.cause is not None and diff.cause.kind is FailureKind.NOT_STARTED


class FailedStartDetector(Detector):
    """Detector of failed starts, by the CRI's answer or by a missing PostStartContainer."""

    def __init__(self, facts: RecordingFacts, history_of: Callable[[str], History | None]) -> None:
        super().__init__(facts)
        self._history_of = history_of
        self._cases: dict[tuple[str, str], FindingText] = {}
        self._case_of: Latest[str, FindingText] = Latest()
        """The finding about each container; the CRI can be asked more than once."""

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Check whether the round shows a failed start."""
        if not (wanted and is_failed_start(diff)):
            return
        case = self._case_of.get(diff.container) or self._failed(diff)
        if case is not None:
            self._case_of[diff.container] = case
            case.events.add(*diff.events, container=self._facts.name_of(diff.container))

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each error, or for each request that an error names."""
        for case in self._cases.values():
            level = Level.WARNING if case.advice == _NO_REQUEST_ADVICE else Level.PROBLEM
            yield case.finding(FindingKind.FAILED, level)

    def _failed(self, diff: RoundDiff) -> FindingText | None:
        error = diff.failure.replace(diff.container, "ID") if diff.container else diff.failure
        history = self._history_of(diff.container)
        requests = [
            step
            for step in (*(history.steps if history else ()), *diff.settled, *diff.steps)
            if step.container == diff.container
            and step.outcome.kind is OutcomeKind.REFUSED
            and step.owner.may_be_plugin
            and not step.change.path.startswith(_HARMLESS)
        ]
        requests = [*{step.key: step for step in requests}.values()]
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
            about = f"It names what was asked for: {_asked(named)}."
        elif requests:
            has_error = diff.name == CONTAINER_STATUS
            names = "The error names none of the plugins' requests" if has_error else "Requests"
            about = (
                f"{names}: {_asked(requests)}. One of these requests, or the container's "
                "own settings, made the start fail."
            )
        key = clipped(title, WORDS_MAX), clipped(error, WORDS_MAX)
        if key not in self._cases and len(self._cases) < CASES_MAX:
            detail = f"{clipped(capital(error), 2 * WORDS_MAX)}. {about}"
            self._cases[key] = FindingText(key[0], detail.rstrip(), advice)
        return self._cases.get(key)


def _asked(
    requests: Sequence[ChangeStep], name_of: Callable[[ChangeStep], str] = lambda _: ""
) -> str:
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
    for member in value if isinstance(value, list) else [value]:
        if isinstance(member, dict):
            names = (member.get(name) for name in _NAMING)
            yield from (name for name in names if isinstance(name, str) and "/" in name)
    if path.startswith("/process/args") and isinstance(value, list) and value:
        yield str(value[0])


def _occurs(term: str, error: str) -> bool:
    """Return whether a text occurs in an error as a whole word or path."""
    if len(term) < _TERM_MIN or term not in error:
        return False
    return re.search(rf"(?<![\w/.-]){re.escape(term)}(?![\w/-]|\.\w)", error) is not None


_FATAL = frozenset({RUN_POD, UPDATE_POD, CREATE, START, UPDATE})
"""Events whose CRI call fails if a plugin returns an error. Runtimes only log errors of others."""
_LOG_ADVICE = "Find out why it did not answer: its own log, or `nri-scope replay FILE -- ./plugin`."
_REFUSED_ADVICE = (
    "Other runtimes may accept this reply. Leave out the setting, and try the plugin with "
    "`nri-scope replay FILE -- ./plugin`."
)
_ENDS_CHAIN = "The chain ended: later plugins did not receive the event."
_TWO_SETTINGS = (
    "{name} fails when one field is set twice, and the changes that plugins made in it are "
    "not applied."
)
_WITHOUT_POST = "{name} was not followed by Post{name}"
_TITLE = "{name} failed: {failure.text}"
_TITLES = {
    FailureKind.CONFLICT: "Conflict: {failure.text}",
    FailureKind.SET_TWICE: 'Conflict: plugin "{failure.plugin}" tried to set {failure.field} twice',
    FailureKind.CHAIN_ENDED: "{name} did not reach the end of the chain",
    FailureKind.WITHOUT_POST: _WITHOUT_POST,
    FailureKind.UNKNOWN: _WITHOUT_POST,
}
"""Titles by kind of failure; others are `_TITLE`."""
_DETAIL_AND_ADVICE = "The operation failed.", _NO_REQUEST_ADVICE
_DETAILS_AND_ADVICE = {
    FailureKind.CONFLICT: (
        _TWO_SETTINGS,
        "Let only one of the two plugins set that field. To replace the value of an earlier "
        "plugin, a plugin must also remove it in the same reply; a removal with a new value is no "
        "conflict. `nri-scope blame FILE CONTAINER` shows who set what.",
    ),
    FailureKind.SET_TWICE: (_TWO_SETTINGS, "Let the plugin set that field only once in a reply."),
    FailureKind.NO_ANSWER: (
        _ENDS_CHAIN,
        "The plugin requested this: without fail_request in its failure policy, the runtime "
        f"continues without the plugin. {_LOG_ADVICE}",
    ),
    FailureKind.NO_VERDICT: ("A validator that does not answer fails the creation.", _LOG_ADVICE),
    FailureKind.PLUGIN_ERROR: (
        _ENDS_CHAIN,
        "Let the plugin reply without a change where it cannot help, and return an error only to "
        "stop the container. Its own log may contain details.",
    ),
    FailureKind.REJECTED: (
        "A validator rejected the adjusted container.",
        "A validator rejects containers on purpose. Its reason names the problem; `nri-scope "
        "blame` shows which plugin made that change.",
    ),
    FailureKind.REFUSED: ("The runtime rejected the merged adjustments.", _REFUSED_ADVICE),
    FailureKind.CALL_REFUSED: (
        "The runtime answered the plugin's own call with an error.",
        "The plugin got the error as the answer to its call; its own log may contain it.",
    ),
    FailureKind.CALL_UNANSWERED: (
        "The runtime did not answer the plugin's own call; whether it applied it is not known.",
        "Call it with a deadline, and not while the plugin handles an event.",
    ),
    FailureKind.CHAIN_ENDED: (
        "{words}.",
        "No connection observed the reason: an error or a conflict at a plugin in between, unless "
        "that connection was filtered. The runtime's log contains the error; more probes "
        "(`nri-scope diff --live --probes`) show where it happens.",
    ),
    FailureKind.WITHOUT_POST: (
        "{words}. No connection observed an error: an unobserved plugin, the runtime or the OCI "
        "runtime rejected the {subject}.",
        _NO_REQUEST_ADVICE,
    ),
    FailureKind.UNKNOWN: (
        "No event shows the outcome before the end of the connection.",
        _NO_REQUEST_ADVICE,
    ),
}
"""Details and advice by kind of failure; others have `_DETAIL_AND_ADVICE`."""
_EVENT_ID = re.compile(r" \(event \d+\)")
_UNKNOWN_OUTCOME = Failure(FailureKind.UNKNOWN, NOT_KNOWN)
_LATE_NS = 250_000_000
"""Minimum time without further events after which a creation is reported. Runtimes take some tens
of milliseconds from the end of the chain to PostCreateContainer."""


@dataclass(slots=True)
class _FailedEvents:
    """Events of one name that failed alike."""

    name: str
    failure: Failure
    """The failure of the first of them, with texts of limited length."""
    requests: Sequence[ChangeStep]
    """Requests that the runtime may have rejected, the most likely ones first."""
    events: FindingEvents = field(default_factory=FindingEvents)


class FailedEventDetector(Detector):
    """Detector of failed events."""

    def __init__(self, facts: RecordingFacts) -> None:
        super().__init__(facts)
        self._cases: dict[tuple[str, ...], _FailedEvents] = {}

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Check whether the round failed, or may have failed."""
        failure = _UNKNOWN_OUTCOME if diff.doubt else diff.cause
        if failure is None or not wanted or (diff.doubt and diff.open_ns < _LATE_NS):
            return
        if is_failed_start(diff):
            return
        name = clipped(diff.name, WORDS_MAX)
        kind, *texts = failure
        failure = Failure(kind, *(clipped(_EVENT_ID.sub("", text), WORDS_MAX) for text in texts))
        is_open = kind in (FailureKind.UNKNOWN, FailureKind.WITHOUT_POST)
        requests = _suspects(diff) if is_open else []
        # The same failure of many containers is one finding, so the key has no ids.
        asked = (clipped(wording.asked(step), WORDS_MAX) for step in requests)
        key = name, failure.text, *asked
        if key not in self._cases and len(self._cases) >= CASES_MAX:
            return
        case = self._cases.setdefault(key, _FailedEvents(name, failure, requests))
        case.events.add(*diff.events, container=self._facts.name_of(diff.container))

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each event name and error."""
        for case in self._cases.values():
            yield _finding(case, self._facts.name_of)


def _suspects(diff: RoundDiff) -> list[ChangeStep]:
    """Return the requests of which one may have made an operation fail, the most likely first."""
    is_update = diff.name == UPDATE
    steps = [
        step
        for step in diff.steps
        if not (step.is_change or step.outcome.kind is OutcomeKind.DROPPED)
        and (step.owner.may_be_plugin or (is_update and step.owner.who is OwnerKind.REQUEST))
    ]
    return sorted(
        steps,
        key=lambda step: (
            step.is_expected,
            not step.note,
            not step.owner.may_be_plugin,
            not step.change.path.startswith((*_FIELDS, *_WITH_SOURCE)),
            step.change.path.startswith(_HARMLESS),
        ),
    )


def _finding(case: _FailedEvents, name_of: NameOf) -> Finding:
    def other_name(step: ChangeStep) -> str:
        """Return the name of a container that the finding is not about; "" if it is."""
        name = name_of(step.container) if step.container else ""
        return "" if name in case.events.containers else name

    failure, name = case.failure, case.name
    subject = "update" if name == UPDATE else "container"
    title = _TITLES.get(failure.kind, _TITLE).format(name=name, failure=failure)
    detail, advice = _DETAILS_AND_ADVICE.get(failure.kind, _DETAIL_AND_ADVICE)
    detail = detail.format(name=name, words=capital(failure.text), subject=subject)
    is_fatal = name in _FATAL
    if failure.kind is FailureKind.PLUGIN_ERROR and not is_fatal:
        detail += " The runtime only logs the error."
    if case.requests:
        detail += f" Requests: {_asked(case.requests, other_name)}."
    is_conflict = failure.kind in (FailureKind.CONFLICT, FailureKind.SET_TWICE)
    kind = FindingKind.CONFLICT if is_conflict else FindingKind.FAILED
    is_problem = is_fatal and failure.kind is not FailureKind.UNKNOWN
    level = Level.PROBLEM if is_problem else Level.WARNING
    return case.events.finding(kind, level, title, detail, advice)


class FailedCallDetector(Detector):
    """Detector of failed calls. They belong to no round, as they are not part of NRI's chain."""

    def __init__(self, facts: RecordingFacts) -> None:
        super().__init__(facts)
        self._conflicts: dict[tuple[str, str, str], FindingEvents] = {}

    def see(self, event: Event) -> None:
        """Check the status of a call."""
        # After data loss, the outcome is not known.
        if event.status_code in (0, Code.DATA_LOSS):
            return
        session = self._facts.sessions.get(event.session)
        if session is None or session.role != Role.V01 or not self._facts.wanted(event):
            return
        # The same failure of many calls is one finding.
        error = clipped(event.status_message or "unknown reason", WORDS_MAX)
        key = clipped(event.plugin, WORDS_MAX), clipped(event.method, WORDS_MAX), error
        if key not in self._conflicts and len(self._conflicts) >= CASES_MAX:
            return
        about = event.container_id or event.pod_id
        events = self._conflicts.setdefault(key, FindingEvents())
        events.add(event.id, container=self._facts.name_of(about))

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each plugin, state and error."""
        for (plugin, method, error), events in self._conflicts.items():
            fatal = method == v01.CREATE_INVOCATION
            outcome = (
                "the pod or container is not started" if fatal else "the runtime logs the error"
            )
            yield events.finding(
                FindingKind.FAILED,
                Level.PROBLEM if fatal else Level.WARNING,
                f"{plugin}: {method} failed: {error}",
                f"Later plugins of NRI 0.1 are not called, and {outcome}.",
                "The runtime's log contains the error.",
            )


_HAS_INDEX = re.compile(r"[0-9]{2}-.")
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
                and _HAS_INDEX.match(plugin)
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
