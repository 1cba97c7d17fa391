# SPDX-License-Identifier: Apache-2.0
"""Detect requests that did not take effect, or not for long, although the operation succeeded.

Settings for cgroup v2 (``unified``) have no effect on a node with cgroup v1. NRI does not report a
node's cgroup version. But containerd and CRI-O give unprivileged containers a cgroup namespace only
on v2; and on v1 runc rejects a container with ``unified``, which is then removed without having
been started.
"""

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
from nri_scope.differ.attribution.history import History
from nri_scope.differ.attribution.later_changes import ANOTHER, ANY_OWNER, NO_VALUE, UPDATABLE
from nri_scope.differ.attribution.owner import Owner, OwnerKind
from nri_scope.differ.attribution.updates import NO_ID
from nri_scope.differ.render import wording
from nri_scope.differ.render.values import clipped, shown
from nri_scope.events import Event
from nri_scope.nri.events import CREATE, POST_UPDATE, UPDATE, Stage
from nri_scope.oci import VOIDED
from nri_scope.recording.lifetimes import container_stage
from nri_scope.specs import Spec, label

from ..finding import Finding, FindingKind, Level, Shown, Told, capital
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


class Dropped(Detector):
    """Detector of dropped requests, and of values that unexplained ones replaced at once."""

    def __init__(self, scene: RecordingFacts) -> None:
        super().__init__(scene)
        self._found: dict[tuple[str, str, str], Told] = {}
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
        voided = {id(step) for step in self._voided(steps)}
        for step in steps:
            # The failure of a whole operation is a finding of its own.
            if id(step) not in voided and (
                step.outcome.kind is OutcomeKind.DROPPED or _is_unexplained(step)
            ):
                self._add(step)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each owner, path and reason."""
        for case in self._found.values():
            yield case.shown.finding(
                FindingKind.DROPPED, Level.WARNING, case.title, case.detail, case.advice
            )

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
        if not reason.endswith(VOIDED):
            detail += f". {_ALL_DROPPED}"
        asked = "; ".join(
            wording.asked(step) for step in lost if step.owner.who is not OwnerKind.RUNTIME
        )
        name = self._scene.name_of(container)
        key = name, "", reason
        if key not in self._found and len(self._found) >= CASES_MAX:
            return
        text = clipped(f"{detail}. Requests: {asked}.", 2 * WORDS_MAX)
        case = self._found.setdefault(key, Told(title, text, _VOIDED_ADVICE))
        events = {number for step in lost for number in (step.event, step.outcome.event)} - {0}
        case.shown.add(*sorted(events), container=name)

    def _add(self, step: ChangeStep) -> None:
        path, outcome = step.change.path, step.outcome
        if step.owner.who is OwnerKind.RUNTIME:
            return
        key = (
            clipped(str(step.owner), WORDS_MAX),
            clipped(path, WORDS_MAX),
            clipped(f"{outcome.kind} {outcome.reason}", WORDS_MAX),
        )
        case = self._found.get(key)
        if case is None:
            if len(self._found) >= CASES_MAX:
                return
            who, by_rule = wording.owner(step.owner), outcome.shown_by is Shows.RULE
            title = f"{_what(path)}, requested by {who}, was {outcome.kind}"
            detail = f"{capital(wording.request(step))}."
            advice = _RULE_ADVICE if by_rule else _SEEN_ADVICE
            case = self._found[key] = Told(
                clipped(title, WORDS_MAX),
                clipped(detail, WORDS_MAX),
                _ID_ADVICE if outcome.reason in (NO_ID, NO_SUCH) else advice,
            )
        events = {step.event, outcome.event} - {0}
        container = self._scene.name_of(step.container)
        case.shown.add(*sorted(events), container=container)


def _is_unexplained(step: ChangeStep) -> bool:
    """Return whether another value took the place of a requested one, and no update explains it."""
    one = step.outcome
    may_be_updated = one.shown_by is Shows.EVENT and step.change.path.startswith(UPDATABLE)
    return one.kind is OutcomeKind.SUPERSEDED and one.reason in _UNEXPLAINED and not may_be_updated


def _is_void(step: ChangeStep) -> bool:
    """Return whether a later state, not a rule, shows that a request was dropped."""
    return step.outcome.kind is OutcomeKind.DROPPED and step.outcome.shown_by is not Shows.RULE


def _what(path: str) -> str:
    if path == EVICTION:
        return "an eviction"
    return label(path) if path else "an update"


def is_of_plugin(owner: Owner) -> bool:
    """Return whether a plugin may be the owner."""
    return owner.who not in (OwnerKind.RUNTIME, OwnerKind.REQUEST)


_REPLACED_ADVICE = "Let the plugin set the value in its reply to each UpdateContainer, too."
_CPU_SETS_ADVICE = (
    " The kubelet's CPU manager updates CPU sets: use its static policy or the plugin."
)
_CPU_SETS = "/linux/resources/cpu/cpus", "/linux/resources/cpu/mems"


@dataclass(slots=True)
class _Replaced:
    title: str
    detail: str
    steps: list[ChangeStep] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


class Replaced(Detector):
    """Detector of values of plugins that the CRI replaced."""

    def __init__(self, scene: RecordingFacts, history_of: Callable[[str], History | None]) -> None:
        super().__init__(scene)
        self._history_of = history_of
        self._found: dict[tuple[str, str, str], _Replaced] = {}
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
        for one in self._found.values():
            seen = Shown()
            for step, name in zip(one.steps, one.names, strict=True):
                # Later events may have shown that the earlier value remains.
                if step.is_change:
                    seen.add(*sorted({step.event, step.outcome.event} - {0}), container=name)
            if seen.count:
                is_cpus = one.steps[0].change.path.startswith(_CPU_SETS)
                advice = f"{_REPLACED_ADVICE}{_CPU_SETS_ADVICE if is_cpus else ''}"
                yield seen.finding(FindingKind.REPLACED, Level.NOTE, one.title, one.detail, advice)

    def _add(self, step: ChangeStep, earlier: ChangeStep) -> None:
        by, who = wording.owner(step.owner), wording.owner(earlier.owner)
        what = clipped(label(step.change.path), WORDS_MAX)
        key = step.change.path, who, by
        case = self._found.get(key)
        if case is None:
            before, after = (
                shown(step.change.path, one) for one in (step.change.before, step.change.after)
            )
            title = f"{what}, set by {who}, was replaced by {by}"
            detail = (
                f"{who} set {before} (event {earlier.event}); then it was replaced by {after}, "
                f"by {by} (event {step.event})."
            )
            case = self._found[key] = _Replaced(
                clipped(title, WORDS_MAX),
                clipped(f"{detail[:1].upper()}{detail[1:]}", WORDS_MAX),
            )
        self._kept += 1
        case.steps.append(step)
        case.names.append(self._scene.name_of(step.container))


def _setter(history: History, step: ChangeStep) -> ChangeStep | None:
    """Return the plugin's request for the value that a step replaces; None if there is none."""
    path = step.change.path
    for earlier in reversed(history.steps):
        if earlier.event < step.event and earlier.change.path == path and earlier.has_effect:
            is_set = earlier.change.kind != "removed" and earlier.change.after == step.change.before
            is_plugins = is_of_plugin(earlier.owner) and earlier.owner != ANY_OWNER
            return earlier if is_set and is_plugins else None
    return None


_PATH = "/linux/resources/unified"
_CGROUP_ADVICE = (
    "Set `unified` only on nodes with cgroup v2 (`stat -fc %T /sys/fs/cgroup` prints cgroup2fs), "
    "and the settings of v1 (cpu, memory, pids) on other nodes; or move the node to cgroup v2."
)


class Unified(Detector):
    """Detector of ``unified`` on cgroup v1."""

    def __init__(self, scene: RecordingFacts, history_of: Callable[[str], History | None]) -> None:
        super().__init__(scene)
        self._history_of = history_of
        self._waiting: Latest[str, tuple[int, str, str]] = Latest()
        """Containers that are not started yet: event, owner of ``unified``, and name."""
        self._started: Latest[str, bool] = Latest()
        self._shown: dict[str, Shown] = {}
        self._is_v2 = False

    def see(self, event: Event) -> None:
        """Check whether a container is started, or ends without a start."""
        stage = container_stage(event.event, event.runtime)
        if stage < Stage.STARTED:
            return
        key = event.container_id
        if stage is Stage.STARTED:
            # Rounds arrive late: this event may precede the round of the container's creation.
            if key not in self._started:
                self._started[key] = True
            self._waiting.pop(key, None)
        elif (waiting := self._waiting.pop(key, None)) is not None:
            number, owner, name = waiting
            if self._scene.wanted(event):
                self._shown.setdefault(owner, Shown()).add(number, event.id, container=name)

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Check whether a plugin sets a value in "/linux/resources/unified"."""
        if diff.name != CREATE or self._is_v2:
            return
        history = self._history_of(diff.container)
        if history is not None and _has_cgroup_namespace(history.spec):
            self._is_v2 = True
            return
        if diff.failure or self._started.get(diff.container):
            return
        for step in diff.own:
            if step.change.path.startswith(_PATH) and step.change.kind != "removed":
                if step.owner.who in (OwnerKind.RUNTIME, OwnerKind.REQUEST):
                    continue
                name = self._scene.name_of(diff.container)
                self._waiting[diff.container] = step.event, wording.owner(step.owner), name
                return

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each owner; none if any container has a cgroup namespace."""
        if self._is_v2:
            return
        for owner, seen in self._shown.items():
            count = len(seen.containers)
            yield seen.finding(
                FindingKind.UNIFIED,
                Level.WARNING,
                f"{owner} set `unified`, probably on a node with cgroup v1",
                f"{count:,} container{'s were' if count != 1 else ' was'} created with `unified` "
                "and without a cgroup namespace (a sign of cgroup v1), and ended without a start. "
                "On cgroup v1 runc rejects containers with `unified`; the runtime's log then "
                "contains the error.",
                _CGROUP_ADVICE,
            )


def _has_cgroup_namespace(spec: Spec) -> bool:
    linux = spec.get("linux")
    namespaces = linux.get("namespaces") if isinstance(linux, dict) else None
    return isinstance(namespaces, list) and any(
        isinstance(one, dict) and one.get("type") == "cgroup" for one in namespaces
    )
