# SPDX-License-Identifier: Apache-2.0
"""Updates: one UpdateContainer on its way through the chain, and those of other containers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import cast

from nri_scope import oci
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused
from nri_scope.nri import merging
from nri_scope.nri.versions import NriVersion
from nri_scope.oci import Spec

from .chain import LOWEST, Chain
from .findings import Findings, Wanted, evidence_of, reply_of, request_of, step, version_of
from .history import History
from .model import Asked, Evidence, Step
from .owner import ASKED_BEFORE_ALL, Owner, Who, plugin
from .rounds import Round, Station

UPDATES_MAX = 5_000
"""Updates of other containers that are looked at in one round: far more than a node has."""


def updating(one: Round, chain: Chain, before: Spec, *, failure: str = "") -> tuple[Findings, Spec]:
    """Look through one UpdateContainer of a container whose spec was `before`.

    Returns what was found and the spec that the update leads to. `failure` says why nothing came
    of it, as far as others know.
    """
    return _Updating(one, chain, before).look(_refusal(one.stations) or failure)


class _Updating:
    def __init__(self, one: Round, chain: Chain, before: Spec) -> None:
        self.round = one
        self.chain = chain
        self.before = before
        self.found = Findings()
        self.id = one.first.container_id

    def look(self, failure: str) -> tuple[Findings, Spec]:
        spec, after = self.before, None
        known: set[oci.Remark] = set()
        for station in self.round.stations:
            request = cast("api.UpdateContainerRequest | None", request_of(station))
            if request is None:
                continue
            owner, evidence = self._who(after, station)
            shown = oci.update(self.before, request.linux_resources)
            for change in oci.changes(spec, shown):
                made = step(self.id, change, owner, evidence, station.event)
                self.found.steps.append(made)
            remarks = oci.remarks(request.linux_resources)
            if after is not None:
                for remark in remarks:
                    if _key(remark) not in known:
                        self.found.vain(self.id, owner, evidence, remark)
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

    def _who(self, after: Station | None, station: Station) -> tuple[Owner, Evidence]:
        if after is not None:
            return self.chain.between(after, station), Evidence.PROBES
        if station.index == LOWEST:
            return ASKED_BEFORE_ALL, Evidence.REQUEST
        before = self.chain.between(None, station)
        owner = Owner(Who.REQUEST, first=before.first, last=before.last, ties=before.ties)
        return owner, Evidence.REQUEST

    def _reply(
        self,
        spec: Spec,
        station: Station,
        request: api.UpdateContainerRequest,
        known: set[oci.Remark],
    ) -> Spec:
        event, owner, evidence = station.event, plugin(station.plugin), evidence_of(station)
        if event.status_code not in (0, 4, 14):
            self.found.fail(f"{station.plugin} answered: {event.status_message or 'an error'}")
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
        after = oci.update(self.before, turn.resources)
        for change in oci.changes(spec, after):
            self.found.steps.append(step(self.id, change, owner, evidence, event))
        for each in reply.update:
            if each.container_id != self.id:
                self.found.updates.append(Wanted(owner, evidence, event, each))
                continue
            for remark in oci.remarks(each):
                self.found.vain(self.id, owner, evidence, remark)
                known.add(_key(remark))
        for gone in turn.dropped:
            self.found.asked.append(
                Asked(gone.container_id, owner, gone.path, gone.value, gone.reason, evidence)
            )
        return after

    def _undo(self) -> None:
        """The runtime gave up: nothing of it was done."""
        found = self.found
        for one in found.steps:
            change = one.change
            found.asked.append(
                Asked(self.id, one.owner, change.path, change.after, found.failure, one.evidence[0])
            )
        found.steps = []


def _refusal(stations: Iterable[Station]) -> str:
    """Why the runtime gave up, by the replies that are known; "" where nothing says so."""
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


def _key(remark: oci.Remark) -> oci.Remark:
    # Lists in a value cannot be members of a set.
    return remark._replace(value=str(remark.value))


def beside(
    wanted: Iterable[Wanted],
    found: Findings,
    history_of: Callable[[str], History],
    *,
    version: NriVersion | None,
    failed: Iterable[str] = (),
) -> None:
    """Updates that plugins asked for beside what an event is about, or out of turn.

    They become steps of these containers, in `found` and in the histories, unless the round failed
    or the runtime says so of a container (`failed`: ids).
    """
    not_done = frozenset(failed)
    updates = iter(wanted)
    for one in islice(updates, UPDATES_MAX):
        target = one.update.container_id
        if not target:
            continue
        history = history_of(target)
        kept, dropped = merging.unsolicited([one.update], str(one.owner), version=version)
        after = oci.update(history.spec, kept[0])
        steps = [
            step(target, change, one.owner_of(change.path), one.evidence, one.event)
            for change in oci.changes(history.spec, after)
        ]
        failure = found.failure or ("the runtime says that it failed" if target in not_done else "")
        if failure:
            found.asked += _in_vain(steps, failure)
            continue
        for gone in dropped:
            found.asked.append(
                Asked(target, one.owner, gone.path, gone.value, gone.reason, one.evidence)
            )
        for remark in oci.remarks(kept[0]):
            found.vain(target, one.owner_of(remark.path), one.evidence, remark)
        found.steps += steps
        history.add(steps, after)
    left_out = sum(1 for _ in updates)
    if left_out:
        found.note(f"{left_out:,} more updates of other containers are left out")


def _in_vain(steps: Iterable[Step], failure: str) -> list[Asked]:
    return [
        Asked(one.container, one.owner, one.change.path, one.change.after, failure, one.evidence[0])
        for one in steps
    ]
