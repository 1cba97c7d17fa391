# SPDX-License-Identifier: Apache-2.0
"""Evaluate updates: one UpdateContainer in the chain, and requested updates of other containers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.entries import OperationFate, OperationOutcome
from nri_scope.errors import AdjustmentRefused
from nri_scope.nri import merging
from nri_scope.nri.events import UPDATE
from nri_scope.nri.merging import Dropped
from nri_scope.nri.merging.isulad import UPDATE_EVENT_CRASH
from nri_scope.nri.versions import NriVersion
from nri_scope.recording.query.runtime_crash import closed_after
from nri_scope.specs import Change, Json, Spec
from nri_scope.text.quantities import duration

from .attributed_changes import (
    EVICTION,
    REQUESTED,
    ChangeStep,
    Evidence,
    Failure,
    FailureKind,
    OutcomeKind,
    RequestOutcome,
    confirmed,
    dropped,
    refused,
)
from .containers import Containers
from .history import History
from .later_changes import FOLLOWS_LIMIT
from .observed_round import LOWEST, ConnectionPart, RoundChain
from .owner import ASKED_BEFORE_ALL, REQUEST, RUNTIME
from .round_results import (
    RequestedUpdate,
    RequestSource,
    RoundResults,
    outcome_of,
    step,
    value_at,
)

UPDATES_MAX = 5_000
"""Maximum number of updates of other containers read in one round: more than a node has
containers."""
_SWAP = "/linux/resources/memory/swap"
_FAILED = "the runtime reported that the update failed"
_ONE_FAILED = "the runtime reported that one of several updates of this container failed"
UPDATES_OF_FAILED = "it was requested in an update of another container that failed later"
NO_ID = "the update names no container; set its container_id"


@dataclass(slots=True)
class UpdateEvaluation:
    """The evaluation of one UpdateContainer of a container whose spec was `before`.

    It follows the update through the observed connections of the chain.
    """

    parts: tuple[ConnectionPart, ...]
    chain: RoundChain
    before: Spec
    results: RoundResults
    """Collector of the requests of this update alone."""
    _merged: merging.UpdateMerging | None = None
    """The merging of the observed replies, in which a field has one owner."""
    _remarked: set[oci.Remark] = field(default_factory=set)
    """Remarks on earlier requests, which later requests repeat."""
    _first_plugins: dict[bool, str] = field(default_factory=dict)
    """The first plugin whose update of the request's container has resources (True), and the
    first whose update has none (False)."""

    @property
    def _id(self) -> str:
        return self.parts[0].event.container_id

    @property
    def _rules(self) -> oci.RuntimeRules:
        return self.parts[0].rules

    def evaluate(self, outcome: OperationOutcome, early_end: Failure | None) -> tuple[Spec, str]:
        """Add the requests to the results; return the resulting spec, and the reason why it is
        unknown whether the updates of other containers were applied; "" if it is known.

        ``outcome``: by later events; ``early_end``: that of the chain.
        """
        words, cause = outcome.words_of(UPDATE), early_end
        if outcome.fate is OperationFate.FAILED:
            cause = confirmed(early_end, words)
        elif outcome.fate is OperationFate.CREATED:
            cause = None
        elif early_end and early_end.kind is FailureKind.CHAIN_SEEMS_ENDED:
            words, cause = early_end.text, None
            self.results.doubt = words
        spec = self._spec_after(cause)
        # Updates of other containers may have been applied before it failed.
        doubt = UPDATES_OF_FAILED if words and self.results.failure == words else ""
        if self.results.failure:
            self.results.doubt = ""
        elif words:
            self.results.leave_open(words)
        return spec, doubt

    def _spec_after(self, cause: Failure | None) -> Spec:
        """Follow the update through the chain; return the resulting spec.

        ``cause``: why it had no effect; None if it had.
        """
        if self._rules.dies_of_updates:
            closed = [
                after_ns
                for part in self.parts
                if (after_ns := closed_after(part.session, part.event)) is not None
            ]
            then = (
                f"; it closed the connection {duration(closed[0])} after this one" if closed else ""
            )
            self.results.note(UPDATE_EVENT_CRASH + then)
        spec = self._follow()
        self.results.fail(cause)
        if self.results.failure:
            self._settle(refused(self.results.failure))
            return self.before
        if self._first_plugins.keys() == {False} and self._rules.voids_empty_updates:
            # Unless the reply of an unobserved plugin has one with resources.
            reason = f"{self._first_plugins[False]} {oci.VOIDED}"
            self._settle(REQUESTED._replace(reason=reason, is_voided=True))
            return self.before
        self.results.supersede()
        return spec

    def _settle(self, outcome: RequestOutcome) -> None:
        """Settle all requests for the container: the runtime applied none of them."""
        self.results.steps = [each for each in self.results.steps if not _follows_limit(each)]
        for request in self.results.steps:
            if request.outcome.kind is OutcomeKind.REQUESTED:
                request.exclude(outcome)

    def _follow(self) -> Spec:
        """Return the spec after the chain, and add the requests to the results."""
        spec, after = self.before, None
        for part in self.parts:
            request = part.request_as(api.UpdateContainerRequest)
            if request is None:
                continue
            spec = self._add_unseen(spec, after, part, request)
            spec = self._add_reply(spec, part, request)
            after = part
            if self.results.failure:
                break
        return spec

    def _add_unseen(
        self,
        spec: Spec,
        after: ConnectionPart | None,
        part: ConnectionPart,
        request: api.UpdateContainerRequest,
    ) -> Spec:
        """Add what was asked for between two connections; return the spec that `part` received."""
        source = self._source_between(after, part)
        shown = oci.update(self.before, request.linux_resources, self._rules.own_updates)
        for change in specs.changes(spec, shown):
            asked = _asked(self._id, change, source, request.linux_resources)
            self.results.steps.append(asked)
        for remark in oci.remarks(request.linux_resources, path=self._rules.own_updates):
            if after is not None and _key(remark) not in self._remarked:
                wanted = RequestedUpdate(source, api.ContainerUpdate())
                _add_remark(self.results, self._id, wanted, remark, shown)
            self._remarked.add(_key(remark))
        return shown

    def _source_between(self, after: ConnectionPart | None, part: ConnectionPart) -> RequestSource:
        """Return the source of the changes between two connections."""
        if after is not None and self.chain.is_ordered:
            return RequestSource(self.chain.between(after, part), Evidence.PROBES, part.event)
        owner = REQUEST
        if self.chain.is_ordered and part.index == LOWEST:
            owner = ASKED_BEFORE_ALL
        elif self.chain.is_ordered:
            before = self.chain.between(None, part)
            owner = replace(REQUEST, first=before.first, last=before.last, ties=before.ties)
        return RequestSource(owner, Evidence.REQUEST, part.event)

    def _add_reply(
        self, spec: Spec, part: ConnectionPart, request: api.UpdateContainerRequest
    ) -> Spec:
        """Add the requests of the reply; return the spec with them."""
        source = RequestSource.of(part)
        if part.is_error:
            self.results.fail(part.error)
            return spec
        reply = part.reply_as(api.UpdateContainerResponse)
        if reply is None or not reply.ByteSize():
            return spec
        merged = self._merged = self._merged or merging.UpdateMerging(request, version=part.version)
        merged.resources.CopyFrom(request.linux_resources)
        known_drops = len(merged.dropped)
        try:
            merged.apply(reply, part.plugin)
        except AdjustmentRefused as error:
            self.results.fail(Failure.of(error))
            return spec
        after = oci.update(self.before, merged.resources, self._rules.own_updates)
        for change in specs.changes(spec, after):
            self.results.steps.append(_asked(self._id, change, source, merged.resources))
        remarked_paths: set[str] = set()
        for each in reply.update:
            if each.container_id != self._id:
                self.results.updates.append(RequestedUpdate(source, each, merged=True))
                continue
            self._first_plugins.setdefault(each.linux.HasField("resources"), part.plugin)
            empty = oci.empty_cpu_set(each.linux.resources)
            for remark in (*oci.remarks(each, path=self._rules.own_updates), *empty):
                wanted = RequestedUpdate(source, each)
                _add_remark(self.results, self._id, wanted, remark, after)
                self._remarked.add(_key(remark))
                remarked_paths.add(remark.path)
        for lost in merged.dropped[known_drops:]:
            if lost.container_id == self._id and lost.path not in (*remarked_paths, EVICTION):
                outcome = dropped(lost.reason)
                self.results.ask(self._id, lost.path, _value(lost), source, outcome)
        return after


def stop_refusal(parts: Iterable[ConnectionPart]) -> Failure | None:
    """Return why the runtime applied none of the updates in the replies to a StopContainer.

    One plugin returned an error, or two plugins set one field. None if the replies show neither.
    """
    merged: merging.StopMerging | None = None
    for part in parts:
        if part.is_error and part.is_ordered:
            return part.error
        request = part.request_as(api.StopContainerRequest)
        reply = part.reply_as(api.StopContainerResponse)
        if request is None or reply is None or not reply.ByteSize():
            continue
        merged = merged or merging.StopMerging(request, version=part.version)
        try:
            merged.apply(reply, part.plugin)
        except AdjustmentRefused as error:
            return Failure.of(error)
    return None


def _add_remark(
    results: RoundResults, target: str, request: RequestedUpdate, remark: oci.Remark, after: Spec
) -> None:
    """Set the outcome of a request; `after`: the spec after the update.

    A swap limit that a plugin asked for is not the one that follows the memory limit.
    """
    source = request.source_of(remark.path)
    now = value_at(after, _SWAP) if remark.path == _SWAP else None
    if now is None:
        results.add_remark(target, source, remark)
    elif now != remark.value:
        results.ask(target, remark.path, remark.value, source, outcome_of(remark))


def _key(remark: oci.Remark) -> oci.Remark:
    # Values may be lists, which are not hashable.
    return remark._replace(value=str(remark.value))


@dataclass(slots=True)
class UpdatesOfOthers:
    """The requested updates of other containers than the event's, and unsolicited updates.

    They become steps of these containers, in `results` and in the histories.
    """

    results: RoundResults
    """The results so far; if the round failed, its updates are refused."""
    containers: Containers
    part: ConnectionPart
    """The first of the round, whose runtime applies the updates."""
    is_absent: Callable[[str], bool]
    """See `Containers.absence`."""
    failed: Sequence[str] | None = None
    """For each failure that the runtime reported, the container's id; None if it reports none."""
    doubt: str = ""
    """Reason why it is unknown whether the runtime applied the updates; "" if it is known."""
    _all_failed: dict[str, bool] = field(default_factory=dict)
    """For each container with a reported failure, whether all its updates failed."""
    _specs: dict[str, Spec] = field(default_factory=dict)
    """The spec after the updates so far, by container."""

    def apply(self, requests: Iterable[RequestedUpdate]) -> None:
        """Apply requests in order; only the first `UPDATES_MAX` are read."""
        remaining = iter(requests)
        batch = [*islice(remaining, UPDATES_MAX)]
        if self.failed:
            requested = Counter(request.update.container_id for request in batch)
            failures = Counter(self.failed).items()
            self._all_failed = {target: count >= requested[target] for target, count in failures}
        merged = merging.StopMerging(api.StopContainerRequest(), version=self.part.version)
        for request in batch:
            self._apply_one(request, merged)
        left_out = sum(1 for _ in remaining)
        if left_out:
            self.results.note(f"{left_out:,} more updates of other containers are omitted")

    def _refusal(self, target: str) -> tuple[str, str]:
        """Return why no update of a container was applied, and why that is unknown; "" for none."""
        if (refusals := self.part.rules.refusals) is not None:
            return self.results.failure or refusals.updates, ""
        if target not in self._all_failed:
            return "" if self.doubt else self.results.failure, self.doubt
        return (_FAILED, "") if self._all_failed[target] else ("", _ONE_FAILED)

    def _apply_one(self, request: RequestedUpdate, merged: merging.StopMerging) -> None:
        """Apply one request. ``merged``: the merging of the updates in all replies of the round."""
        results, target = self.results, request.update.container_id
        path = self.part.rules.other_updates
        failure, doubt = self._refusal(target)
        history = self.containers.target(target, self.part.rules) if target else None
        if history is None:
            outcome = dropped(NO_ID)
            if failure:
                outcome = refused(failure)
            elif target:
                outcome = self.containers.absence(target, self.is_absent)
            results.steps += _of_no_container(request, outcome, path)
            return
        update, lost_fields = _merged(request, merged, self.part.version)
        repeated: Iterable[Change] = ()
        if (failure or doubt) and target not in self._specs:
            repeated = _repeated(update, history, path)
        before = self._specs.get(target, history.spec)
        after = self._specs[target] = oci.update(before, update, path)
        steps = [
            _asked(target, change, request.source_of(change.path), update.linux.resources)
            for change in (*specs.changes(before, after), *repeated)
        ]
        if failure or doubt:
            steps = [each for each in steps if not _follows_limit(each)]
            for each in steps:
                each.exclude(refused(failure) if failure else REQUESTED._replace(reason=doubt))
        elif self.failed is None and (update.ignore_failure or self.part.rules.logs_failed_updates):
            hidden = oci.IGNORED if update.ignore_failure else oci.LOGGED
            for each in steps:
                each.leave_open(hidden)
        results.steps += steps
        for lost in lost_fields:
            outcome = dropped(lost.reason)
            results.ask(target, lost.path, _value(lost), request.source, outcome)
        is_merged = request.source.evidence is Evidence.VALIDATOR
        empty = () if is_merged else oci.empty_cpu_set(request.update.linux.resources)
        for remark in (*oci.remarks(update, path=path), *empty):
            _add_remark(results, target, request, remark, after)
        history.add(steps, history.spec if failure or doubt else after)


def _repeated(
    update: api.ContainerUpdate, history: History, path: oci.UpdatePath
) -> Iterator[Change]:
    """Yield the changes that open requests for the same values already asked for."""
    for asked in specs.changes({}, oci.update({}, update, path)):
        earlier = history.open.get(asked.path, [])[-1:]
        if asked.path != _SWAP and earlier and specs.same(earlier[0].change.after, asked.after):
            yield earlier[0].change


def _asked(
    container: str, change: Change, source: RequestSource, resources: api.LinuxResources
) -> ChangeStep:
    """Return the step for a change that `resources` lead to."""
    if change.path == _SWAP and not resources.memory.HasField("swap"):
        return step(container, change, source._replace(owner=RUNTIME), FOLLOWS_LIMIT)
    return step(container, change, source)


def _follows_limit(request: ChangeStep) -> bool:
    """Return whether a step is the swap limit that follows a memory limit: no plugin's request."""
    return request.change.path == _SWAP and request.owner == RUNTIME


def _of_no_container(
    request: RequestedUpdate, outcome: RequestOutcome, path: oci.UpdatePath
) -> Iterator[ChangeStep]:
    """Yield the requests of an update that concerns no known container."""
    target = request.update.container_id
    changes = specs.changes({}, oci.update({}, request.update, path))
    for change in changes or [Change("", None, None, "changed")]:
        if change.path != _SWAP:
            source = request.source_of(change.path)
            yield step(target, change, source, outcome=outcome, is_expected=False)


def _merged(
    request: RequestedUpdate, merged: merging.StopMerging, version: NriVersion | None
) -> tuple[api.ContainerUpdate, list[Dropped]]:
    """Return the update that NRI passes to the runtime, and the fields that it drops.

    `merged`: the merging of the updates in all replies of the round.
    """
    owner = str(request.source.owner)
    if not request.merged:
        kept, lost_fields = merging.unsolicited([request.update], owner, version=version)
        return kept[0], lost_fields
    known_drops = len(merged.dropped)
    try:
        merged.apply(api.StopContainerResponse(update=[request.update]), owner)
    except AdjustmentRefused:
        # The round failed, so all its updates are refused.
        return request.update, []
    return merged.take_updates()[0], merged.dropped[known_drops:]


def _value(lost: Dropped) -> Json:
    """Return the value of a field that merging drops."""
    number = lost.value.removeprefix("-").isdecimal() and lost.value.isascii()
    return int(lost.value) if number else lost.value
