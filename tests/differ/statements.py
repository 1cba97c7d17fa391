# SPDX-License-Identifier: Apache-2.0
"""Compare every statement of the differ about a recording with the real outcome."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

from nri_scope import oci, specs
from nri_scope.differ.attribution.attributed_changes import (
    EVICTION,
    ChangeStep,
    Evidence,
    OutcomeKind,
    RoundDiff,
    Shows,
)
from nri_scope.differ.attribution.differ import Differ
from nri_scope.differ.attribution.history import UNSURE_ANNOTATIONS, History
from nri_scope.differ.attribution.later_changes import NAMESAKES
from nri_scope.differ.attribution.owner import Owner, OwnerKind
from nri_scope.differ.blame.document import document
from nri_scope.differ.blame.owned_lines import OwnedLine, lines
from nri_scope.differ.recording_differ import (
    differ_of,
    excerpt_of_container,
    excerpt_of_events,
    histories,
    history_of,
    rounds,
)
from nri_scope.differ.render import wording
from nri_scope.differ.render.document import JsonRenderer, step_record
from nri_scope.errors import UsageError
from nri_scope.recording.reading.reader import Recording
from nri_scope.report.collect import collect
from nri_scope.report.finding import FindingKind
from nri_scope.report.limits import FINDINGS_OF_KIND_MAX
from nri_scope.report.report_data import Facts
from nri_scope.survey.foreground import surveyed

from .chains import includes, related
from .node import Node
from .node_state import Creation, Life

_CREATE = "CreateContainer"
_ODD = "/process/env/X"
"""Some plugins set a variable named "X=Y", which runtimes may treat as that name or as X."""
_HIDDEN = (
    "/cdiDevices",
    "/nri",
    "/linux/intelRdt",
    "/linux/resources/blockIO",
    "/linux/memoryPolicy",
)
"""Paths that no message shows after the creation."""
_SOMETIMES_OMITTED = (
    "/hooks", "/process/rlimits", "/process/ioPriority", "/process/scheduler", "/linux/netDevices",
    "/linux/seccomp", "/linux/sysctl", "/linux/resources/pids", "/linux/resources/devices",
    "/linux/resources/hugepageLimits", "/linux/resources/unified",
)  # fmt: skip
"""Paths that some runtimes omit; their absence is no observation."""
_SWAP, _LIMIT = "/linux/resources/memory/swap", "/linux/resources/memory/limit"


@dataclass
class Verdict:
    """False statements, and counts by kind; unknown "exact" statements name a range of owners."""

    false: list[str] = field(default_factory=list)
    statements: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)

    def count(self, kind: str, *, unknown: bool = False) -> None:
        self.statements[kind] += 1
        self.unknown[kind] += unknown

    def __str__(self) -> str:
        return "\n".join(
            f"{kind:>10}: {count:7,} statements, {self.unknown[kind]:5,} unknown "
            f"({self.unknown[kind] / count:.1%})"
            for kind, count in sorted(self.statements.items())
        )

    def add(self, other: Verdict) -> None:
        self.false += other.false
        self.statements += other.statements
        self.unknown += other.unknown


def check(node: Node) -> Verdict:
    """Check the statements of all surfaces about a node's recording."""
    with Recording.open(node.path) as recording:
        return _Checker(node, recording).check()


class _Checker:
    def __init__(self, node: Node, recording: Recording) -> None:
        self.node = node
        self.recording = recording
        self.verdict = Verdict()
        differ = differ_of(recording)
        self.rounds = list(rounds(recording, differ=differ))
        self.differ: Differ = differ
        self.histories = histories(recording)
        self.facts: Facts = collect(recording)

    def check(self) -> Verdict:
        for one in self.rounds:
            for step in one.steps:
                self._check_step(one, step)
                self._check_outcome(step)
        for creation in self.node.creations:
            self._check_creation(creation)
        for container, history in self.histories.items():
            self._check_history(container, history)
        self._same_everywhere()
        return self.verdict

    def _report(self, what: str, *about: object) -> None:
        self.verdict.false.append(f"{what}: {'; '.join(map(str, about))}")

    # -- owners ---------------------------------------------------------------------------------

    def _check_step(self, one: RoundDiff, step: ChangeStep) -> None:
        unknown = step.owner.who is OwnerKind.UNKNOWN
        self.verdict.count("owner", unknown=unknown)
        self.verdict.count("exact", unknown=not step.owner.exact)
        names_path = step.change.path and step.change.path != EVICTION
        is_odd = step.change.kind == "moved" or _ODD in step.change.path
        if names_path and not is_odd and not unknown:
            self._check_owner(step)
        if step.event in one.events and Evidence.EVENTS in step.evidence:
            for creation in self.node.creations:
                undone = {*creation.undoing} & {*one.events}
                if creation.failure and undone and step.container == creation.container:
                    self._report("a change by an undone creation", _describe(step))

    def _check_owner(self, step: ChangeStep) -> None:
        operation = self.node.operation_of[step.event]
        path = step.change.path
        later = Evidence.EVENTS in step.evidence or Evidence.CRI in step.evidence
        # A removal that the merged adjustment has is known by a later event.
        later = later or step.event == step.outcome.event or step.change.kind == "removed"
        claims = [
            claim.plugin
            for claim in self.node.claims
            if claim.container == step.container and claim.path and related(claim.path, path)
            if claim.operation == operation or (later and claim.operation <= operation)
        ]
        if path == _SWAP:
            # The swap limit follows the memory limit.
            claims += [
                claim.plugin
                for claim in self.node.claims
                if claim.container == step.container and claim.path == _LIMIT
                if claim.operation == operation or (later and claim.operation <= operation)
            ]
        if path.startswith("/linux/resources/devices/"):
            claims += [
                claim.plugin
                for claim in self.node.claims
                if claim.container == step.container and claim.path.startswith("/linux/devices/")
                if claim.operation == operation or (later and claim.operation <= operation)
            ]
        if any(includes(step.owner, plugin) or _in_range(step.owner, plugin) for plugin in claims):
            return
        asked = any(
            number == operation or (later and number <= operation)
            for number, container, each in self.node.requests
            if container == step.container
            and (related(each, path) or (path, each) == (_SWAP, _LIMIT))
        )
        if step.owner.who is OwnerKind.REQUEST and asked:
            return
        by_runtime = step.owner.who is OwnerKind.RUNTIME or step.owner.or_runtime
        if by_runtime and (not claims or self._is_runtimes(step, operation)):
            return
        self._report("the wrong owner", _describe(step), f"it was one of {sorted(set(claims))}")

    def _is_runtimes(self, step: ChangeStep, operation: int) -> bool:
        """Return whether the runtime, rather than a requester, set the value."""
        life = self._life(step.container)
        after = step.change.after if step.change.kind != "removed" else None
        first = self._before(step.container, operation, step.change.path)
        if specs.same(first, after):
            return True
        if life is None or step.change.path == _SWAP:
            return True
        actual = self._value(life, step.change.path, operation)
        return not specs.same(actual, after)

    # -- outcomes -------------------------------------------------------------------------------

    def _check_outcome(self, step: ChangeStep) -> None:
        kind, path = step.outcome.kind, step.change.path
        self.verdict.count("outcome", unknown=kind is OutcomeKind.REQUESTED)
        self.verdict.count(str(kind), unknown=kind is OutcomeKind.REQUESTED)
        if kind is OutcomeKind.REQUESTED or path == EVICTION or _ODD in path:
            return
        if not path:
            self._check_absence(step)
            return
        life = self._life(step.container)
        if step.is_change and life is None:
            self._report("a change of a container that never existed", _describe(step))
        if life is None or step.change.kind == "moved" or path.startswith(_HIDDEN):
            return
        operation = self.node.operation_of[step.event]
        creation = self._creation_at(step.container, operation)
        if creation is not None and creation.failure:
            if step.is_change:
                self._report("a change of a creation that failed", _describe(step))
            return
        if step.is_change:
            self._check_change(life, creation, step)
        elif kind is OutcomeKind.SUPERSEDED:
            self._check_superseded(life, creation, step)
        elif not life.never_ran:
            self._check_without_effect(life, creation, step)

    def _check_absence(self, step: ChangeStep) -> None:
        """Check a request for a container as a whole, which it says does not exist."""
        life = self._life(step.container)
        operation = self.node.operation_of[step.event]
        if life is None or not life.past:
            return
        ended = life.ended and life.ended <= operation
        known = life.past[0].operation <= operation and not ended
        if known and step.outcome.kind is OutcomeKind.DROPPED:
            self._report("a dropped update of an existing container", _describe(step))

    def _window(self, life: Life, creation: Creation | None, step: ChangeStep) -> list[specs.Json]:
        """Return the values at the step's path from the request to the evidence."""
        from_ns = self.node.time_of[step.event] if creation is None else creation.at_ns
        shown_by = step.outcome.event or step.event
        to_ns = max(self.node.time_of[shown_by], from_ns)
        states = life.between(from_ns, to_ns)
        if creation is not None:
            states = states[1:] or life.past[:1]
        return [state.value(step.change.path) for state in states]

    def _check_change(self, life: Life, creation: Creation | None, step: ChangeStep) -> None:
        """Check that the container had the value between the request and the evidence."""
        after = _after(step)
        found = self._window(life, creation, step)
        if not any(_is_value(after, one) for one in found):
            self._report("a change that never happened", _describe(step), found)
        is_labelled = step.note == NAMESAKES
        if (
            step.event == step.outcome.event
            and not is_labelled
            and not self._has_changed(life, step)
        ):
            self._report("an invented change", _describe(step), found)

    def _has_changed(self, life: Life, step: ChangeStep) -> bool:
        """Return whether the container's value became the step's, as an event shows."""
        to_ns = self.node.time_of[step.event]
        creations = [creation for creation in self.node.creations if creation.container == life.id]
        path = step.change.path
        values = [one.found(path) for one in life.past if one.at_ns <= to_ns]
        if creations:
            chain = [creations[-1].before, *creations[-1].found.values()]
            values = [*(specs.value_at(one, path) for one in chain), *values]
        after = specs.ABSENT if step.change.kind == "removed" else step.change.after
        return any(
            _is_there(after, now) and not _is_there(before, now) for before, now in pairwise(values)
        )

    def _check_superseded(self, life: Life, creation: Creation | None, step: ChangeStep) -> None:
        """Check that the container had another value afterwards."""
        after = _after(step)
        found = self._window(life, creation, step)
        if step.outcome.shown_by is Shows.CHAIN:
            # Another request of the chain replaces it, whatever becomes of that one.
            others = [claim for claim in self.node.claims if claim.container == step.container]
            if not any(related(one.path, step.change.path) for one in others if one.path):
                self._report("superseded by nothing", _describe(step))
            return
        if all(specs.same(after, one) for one in found):
            self._report("superseded, but the value stayed", _describe(step), found)

    def _check_without_effect(
        self, life: Life, creation: Creation | None, step: ChangeStep
    ) -> None:
        """Check that the container did not get the value by this request."""
        operation = self.node.operation_of[step.event]
        path, wanted = step.change.path, _after(step)
        first = self._before(step.container, operation, path)
        now = self._value(life, path, operation)
        if creation is not None and len(step.owner.plugins) == 1:
            spec = creation.found.get(step.owner.plugins[0])
            first = first if spec is None else _at(spec, path)
        if specs.same(now, wanted) and not specs.same(first, wanted):
            others = {
                claim.plugin
                for claim in self.node.claims
                if (claim.container, claim.operation) == (step.container, operation)
                if claim.path and related(claim.path, path)
            }
            requested = (operation, step.container, path) in self.node.requests
            if not (others - {*step.owner.plugins}) and not requested:
                self._report("had effect, and said not to have", _describe(step))

    def _value(self, life: Life, path: str, operation: int) -> specs.Json:
        return life.after(operation).value(path)

    def _life(self, container: str) -> Life | None:
        return self.node.lives.get(container)

    def _creation_at(self, container: str, operation: int) -> Creation | None:
        return next(
            (
                creation
                for creation in self.node.creations
                if creation.container == container and creation.operation == operation
            ),
            None,
        )

    def _before(self, container: str, operation: int, path: str) -> specs.Json:
        """Return the value before an operation."""
        creation = self._creation_at(container, operation)
        if creation is not None:
            return _at(creation.before, path)
        life = self._life(container)
        return None if life is None else self._value(life, path, operation - 1)

    # -- creations ------------------------------------------------------------------------------

    def _check_creation(self, creation: Creation) -> None:
        if not creation.events:
            return
        mine = [one for one in self.rounds if {*creation.events} & {*one.events}]
        self.verdict.count("creation", unknown=bool(mine and mine[0].doubt))
        if len(mine) != 1:
            self._report("not one round", creation.events, [one.events for one in mine])
            return
        (one,) = mine
        if one.failure and not creation.failure:
            self._report("created, and called failed", creation.events, one.failure)
        if creation.failure and not one.failure:
            self._not_created(creation, one)

    def _not_created(self, creation: Creation, one: RoundDiff) -> None:
        last = [each for each in self.node.creations if each.container == creation.container][-1]
        if last is not creation:
            return
        history = self.histories.get(creation.container)
        if history is not None and history.beginning.startswith("created"):
            self._report("failed, and blame calls it created", creation.events, creation.failure)
        for changed in self.facts.changed:
            if changed.id == creation.container and changed.created_event and not changed.failure:
                self._report(
                    "failed, and the report calls it created", creation.events, creation.failure
                )

    # -- blame ----------------------------------------------------------------------------------

    def _check_history(self, container: str, history: History) -> None:
        life = self._life(container)
        blame_document = document(history)
        if life is None:
            if blame_document["container"]["created"]:  # type: ignore[index, call-overload]
                self._report("never created, and blame says that it was", container)
            return
        creations = [one for one in self.node.creations if one.container == container]
        self._check_sum(history)
        if history.failure and creations and not creations[-1].failure:
            self._report("created, and blame calls it failed", container, history.failure)
        for line in lines(history):
            if not line.exists or line.heading or _ODD in line.path:
                continue
            unknown = line.owner is None or line.owner.who is OwnerKind.UNKNOWN
            self.verdict.count("line", unknown=unknown)
            if line.path.startswith(_HIDDEN):
                continue
            owner = line.owner
            if owner is not None and owner.who in (OwnerKind.PLUGIN, OwnerKind.ONE_OF):
                claims = {
                    claim.plugin
                    for claim in self.node.claims
                    if claim.container == container
                    and claim.path
                    and related(claim.path, line.path)
                }
                if line.path == _SWAP:
                    claims |= {
                        claim.plugin
                        for claim in self.node.claims
                        if claim.container == container and claim.path == _LIMIT
                    }
                if line.path.startswith("/linux/resources/devices/"):
                    claims |= {
                        claim.plugin
                        for claim in self.node.claims
                        if claim.container == container and claim.path.startswith("/linux/devices")
                    }
                if not any(includes(owner, claim) for claim in claims) and not owner.or_runtime:
                    self._report("a line with the wrong owner", container, line.path, owner, claims)
            no_plugin = (OwnerKind.SPEC, OwnerKind.RUNTIME)
            if owner is not None and owner.who in no_plugin and not owner.or_runtime:
                self._runtimes_own(life, line, creations)
            asked = max(
                (each.operation for each in self.node.claims if each.container == container),
                default=0,
            )
            if life.shown_at < max(life.done, asked):
                continue
            if line.step is not None and line.step.outcome.kind is OutcomeKind.REQUESTED:
                # The line says so.
                continue
            if (
                line.path.startswith("/annotations/")
                and specs.split(line.path)[-1] in life.requested
            ):
                # Later events show the requested annotation, even if it was not applied.
                continue
            if line.path.startswith("/annotations/") and UNSURE_ANNOTATIONS in history.remarks:
                # The remark says that the value may be another one.
                continue
            section = next((one for one in _SOMETIMES_OMITTED if line.path.startswith(one)), "")
            if section and _at(oci.spec_of(self.node._shown(life)), section) is None:
                continue
            if line.step is not None and line.step.note.startswith("the runtime takes the removal"):
                # The note says that the value may be removed.
                continue
            real = _at(life.real, line.path)
            shown = _at(oci.spec_of(self.node._shown(life)), line.path)
            effect = life.effects.get(line.path)
            if not any(specs.same(line.value, each) for each in (real, shown, effect)):
                self._report(
                    "a line with a false value", container, line.path, line.value, real, shown
                )

    def _check_sum(self, history: History) -> None:
        """Check that the first state and the steps with an effect make the current spec."""
        if history.failure or history.never_ran:
            return
        rebuilt = history.base
        counted = [step for step in history.steps if step.has_effect]
        for _, together in groupby(
            counted, key=lambda one: (one.event, one.evidence[0], one.owner)
        ):
            rebuilt = specs.apply(rebuilt, [one.change for one in together])
        has_namesakes = any("#" in step.change.path for step in history.steps)
        rest = [
            change
            for change in specs.changes(rebuilt, history.spec)
            # Members with the same key cannot be told apart.
            if change.kind != "moved" and _ODD not in change.path and not has_namesakes
        ]
        self.verdict.count("sum")
        if rest:
            steps = [
                _describe(step) for step in history.steps if related(step.change.path, rest[0].path)
            ]
            self._report("the steps do not make the spec", history.id, rest[:2], steps)

    def _runtimes_own(self, life: Life, line: OwnedLine, creations: list[Creation]) -> None:
        """Check a line owned by the runtime: no plugin set its value."""
        first = creations[-1].before if creations else life.past[0].real
        if specs.same(_at(first, line.path), line.value) or line.path == _SWAP:
            return
        if line.path.startswith("/linux/resources/devices/") or line.value == {}:
            # The runtime adds a rule for each device, and objects without members.
            return
        claims = {
            claim.plugin
            for claim in self.node.claims
            if claim.container == life.id and claim.path and related(claim.path, line.path)
        }
        if claims:
            self._report(
                "a plugin's line called the runtime's", life.id, line.path, line.value, claims
            )

    # -- all surfaces ---------------------------------------------------------------------------

    def _same_everywhere(self) -> None:
        self._same_json()
        self._same_report()
        self._same_diagnosis()
        self._same_survey()
        for container in self.recording.containers():
            whole = self.histories.get(container.id)
            try:
                part = history_of(self.recording, container)
            except UsageError:
                part = None
            seen = excerpt_of_container(self.recording, container, lambda: None)
            for name, other in (("blame", part), ("the excerpt", seen.history(container.id))):
                if (whole is None) != (other is None):
                    self._report(f"{name} and all histories", container.id)
                elif whole is not None and other is not None:
                    self._same(f"{name} of {container.id}", _of_history(whole), _of_history(other))
            mine = [one for each in self.rounds for one in _steps_of(each, container.id)]
            theirs = [one for each in seen.rounds for one in _steps_of(each, container.id)]
            self._same(f"steps of the excerpt of {container.id}", mine, theirs)
            failures = [_outcome(one) for one in self.rounds if one.container == container.id]
            others = [_outcome(one) for one in seen.rounds if one.container == container.id]
            self._same(f"failures in the excerpt of {container.id}", failures, others)
        for one in self._some_rounds():
            event = self.recording.event(one.event)
            assert event is not None
            found = excerpt_of_events(self.recording, [event]).round_of(one.event)
            if found is None:
                self._report("no round of an event", one.event)
            else:
                self._same(f"the round of event {one.event}", _of_round(one), _of_round(found))

    def _same_survey(self) -> None:
        mine: dict[int, set[tuple[str, ...]]] = {}
        for each in self.rounds:
            for step in each.steps:
                if step.owner.who in (OwnerKind.PLUGIN, OwnerKind.ONE_OF, OwnerKind.REQUEST):
                    asked = step.change.path or "/", str(step.owner), str(step.outcome.kind)
                    mine.setdefault(step.event, set()).add(asked)
        with surveyed(self.recording, None, needed=True):
            found = {
                event.id: {*zip(event.changed, event.owners, event.outcomes, strict=True)}
                for event in self.recording.events()
                if event.outcomes
            }
        self._same("events with requests in the survey", mine, found)
        for event, asked_for in found.items():
            self._same(f"requests of event {event} in the survey", mine.get(event, ()), asked_for)

    def _some_rounds(self) -> Iterator[RoundDiff]:
        some = [one for one in self.rounds if one.container and (one.failure or one.steps)]
        yield from some[:: max(1, len(some) // 3)]

    def _same(self, where: str, first: Iterable[object], second: Iterable[object]) -> None:
        ours, theirs = sorted(map(str, first)), sorted(map(str, second))
        if ours != theirs:
            only = [our for our in ours if our not in theirs]
            other = [their for their in theirs if their not in ours]
            self._report(f"not the same: {where}", only[:4], other[:4])

    def _same_json(self) -> None:
        renderer = JsonRenderer(live=False, quiet_unchanged=False)
        name_of = self.differ.name_of
        text = "".join(
            line for one in self.rounds for line in renderer.round(one, name_of)
        ) + "".join(renderer.end())
        told: dict[str, Any] = json.loads(text)
        self._same(
            "failures in JSON",
            [(one.event, one.failure, one.doubt) for one in self.rounds],
            [(one["id"], one["failure"], one["doubt"]) for one in told["events"]],
        )
        for key, is_change in (("changes", True), ("requests", False)):
            steps = [
                json.loads(json.dumps(step_record(step, name_of)))
                for each in self.rounds
                for step in each.steps
                if step.is_change is is_change
            ]
            own = {"again", "side_effect"}
            listed = [
                {name: value for name, value in one.items() if name not in own} for one in told[key]
            ]
            self._same(f"{key} in JSON", steps, listed)

    def _same_report(self) -> None:
        changed = {one.id: one for one in self.facts.changed}
        mine: dict[str, set[tuple[object, ...]]] = {}
        for each in self.rounds:
            for step in each.steps:
                mine.setdefault(step.container, set()).add(
                    (
                        step.event,
                        step.change.kind,
                        wording.glyph(step),
                        specs.label(step.change.path),
                        f"{wording.owner(step.owner)}, {wording.outcome(step)}",
                    )
                )
        for key, found in mine.items():
            if key not in changed:
                self._report("the report omits a container", key)
                continue
            rows = {(row.event, row.kind, row.sign, row.path, row.by) for row in changed[key].rows}
            if changed[key].rows_in_all == len(changed[key].rows):
                self._same(f"rows of the report on {key}", sorted(found), sorted(rows))
        for each in self.rounds:
            if each.name == _CREATE and each.failure and not changed[each.container].failure:
                last = [
                    one
                    for one in self.rounds
                    if one.name == _CREATE and one.container == each.container
                ][-1]
                if last is each:
                    self._report("the report omits a failure", each.event, each.failure)

    def _same_diagnosis(self) -> None:
        failing = {one.event for one in self.rounds if one.failure}
        found = {
            event
            for finding in self.facts.findings
            if finding.kind in (FindingKind.FAILED, FindingKind.CONFLICT)
            for event in finding.events
        }
        for one in self.rounds:
            if one.event in failing and not {*one.events} & found:
                self._report("the diagnosis omits a failure", one.event, one.failure)
        reported = {
            event for one in self.rounds if one.failure or one.doubt for event in one.events
        }
        decided = {
            one.event for one in self.rounds if any("failed" in each for each in one.remarks)
        }
        if not found <= reported | decided:
            self._report("the diagnosis invents a failure", sorted(found - reported))
        kinds = Counter(finding.kind for finding in self.facts.findings)
        if kinds.most_common(1) and kinds.most_common(1)[0][1] >= FINDINGS_OF_KIND_MAX:
            return
        for one in self.rounds:
            for asked in one.steps:
                if asked.outcome.kind is not OutcomeKind.DROPPED or one.failure:
                    continue
                if asked.owner.who is OwnerKind.RUNTIME:
                    continue
                about = {asked.event, asked.outcome.event, *one.events} - {0}
                if not any(
                    about & {*each.events} or asked.outcome.reason in each.detail
                    for each in self.facts.findings
                ):
                    self._report("the diagnosis omits a dropped request", _describe(asked))


def _at(spec: specs.Spec, path: str) -> specs.Json:
    found = specs.value_at(spec, path)
    return None if found is specs.ABSENT else found


def _in_range(owner: Owner, plugin: str) -> bool:
    """Return whether the owner's range includes the plugin's index."""
    index = plugin[:2]
    return (bool(owner.first) and owner.first <= index <= owner.last) or index in owner.ties


def _after(step: ChangeStep) -> specs.Json:
    return None if step.change.kind == "removed" else step.change.after


def _is_there(asked: specs.Json | specs.Absent, actual: specs.Json | specs.Absent) -> bool:
    if isinstance(asked, specs.Absent) or isinstance(actual, specs.Absent):
        return asked is actual
    return _is_value(asked, actual)


def _is_value(asked: specs.Json, actual: specs.Json) -> bool:
    """Return whether a value is there as asked for, with what a runtime fills in."""
    if specs.same(asked, actual):
        return True
    if isinstance(asked, dict) and isinstance(actual, dict):
        return all(specs.same(value, actual.get(key)) or not value for key, value in asked.items())
    return not asked and not actual


def _describe(step: ChangeStep) -> str:
    change, outcome = step.change, step.outcome
    shown = f" by {outcome.shown_by} {outcome.event}" if outcome.shown_by else ""
    return (
        f"event {step.event} {step.container} {change.kind} {change.path} {change.before!r} -> "
        f"{change.after!r} by {step.owner} ({wording.sources(step.evidence)}) {step.note}: "
        f"{outcome.kind}{shown} {outcome.reason}{'' if step.is_expected else ', not expected'}"
    )


def _outcome(one: RoundDiff) -> tuple[object, ...]:
    return one.event, one.name, one.failure, one.doubt


def _of_step(one: ChangeStep) -> tuple[object, ...]:
    record = step_record(one, str)
    return tuple(
        record[key]
        for key in (
            "container_id",
            "event",
            "op",
            "path",
            "before",
            "after",
            "owner",
            "evidence",
            "outcome",
        )
    )


def _steps_of(one: RoundDiff, container: str) -> list[tuple[object, ...]]:
    return [_of_step(each) for each in one.steps if each.container == container]


def _of_round(one: RoundDiff) -> list[tuple[object, ...]]:
    return [_outcome(one), *map(_of_step, one.steps)]


def _of_history(one: History) -> list[tuple[object, ...]]:
    return [
        (one.created_event, one.created, one.failure, one.doubt),
        *map(_of_step, one.steps),
    ]
