# SPDX-License-Identifier: Apache-2.0
"""Compare every statement of the differ about a recording with the real outcome."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from nri_scope import oci, specs
from nri_scope.differ import excerpt
from nri_scope.differ.attribution.attributed_changes import (
    EVICTION,
    Applied,
    ChangeStep,
    Evidence,
    PluginRequest,
    RequestFate,
    RoundDiff,
)
from nri_scope.differ.attribution.differ import Differ
from nri_scope.differ.attribution.history import History
from nri_scope.differ.attribution.owner import Owner, OwnerKind
from nri_scope.differ.blame.document import document
from nri_scope.differ.blame.owned_lines import OwnedLine, lines
from nri_scope.differ.json_records import asked_record, step_record
from nri_scope.differ.recording_differ import blame, differ_of, histories, rounds
from nri_scope.differ.render import wording
from nri_scope.differ.render.document import JsonRenderer
from nri_scope.errors import UsageError
from nri_scope.recording.reader import Recording
from nri_scope.report.collect import collect
from nri_scope.report.finding import FindingKind
from nri_scope.report.report_data import Facts

from .chains import includes, related
from .node import GHOST, Creation, Life, Node

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
            for asked in one.asked:
                self._check_request(one, asked)
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
        if step.change.kind != "moved" and _ODD not in step.change.path and not unknown:
            self._check_owner(step)
        self._check_applied(step)
        if step.event in one.events and Evidence.EVENTS in step.evidence:
            for creation in self.node.creations:
                undone = {*creation.undoing} & {*one.events}
                if creation.failure and undone and step.container == creation.container:
                    self._report("a change by an undone creation", _describe_step(step))

    def _check_owner(self, step: ChangeStep) -> None:
        operation = self.node.operation_of[step.event]
        path = step.change.path
        later = Evidence.EVENTS in step.evidence or Evidence.CRI in step.evidence
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
        self._report(
            "the wrong owner", _describe_step(step), f"it was one of {sorted(set(claims))}"
        )

    def _is_runtimes(self, step: ChangeStep, operation: int) -> bool:
        """Return whether the runtime, rather than a requester, set the value."""
        life = self._life(step.container)
        base = self._before(step.container, operation)
        after = step.change.after if step.change.kind != "removed" else None
        first = _at(base, step.change.path)
        if specs.same(first, after):
            return True
        if life is None or step.change.path == _SWAP:
            return True
        actual = self._value(life, step.change.path, operation)
        return not specs.same(actual, after)

    # -- outcomes -------------------------------------------------------------------------------

    def _check_applied(self, step: ChangeStep) -> None:
        if step.applied is None:
            return
        self.verdict.count("applied")
        life = self._life(step.container)
        if life is None or step.change.kind == "moved" or _ODD in step.change.path:
            return
        path = step.change.path
        after = None if step.change.kind == "removed" else step.change.after
        values = [self._value(life, path, number) for number, *_ in life.past]
        if step.applied is not Applied.YES and any(specs.same(one, after) for one in values[-1:]):
            self._report("applied, and said not to be", _describe_step(step), step.applied)

    def _check_request(self, one: RoundDiff, asked: PluginRequest) -> None:
        self.verdict.count("request", unknown=asked.fate is RequestFate.UNKNOWN)
        operation = self.node.operation_of[asked.event]
        claims = [
            claim.plugin
            for claim in self.node.claims
            if claim.container == asked.container and claim.operation <= operation
            if not asked.path or (claim.path and related(claim.path, asked.path))
        ]
        evicts = asked.path == EVICTION
        requested = asked.owner.who is OwnerKind.REQUEST
        if (
            not evicts
            and not requested
            and asked.owner.who is not OwnerKind.UNKNOWN
            and not any(
                includes(asked.owner, plugin) or _in_range(asked.owner, plugin) for plugin in claims
            )
            and not (not asked.path and asked.container == GHOST)
        ):
            self._report(
                "the wrong requester", _describe_request(asked), f"it was {sorted(set(claims))}"
            )
        if asked.fate is not RequestFate.NOT_APPLIED or evicts or _ODD in asked.path:
            return
        life = self._life(asked.container)
        if life is None:
            return
        if not asked.path:
            ended = life.ended and life.ended <= operation
            if life.past and life.past[0][0] <= operation and not ended:
                self._report(
                    "an update of an existing container, called not applied",
                    _describe_request(asked),
                )
            return
        creation = self._creation_at(asked.container, operation)
        if creation is not None and creation.failure:
            return
        before = self._before(asked.container, operation)
        if creation is not None and len(asked.owner.plugins) == 1:
            before = creation.found.get(asked.owner.plugins[0], before)
        removal = asked.value == f"-{specs.split(asked.path)[-1]}"
        wanted = None if removal else asked.value
        first, now = _at(before, asked.path), self._value(life, asked.path, operation)
        if specs.same(now, wanted) and not specs.same(first, wanted):
            others = set(claims) - set(asked.owner.plugins)
            if not others:
                self._report("in effect, but called not applied", _describe_request(asked))

    def _value(self, life: Life, path: str, operation: int) -> specs.Json:
        real, effects = life.after(operation)
        if path in effects:
            return effects[path]
        if path.count("/") > 4:
            above = path.rpartition("/")[0]
            if above in effects:
                return None
        return _at(real, path)

    def _life(self, container: str) -> Life | None:
        return self.node.lives.get(container)

    def _creation_at(self, container: str, operation: int) -> Creation | None:
        return next(
            (
                one
                for one in self.node.creations
                if one.container == container and one.operation == operation
            ),
            None,
        )

    def _before(self, container: str, operation: int) -> specs.Spec:
        creation = self._creation_at(container, operation)
        if creation is not None:
            return creation.before
        life = self._life(container)
        return {} if life is None else life.after(operation - 1)[0]

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
        blame_document = document(history, lines(history))
        if life is None:
            if blame_document["container"]["created"]:  # type: ignore[index, call-overload]
                self._report("never created, and blame says that it was", container)
            return
        creations = [one for one in self.node.creations if one.container == container]
        if history.failure and creations and not creations[-1].failure:
            self._report("created, and blame calls it failed", container, history.failure)
        for line in lines(history):
            if not line.there or line.heading or _ODD in line.path:
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
                if not any(includes(owner, one) for one in claims) and not owner.or_runtime:
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
            if (
                line.path.startswith("/annotations/")
                and specs.split(line.path)[-1] in life.requested
            ):
                # Later events show the requested annotation, even if it was not applied.
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

    def _runtimes_own(self, life: Life, line: OwnedLine, creations: list[Creation]) -> None:
        """Check a line owned by the runtime: no plugin set its value."""
        first = creations[-1].before if creations else life.past[0][1]
        if specs.same(_at(first, line.path), line.value) or line.path == _SWAP:
            return
        if line.path.startswith("/linux/resources/devices/"):
            # The runtime adds a rule for each device.
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
        for container in self.recording.containers():
            whole = self.histories.get(container.id)
            try:
                part = blame(self.recording, container)
            except UsageError:
                part = None
            seen = excerpt.of_container(self.recording, container, lambda: None)
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
            found = excerpt.of_event(self.recording, event, lambda: None).round_of(one.event)
            if found is None:
                self._report("no round of an event", one.event)
            else:
                self._same(f"the round of event {one.event}", _of_round(one), _of_round(found))

    def _some_rounds(self) -> Iterator[RoundDiff]:
        some = [
            one for one in self.rounds if one.container and (one.failure or one.steps or one.asked)
        ]
        yield from some[:: max(1, len(some) // 3)]

    def _same(self, where: str, first: Iterable[object], second: Iterable[object]) -> None:
        ours, theirs = sorted(map(str, first)), sorted(map(str, second))
        if ours != theirs:
            only = [one for one in ours if one not in theirs]
            other = [one for one in theirs if one not in ours]
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
        requests = [
            json.loads(json.dumps(asked_record(each, name_of)))
            for one in self.rounds
            for each in one.asked
        ]
        self._same(
            "requests in JSON", requests, [each for one in told["events"] for each in one["asked"]]
        )
        steps = Counter(
            (one.container, one.event, one.change.path, one.change.kind)
            for each in self.rounds
            for one in each.steps
        )
        kinds = {"add": "added", "remove": "removed", "replace": "changed", "move": "moved"}
        listed = Counter(
            (one["container_id"], one["event"], one["path"], kinds[one["op"]])
            for one in told["changes"]
        )
        self._same("changes in JSON", sorted(steps), sorted(listed))

    def _same_report(self) -> None:
        changed = {one.id: one for one in self.facts.changed}
        mine: dict[str, set[tuple[int, str, str, str]]] = {}
        requests: dict[str, set[tuple[str, str]]] = {}
        for each in self.rounds:
            for one in each.steps:
                mine.setdefault(one.container, set()).add(
                    (
                        one.event,
                        one.change.kind,
                        specs.label(one.change.path),
                        wording.owner(one.owner),
                    )
                )
            for asked in wording.unnoted(each.asked, each.steps):
                requests.setdefault(asked.container, set()).add(
                    (wording.FATES[asked.fate], wording.request(asked))
                )
        for key, found in mine.items():
            if key not in changed:
                self._report("the report omits a container", key)
                continue
            rows = {
                (
                    one.event,
                    one.kind,
                    one.path,
                    one.by.split(", applied")[0].split(", not applied")[0],
                )
                for one in changed[key].rows
            }
            if changed[key].rows_in_all == len(changed[key].rows):
                self._same(f"rows of the report on {key}", sorted(found), sorted(rows))
        for key, asked_for in requests.items():
            listed = set(changed[key].requests) if key in changed else set()
            if not asked_for <= listed and len(listed) < 40:
                self._report("the report omits requests", key, sorted(asked_for - listed)[:3])
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
            for one in self.facts.findings
            if one.kind in (FindingKind.FAILED, FindingKind.CONFLICT)
            for event in one.events
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
        dropped = [one for one in self.facts.findings if one.kind is FindingKind.DROPPED]
        for one in self.rounds:
            for asked in one.asked:
                if (
                    asked.fate is RequestFate.NOT_APPLIED
                    and not one.failure
                    and not any(
                        asked.reason in each.detail
                        or each.detail.endswith("….")
                        or "…" in each.detail
                        for each in dropped
                    )
                ):
                    self._report("the diagnosis omits a dropped request", _describe_request(asked))


def _at(spec: specs.Spec, path: str) -> specs.Json:
    found = specs.value_at(spec, path)
    return None if found is specs.ABSENT else found


def _in_range(owner: Owner, plugin: str) -> bool:
    """Return whether the owner's range includes the plugin's index."""
    index = plugin[:2]
    return (bool(owner.first) and owner.first <= index <= owner.last) or index in owner.ties


def _describe_step(step: ChangeStep) -> str:
    change = step.change
    return (
        f"event {step.event} {step.container} {change.kind} {change.path} {change.before!r} -> "
        f"{change.after!r} by {step.owner} ({wording.sources(step.evidence)}) {step.note}"
    )


def _describe_request(one: PluginRequest) -> str:
    request = f"event {one.event} {one.container} {one.path} = {one.value!r}"
    return f"{request} by {one.owner}, {one.fate}: {one.reason}"


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
            "applied",
        )
    )


def _of_asked(one: PluginRequest) -> tuple[object, ...]:
    return one.container, one.event, one.path, one.value, str(one.owner), one.fate, one.reason


def _steps_of(one: RoundDiff, container: str) -> list[tuple[object, ...]]:
    return [_of_step(each) for each in one.steps if each.container == container] + [
        _of_asked(each) for each in one.asked if each.container == container
    ]


def _of_round(one: RoundDiff) -> list[tuple[object, ...]]:
    return [_outcome(one), *map(_of_step, one.steps), *map(_of_asked, one.asked)]


def _of_history(one: History) -> list[tuple[object, ...]]:
    return [
        (one.created_event, one.created, one.failure, one.doubt),
        *map(_of_step, one.steps),
        *sorted(map(_of_asked, one.asked), key=str),
    ]
