# SPDX-License-Identifier: Apache-2.0
"""Evaluate one CreateContainer in the chain, and find the owners of its changes.

Each connection shows the container as changed by all plugins before it. A plugin's own reply shows
its changes; further differences at the next connection are changes by plugins in between. The
runtime's own list of owners, if there is one, is compared last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import cast

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused
from nri_scope.events import Event, Role
from nri_scope.nri import merging
from nri_scope.nri.merging import NOT_PASSED_ON, Dropped
from nri_scope.nri.merging.isulad import SWAPPED
from nri_scope.nri.no_change import is_empty_reply
from nri_scope.nri.versions import NriVersion
from nri_scope.specs import Change, Json, Spec

from . import evidence as other_evidence
from .attributed_changes import EVICTION, ChangeStep, Claim, Evidence, PluginRequest, RequestFate
from .chain import LOWEST, Chain
from .findings import (
    Findings,
    Wanted,
    error_text,
    evidence_of,
    reply_of,
    request_of,
    runtime_rules_of,
    standing,
    step,
    value_at,
    version_of,
)
from .hidden_changes import BY_CHANCE, Hidden, is_back, is_hidden, newest_steps
from .owner import BEFORE_ALL, RUNTIME, SPEC, UNKNOWN, Owner, OwnerKind, one_of, plugin
from .rounds import CONTINUED, GONE, ConnectionPart, is_ordered
from .validator_owners import Owned

UNOWNED = ("/hooks/", "/linux/resources/devices/", "/nri/")
"""Paths whose owners are missing from the list of some runtime version."""
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
    described: bytes = b""
    """The message of which `spec` is the conversion, see `oci.without_state`; b"" if it has other
    changes."""


def creation(
    stations: tuple[ConnectionPart, ...], owned: Owned | None, *, for_others: bool = False
) -> Created | None:
    """Evaluate one round and its request to validators; either may be missing.

    ``for_others``: evaluate only the failure and the requests for other containers, not the
    container's own specs and changes. Return None if no message can be decoded.
    """
    return _Creation(stations, owned, for_others and owned is None).look()


class _Creation:
    def __init__(
        self, stations: tuple[ConnectionPart, ...], owned: Owned | None, for_others: bool
    ) -> None:
        self.stations = stations
        self.for_others = for_others
        self.owned = owned
        self.chain = Chain.of(stations, owned.plugins if owned else ())
        self.found = Findings()
        self.id = ""
        self.expected = api.Container()
        """The container that the next plugin receives if no unobserved plugin changes it first."""
        self.hidden = Hidden({})
        self.base: Spec = {}
        """The container before the chain, or as seen by the first connection."""
        self.before_reply: dict[str, Spec] = {}
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
            before = _at_first(self.chain.between(None, first, or_runtime=True))
            base_owner = BEFORE_ALL if first is None or first.index == LOWEST else before
            if self._is_replay():
                base_owner = SPEC
            elif base_owner is not BEFORE_ALL:
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
        tail = RUNTIME
        if self.owned is not None:
            end = self._end(spec, base, last, self.owned)
            if end is None:
                tail = self.chain.between(last, None, or_runtime=True)
            spec = spec if end is None else end
            self._compare(spec, self.owned)
        elif last is not None and not self.found.failure and not self._is_replay():
            tail = self.chain.between(last, None, or_runtime=True)
        if not self.for_others:
            spec = self._back(spec, last)
        if spec.get("mounts") != base.get("mounts"):
            spec = oci.sort_mounts(spec)
        described = described if spec is base else b""
        return Created(container, self.chain, base, base_owner, spec, self.found, tail, described)

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
            event, owner, evidence = station.event, plugin(station.plugin), evidence_of(station)
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
            after = oci.adjust(spec, turn.applied[-1][1], memory_as_is=True)
            notes = self._dropped_by_isulad(turn.dropped[known:], owner, evidence, event)
            for change in changes_of_chain(spec, after):
                note = notes.get(change.path, "")
                self.found.steps.append(step(self.id, change, owner, evidence, event, note))
            spec = after
        failure, culprit = turn.failure
        if failure:
            self.found.fail(f"{culprit}: {failure}")
        if spec.get("mounts") != self.base.get("mounts"):
            spec = oci.sort_mounts(spec)
        return Created(container, self.chain, self.base, SPEC, spec, self.found, UNKNOWN)

    def _dropped_by_isulad(
        self, dropped: Iterable[Dropped], owner: Owner, evidence: Evidence, event: Event
    ) -> dict[str, str]:
        """Add the requests that iSulad drops; return notes on the ones that it changes, by path."""
        notes: dict[str, str] = {}
        for gone in dropped:
            if gone.reason == SWAPPED:
                notes[gone.path] = gone.reason
            else:
                asked = PluginRequest(
                    gone.container_id or self.id, owner, gone.path, gone.value, gone.reason,
                    evidence, event.id,
                )  # fmt: skip
                self.found.ask(asked)
        return notes

    def _is_replay(self) -> bool:
        """Return whether nri-scope was the runtime, and so observed every plugin."""
        return bool(self.stations) and all(
            station.session.role == Role.REPLAY for station in self.stations
        )

    @property
    def _sees_all(self) -> bool:
        """Whether the container's state before the chain is known."""
        return self.owned is not None or self._is_replay()

    def _back(self, spec: Spec, last: ConnectionPart | None) -> Spec:
        """Undo changes that later plugins see and the runtime does not apply."""
        if self.found.failure:
            return spec
        reasons: dict[str, tuple[str, Evidence, int]] = {}
        newest = newest_steps(self.found.steps)
        for one in self.found.asked:
            step = newest.get(one.path)
            if one.container != self.id or step is None or one.path == _SWAP:
                continue
            # A later plugin may have changed the value again.
            is_it = step.change.kind == "removed" or step.change.after == one.value
            if one.fate is RequestFate.NOT_APPLIED and is_it:
                reasons[one.path] = one.reason, one.evidence, one.event
        for number in standing(self.found.steps):
            # Changes that no observed reply requested.
            made = self.found.steps[number]
            reason = _never_applied(made.change.path)
            if reason and last is not None and runtime_rules_of(last).adjusts_as_upstream:
                reasons.setdefault(made.change.path, (reason, made.evidence[0], made.event))
        back: list[Change] = []
        for path, (reason, evidence, event) in reasons.items():
            change = self._undoing(path, spec)
            if change is not None:
                back.append(change)
                at_ns = self._time(event)
                undone = ChangeStep(
                    self.id, change, RUNTIME, (evidence,), event, at_ns, note=reason
                )
                self.found.steps.append(undone)
        return specs.apply(spec, back) if back else spec

    def _undoing(self, path: str, spec: Spec) -> Change | None:
        """Return the change that restores the value before the chain; None if it is unchanged."""
        now, first = specs.value_at(spec, path), specs.value_at(self.base, path)
        if now is specs.ABSENT:
            return None if first is specs.ABSENT else Change(path, None, first, "added")
        if first is specs.ABSENT:
            return Change(path, now, None, "removed")
        return None if specs.same(now, first) else Change(path, now, first, "changed")

    def _time(self, event: int) -> int:
        """Return the wall-clock time of an event of this round."""
        events = [station.event for station in self.stations]
        events += [self.owned.event] if self.owned is not None else []
        return next((one.at_ns for one in events if one.id == event), 0)

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
        shown = self._with_hidden(oci.spec_of(request.container))
        if after is None and self.owned is None:
            return shown
        between = self.chain.between(after, station)
        for change in changes_of_chain(spec, shown):
            self.found.steps.append(self._unseen(change, between, station.event))
        self.expected = request.container
        return shown

    def _unseen(self, change: Change, between: Owner, event: Event) -> ChangeStep:
        """Return a step for a difference of two snapshots, made by plugins `between` them."""
        made = step(self.id, change, between, Evidence.PROBES, event)
        if self.owned is None or change.kind == "moved":
            # Several lists of moves lead to the same order, so validators name no owner of a move.
            return made
        names = tuple(
            name for name in self.owned.owners_of(self.id, change.path) if may_be(between, name)
        )
        if not names:
            return made
        # The field's last owner is a possible owner of this change. If a later plugin changed the
        # field again, `_compare` detects that.
        return replace(made, owner=one_of(*names), evidence=(*made.evidence, Evidence.VALIDATOR))

    def _reply(
        self, spec: Spec, station: ConnectionPart, request: api.CreateContainerRequest
    ) -> Spec:
        """Return the spec with the changes that the plugin behind `station` requested."""
        event, owner, evidence = station.event, plugin(station.plugin), evidence_of(station)
        if station.is_error:
            self.found.fail(error_text(station))
            return spec
        reply = cast("api.CreateContainerResponse | None", reply_of(station))
        if reply is None or is_empty_reply(reply):
            return spec
        version = version_of(station)
        turn = merging.Creation(request, version=version)
        remarks = oci.remarks(reply.adjust, spec) if reply.HasField("adjust") else ()
        try:
            turn.apply(reply, station.plugin)
        except AdjustmentRefused as error:
            self._refused(spec, reply.adjust, owner, evidence, event, error.problem)
            return spec
        if not self.for_others:
            spec = self._changed(spec, turn, reply, remarks, station)
        self.found.updates += [
            Wanted(owner, evidence, event, each, merged=True) for each in reply.update
        ]
        self.found.asked += other_evidence.evictions(
            owner, evidence, event, reply.evict, runtime_rules_of(station)
        )
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
        event, owner, evidence = station.event, plugin(station.plugin), evidence_of(station)
        self.expected = turn.request.container
        shown = oci.spec_of(turn.request.container)
        self.found.asked += [
            PluginRequest(
                self.id, owner, path, None, BY_CHANCE, evidence, event.id, RequestFate.UNKNOWN
            )
            for path in self.hidden.take(turn.adjustment, shown)
        ]
        self.before_reply[station.plugin] = spec
        after = self._with_hidden(shown)
        changes = changes_of_chain(spec, after)
        notes = _notes(remarks, changes)
        notes |= self._take_dropped(turn.dropped, reply, spec, owner, evidence, event)
        for change in changes:
            note = notes.get(change.path, "")
            self.found.steps.append(step(self.id, change, owner, evidence, event, note))
        for one in remarks:
            # Resolved and unresolved values have an effect, which the note of the step describes.
            if one.kind not in ("resolved", "unresolved"):
                self.found.add_remark(self.id, owner, evidence, event, one)
        return after

    def _take_dropped(
        self,
        dropped: Iterable[Dropped],
        reply: api.CreateContainerResponse,
        spec: Spec,
        owner: Owner,
        evidence: Evidence,
        event: Event,
    ) -> dict[str, str]:
        """Add requests for the fields that merging drops; return notes for steps, by path.

        The removal of a member only cancels the value of an earlier plugin; the runtime keeps its
        own value.
        """
        notes: dict[str, str] = {}
        wanted = oci.adjust(spec, reply.adjust)
        for gone in dropped:
            if gone.container_id != self.id or gone.path == EVICTION:
                continue
            if gone.reason == NOT_PASSED_ON:
                if not self._sees_all:
                    notes[gone.path] = UNLESS_ITS_OWN
                    continue
                if specs.value_at(self.base, gone.path) is specs.ABSENT:
                    continue
            value: Json = value_at(wanted, gone.path)
            if value is None and specs.value_at(spec, gone.path) is specs.ABSENT:
                value = gone.value
            elif value is None:
                value = f"-{specs.split(gone.path)[-1]}"
            self.found.ask(
                PluginRequest(self.id, owner, gone.path, value, gone.reason, evidence, event.id)
            )
        return notes

    def _refused(
        self,
        spec: Spec,
        adjustment: api.ContainerAdjustment,
        owner: Owner,
        evidence: Evidence,
        event: Event,
        failure: str,
    ) -> None:
        self.found.fail(failure)
        for change in changes_of_chain(spec, oci.adjust(spec, adjustment)):
            self.found.asked.append(
                PluginRequest(
                    self.id, owner, change.path, change.after, failure, evidence, event.id
                )
            )

    def _conflicts(self, spec: Spec, stations: tuple[ConnectionPart, ...]) -> Spec:
        """Undo the changes of the plugin whose reply made the round fail."""
        culprit, failure = _refusal(stations)
        if not failure or self.found.failure:
            return spec
        self.found.fail(failure)
        by_it = plugin(culprit)
        refused = [one for one in self.found.steps if one.owner == by_it]
        self.found.steps = [one for one in self.found.steps if one.owner != by_it]
        self.found.asked += [one.asked(failure) for one in refused]
        return self.before_reply.get(culprit, spec)

    def _end(
        self, spec: Spec, base: Spec, last: ConnectionPart | None, owned: Owned
    ) -> Spec | None:
        """Return the spec at the end of the chain from the validators' request; None if unknown."""
        request = owned.request
        turn = merging.Creation(
            api.CreateContainerRequest(pod=request.pod, container=request.container),
            version=self._version(),
        )
        merged = api.CreateContainerResponse(adjust=request.adjust)
        try:
            turn.apply(merged, "")
        except AdjustmentRefused as error:
            self.found.note(f"the request to validators cannot be evaluated: {error.problem}")
            return None
        shown = oci.spec_of(turn.request.container)
        self.hidden = Hidden(base)
        self.hidden.take(request.adjust, shown)
        final = self._with_hidden(shown)
        rest = self.chain.between(last, None)
        newest = newest_steps(self.found.steps)
        for change in changes_of_chain(spec, final):
            if change.kind == "moved":
                # The merged adjustment does not keep the order of the plugins' changes.
                continue
            removal = is_back(change, base, newest)
            if removal is not None:
                self._kept(change, removal, owned)
                continue
            self.found.steps.append(self._by_owner(change, rest, last, owned))
        seen = {(one.path, one.container) for one in self.found.asked}
        for one in oci.remarks(request.adjust, base):
            if (one.path, self.id) not in seen:
                names = owned.owners_of(self.id, one.path)
                owner = one_of(*names) if names else rest
                self.found.add_remark(self.id, owner, Evidence.VALIDATOR, owned.event, one)
        return final

    def _kept(self, change: Change, removal: ChangeStep, owned: Owned) -> None:
        """Add the runtime's own value, which stays in spite of a plugin's removal."""
        made = step(self.id, change, RUNTIME, Evidence.VALIDATOR, owned.event, NOT_PASSED_ON)
        self.found.steps.append(made)
        self.found.ask(not_passed_on(removal, owned.event))

    def _by_owner(
        self, change: Change, rest: Owner, last: ConnectionPart | None, owned: Owned
    ) -> ChangeStep:
        """Return a step for a change that only the merged adjustment shows."""
        names = owned.owners_of(self.id, change.path)
        if names:
            owner = one_of(*names)
        elif is_hidden(change):
            owner = self.chain.between(None, None)
        elif change.path.startswith(UNOWNED) or _takes_mount(change):
            owner = rest
        else:
            owner = UNKNOWN
        made = step(self.id, change, owner, Evidence.VALIDATOR, owned.event)
        unseen = is_hidden(change)
        if last is None or unseen or not names:
            return made
        if rest.who is not OwnerKind.UNKNOWN and any(may_be(rest, name) for name in names):
            return made
        # The owner was called before a connection that did not see the change.
        return replace(made, disputed=(Claim(Evidence.PROBES, rest, change.before),))

    def _compare(self, final: Spec, owned: Owned) -> None:
        """Mark steps whose owner contradicts the runtime's list of owners as disputed."""
        steps = self.found.steps
        for number in standing(steps):
            one = steps[number]
            path = one.change.path
            names = owned.owners_of(self.id, path)
            if one.disputed or not names or one.owner.who is OwnerKind.RUNTIME:
                continue
            if any(may_be(one.owner, name) for name in names):
                continue
            later = [name for name in names if _is_later(name, one.owner)]
            if later:
                again = f"set again by {', '.join(later)} to the same value"
                steps[number] = replace(
                    one, note=again, evidence=(*one.evidence, Evidence.VALIDATOR)
                )
                continue
            claim = Claim(Evidence.VALIDATOR, one_of(*names), value_at(final, path))
            steps[number] = replace(one, disputed=(claim,))

    def _with_hidden(self, spec: Spec) -> Spec:
        return self.hidden.put_on(spec)

    def _version(self) -> NriVersion | None:
        return version_of(self.stations[0]) if self.stations else None


def _refusal(stations: tuple[ConnectionPart, ...]) -> tuple[str, str]:
    """Return the plugin whose reply made the round fail, and the error; "" for none."""
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
            return station.plugin, error.problem
    return "", ""


def changes_of_chain(before: Spec, after: Spec) -> tuple[Change, ...]:
    """Return the differences between two states of a container in the chain.

    Mounts have their final positions: a runtime that applies an adjustment with mounts sorts all
    mounts, regardless of the order that plugins saw.
    """
    if before.get("mounts") == after.get("mounts"):
        return specs.changes(before, after)
    return specs.changes(oci.sort_mounts(before), oci.sort_mounts(after))


def _notes(remarks: Iterable[oci.Remark], changes: Iterable[Change]) -> dict[str, str]:
    """Return notes on changes, by path.

    A note on an unresolved part is at the path of the change that contains it.
    """
    paths = {change.path for change in changes}
    notes: dict[str, str] = {}
    for one in remarks:
        path = one.path
        while path and path not in paths and one.kind == "unresolved":
            path = path.rpartition("/")[0]
        notes.setdefault(path or one.path, one.reason)
    return notes


def not_passed_on(removal: ChangeStep, event: Event) -> PluginRequest:
    """Return a removal as a request without effect, which `event` shows."""
    asked = removal.asked(NOT_PASSED_ON)
    return asked._replace(value=f"-{specs.split(asked.path)[-1]}", event=event.id)


@lru_cache(maxsize=256)
def _at_first(owner: Owner) -> Owner:
    """Return the owner of the first state, for the plugins before the first connection."""
    return SPEC if owner == RUNTIME else replace(owner, or_spec=owner.or_runtime)


def _never_applied(path: str) -> str:
    """Return the reason why runtimes never apply an adjustment of `path`; "" for other paths."""
    if not path.startswith(_ONLY_THE_LIMIT) or path in (_SWAP, f"{_ONLY_THE_LIMIT}limit"):
        return ""
    return oci.ONLY_THE_LIMIT


def _takes_mount(change: Change) -> bool:
    """Return whether the change removes a mount; such a removal has no owner."""
    return change.kind == "removed" and change.path.startswith("/mounts/")


def _is_later(name: str, owner: Owner) -> bool:
    """Return whether the plugin `name` was called after all possible plugins of `owner`."""
    highest = max(each[:2] for each in owner.plugins) if owner.plugins else owner.last
    return bool(highest) and name[:2] >= highest


def may_be(owner: Owner, name: str) -> bool:
    """Return whether `owner` may be the plugin `name` (``NN-name``)."""
    if owner.plugins:
        return name in owner.plugins
    if owner.who is OwnerKind.ONE_OF and owner.first:
        return owner.first <= name[:2] <= owner.last or name[:2] in owner.ties
    return owner.who in (OwnerKind.UNKNOWN, OwnerKind.ONE_OF)
