# SPDX-License-Identifier: Apache-2.0
"""Evaluate updates: one UpdateContainer in the chain, and requested updates of other containers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Protocol, cast

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused
from nri_scope.nri import merging
from nri_scope.nri.merging import Dropped
from nri_scope.nri.merging.isulad import UPDATE_EVENT_CRASH
from nri_scope.nri.versions import NriVersion
from nri_scope.recording.display import duration
from nri_scope.recording.isulad_crash import closed_after
from nri_scope.specs import Change, Json, Spec

from .attributed_changes import (
    EVICTION,
    REQUESTED,
    ChangeStep,
    Evidence,
    Outcome,
    OutcomeKind,
    dropped,
    refused,
)
from .chain import LOWEST, Chain
from .findings import (
    Findings,
    Source,
    Wanted,
    error_text,
    outcome_of,
    reply_of,
    request_of,
    runtime_rules_of,
    step,
    value_at,
    version_of,
)
from .history import History
from .later_changes import FOLLOWS_LIMIT
from .owner import ASKED_BEFORE_ALL, REQUEST, RUNTIME
from .rounds import ConnectionPart, Round, is_ordered

UPDATES_MAX = 5_000
"""Maximum number of updates of other containers read in one round: more than a node has
containers."""
_SWAP = "/linux/resources/memory/swap"
_FAILED = "the runtime reported that the update failed"
_ONE_FAILED = "the runtime reported that one of several updates of this container failed"
NO_ID = "the update names no container; set its container_id"


def updating(one: Round, chain: Chain, before: Spec, *, failure: str = "") -> tuple[Findings, Spec]:
    """Evaluate one UpdateContainer of a container whose spec was `before`.

    Return the findings and the resulting spec. `failure`: the reason why the update had no effect,
    if another source shows one.
    """
    return _Updating(one, chain, before).look(failure)


class _Updating:
    def __init__(self, one: Round, chain: Chain, before: Spec) -> None:
        self.round = one
        self.chain = chain
        self.before = before
        self.found = Findings()
        self.turn: merging.Updating | None = None
        """The merging of the observed replies, in which a field has one owner."""
        self.updates_own: dict[bool, str] = {}
        """A plugin that replied with an update of the request's container, by whether it has
        resources."""
        self.id = one.first.container_id
        self.path = runtime_rules_of(one.stations[0]).own_updates

    def look(self, failure: str) -> tuple[Findings, Spec]:
        spec, after = self.before, None
        if runtime_rules_of(self.round.stations[0]).dies_of_updates:
            closed = [
                after_ns
                for one in self.round.stations
                if (after_ns := closed_after(one.session, one.event)) is not None
            ]
            then = (
                f"; it closed the connection {duration(closed[0])} after this one" if closed else ""
            )
            self.found.note(UPDATE_EVENT_CRASH + then)
        known: set[oci.Remark] = set()
        for station in self.round.stations:
            request = cast("api.UpdateContainerRequest | None", request_of(station))
            if request is None:
                continue
            source = self._who(after, station)
            shown = oci.update(self.before, request.linux_resources, self.path)
            for change in specs.changes(spec, shown):
                made = _asked(self.id, change, source, request.linux_resources)
                self.found.steps.append(made)
            remarks = oci.remarks(request.linux_resources, path=self.path)
            if after is not None:
                for remark in remarks:
                    if _key(remark) not in known:
                        wanted = Wanted(source, api.ContainerUpdate())
                        _add_remark(self.found, self.id, wanted, remark, shown)
            known |= {_key(remark) for remark in remarks}
            spec = self._reply(shown, station, request, known)
            after = station
            if self.found.failure:
                break
        self.found.fail(failure)
        if self.found.failure:
            self._settle(refused(self.found.failure))
            return self.found, self.before
        rules = runtime_rules_of(self.round.stations[0])
        if [*self.updates_own] == [False] and rules.voids_empty_updates:
            # Unless the reply of an unobserved plugin has one with resources.
            self._settle(REQUESTED._replace(reason=f"{self.updates_own[False]} {oci.VOIDED}"))
            return self.found, self.before
        self.found.supersede()
        return self.found, spec

    def _settle(self, outcome: Outcome) -> None:
        """Settle all requests for the container: the runtime applied none of them."""
        self.found.steps = [one for one in self.found.steps if not _follows_limit(one)]
        for one in self.found.steps:
            if one.outcome.kind is OutcomeKind.REQUESTED:
                one.outcome, one.is_expected = outcome, False

    def _who(self, after: ConnectionPart | None, station: ConnectionPart) -> Source:
        """Return the source of the changes between two connections."""
        if after is not None and self.chain.is_ordered:
            return Source(self.chain.between(after, station), Evidence.PROBES, station.event)
        owner = REQUEST
        if self.chain.is_ordered and station.index == LOWEST:
            owner = ASKED_BEFORE_ALL
        elif self.chain.is_ordered:
            before = self.chain.between(None, station)
            owner = replace(REQUEST, first=before.first, last=before.last, ties=before.ties)
        return Source(owner, Evidence.REQUEST, station.event)

    def _reply(
        self,
        spec: Spec,
        station: ConnectionPart,
        request: api.UpdateContainerRequest,
        known: set[oci.Remark],
    ) -> Spec:
        source = Source.of(station)
        if station.is_error:
            self.found.fail(error_text(station))
            return spec
        reply = cast("api.UpdateContainerResponse | None", reply_of(station))
        if reply is None or not reply.ByteSize():
            return spec
        if self.turn is None:
            self.turn = merging.Updating(request, version=version_of(station))
        turn = self.turn
        turn.resources.CopyFrom(request.linux_resources)
        known_drops = len(turn.dropped)
        try:
            turn.apply(reply, station.plugin)
        except AdjustmentRefused as error:
            self.found.fail(error.problem)
            return spec
        after = oci.update(self.before, turn.resources, self.path)
        for change in specs.changes(spec, after):
            self.found.steps.append(_asked(self.id, change, source, turn.resources))
        remarked: set[str] = set()
        for each in reply.update:
            if each.container_id != self.id:
                self.found.updates.append(Wanted(source, each, merged=True))
                continue
            self.updates_own.setdefault(each.linux.HasField("resources"), station.plugin)
            empty = oci.empty_cpu_set(each.linux.resources)
            for remark in (*oci.remarks(each, path=self.path), *empty):
                wanted = Wanted(source, each)
                _add_remark(self.found, self.id, wanted, remark, after)
                known.add(_key(remark))
                remarked.add(remark.path)
        for gone in turn.dropped[known_drops:]:
            if gone.container_id == self.id and gone.path not in (*remarked, EVICTION):
                outcome = dropped(gone.reason)
                self.found.ask(self.id, gone.path, _value(gone), source, outcome)
        return after


def stop_refusal(stations: Iterable[ConnectionPart]) -> str:
    """Return why the runtime applied none of the updates in the replies to a StopContainer.

    One plugin returned an error, or two plugins set one field. "" if the replies show neither.
    """
    turn: merging.Stopping | None = None
    for station in stations:
        if station.is_error and is_ordered(station):
            return error_text(station)
        request = cast("api.StopContainerRequest | None", request_of(station))
        reply = cast("api.StopContainerResponse | None", reply_of(station))
        if request is None or reply is None or not reply.ByteSize():
            continue
        turn = turn or merging.Stopping(request, version=version_of(station))
        try:
            turn.apply(reply, station.plugin)
        except AdjustmentRefused as error:
            return error.problem
    return ""


def _add_remark(found: Findings, target: str, one: Wanted, remark: oci.Remark, after: Spec) -> None:
    """Set the outcome of a request; `after`: the spec after the update.

    A swap limit that a plugin asked for is not the one that follows the memory limit.
    """
    source = one.source_of(remark.path)
    now = value_at(after, _SWAP) if remark.path == _SWAP else None
    if now is None:
        found.add_remark(target, source, remark)
    elif now != remark.value:
        found.ask(target, remark.path, remark.value, source, outcome_of(remark))


def _key(remark: oci.Remark) -> oci.Remark:
    # Values may be lists, which are not hashable.
    return remark._replace(value=str(remark.value))


class Targets(Protocol):
    """Lookup of the containers that plugins request updates of."""

    def target(self, container_id: str) -> History | None:
        """Return the container's history; None if the container is unknown."""
        ...

    def absence(self, container_id: str) -> Outcome:
        """Return the outcome of a request for a container without a `target`."""
        ...


def beside(
    wanted: Iterable[Wanted],
    found: Findings,
    targets: Targets,
    rules: oci.RuntimeRules,
    *,
    version: NriVersion | None,
    failed: Sequence[str] | None = None,
    doubt: str = "",
) -> None:
    """Apply updates of other containers than the event's, and unsolicited updates.

    They become steps of these containers, in `found` and in the histories. Those of a round that
    failed, or for which the runtime reported a failure (`failed`: ids; None if it reports none),
    are refused. `doubt`: why it is unknown whether the runtime applied them; "" if it is known.
    """
    updates = iter(wanted)
    states: dict[str, Spec] = {}
    turn = merging.Stopping(api.StopContainerRequest(), version=version)
    some = [*islice(updates, UPDATES_MAX)]
    not_done = Counter(failed or ())
    asked_for = Counter(one.update.container_id for one in some) if not_done else not_done
    for one in some:
        target = one.update.container_id
        failure, unknown = "" if doubt else found.failure, doubt
        if target in not_done:
            all_failed = not_done[target] >= asked_for[target]
            failure, unknown = (_FAILED, "") if all_failed else ("", _ONE_FAILED)
        history = targets.target(target) if target else None
        if history is None:
            outcome = targets.absence(target) if target else dropped(NO_ID)
            outcome = refused(failure) if failure else outcome
            found.steps += _of_no_container(one, outcome, rules)
            continue
        kept, gone_fields = _merged(one, turn, version)
        path = rules.other_updates
        repeated: Iterable[Change] = ()
        if (failure or unknown) and target not in states:
            repeated = _repeated(kept, history, path)
        before = states.get(target, history.spec)
        after = states[target] = oci.update(before, kept, path)
        steps = [
            _asked(target, change, one.source_of(change.path), kept.linux.resources)
            for change in (*specs.changes(before, after), *repeated)
        ]
        if failure or unknown:
            steps = [each for each in steps if not _follows_limit(each)]
            for each in steps:
                each.is_expected = False
                each.outcome = refused(failure) if failure else REQUESTED._replace(reason=unknown)
        elif failed is None and (kept.ignore_failure or rules.logs_failed_updates):
            hidden = oci.IGNORED if kept.ignore_failure else oci.LOGGED
            for each in steps:
                each.outcome = REQUESTED._replace(reason=hidden)
        found.steps += steps
        for gone in gone_fields:
            found.ask(target, gone.path, _value(gone), one.source, dropped(gone.reason))
        empty = () if one.owned else oci.empty_cpu_set(one.update.linux.resources)
        for remark in (*oci.remarks(kept, path=path), *empty):
            _add_remark(found, target, one, remark, after)
        history.add(steps, history.spec if failure or unknown else after)
    left_out = sum(1 for _ in updates)
    if left_out:
        found.note(f"{left_out:,} more updates of other containers are omitted")


def _repeated(
    update: api.ContainerUpdate, history: History, path: oci.UpdatePath
) -> Iterator[Change]:
    """Yield the changes that open requests for the same values already asked for."""
    for asked in specs.changes({}, oci.update({}, update, path)):
        earlier = history.open.get(asked.path, [])[-1:]
        if asked.path != _SWAP and earlier and specs.same(earlier[0].change.after, asked.after):
            yield earlier[0].change


def _asked(
    container: str, change: Change, source: Source, resources: api.LinuxResources
) -> ChangeStep:
    """Return the step for a change that `resources` lead to."""
    if change.path == _SWAP and not resources.memory.HasField("swap"):
        return step(container, change, source._replace(owner=RUNTIME), FOLLOWS_LIMIT)
    return step(container, change, source)


def _follows_limit(one: ChangeStep) -> bool:
    """Return whether a step is the swap limit that follows a memory limit: no plugin's request."""
    return one.change.path == _SWAP and one.owner == RUNTIME


def _of_no_container(
    one: Wanted, outcome: Outcome, rules: oci.RuntimeRules
) -> Iterator[ChangeStep]:
    """Yield the requests of an update that concerns no known container."""
    target = one.update.container_id
    changes = specs.changes({}, oci.update({}, one.update, rules.other_updates))
    for change in changes or [Change("", None, None, "changed")]:
        if change.path != _SWAP:
            source = one.source_of(change.path)
            asked = step(target, change, source, outcome=outcome)
            asked.is_expected = False
            yield asked


def _merged(
    one: Wanted, turn: merging.Stopping, version: NriVersion | None
) -> tuple[api.ContainerUpdate, list[Dropped]]:
    """Return the update that NRI passes to the runtime, and the fields that it drops.

    `turn`: the merging of the updates in all replies of the round.
    """
    if not one.merged:
        kept, dropped = merging.unsolicited([one.update], str(one.source.owner), version=version)
        return kept[0], dropped
    known = len(turn.dropped)
    try:
        turn.apply(api.StopContainerResponse(update=[one.update]), str(one.source.owner))
    except AdjustmentRefused:
        # The round failed, so all its updates are refused.
        return one.update, []
    return turn.take_updates()[0], turn.dropped[known:]


def _value(gone: Dropped) -> Json:
    """Return the value of a field that merging drops."""
    number = gone.value.removeprefix("-").isdecimal() and gone.value.isascii()
    return int(gone.value) if number else gone.value
