# SPDX-License-Identifier: Apache-2.0
"""Evaluate one CreateContainer in the chain, and find the owners of its changes.

Each connection shows the container as changed by all plugins before it. A plugin's own reply shows
its changes; further differences at the next connection are changes by plugins in between. The
runtime's own list of owners, if there is one, is compared last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.entries import OperationFate, OperationOutcome
from nri_scope.errors import AdjustmentRefused
from nri_scope.events import Event, Role
from nri_scope.nri import merging
from nri_scope.nri.changes import requested_fields
from nri_scope.nri.merging import NOT_PASSED_ON, Dropped
from nri_scope.nri.no_change import is_empty_reply
from nri_scope.recording.display import duration
from nri_scope.specs import Change, Json, Spec

from .attributed_changes import (
    EVICTION,
    REQUESTED,
    ChangeStep,
    Evidence,
    Failure,
    FailureKind,
    confirmed,
    dropped,
    refused,
)
from .chain import LOWEST, Chain, changes_of_chain
from .findings import (
    Findings,
    RequestedUpdate,
    RequestSource,
    evictions,
    path_of_change,
    standing,
    step,
    superseded_by,
    value_at,
)
from .hidden_changes import BY_CHANCE, HiddenChanges, maps_of, newest_steps
from .history import History
from .observed_round import ConnectionPart
from .owner import BEFORE_ALL, RUNTIME, SPEC, Owner, one_of, plugin
from .owner_list import OwnerList
from .validation import Validation

UNLESS_ITS_OWN = "no effect if the value is the runtime's own, not a plugin's"
"""Note on a plugin's removal if the plugins before it were not observed."""
Requests: TypeAlias = Sequence[tuple[ConnectionPart, api.CreateContainerRequest]]
"""The connections of one chain, each with its decoded request."""
_SWAP = "/linux/resources/memory/swap"
_ONLY_THE_LIMIT = "/linux/resources/memory/"


NOT_KNOWN = "it is not known whether the container was created"
UPDATES_OF_FAILED = "it was requested in a creation that failed later"
UPDATES_OF_OPEN = "it was requested in a creation whose outcome is unknown"


class CreationVerdict(NamedTuple):
    """The result of a creation, as far as evidence shows it."""

    cause: Failure | None
    """The failure; None if nothing shows one."""
    doubt: str
    """Reason why the result is unknown; "" if it is known."""
    is_explained: bool
    """Whether the creation's own chain or validators show the failure."""
    updates_doubt: str = ""
    """Reason why it is unknown whether its updates of other containers were applied."""
    open_ns: int = 0
    """Time from the creation to the end of the observation, in ns; 0 if that is no reason."""

    @classmethod
    def of(
        cls,
        outcome: OperationOutcome,
        cause: Failure | None,
        early_end: Callable[[], Failure | None],
    ) -> CreationVerdict:
        """Return whether a creation failed.

        ``outcome``: by later events; ``cause``: what messages show; ``early_end``: returns the
        failure of a chain that did not reach its end.
        """
        is_failed, doubt = outcome.fate is OperationFate.FAILED, ""
        if outcome.fate is OperationFate.CREATED:
            cause = None
        elif not cause:
            cause = early_end()
            if not is_failed and cause and cause.kind is FailureKind.CHAIN_SEEMS_ENDED:
                doubt, cause = cause.text, None
        is_explained = cause is not None
        if is_failed:
            # Updates of other containers may have been applied before it failed.
            updates_doubt = "" if is_explained else UPDATES_OF_FAILED
            return cls(confirmed(cause, outcome.words), "", is_explained, updates_doubt)
        if outcome.fate is OperationFate.OPEN and cause is None:
            doubt = f"{outcome.words}, {duration(outcome.after_ns)} later: {NOT_KNOWN}"
            return cls(None, doubt, is_explained, UPDATES_OF_OPEN, outcome.after_ns)
        return cls(cause, doubt, is_explained)

    def settle(self, findings: Findings) -> None:
        """Set the failure or the doubt of a creation, and the outcome of its requests."""
        findings.cause, findings.doubt, findings.open_ns = self.cause, self.doubt, self.open_ns
        if self.cause is not None:
            findings.refuse(self.cause.text, is_explained=self.is_explained)
        elif self.doubt:
            findings.leave_open(self.doubt)


@dataclass(slots=True)
class CreationEvaluation:
    """The evaluation of one round and its request to validators, either of which may be missing;
    after `evaluate` with the results.
    """

    parts: tuple[ConnectionPart, ...]
    owner_list: OwnerList | None
    created: bool
    """Whether later events show that the container was created."""
    chain: Chain = field(default_factory=Chain)
    findings: Findings = field(default_factory=Findings)
    id: str = ""
    container: api.Container = field(default_factory=api.Container)
    """The container as seen by the first connection."""
    base_owner: Owner = SPEC
    """The owner of the values in `base`."""
    spec: Spec = field(default_factory=dict)
    """The spec at the end of the chain."""
    tail: Owner = RUNTIME
    """Plugins that may have changed the container after the last observed connection; RUNTIME for
    none."""
    removers: Mapping[str, Owner] = field(default_factory=dict)
    """Plugins that may have removed a key which another plugin set, by path."""
    described: bytes = b""
    """The message of which `spec` is the conversion, see `oci.without_state`; b"" if it has other
    changes."""
    expected: api.Container = field(default_factory=api.Container)
    """The container that the next plugin receives if no unobserved plugin changes it first."""
    hidden: HiddenChanges = field(default_factory=lambda: HiddenChanges({}))
    base: Spec = field(default_factory=dict)
    """The container before the chain, or as seen by the first connection."""
    removals: dict[str, frozenset[str]] = field(default_factory=dict)
    """The removed keys in each known reply, as paths with the mark of a removal."""
    before_reply: dict[str, Spec] = field(default_factory=dict)
    """The container as received by each plugin whose reply is known."""

    def evaluate(self) -> bool:
        """Set the results; return whether any message could be decoded."""
        self.chain = Chain.of(self.parts, self.owner_list.plugins if self.owner_list else ())
        pairs = [
            (part, request)
            for part in self.parts
            if (request := part.request_as(api.CreateContainerRequest)) is not None
        ]
        if not pairs and self.owner_list is None:
            return False
        self._evaluate(pairs)
        return True

    def history(self, name: str, events: tuple[int, int], *, is_certain: bool) -> History:
        """Return the beginning of the container's history, after `CreationVerdict.settle`.

        ``events``: the first and the last one of the creation; ``is_certain``: whether evidence
        shows that the container was created.
        """
        return History(
            self.id,
            name,
            self.base,
            self.base_owner,
            self.spec,
            [each for each in self.findings.steps if each.container == self.id],
            created_event=events[0],
            created_until=events[1],
            created=is_certain,
            failure=self.findings.failure,
            tail=self.tail,
            doubt=self.findings.doubt,
            removers=self.removers,
            remarks=list(self.findings.remarks),
        )

    def _evaluate(self, pairs: Requests) -> None:
        self.container, self.base_owner = self._initial_state(pairs)
        self.id = self.container.id
        described = oci.without_state(self.container)
        self.base = oci.spec_of(self.container, known=described)
        self.hidden = HiddenChanges(self.base)
        self.expected = self.container
        spec, last = self._follow_connections(pairs, self.base)
        spec = self._validate(spec, last)
        spec = self._without_dropped(spec, last)
        self.findings.supersede()
        if spec.get("mounts") != self.base.get("mounts"):
            spec = oci.sort_mounts(spec)
        self.spec = spec
        self.described = described if spec is self.base else b""

    def _initial_state(self, pairs: Requests) -> tuple[api.Container, Owner]:
        """Return the container before the chain, or as seen by the first connection, and the owner
        of its values.
        """
        if self.owner_list is not None:
            return self.owner_list.request.container, SPEC
        first, request = pairs[0]
        if self._is_replay():
            return request.container, SPEC
        if first.index == LOWEST:
            return request.container, BEFORE_ALL
        self.findings.note(
            f"no connection before {first.plugin}: changes by plugins before it "
            "are not told apart from the pod spec"
        )
        before = self.chain.between(None, first, or_runtime=True)
        owner = SPEC if before == RUNTIME else replace(before, or_spec=before.or_runtime)
        return request.container, owner

    def _follow_connections(
        self, pairs: Requests, spec: Spec
    ) -> tuple[Spec, ConnectionPart | None]:
        """Return the spec after the observed connections, and the last of them; None for none."""
        last: ConnectionPart | None = None
        for part, request in pairs:
            spec = self._add_unseen(spec, last, part, request)
            spec = self._add_reply(spec, part, request)
            last = part
            if self.findings.failure:
                break
        return self._undo_conflict(spec, tuple(part for part, _ in pairs)), last

    def _validate(self, spec: Spec, last: ConnectionPart | None) -> Spec:
        """Return the spec after the request to validators, and set `tail` and `removers`."""
        has_tail = last is not None and not self.findings.failure and not self._is_replay()
        if self.owner_list is not None:
            validation = Validation(self.owner_list, self.chain, self.findings, self.base)
            end = validation.end(spec, last, self.removals)
            has_tail = end is None
            spec = spec if end is None else end
            validation.compare(spec)
            self.removers = validation.removers
        if has_tail:
            self.tail = self.chain.between(last, None, or_runtime=True)
        return spec

    def _is_replay(self) -> bool:
        """Return whether nri-scope was the runtime, and so observed every plugin."""
        return bool(self.parts) and all(part.session.role == Role.REPLAY for part in self.parts)

    def _without_dropped(self, spec: Spec, last: ConnectionPart | None) -> Spec:
        """Undo what later plugins see and the runtime does not apply; settle these requests."""
        if self.findings.failure:
            return spec
        for number in standing(self.findings.steps):
            # Changes that no observed reply requested.
            made = self.findings.steps[number]
            reason = _never_applied(made.change.path)
            if reason and last is not None and last.rules.adjusts_as_upstream:
                made.outcome = dropped(reason)
        newest = newest_steps(each for each in self.findings.steps if each.is_expected)
        cancelled = {path: each for path, each in newest.items() if not each.has_effect}
        back = [change for path in cancelled if (change := self._undoing(path, spec)) is not None]
        for request in self.findings.steps:
            later = cancelled.get(request.change.path)
            if later is not None and request.has_effect:
                # The value before the chain stays, not that of an earlier plugin.
                request.outcome, request.is_expected = superseded_by(later), False
        return specs.apply(spec, back) if back else spec

    def _undoing(self, path: str, spec: Spec) -> Change | None:
        """Return the change that restores the value before the chain; None if it is unchanged."""
        now, first = specs.value_at(spec, path), specs.value_at(self.base, path)
        return None if specs.same(now, first) else specs.whole_change(path, now, first)

    def _add_unseen(
        self,
        spec: Spec,
        after: ConnectionPart | None,
        part: ConnectionPart,
        request: api.CreateContainerRequest,
    ) -> Spec:
        """Apply to `spec` the changes made between `after` and `part`."""
        if request.container == self.expected:
            return spec
        shown = self.hidden.apply_to(oci.spec_of(request.container))
        if after is None and self.owner_list is None:
            return shown
        between = self.chain.between(after, part)
        for change in changes_of_chain(spec, shown):
            self.findings.steps.append(self._unseen_step(change, between, part.event))
        self.expected = request.container
        return shown

    def _unseen_step(self, change: Change, between: Owner, event: Event) -> ChangeStep:
        """Return a step for a difference of two snapshots, made by plugins `between` them."""
        made = step(self.id, change, RequestSource(between, Evidence.PROBES, event))
        if self.owner_list is None or change.kind == "moved":
            # Several lists of moves lead to the same order, so validators name no owner of a move.
            return made
        names = tuple(
            name for name in self.owner_list.owners_of(self.id, change.path) if between.may_be(name)
        )
        if not names:
            return made
        # The field's last owner is a possible owner of this change. If a later plugin changed the
        # field again, `Validation.compare` detects that.
        made.owner, made.evidence = one_of(*names), (*made.evidence, Evidence.VALIDATOR)
        return made

    def _add_reply(
        self, spec: Spec, part: ConnectionPart, request: api.CreateContainerRequest
    ) -> Spec:
        """Return the spec with the changes that the plugin behind `part` requested."""
        source = RequestSource.of(part)
        if part.is_error:
            self.findings.fail(part.error)
            return spec
        reply = part.reply_as(api.CreateContainerResponse)
        if reply is None or is_empty_reply(reply):
            return spec
        version = part.version
        merged = merging.CreationMerging(request, version=version)
        rules = part.rules
        remarks = (
            *oci.remarks(reply.adjust, spec, cdi_drop=rules.drops_cdi_devices),
            *oci.empty_cpu_set(reply.adjust.linux.resources),
        )
        try:
            merged.apply(reply, part.plugin)
        except AdjustmentRefused as error:
            self._refuse_reply(spec, reply.adjust, source, Failure.of(error))
            return spec
        spec = self._add_changes(spec, merged, reply, remarks, part)
        self.findings.updates += [
            RequestedUpdate(source, each, merged=True) for each in reply.update
        ]
        self.findings.steps += evictions(source, reply.evict, rules)
        return spec

    def _add_changes(
        self,
        spec: Spec,
        merged: merging.CreationMerging,
        reply: api.CreateContainerResponse,
        remarks: Iterable[oci.Remark],
        part: ConnectionPart,
    ) -> Spec:
        """Return the spec after a reply that `merged` contains, and add its changes."""
        source = RequestSource.of(part)
        self.expected = merged.request.container
        shown = oci.spec_of(merged.request.container)
        by_chance = REQUESTED._replace(reason=BY_CHANCE)
        for path in self.hidden.add(merged.adjustment, shown):
            removal = f"-{specs.split(path)[-1]}"
            self.findings.ask(self.id, path, removal, source, by_chance)
        self.before_reply[part.plugin] = spec
        self.removals[part.plugin] = frozenset(
            specs.pointer(path, key)
            for path, keys in maps_of(reply.adjust)
            for key in keys
            if key.startswith("-")
        )
        after = self.hidden.apply_to(shown)
        changes = changes_of_chain(spec, after)
        for change in changes:
            self.findings.steps.append(step(self.id, change, source))
        self._settle_dropped(merged.dropped, reply, spec, part)
        for remark in remarks:
            path = path_of_change(remark, changes)
            self.findings.add_remark(self.id, source, remark._replace(path=path))
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
        made = newest_steps(each for each in self.findings.steps if each.event == part.event.id)
        wanted = oci.adjust(spec, reply.adjust)
        for lost in lost_fields:
            if lost.container_id != self.id or lost.path == EVICTION:
                continue
            outcome = dropped(lost.reason)
            asked = made.get(lost.path)
            if lost.reason == NOT_PASSED_ON:
                if self.owner_list is None and not self._is_replay():
                    if asked is not None:
                        asked.outcome = REQUESTED._replace(reason=UNLESS_ITS_OWN)
                    continue
                if specs.value_at(self.base, lost.path) is specs.ABSENT:
                    continue
            if asked is not None:
                asked.outcome = outcome
                continue
            value: Json = value_at(wanted, lost.path)
            if value is None and specs.value_at(spec, lost.path) is specs.ABSENT:
                value = lost.value
            elif value is None:
                value = f"-{specs.split(lost.path)[-1]}"
            self.findings.ask(self.id, lost.path, value, source, outcome)

    def _refuse_reply(
        self,
        spec: Spec,
        adjustment: api.ContainerAdjustment,
        source: RequestSource,
        failure: Failure,
    ) -> None:
        self.findings.fail(failure)
        fields = {path for path, _ in requested_fields(adjustment)}
        for change in changes_of_chain(spec, oci.adjust(spec, adjustment)):
            # Any adjustment of variables merges those of the same name.
            if not specs.touches(change.path, fields):
                continue
            asked = step(self.id, change, source, outcome=refused(failure.text), is_expected=False)
            self.findings.steps.append(asked)

    def _undo_conflict(self, spec: Spec, parts: tuple[ConnectionPart, ...]) -> Spec:
        """Undo the changes of the plugin whose reply made the round fail."""
        culprit, failure = _refusal(parts)
        if failure is None or self.findings.cause or self.created or self.owner_list is not None:
            return spec
        self.findings.fail(failure)
        culprit_owner = plugin(culprit)
        for request in self.findings.steps:
            if request.owner == culprit_owner:
                request.outcome, request.is_expected = refused(failure.text), False
        return self.before_reply.get(culprit, spec)


def _refusal(parts: tuple[ConnectionPart, ...]) -> tuple[str, Failure | None]:
    """Return the plugin whose reply made the round fail, and the error; "" and None for none.

    If the chain continued after a conflict, an unobserved plugin had removed the value in between.
    """
    replies = [
        (part, reply)
        for part in parts
        if (reply := part.reply_as(api.CreateContainerResponse)) is not None
        and not is_empty_reply(reply)
    ]
    request = parts[0].request_as(api.CreateContainerRequest) if replies else None
    if request is None:
        return "", None
    merged = merging.CreationMerging(request, version=parts[0].version)
    for part, reply in replies:
        try:
            merged.apply(reply, part.plugin)
        except AdjustmentRefused as error:
            return (part.plugin, Failure.of(error)) if part is parts[-1] else ("", None)
    return "", None


def _never_applied(path: str) -> str:
    """Return the reason why runtimes never apply an adjustment of `path`; "" for other paths."""
    if not path.startswith(_ONLY_THE_LIMIT) or path in (_SWAP, f"{_ONLY_THE_LIMIT}limit"):
        return ""
    return oci.ONLY_THE_LIMIT
