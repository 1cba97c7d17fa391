# SPDX-License-Identifier: Apache-2.0
"""Detect requests that did not take effect, or not for long, although the operation succeeded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from nri_scope.differ.attribution.attributed_changes import (
    EVICTION,
    ChangeStep,
    OutcomeKind,
    RoundDiff,
    Shows,
)
from nri_scope.differ.attribution.containers import NO_SUCH
from nri_scope.differ.attribution.history import ANOTHER, NO_VALUE, History
from nri_scope.differ.attribution.later_changes import ANY_OWNER, UPDATABLE
from nri_scope.differ.attribution.owner import OwnerKind
from nri_scope.differ.attribution.updates import NO_ID
from nri_scope.differ.render import wording
from nri_scope.differ.render.values import clipped, shown
from nri_scope.events import Event
from nri_scope.nri.events import POST_UPDATE, UPDATE
from nri_scope.specs import label

from ..finding import Finding, FindingEvents, FindingKind, FindingText, Level, capital
from ..limits import CASES_MAX, WORDS_MAX
from .recording_facts import Detector, Latest, RecordingFacts

_RULE_ADVICE = (
    "Request it in a way that this runtime supports, or remove the request: "
    "`nri-scope blame FILE CONTAINER --history PATH` shows its outcome."
)
_SEEN_ADVICE = (
    "The runtime's log may contain an error. "
    "`nri-scope blame FILE CONTAINER --history PATH` shows all requests for this field."
)


_ID_ADVICE = (
    "Set container_id in each update; for the container of an UpdateContainer event, to that of "
    "the request."
)
_VOIDED_ADVICE = (
    "Reply to UpdateContainer without an update if the plugin changes nothing. An update of the "
    "same container must contain all resources that are to be set."
)
_ALL_DROPPED = (
    "A reply to UpdateContainer with an update of the same container without resources has this "
    "effect on containerd and CRI-O; no recorded connection shows the replies"
)

_UNEXPLAINED = (ANOTHER, NO_VALUE)


class DroppedRequestDetector(Detector):
    """Detector of dropped requests, and of values that unexplained ones replaced at once."""

    def __init__(self, facts: RecordingFacts) -> None:
        super().__init__(facts)
        self._cases: dict[tuple[str, str, str], FindingText] = {}
        self._updates: Latest[str, Sequence[ChangeStep]] = Latest()
        """The requests of the newest UpdateContainer of each container."""
        self._posts: Latest[str, int] = Latest()
        """The newest PostUpdateContainer of each container."""

    def see(self, event: Event) -> None:
        """Store the PostUpdateContainer of a container."""
        if event.event == POST_UPDATE:
            self._posts[event.container_id] = event.id

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Check the requests of a round, and earlier ones whose outcome it shows."""
        if not wanted:
            return
        if diff.name == UPDATE:
            self._updates[diff.container] = () if diff.failure else diff.own
        steps = (*diff.steps, *diff.settled)
        voided = {step.key for step in self._voided(steps)}
        for step in steps:
            # The failure of a whole operation is a finding of its own.
            if step.key not in voided and (
                step.outcome.kind is OutcomeKind.DROPPED or _is_unexplained(step)
            ):
                self._add(step)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each owner, path and reason."""
        for case in self._cases.values():
            yield case.finding(FindingKind.DROPPED, Level.WARNING)

    def _voided(self, steps: Sequence[ChangeStep]) -> Iterator[ChangeStep]:
        """Yield the requests of updates of which nothing took effect, after reporting them."""
        for container in {step.container for step in steps}:
            of_update = self._updates.get(container) or ()
            lost = [step for step in of_update if _is_void(step)]
            is_whole = not any(
                step.outcome.shown_by is not Shows.RULE for step in of_update if not _is_void(step)
            )
            if is_whole and any(step.owner.who is OwnerKind.REQUEST for step in lost):
                self._updates[container] = ()
                self._add_voided(container, lost)
                yield from lost

    def _add_voided(self, container: str, lost: Sequence[ChangeStep]) -> None:
        reason = lost[0].outcome.reason
        title = "Nothing of an UpdateContainer took effect"
        post = self._posts.get(container) or 0
        came = f", although PostUpdateContainer came (event {post})" if post > lost[0].event else ""
        detail = f"By event {lost[0].outcome.event}, {reason}{came}"
        if not lost[0].outcome.is_voided:
            detail += f". {_ALL_DROPPED}"
        asked = "; ".join(
            wording.asked(step) for step in lost if step.owner.who is not OwnerKind.RUNTIME
        )
        name = self._facts.name_of(container)
        key = name, "", reason
        if key not in self._cases and len(self._cases) >= CASES_MAX:
            return
        text = clipped(f"{detail}. Requests: {asked}.", 2 * WORDS_MAX)
        case = self._cases.setdefault(key, FindingText(title, text, _VOIDED_ADVICE))
        events = {number for step in lost for number in (step.event, step.outcome.event)} - {0}
        case.events.add(*sorted(events), container=name)

    def _add(self, step: ChangeStep) -> None:
        path, outcome = step.change.path, step.outcome
        if step.owner.who is OwnerKind.RUNTIME:
            return
        key = (
            clipped(str(step.owner), WORDS_MAX),
            clipped(path, WORDS_MAX),
            clipped(f"{outcome.kind} {outcome.reason}", WORDS_MAX),
        )
        case = self._cases.get(key)
        if case is None:
            if len(self._cases) >= CASES_MAX:
                return
            who, by_rule = wording.owner(step.owner), outcome.shown_by is Shows.RULE
            title = f"{_what(path)}, requested by {who}, was {outcome.kind}"
            detail = f"{capital(wording.request(step))}."
            advice = _RULE_ADVICE if by_rule else _SEEN_ADVICE
            case = self._cases[key] = FindingText(
                clipped(title, WORDS_MAX),
                clipped(detail, WORDS_MAX),
                _ID_ADVICE if outcome.reason in (NO_ID, NO_SUCH) else advice,
            )
        events = {step.event, outcome.event} - {0}
        container = self._facts.name_of(step.container)
        case.events.add(*sorted(events), container=container)


def _is_unexplained(step: ChangeStep) -> bool:
    """Return whether another value took the place of a requested one, and no update explains it."""
    kind, reason, shown_by, *_ = step.outcome
    may_be_updated = shown_by is Shows.EVENT and step.change.path.startswith(UPDATABLE)
    return kind is OutcomeKind.SUPERSEDED and reason in _UNEXPLAINED and not may_be_updated


def _is_void(step: ChangeStep) -> bool:
    """Return whether a later state, not a rule, shows that a request was dropped."""
    return step.outcome.kind is OutcomeKind.DROPPED and step.outcome.shown_by is not Shows.RULE


def _what(path: str) -> str:
    if path == EVICTION:
        return "an eviction"
    return label(path) if path else "an update"


_REPLACED_ADVICE = "Let the plugin set the value in its reply to each UpdateContainer, too."
_CPU_SETS_ADVICE = (
    " The kubelet's CPU manager updates CPU sets: use its static policy or the plugin."
)
_CPU_SETS = "/linux/resources/cpu/cpus", "/linux/resources/cpu/mems"


@dataclass(slots=True)
class _Replaced:
    title: str
    detail: str
    steps: list[tuple[ChangeStep, str]] = field(default_factory=list)
    """The CRI's requests, each with the name of its container."""


class ReplacedValueDetector(Detector):
    """Detector of values of plugins that the CRI replaced."""

    def __init__(self, facts: RecordingFacts, history_of: Callable[[str], History | None]) -> None:
        super().__init__(facts)
        self._history_of = history_of
        self._cases: dict[tuple[str, str, str], _Replaced] = {}
        self._kept = 0

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Check whether an update by the CRI replaces values that plugins requested."""
        if not wanted or diff.name != UPDATE or diff.failure:
            return
        history = self._history_of(diff.container)
        if history is None:
            return
        for step in diff.own:
            if step.owner.who is OwnerKind.REQUEST and step.change.before is not None:
                earlier = _setter(history, step)
                if earlier is not None and self._kept < CASES_MAX:
                    self._add(step, earlier)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each field, plugin and requester."""
        for case in self._cases.values():
            events = FindingEvents()
            for step, name in case.steps:
                # Later events may have shown that the earlier value remains.
                if step.is_change:
                    events.add(*sorted({step.event, step.outcome.event} - {0}), container=name)
            if events.count:
                is_cpus = case.steps[0][0].change.path.startswith(_CPU_SETS)
                advice = f"{_REPLACED_ADVICE}{_CPU_SETS_ADVICE if is_cpus else ''}"
                yield events.finding(
                    FindingKind.REPLACED, Level.NOTE, case.title, case.detail, advice
                )

    def _add(self, step: ChangeStep, earlier: ChangeStep) -> None:
        by, who = wording.owner(step.owner), wording.owner(earlier.owner)
        what = clipped(label(step.change.path), WORDS_MAX)
        key = step.change.path, who, by
        case = self._cases.get(key)
        if case is None:
            before, after = (
                shown(step.change.path, value) for value in (step.change.before, step.change.after)
            )
            title = f"{what}, set by {who}, was replaced by {by}"
            detail = (
                f"{who} set {before} (event {earlier.event}); then it was replaced by {after}, "
                f"by {by} (event {step.event})."
            )
            case = self._cases[key] = _Replaced(
                clipped(title, WORDS_MAX),
                clipped(capital(detail), WORDS_MAX),
            )
        self._kept += 1
        case.steps.append((step, self._facts.name_of(step.container)))


def _setter(history: History, step: ChangeStep) -> ChangeStep | None:
    """Return the plugin's request for the value that a step replaces; None if there is none."""
    path = step.change.path
    for earlier in reversed(history.steps):
        if earlier.event < step.event and earlier.change.path == path and earlier.has_effect:
            is_set = earlier.change.kind != "removed" and earlier.change.after == step.change.before
            is_plugins = earlier.owner.may_be_plugin and earlier.owner != ANY_OWNER
            return earlier if is_set and is_plugins else None
    return None
