# SPDX-License-Identifier: Apache-2.0
"""Evaluate one CreateContainer in the chain, and find the owners of its changes.

Each connection shows the container as changed by all plugins before it. A plugin's own reply shows
its changes; further differences at the next connection are changes by plugins in between. The
runtime's own list of owners, if there is one, is compared last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused
from nri_scope.events import Event, Role
from nri_scope.nri import merging
from nri_scope.nri.changes import requested_fields
from nri_scope.nri.merging import NOT_PASSED_ON, Dropped
from nri_scope.nri.no_change import is_empty_reply
from nri_scope.oci import isulad_spec
from nri_scope.specs import Change, Json, Spec

from . import evidence as other_evidence
from .attributed_changes import (
    EVICTION,
    REQUESTED,
    ChangeStep,
    Evidence,
    Shows,
    dropped,
    refused,
)
from .chain import LOWEST, Chain, changes_of_chain
from .findings import (
    Findings,
    Source,
    Wanted,
    error_text,
    path_of_change,
    reply_of,
    request_of,
    runtime_rules_of,
    standing,
    step,
    superseded_by,
    value_at,
    version_of,
)
from .hidden_changes import BY_CHANCE, Hidden, maps_of, newest_steps
from .owner import BEFORE_ALL, RUNTIME, SPEC, Owned, Owner, one_of, plugin
from .rounds import CONTINUED, GONE, ConnectionPart, is_ordered
from .validation import Validation

UNLESS_ITS_OWN = "no effect if the value is the runtime's own, not a plugin's"
"""Note on a plugin's removal if the plugins before it were not observed."""
_SWAP = "/linux/resources/memory/swap"
_ONLY_THE_LIMIT = "/linux/resources/memory/"


@dataclass(frozen=True, slots=True)
class Created:
    """The findings of one CreateContainer."""

    container: api.Container
    """The container as seen by the first connection."""
    chain: Chain
    base: Spec
    base_owner: Owner
    spec: Spec
    """The spec at the end of the chain."""
    found: Findings
    tail: Owner
    """Plugins that may have changed the container after the last observed connection; RUNTIME for
    none."""
    removers: Mapping[str, Owner] = field(default_factory=dict)
    """Plugins that may have removed a key which another plugin set, by path."""
    described: bytes = b""
    """The message of which `spec` is the conversion, see `oci.without_state`; b"" if it has other
    changes."""


def creation(
    stations: tuple[ConnectionPart, ...],
    owned: Owned | None,
    *,
    for_others: bool = False,
    created: bool = False,
) -> Created | None:
    """Evaluate one round and its request to validators; either may be missing.

    ``created``: whether later events show that the container was created. ``for_others``: evaluate
    only the failure and the requests for other containers, not the container's own specs and
    changes. Return None if no message can be decoded.
    """
    chain = Chain.of(stations, owned.plugins if owned else ())
    return _Creation(stations, owned, for_others and owned is None, created, chain).look()


@dataclass(slots=True)
class _Creation:
    stations: tuple[ConnectionPart, ...]
    owned: Owned | None
    for_others: bool
    created: bool
    chain: Chain
    found: Findings = field(default_factory=Findings)
    id: str = ""
    expected: api.Container = field(default_factory=api.Container)
    """The container that the next plugin receives if no unobserved plugin changes it first."""
    hidden: Hidden = field(default_factory=lambda: Hidden({}))
    base: Spec = field(default_factory=dict)
    """The container before the chain, or as seen by the first connection."""
    removals: dict[str, frozenset[str]] = field(default_factory=dict)
    """The removed keys in each known reply, as paths with the mark of a removal."""
    before_reply: dict[str, Spec] = field(default_factory=dict)
    """The container as received by each plugin whose reply is known."""

    def look(self) -> Created | None:
        pairs = [
            (station, cast("api.CreateContainerRequest", request))
            for station in self.stations
            if (request := request_of(station)) is not None
        ]
        if not pairs and self.owned is None:
            return None
        if pairs and not is_ordered(pairs[0][0]):
            return self._look_unordered(pairs)
        first = pairs[0][0] if pairs else None
        if self.owned is not None:
            container, base_owner = self.owned.request.container, SPEC
        else:
            container = pairs[0][1].container
            before = self.chain.between(None, first, or_runtime=True)
            base_owner = SPEC if before == RUNTIME else replace(before, or_spec=before.or_runtime)
            if self._is_replay():
                base_owner = SPEC
            elif first is None or first.index == LOWEST:
                base_owner = BEFORE_ALL
            else:
                self.found.note(
                    f"no connection before {pairs[0][0].plugin}: changes by plugins before it "
                    "are not told apart from the pod spec"
                )
        self.id = container.id
        described = b"" if self.for_others else oci.without_state(container)
        self.base = base = spec = oci.spec_of(container, known=described) if described else {}
        self.hidden = Hidden(base)
        self.expected = container
        before_this: ConnectionPart | None = None
        for station, request in pairs:
            spec = self._reach(spec, before_this, station, request)
            spec = self._reply(spec, station, request)
            before_this = station
            if self.found.failure:
                break
        spec = self._conflicts(spec, tuple(station for station, _ in pairs))
        last = before_this
        tail, removers = RUNTIME, dict[str, Owner]()
        if self.owned is not None:
            validation = Validation(self.owned, self.chain, self.found, base)
            end = validation.end(spec, last, self.removals)
            if end is None:
                tail = self.chain.between(last, None, or_runtime=True)
            spec = spec if end is None else end
            validation.compare(spec)
            removers = validation.removers
        elif last is not None and not self.found.failure and not self._is_replay():
            tail = self.chain.between(last, None, or_runtime=True)
        if not self.for_others:
            spec = self._without_dropped(spec, last)
            self.found.supersede()
        if spec.get("mounts") != base.get("mounts"):
            spec = oci.sort_mounts(spec)
        described = described if spec is base else b""
        return Created(
            container, self.chain, base, base_owner, spec, self.found, tail,
            removers, described,
        )  # fmt: skip

    def _look_unordered(
        self, pairs: Sequence[tuple[ConnectionPart, api.CreateContainerRequest]]
    ) -> Created:
        """Evaluate replies of plugins that all received the original container, as in iSulad."""
        request = pairs[0][1]
        container = request.container
        self.id = container.id
        self.base = spec = {} if self.for_others else oci.spec_of(container)
        turn = merging.IsuladCreation(request, version=version_of(pairs[0][0]))
        if not self._is_replay():
            self.found.note(runtime_rules_of(pairs[0][0]).blind_spot)
        for station, _ in pairs:
            event, source = station.event, Source.of(station)
            if event.status_code not in (0, *GONE):
                self.found.note(f"{error_text(station)}; {CONTINUED}")
            reply = cast("api.CreateContainerResponse | None", reply_of(station))
            if reply is None or (station.is_passive and is_empty_reply(reply)):
                continue
            known = len(turn.dropped)
            try:
                turn.apply(reply, station.plugin)
            except AdjustmentRefused as error:
                self.found.fail(f"{station.plugin}: {error.problem}")
                break
            if self.for_others:
                continue
            own = isulad_spec.as_requested(turn.applied[-1][1])
            after = isulad_spec.adjust(spec, own)
            for gone in turn.dropped[known:]:
                target, outcome = gone.container_id or self.id, dropped(gone.reason)
                self.found.ask(target, gone.path, gone.value, source, outcome)
            notes = isulad_spec.notes(turn, station.plugin)
            for change in specs.changes(spec, after):
                note = notes.get(change.path, "")
                self.found.steps.append(step(self.id, change, source, note))
            spec = after
        refusal = isulad_spec.creation_refusal(turn)
        if refusal is not None:
            self.found.fail(f"{refusal.plugin}: {refusal.reason}")
        refusal = refusal or isulad_spec.start_refusal(turn)
        if refusal is not None:
            for one in self.found.steps:
                if one.owner == plugin(refusal.plugin) and one.change.path in refusal.paths:
                    one.outcome, one.note = refused(refusal.reason, Shows.RULE), ""
        self.found.supersede()
        tail = RUNTIME if self._is_replay() else self.chain.between(None, None, or_runtime=True)
        return Created(container, self.chain, self.base, SPEC, spec, self.found, tail)

    def _is_replay(self) -> bool:
        """Return whether nri-scope was the runtime, and so observed every plugin."""
        return bool(self.stations) and all(
            station.session.role == Role.REPLAY for station in self.stations
        )

    def _without_dropped(self, spec: Spec, last: ConnectionPart | None) -> Spec:
        """Undo what later plugins see and the runtime does not apply; settle these requests."""
        if self.found.failure:
            return spec
        for number in standing(self.found.steps):
            # Changes that no observed reply requested.
            made = self.found.steps[number]
            reason = _never_applied(made.change.path)
            if reason and last is not None and runtime_rules_of(last).adjusts_as_upstream:
                made.outcome = dropped(reason)
        newest = newest_steps(one for one in self.found.steps if one.is_expected)
        cancelled = {path: one for path, one in newest.items() if not one.has_effect}
        back = [change for path in cancelled if (change := self._undoing(path, spec)) is not None]
        for one in self.found.steps:
            by = cancelled.get(one.change.path)
            if by is not None and one.has_effect:
                # The value before the chain stays, not that of an earlier plugin.
                one.outcome, one.is_expected = superseded_by(by), False
        return specs.apply(spec, back) if back else spec

    def _undoing(self, path: str, spec: Spec) -> Change | None:
        """Return the change that restores the value before the chain; None if it is unchanged."""
        now, first = specs.value_at(spec, path), specs.value_at(self.base, path)
        if now is specs.ABSENT:
            return None if first is specs.ABSENT else Change(path, None, first, "added")
        if first is specs.ABSENT:
            return Change(path, now, None, "removed")
        return None if specs.same(now, first) else Change(path, now, first, "changed")

    def _reach(
        self,
        spec: Spec,
        after: ConnectionPart | None,
        station: ConnectionPart,
        request: api.CreateContainerRequest,
    ) -> Spec:
        """Apply to `spec` the changes made between `after` and `station`."""
        if self.for_others or request.container == self.expected:
            return spec
        shown = self.hidden.put_on(oci.spec_of(request.container))
        if after is None and self.owned is None:
            return shown
        between = self.chain.between(after, station)
        for change in changes_of_chain(spec, shown):
            self.found.steps.append(self._unseen(change, between, station.event))
        self.expected = request.container
        return shown

    def _unseen(self, change: Change, between: Owner, event: Event) -> ChangeStep:
        """Return a step for a difference of two snapshots, made by plugins `between` them."""
        made = step(self.id, change, Source(between, Evidence.PROBES, event))
        if self.owned is None or change.kind == "moved":
            # Several lists of moves lead to the same order, so validators name no owner of a move.
            return made
        names = tuple(
            name for name in self.owned.owners_of(self.id, change.path) if between.may_be(name)
        )
        if not names:
            return made
        # The field's last owner is a possible owner of this change. If a later plugin changed the
        # field again, `_compare` detects that.
        made.owner, made.evidence = one_of(*names), (*made.evidence, Evidence.VALIDATOR)
        return made

    def _reply(
        self, spec: Spec, station: ConnectionPart, request: api.CreateContainerRequest
    ) -> Spec:
        """Return the spec with the changes that the plugin behind `station` requested."""
        source = Source.of(station)
        if station.is_error:
            self.found.fail(error_text(station))
            return spec
        reply = cast("api.CreateContainerResponse | None", reply_of(station))
        if reply is None or is_empty_reply(reply):
            return spec
        version = version_of(station)
        turn = merging.Creation(request, version=version)
        cdi_drop = runtime_rules_of(station).drops_cdi_devices
        remarks = (
            *oci.remarks(reply.adjust, spec, cdi_drop=cdi_drop),
            *oci.empty_cpu_set(reply.adjust.linux.resources),
        )
        try:
            turn.apply(reply, station.plugin)
        except AdjustmentRefused as error:
            self._refused(spec, reply.adjust, source, error.problem)
            return spec
        if not self.for_others:
            spec = self._changed(spec, turn, reply, remarks, station)
        self.found.updates += [Wanted(source, each, merged=True) for each in reply.update]
        self.found.steps += other_evidence.evictions(source, reply.evict, runtime_rules_of(station))
        return spec

    def _changed(
        self,
        spec: Spec,
        turn: merging.Creation,
        reply: api.CreateContainerResponse,
        remarks: Iterable[oci.Remark],
        station: ConnectionPart,
    ) -> Spec:
        """Return the spec after a reply that `turn` has merged, and add its changes."""
        source = Source.of(station)
        self.expected = turn.request.container
        shown = oci.spec_of(turn.request.container)
        by_chance = REQUESTED._replace(reason=BY_CHANCE)
        for path in self.hidden.take(turn.adjustment, shown):
            removal = f"-{specs.split(path)[-1]}"
            self.found.ask(self.id, path, removal, source, by_chance)
        self.before_reply[station.plugin] = spec
        self.removals[station.plugin] = frozenset(
            specs.pointer(path, key)
            for path, keys in maps_of(reply.adjust)
            for key in keys
            if key.startswith("-")
        )
        after = self.hidden.put_on(shown)
        changes = changes_of_chain(spec, after)
        for change in changes:
            self.found.steps.append(step(self.id, change, source))
        self._take_dropped(turn.dropped, reply, spec, station)
        for one in remarks:
            path = path_of_change(one, changes)
            self.found.add_remark(self.id, source, one._replace(path=path))
        return after

    def _take_dropped(
        self,
        gone_fields: Iterable[Dropped],
        reply: api.CreateContainerResponse,
        spec: Spec,
        station: ConnectionPart,
    ) -> None:
        """Settle the requests for the fields that merging drops.

        The removal of a member only cancels the value of an earlier plugin; the runtime keeps its
        own value.
        """
        source = Source.of(station)
        made = newest_steps(one for one in self.found.steps if one.event == station.event.id)
        wanted = oci.adjust(spec, reply.adjust)
        for gone in gone_fields:
            if gone.container_id != self.id or gone.path == EVICTION:
                continue
            outcome = dropped(gone.reason)
            asked = made.get(gone.path)
            if gone.reason == NOT_PASSED_ON:
                if self.owned is None and not self._is_replay():
                    if asked is not None:
                        asked.outcome = REQUESTED._replace(reason=UNLESS_ITS_OWN)
                    continue
                if specs.value_at(self.base, gone.path) is specs.ABSENT:
                    continue
            if asked is not None:
                asked.outcome = outcome
                continue
            value: Json = value_at(wanted, gone.path)
            if value is None and specs.value_at(spec, gone.path) is specs.ABSENT:
                value = gone.value
            elif value is None:
                value = f"-{specs.split(gone.path)[-1]}"
            self.found.ask(self.id, gone.path, value, source, outcome)

    def _refused(
        self, spec: Spec, adjustment: api.ContainerAdjustment, source: Source, failure: str
    ) -> None:
        self.found.fail(failure)
        fields = {path for path, _ in requested_fields(adjustment)}
        for change in changes_of_chain(spec, oci.adjust(spec, adjustment)):
            # Any adjustment of variables merges those of the same name.
            if not specs.touches(change.path, fields):
                continue
            asked = step(self.id, change, source, outcome=refused(failure))
            asked.is_expected = False
            self.found.steps.append(asked)

    def _conflicts(self, spec: Spec, stations: tuple[ConnectionPart, ...]) -> Spec:
        """Undo the changes of the plugin whose reply made the round fail."""
        culprit, failure = _refusal(stations)
        if not failure or self.found.failure or self.created or self.owned is not None:
            return spec
        self.found.fail(failure)
        by_it = plugin(culprit)
        for one in self.found.steps:
            if one.owner == by_it:
                one.outcome, one.is_expected = refused(failure), False
        return self.before_reply.get(culprit, spec)


def _refusal(stations: tuple[ConnectionPart, ...]) -> tuple[str, str]:
    """Return the plugin whose reply made the round fail, and the error; "" for none.

    If the chain continued after a conflict, an unobserved plugin had removed the value in between.
    """
    replies = [
        (station, cast("api.CreateContainerResponse", reply))
        for station in stations
        if (reply := reply_of(station)) is not None and not is_empty_reply(reply)
    ]
    request = request_of(stations[0]) if replies else None
    if request is None:
        return "", ""
    first = cast("api.CreateContainerRequest", request)
    turn = merging.Creation(first, version=version_of(stations[0]))
    for station, reply in replies:
        try:
            turn.apply(reply, station.plugin)
        except AdjustmentRefused as error:
            return (station.plugin, error.problem) if station is stations[-1] else ("", "")
    return "", ""


def _never_applied(path: str) -> str:
    """Return the reason why runtimes never apply an adjustment of `path`; "" for other paths."""
    if not path.startswith(_ONLY_THE_LIMIT) or path in (_SWAP, f"{_ONLY_THE_LIMIT}limit"):
        return ""
    return oci.ONLY_THE_LIMIT
