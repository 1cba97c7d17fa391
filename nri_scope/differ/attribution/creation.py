# SPDX-License-Identifier: Apache-2.0
"""Evaluate one CreateContainer in the chain, and find the owners of its changes.

Each connection shows the container as changed by all plugins before it. A plugin's own reply shows
its changes; further differences at the next connection are changes by plugins in between. The
runtime's own list of owners, if there is one, is compared last. A runtime that calls plugins in no
order, as iSulad does, is evaluated at the end of this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused
from nri_scope.events import Event, Role
from nri_scope.nri import merging
from nri_scope.nri.changes import requested_fields
from nri_scope.nri.merging import NOT_PASSED_ON, Dropped
from nri_scope.nri.no_change import is_empty_reply
from nri_scope.oci import isulad_spec
from nri_scope.oci.runtime_rules import RefusalRules
from nri_scope.specs import Change, Json, Spec

from .attributed_changes import (
    EVICTION,
    REQUESTED,
    ChangeStep,
    Evidence,
    Failure,
    FailureKind,
    Shows,
    dropped,
    refused,
)
from .hidden_changes import BY_CHANCE, HiddenChanges, maps_of, newest_steps
from .history import History
from .observed_round import CONTINUED, GONE, LOWEST, ConnectionPart, RoundChain, changes_of_chain
from .owner import BEFORE_ALL, RUNTIME, SPEC, Owner, one_of, plugin
from .round_results import (
    RequestedUpdate,
    RequestSource,
    RoundResults,
    evictions,
    path_of_change,
    standing,
    step,
    superseded_by,
    value_at,
)
from .validation import OwnerList, Validation

UNLESS_ITS_OWN = "no effect if the value is the runtime's own, not a plugin's"
"""Note on a plugin's removal if the plugins before it were not observed."""
Requests: TypeAlias = Sequence[tuple[ConnectionPart, api.CreateContainerRequest]]
"""The connections of one chain, each with its decoded request."""
_SWAP = "/linux/resources/memory/swap"
_ONLY_THE_LIMIT = "/linux/resources/memory/"


@dataclass(slots=True)
class CreationEvaluation:
    """The evaluation of one round and its request to validators, either of which may be missing.

    It follows the container through the observed connections of the chain.
    """

    parts: tuple[ConnectionPart, ...]
    owner_list: OwnerList | None
    chain: RoundChain
    created: bool
    """Whether later events show that the container was created."""
    results: RoundResults
    """Collector of the requests."""
    for_others: bool = False
    """Whether only the effects on other containers matter: a third of the time."""
    described: bytes = field(default=b"", init=False)
    """The message of which the container's spec after the chain is the conversion, see
    `oci.without_state`; b"" if the spec has other changes."""
    _id: str = field(default="", init=False)
    _base: Spec = field(default_factory=dict, init=False)
    """The container before the chain."""
    _expected: api.Container | None = field(default=None, init=False)
    """The container that the next plugin receives if no unobserved plugin changes it first."""
    _hidden: HiddenChanges = field(init=False)
    _removals: dict[str, frozenset[str]] = field(default_factory=dict, init=False)
    """The removed keys in each known reply, as paths with the mark of a removal."""
    _before_reply: dict[str, Spec] = field(default_factory=dict, init=False)
    """The container as received by each plugin whose reply is known."""
    _last: ConnectionPart | None = field(default=None, init=False)
    """The last observed connection so far."""

    def evaluate(self) -> History | None:
        """Add the requests to the results; return the container's states before and after its
        creation, or None without any message that can be decoded.
        """
        pairs = [
            (part, request)
            for part in self.parts
            if (request := part.request_as(api.CreateContainerRequest)) is not None
        ]
        return self._evaluate(pairs) if pairs or self.owner_list is not None else None

    def _evaluate(self, pairs: Requests) -> History:
        container, owner = self._initial_state(pairs)
        owner = replace(owner, origin=(self.owner_list or pairs[0][0]).rules.origin)
        self._id, self._expected = container.id, container
        if not self.for_others:
            self.described = oci.without_state(container)
            self._base = oci.spec_of(container, known=self.described)
        base, self._hidden = self._base, HiddenChanges(self._base)
        spec = self._follow(pairs)
        if self.for_others:
            return History(container.id)
        spec, tail, removers = self._validate(spec)
        spec = self._without_dropped(spec)
        self.results.supersede()
        if spec.get("mounts") != base.get("mounts"):
            spec = oci.sort_mounts(spec)
        if spec is not base:
            self.described = b""
        return History(self._id, "", base, owner, spec, tail=tail, removers=removers)

    def _initial_state(self, pairs: Requests) -> tuple[api.Container, Owner]:
        """Return the container before the chain, or as seen by the first connection, and the owner
        of its values.
        """
        if self.owner_list is not None:
            return self.owner_list.request.container, SPEC
        first, request = pairs[0]
        if self.is_replay:
            return request.container, SPEC
        if first.index == LOWEST:
            return request.container, BEFORE_ALL
        self.results.note(
            f"no connection before {first.plugin}: changes by plugins before it "
            f"are not told apart from what was there before ({first.rules.origin})"
        )
        before = self.chain.between(None, first, or_runtime=True)
        owner = SPEC if before == RUNTIME else replace(before, or_spec=before.or_runtime)
        return request.container, owner

    def _validate(self, spec: Spec) -> tuple[Spec, Owner, Mapping[str, Owner]]:
        """Return the spec after the request to validators, with the `tail` and the `removers` of
        the history.
        """
        last = self._last
        removers: Mapping[str, Owner] = {}
        has_tail = last is not None and not self.results.failure and not self.is_replay
        if self.owner_list is not None:
            validation = Validation(self.owner_list, self.chain, self.results, self._base)
            final = validation.end(spec, last, self._removals)
            has_tail = final is None
            spec = spec if final is None else final
            validation.compare(spec)
            removers = validation.removers
        tail = self.chain.between(last, None, or_runtime=True) if has_tail else RUNTIME
        return spec, tail, removers

    @property
    def is_replay(self) -> bool:
        """Whether nri-scope was the runtime, and so observed every plugin."""
        return bool(self.parts) and all(part.session.role == Role.REPLAY for part in self.parts)

    def _without_dropped(self, spec: Spec) -> Spec:
        """Undo what later plugins see and the runtime does not apply; settle these requests."""
        if self.results.failure:
            return spec
        for number in standing(self.results.steps):
            # Changes that no observed reply requested.
            made = self.results.steps[number]
            reason = _never_applied(made.change.path)
            if reason and self._last is not None and self._last.rules.adjusts_as_upstream:
                made.settle(dropped(reason))
        observed = self._last or self.owner_list
        if observed is not None and observed.rules.refusals is not None:
            self._settle_by(observed.rules.refusals, spec)
        newest = newest_steps(each for each in self.results.steps if each.is_expected)
        cancelled = {path: each for path, each in newest.items() if not each.has_effect}
        back: list[Change] = []
        for path in cancelled:
            now, first = specs.value_at(spec, path), specs.value_at(self._base, path)
            if not specs.same(now, first):
                back.append(specs.whole_change(path, now, first))
        for request in self.results.steps:
            later = cancelled.get(request.change.path)
            if later is not None and request.has_effect:
                # The value before the chain stays, not that of an earlier plugin.
                request.exclude(superseded_by(later))
        return specs.apply(spec, back) if back else spec

    def _settle_by(self, rules: RefusalRules, spec: Spec) -> None:
        """Settle the requests that the runtime refuses or drops. `spec`: after the chain."""
        updates = [*self.results.updates]
        if self.owner_list is not None:
            updates += self.owner_list.updates(self.chain.between(None, None))
        refusals = [(each.source.owner, rules.updates) for each in updates]
        remaining = set(standing(self.results.steps))
        for number, made in enumerate(self.results.steps):
            if made.container != self._id or not made.is_open:
                continue
            path, value = made.change.path, made.change.after
            if path.startswith("/mounts/") and path.count("/") > 2:
                # A part of a mount was replaced.
                path = "/".join(path.split("/")[:3])
                value = value_at(spec, path)
            refusal, reason = rules.treatment(path, value)
            if reason:
                made.settle(dropped(reason))
            elif refusal and number in remaining:
                made.settle(refused(refusal, Shows.RULE))
                refusals.append((made.owner, refusal))
        if error := rules.error_of(refusal for _, refusal in refusals):
            kind = error.partition(":")[0]
            owner = next(owner for owner, refusal in refusals if refusal.startswith(kind))
            self.results.fail(Failure(FailureKind.REFUSED, f"{owner}: {error}"))

    def _follow(self, pairs: Requests) -> Spec:
        """Return the spec after the last connection, and add the requests to the results."""
        spec = self._base
        for part, request in pairs:
            spec = self._add_unseen(spec, part, request)
            spec = self._add_reply(spec, part, request)
            self._last = part
            if self.results.failure:
                break
        return self._undo_conflict(spec, pairs)

    def _add_unseen(
        self, spec: Spec, part: ConnectionPart, request: api.CreateContainerRequest
    ) -> Spec:
        """Apply to `spec` the changes made between the last connection and `part`."""
        if self.for_others or request.container == self._expected:
            return spec
        shown = self._hidden.apply_to(oci.spec_of(request.container))
        if self._last is None and self.owner_list is None:
            return shown
        between = self.chain.between(self._last, part)
        for change in changes_of_chain(spec, shown):
            self.results.steps.append(self._unseen_step(change, between, part.event))
        self._expected = request.container
        return shown

    def _unseen_step(self, change: Change, between: Owner, event: Event) -> ChangeStep:
        """Return a step for a difference of two snapshots, made by plugins `between` them."""
        made = step(self._id, change, RequestSource(between, Evidence.PROBES, event))
        owners = self.owner_list
        if owners is None or change.kind == "moved":
            # Several lists of moves lead to the same order, so validators name no owner of a move.
            return made
        names = [name for name in owners.owners_of(self._id, change.path) if between.may_be(name)]
        if not names:
            return made
        # The field's last owner is a possible owner of this change. If a later plugin changed the
        # field again, `Validation.compare` detects that.
        evidence = (*made.evidence, Evidence.VALIDATOR)
        return replace(made, owner=one_of(*names), evidence=evidence)

    def _add_reply(
        self, spec: Spec, part: ConnectionPart, request: api.CreateContainerRequest
    ) -> Spec:
        """Return the spec with the changes that the plugin behind `part` requested."""
        source = RequestSource.of(part)
        if part.is_error:
            self.results.fail(part.error)
            return spec
        reply = part.reply_as(api.CreateContainerResponse)
        if reply is None or is_empty_reply(reply):
            return spec
        merged = merging.CreationMerging(request, version=part.version)
        try:
            merged.apply(reply, part.plugin)
        except AdjustmentRefused as error:
            self._refuse_reply(spec, reply.adjust, source, Failure.of(error))
            return spec
        if not self.for_others:
            spec = self._add_changes(spec, merged, reply, part)
        self.results.updates += [
            RequestedUpdate(source, each, merged=True) for each in reply.update
        ]
        self.results.steps += evictions(source, reply.evict, part.rules)
        return spec

    def _add_changes(
        self,
        spec: Spec,
        merged: merging.CreationMerging,
        reply: api.CreateContainerResponse,
        part: ConnectionPart,
    ) -> Spec:
        """Return the spec after a reply that `merged` contains, and add its changes."""
        source = RequestSource.of(part)
        remarks = oci.remarks(reply.adjust, spec, rules=part.rules)
        empty = oci.empty_cpu_set(reply.adjust.linux.resources)
        self._expected = merged.request.container
        shown = oci.spec_of(merged.request.container)
        by_chance = REQUESTED._replace(reason=BY_CHANCE)
        for path in self._hidden.add(merged.adjustment, shown):
            removal = f"-{specs.split(path)[-1]}"
            self.results.ask(self._id, path, removal, source, by_chance)
        self._before_reply[part.plugin] = spec
        self._removals[part.plugin] = frozenset(
            specs.pointer(path, key)
            for path, keys in maps_of(reply.adjust)
            for key in keys
            if key.startswith("-")
        )
        after = self._hidden.apply_to(shown)
        changes = changes_of_chain(spec, after)
        for change in changes:
            self.results.steps.append(step(self._id, change, source))
        self._settle_dropped(merged.dropped, reply, spec, part)
        if part.rules.refusals is not None:
            # `_without_dropped` settles these: a later plugin may replace them.
            paths = {change.path for change in changes}
            for remark in remarks:
                if not specs.touches(remark.path, paths):
                    self.results.ask(self._id, remark.path, remark.value, source, REQUESTED)
            return after
        for remark in (*remarks, *empty):
            path = path_of_change(remark, changes)
            self.results.add_remark(self._id, source, remark._replace(path=path))
        return after

    def _settle_dropped(
        self,
        lost_fields: Iterable[Dropped],
        reply: api.CreateContainerResponse,
        spec: Spec,
        part: ConnectionPart,
    ) -> None:
        """Settle the requests for the fields that merging drops.

        The removal of a member only cancels the value of an earlier plugin; the runtime keeps its
        own value.
        """
        source = RequestSource.of(part)
        made = newest_steps(each for each in self.results.steps if each.event == part.event.id)
        wanted = oci.adjust(spec, reply.adjust)
        for lost in lost_fields:
            if lost.container_id != self._id or lost.path == EVICTION:
                continue
            outcome = dropped(lost.reason)
            asked = made.get(lost.path)
            if lost.reason == NOT_PASSED_ON:
                if self.owner_list is None and not self.is_replay:
                    if asked is not None:
                        asked.leave_open(UNLESS_ITS_OWN)
                    continue
                if specs.value_at(self._base, lost.path) is specs.ABSENT:
                    continue
            if asked is not None:
                asked.settle(outcome)
                continue
            value: Json = value_at(wanted, lost.path)
            if value is None and specs.value_at(spec, lost.path) is specs.ABSENT:
                value = lost.value
            elif value is None:
                value = f"-{specs.split(lost.path)[-1]}"
            self.results.ask(self._id, lost.path, value, source, outcome)

    def _refuse_reply(
        self,
        spec: Spec,
        adjustment: api.ContainerAdjustment,
        source: RequestSource,
        failure: Failure,
    ) -> None:
        self.results.fail(failure)
        fields = {path for path, _ in requested_fields(adjustment)}
        for change in changes_of_chain(spec, oci.adjust(spec, adjustment)):
            # Any adjustment of variables merges those of the same name.
            if not specs.touches(change.path, fields):
                continue
            asked = step(self._id, change, source, outcome=refused(failure.text), is_expected=False)
            self.results.steps.append(asked)

    def _undo_conflict(self, spec: Spec, pairs: Requests) -> Spec:
        """Undo the changes of the plugin whose reply made the round fail."""
        was_accepted = self.created or self.owner_list is not None
        if self.results.cause or was_accepted:
            return spec
        culprit, failure = _refusal(pairs)
        if failure is None:
            return spec
        self.results.fail(failure)
        for request in self.results.steps:
            if request.owner == plugin(culprit):
                request.exclude(refused(failure.text))
        return self._before_reply.get(culprit, spec)


def _refusal(pairs: Requests) -> tuple[str, Failure | None]:
    """Return the plugin whose reply made the round fail, and the error; "" and None for none.

    If the chain continued after a conflict, an unobserved plugin had removed the value in between.
    """
    replies = [
        (part, reply)
        for part, _ in pairs
        if (reply := part.reply_as(api.CreateContainerResponse)) is not None
        and not is_empty_reply(reply)
    ]
    if not replies:
        return "", None
    first, request = pairs[0]
    merged = merging.CreationMerging(request, version=first.version)
    for part, reply in replies:
        try:
            merged.apply(reply, part.plugin)
        except AdjustmentRefused as error:
            return (part.plugin, Failure.of(error)) if part is pairs[-1][0] else ("", None)
    return "", None


def _never_applied(path: str) -> str:
    """Return the reason why runtimes never apply an adjustment of `path`; "" for other paths."""
    if not path.startswith(_ONLY_THE_LIMIT) or path in (_SWAP, f"{_ONLY_THE_LIMIT}limit"):
        return ""
    return oci.ONLY_THE_LIMIT


class UnorderedCreation(CreationEvaluation):
    """The evaluation of a creation in which all plugins received the original container."""

    __slots__ = ()

    def _evaluate(self, pairs: Requests) -> History:
        if not pairs:
            return super()._evaluate(pairs)
        first, request = pairs[0]
        container = request.container.id
        base = spec = oci.spec_of(request.container)
        merged = merging.IsuladCreation(request, version=first.version)
        if not self.is_replay:
            self.results.note(first.rules.blind_spot)
        for part, _ in pairs:
            event, source = part.event, RequestSource.of(part)
            if event.status_code not in (0, *GONE):
                self.results.note(f"{part.error.text}; {CONTINUED}")
            reply = part.reply_as(api.CreateContainerResponse)
            if reply is None or (part.is_passive and is_empty_reply(reply)):
                continue
            known = len(merged.dropped)
            try:
                merged.apply(reply, part.plugin)
            except AdjustmentRefused as error:
                text = f"{part.plugin}: {error.problem}"
                self.results.fail(Failure(FailureKind.OTHER, text))
                break
            own = isulad_spec.as_requested(merged.applied[-1][1])
            after = isulad_spec.adjust(spec, own)
            for lost in merged.dropped[known:]:
                target, outcome = lost.container_id or container, dropped(lost.reason)
                self.results.ask(target, lost.path, lost.value, source, outcome)
            notes = isulad_spec.notes(merged, part.plugin)
            for change in specs.changes(spec, after):
                note = notes.get(change.path, "")
                self.results.steps.append(step(container, change, source, note))
            spec = after
        refusal = isulad_spec.creation_refusal(merged)
        if refusal is not None:
            text = f"{refusal.plugin}: {refusal.reason}"
            self.results.fail(Failure(FailureKind.REFUSED, text))
        refusal = refusal or isulad_spec.start_refusal(merged)
        if refusal is not None:
            for each in self.results.steps:
                if each.owner == plugin(refusal.plugin) and each.change.path in refusal.paths:
                    each.settle(refused(refusal.reason, Shows.RULE))
                    each.annotate("")
        self.results.supersede()
        tail = RUNTIME if self.is_replay else self.chain.between(None, None, or_runtime=True)
        return History(container, "", base, SPEC, spec, tail=tail)
