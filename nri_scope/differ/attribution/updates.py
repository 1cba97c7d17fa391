# SPDX-License-Identifier: Apache-2.0
"""Evaluate updates: one UpdateContainer in the chain, and requested updates of other containers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Protocol, cast

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused
from nri_scope.events import Event
from nri_scope.nri import merging
from nri_scope.nri.merging import Dropped
from nri_scope.nri.merging.isulad import UPDATE_EVENT_CRASH
from nri_scope.nri.versions import NriVersion
from nri_scope.specs import Json, Spec

from .attributed_changes import EVICTION, ChangeStep, Evidence, PluginRequest, RequestFate
from .chain import LOWEST, Chain
from .findings import (
    Findings,
    Wanted,
    error_text,
    evidence_of,
    reply_of,
    request_of,
    runtime_rules_of,
    step,
    version_of,
)
from .history import History
from .owner import ASKED_BEFORE_ALL, REQUEST, Owner, OwnerKind, plugin
from .rounds import ConnectionPart, Round, is_ordered

UPDATES_MAX = 5_000
"""Maximum number of updates of other containers read in one round: more than a node has
containers."""
_LIMIT, _SWAP = "/linux/resources/memory/limit", "/linux/resources/memory/swap"
_FAILED = "the runtime reported that the update failed"


def updating(one: Round, chain: Chain, before: Spec, *, failure: str = "") -> tuple[Findings, Spec]:
    """Evaluate one UpdateContainer of a container whose spec was `before`.

    Return the findings and the resulting spec. `failure`: the reason why the update had no effect,
    if another source shows one.
    """
    return _Updating(one, chain, before).look(_refusal(one.stations) or failure)


class _Updating:
    def __init__(self, one: Round, chain: Chain, before: Spec) -> None:
        self.round = one
        self.chain = chain
        self.before = before
        self.found = Findings()
        self.id = one.first.container_id
        self.path = runtime_rules_of(one.stations[0]).own_updates

    def look(self, failure: str) -> tuple[Findings, Spec]:
        spec, after = self.before, None
        if runtime_rules_of(self.round.stations[0]).update_crash:
            self.found.note(UPDATE_EVENT_CRASH)
        known: set[oci.Remark] = set()
        for station in self.round.stations:
            request = cast("api.UpdateContainerRequest | None", request_of(station))
            if request is None:
                continue
            owner, evidence = self._who(after, station)
            shown = oci.update(self.before, request.linux_resources, self.path)
            for change in specs.changes(spec, shown):
                made = step(self.id, change, owner, evidence, station.event)
                self.found.steps.append(made)
            remarks = oci.remarks(request.linux_resources, path=self.path)
            if after is not None:
                for remark in remarks:
                    if _key(remark) not in known:
                        self.found.add_remark(self.id, owner, evidence, station.event, remark)
            known |= {_key(remark) for remark in remarks}
            spec = self._reply(shown, station, request, known)
            after = station
            if self.found.failure:
                break
        self.found.fail(failure)
        if self.found.failure:
            self._undo()
            return self.found, self.before
        return self.found, spec

    def _who(self, after: ConnectionPart | None, station: ConnectionPart) -> tuple[Owner, Evidence]:
        if not self.chain.is_ordered:
            return REQUEST, Evidence.REQUEST
        if after is not None:
            return self.chain.between(after, station), Evidence.PROBES
        if station.index == LOWEST:
            return ASKED_BEFORE_ALL, Evidence.REQUEST
        before = self.chain.between(None, station)
        owner = Owner(OwnerKind.REQUEST, first=before.first, last=before.last, ties=before.ties)
        return owner, Evidence.REQUEST

    def _reply(
        self,
        spec: Spec,
        station: ConnectionPart,
        request: api.UpdateContainerRequest,
        known: set[oci.Remark],
    ) -> Spec:
        event, owner, evidence = station.event, plugin(station.plugin), evidence_of(station)
        if station.is_error:
            self.found.fail(error_text(station))
            return spec
        reply = cast("api.UpdateContainerResponse | None", reply_of(station))
        if reply is None or not reply.ByteSize():
            return spec
        turn = merging.Updating(request, version=version_of(station))
        try:
            turn.apply(reply, station.plugin)
        except AdjustmentRefused as error:
            self.found.fail(error.problem)
            return spec
        after = oci.update(self.before, turn.resources, self.path)
        for change in specs.changes(spec, after):
            self.found.steps.append(step(self.id, change, owner, evidence, event))
        remarked: set[str] = set()
        for each in reply.update:
            if each.container_id != self.id:
                self.found.updates.append(Wanted(owner, evidence, event, each, merged=True))
                continue
            for remark in oci.remarks(each, path=self.path):
                self.found.add_remark(self.id, owner, evidence, event, remark)
                known.add(_key(remark))
                remarked.add(remark.path)
        self.found.asked += (
            _asked(gone, owner, evidence, event)
            for gone in turn.dropped
            if gone.container_id == self.id and gone.path not in (*remarked, EVICTION)
        )
        return after

    def _undo(self) -> None:
        """Turn the steps into requests: the round failed, and the runtime applied nothing."""
        self.found.asked += _not_done(self.found.steps, self.found.failure)
        self.found.steps = []


def _refusal(stations: Iterable[ConnectionPart]) -> str:
    """Return the conflict that fails the update; "" if the observed replies show none."""
    turn: merging.Updating | None = None
    for station in stations:
        if turn is None:
            request = cast("api.UpdateContainerRequest | None", request_of(station))
            if request is None:
                return ""
            turn = merging.Updating(request, version=version_of(station))
        reply = cast("api.UpdateContainerResponse | None", reply_of(station))
        if reply is None or not reply.ByteSize():
            continue
        try:
            turn.apply(reply, station.plugin)
        except AdjustmentRefused as error:
            return error.problem
    return ""


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


def _key(remark: oci.Remark) -> oci.Remark:
    # Values may be lists, which are not hashable.
    return remark._replace(value=str(remark.value))


class Targets(Protocol):
    """Lookup of the containers that plugins request updates of."""

    def target(self, container_id: str) -> History | None:
        """Return the container's history; None if the container is unknown."""
        ...

    def absence(self, container_id: str) -> tuple[RequestFate, str]:
        """Return the fate of a request for an unknown container, and the reason."""
        ...


def beside(
    wanted: Iterable[Wanted],
    found: Findings,
    targets: Targets,
    rules: oci.RuntimeRules,
    *,
    version: NriVersion | None,
    failed: Iterable[str] = (),
    doubt: str = "",
) -> None:
    """Apply updates of other containers than the event's, and unsolicited updates.

    They become steps of these containers, in `found` and in the histories, unless the round failed
    or the runtime reported a failure for a container (`failed`: ids). `doubt`: the reason why their
    outcome is unknown; "" if it is known.
    """
    not_done = frozenset(failed)
    updates = iter(wanted)
    for one in islice(updates, UPDATES_MAX):
        target = one.update.container_id
        if not target:
            continue
        history = targets.target(target)
        if history is None:
            fate, reason = targets.absence(target)
            if target in not_done:
                fate, reason = RequestFate.NOT_APPLIED, _FAILED
            found.ask(
                PluginRequest(target, one.owner, "", None, reason, one.evidence, one.event.id, fate)
            )
            continue
        kept, dropped = _merged(one, version)
        path = rules.other_updates
        after = oci.update(history.spec, kept, path)
        steps = [
            step(target, change, one.owner_of(change.path), one.evidence, one.event)
            for change in specs.changes(history.spec, after)
        ]
        failure = found.failure or (_FAILED if target in not_done else "")
        if failure or doubt:
            fate = RequestFate.UNKNOWN if doubt else RequestFate.NOT_APPLIED
            for asked in _not_done(steps, doubt or failure, fate):
                found.ask(asked)
            continue
        for gone in dropped:
            found.ask(_asked(gone, one.owner, one.evidence, one.event))
        for remark in oci.remarks(kept, path=path):
            found.add_remark(target, one.owner_of(remark.path), one.evidence, one.event, remark)
        found.steps += steps
        history.add(steps, after)
    left_out = sum(1 for _ in updates)
    if left_out:
        found.note(f"{left_out:,} more updates of other containers are omitted")


def _merged(one: Wanted, version: NriVersion | None) -> tuple[api.ContainerUpdate, list[Dropped]]:
    """Return the update that NRI passes to the runtime, and the fields that it drops."""
    if not one.merged:
        kept, dropped = merging.unsolicited([one.update], str(one.owner), version=version)
        return kept[0], dropped
    turn = merging.Stopping(api.StopContainerRequest(), version=version)
    turn.apply(api.StopContainerResponse(update=[one.update]), str(one.owner))
    return turn.updates[0], turn.dropped


def _asked(gone: Dropped, owner: Owner, evidence: Evidence, event: Event) -> PluginRequest:
    """Return the request for a field that merging drops."""
    number = gone.value.removeprefix("-").isdecimal() and gone.value.isascii()
    value: Json = int(gone.value) if number else gone.value
    return PluginRequest(
        gone.container_id, owner, gone.path, value, gone.reason, evidence, event.id
    )


def _not_done(
    steps: Sequence[ChangeStep], reason: str, fate: RequestFate = RequestFate.NOT_APPLIED
) -> list[PluginRequest]:
    """Return steps that were not applied, or have an unknown outcome, as requests."""
    limits = [one.change.after for one in steps if one.change.path == _LIMIT]
    # The runtime itself sets the swap limit to the memory limit; no plugin requested that.
    steps = [one for one in steps if one.change.path != _SWAP or one.change.after not in limits]
    return [one.asked(reason, fate) for one in steps]
