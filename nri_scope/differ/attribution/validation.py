# SPDX-License-Identifier: Apache-2.0
"""The runtime's request to validators: the merged adjustment of a creation, and its last owners."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused
from nri_scope.events import Event
from nri_scope.nri import merging
from nri_scope.nri.changes import path_of_field, pointer
from nri_scope.nri.merging import NOT_PASSED_ON
from nri_scope.nri.versions import V0_10, V0_12, NriVersion
from nri_scope.specs import Change, Spec

from .attributed_changes import REQUESTED, ChangeStep, Claim, Evidence, dropped
from .hidden_changes import HiddenChanges, is_hidden, maps_of, newest_steps, undone_removal
from .observed_round import ConnectionPart, RoundChain, changes_of_chain
from .owner import UNKNOWN, Owner, OwnerKind, one_of
from .round_results import (
    RequestedUpdate,
    RequestSource,
    RoundResults,
    outcome_of,
    path_of_change,
    prefixes,
    standing,
    step,
    value_at,
)

_COUNT = re.compile(r"#\d+$")
_LIMIT, _SWAP = "/linux/resources/memory/limit", "/linux/resources/memory/swap"


@dataclass(frozen=True, slots=True)
class OwnerList:
    """The owners of fields in one ValidateContainerAdjustment request."""

    event: Event
    """The event of the request."""
    request: api.ValidateContainerAdjustmentRequest
    version: NriVersion | None
    rules: oci.RuntimeRules
    """The rules of the runtime."""
    _by_container: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Iterable[ConnectionPart]) -> OwnerList | None:
        """Return the list in the first request that can be decoded; None for none."""
        for part in parts:
            request = part.request_as(api.ValidateContainerAdjustmentRequest)
            if request is not None:
                return cls(part.event, request, part.version, part.rules)
        return None

    @property
    def plugins(self) -> tuple[str, ...]:
        """All plugins of the chain (``NN-name``), in call order."""
        return tuple(f"{each.index}-{each.name}" for each in self.request.plugins)

    def owners_of(self, container: str, path: str) -> tuple[str, ...]:
        """Return the last owner of the value at `path` or of its nearest parent; () for none.

        Hooks have several owners, as plugins append to them.
        """
        paths = self._paths(container)
        for candidate in prefixes(path):
            # A second member with the same key has that key's owner.
            owners = paths.get(candidate) or paths.get(_COUNT.sub("", candidate))
            if owners is not None:
                return owners
        # The runtime sets the swap limit to the memory limit.
        return paths.get(_LIMIT, ()) if path == _SWAP else ()

    def updates(self, plugins: Owner) -> list[RequestedUpdate]:
        """Return the merged updates of other containers, by `plugins`."""
        source = RequestSource(plugins, Evidence.VALIDATOR, self.event)
        return [
            RequestedUpdate(source, update, owners_at=partial(self.owners_of, update.container_id))
            for update in self.request.update
        ]

    def _paths(self, container: str) -> dict[str, tuple[str, ...]]:
        known = self._by_container.get(container)
        if known is None:
            known = _paths(self.request.owners.owners.get(container))
            if self.version is None or V0_10 <= self.version < V0_12:
                # These versions keep only the last owner of hooks, though plugins append.
                known.pop("/hooks", None)
            self._by_container[container] = known
        return known


def _paths(owners: api.FieldOwners | None) -> dict[str, tuple[str, ...]]:
    if owners is None:
        return {}
    names_of = {path_of_field(number): _names(owner) for number, owner in owners.simple.items()}
    for number, compound in owners.compound.items():
        base = path_of_field(number)
        for key, owner in compound.owners.items():
            # The name of a variable ends at the first "=", also in its OCI path.
            name = key.partition("=")[0] if number == api.Env else key
            path = pointer(base, name)
            names_of[path] = tuple(dict.fromkeys((*names_of.get(path, ()), *_names(owner))))
    return names_of


def _names(text: str) -> tuple[str, ...]:
    # Owners of hooks are separated by commas; the owner of a removal has a leading dash.
    return tuple(dict.fromkeys(name.removeprefix("-") for name in text.split(",") if name))


UNOWNED = ("/hooks/", "/linux/resources/devices/", "/nri/")
"""Paths whose owners are missing from the list of some runtime version."""


@dataclass(slots=True)
class Validation:
    """The comparison of one creation with its request to validators."""

    owner_list: OwnerList
    chain: RoundChain
    results: RoundResults
    base: Spec
    """The container before the chain."""
    removers: dict[str, Owner] = field(default_factory=dict)
    """The plugins that may have removed a key, by its path, which the merged adjustment also sets.
    The runtime applies both in random order."""

    @property
    def id(self) -> str:
        """The container's id."""
        return self.owner_list.request.container.id

    def end(
        self,
        spec: Spec,
        last: ConnectionPart | None,
        removals: Mapping[str, frozenset[str]],
    ) -> Spec | None:
        """Return the spec at the end of the chain, and add the changes since `spec`.

        ``removals``: the removed keys in each known reply. None if the request has no valid
        adjustment.
        """
        container = self._adjusted_container()
        if container is None:
            return None
        adjustment = self.owner_list.request.adjust
        shown = oci.spec_of(container)
        hidden = HiddenChanges(self.base)
        hidden.add(adjustment, shown)
        final = hidden.apply_to(shown)
        rest = self.chain.between(last, None)
        self._add_changes(changes_of_chain(spec, final), rest, last)
        self._add_remarks(adjustment, rest)
        # The list of owners has those that set a value, not those that removed it.
        self.removers = {
            specs.pointer(path, key): self._remover(specs.pointer(path, f"-{key}"), removals)
            for path, keys in maps_of(adjustment)
            for key in keys
            if f"-{key}" in keys
        }
        return final

    def _adjusted_container(self) -> api.Container | None:
        """Return the container with the merged adjustment; None if that is not valid."""
        request = self.owner_list.request
        merged = merging.CreationMerging(
            api.CreateContainerRequest(pod=request.pod, container=request.container),
            version=self.owner_list.version,
        )
        try:
            merged.apply(api.CreateContainerResponse(adjust=request.adjust), "")
        except AdjustmentRefused as error:
            self.results.note(f"the request to validators cannot be evaluated: {error.problem}")
            return None
        return merged.request.container

    def _add_changes(
        self, changes: Iterable[Change], rest: Owner, last: ConnectionPart | None
    ) -> None:
        """Add the changes that only the merged adjustment shows."""
        newest = newest_steps(each for each in self.results.steps if each.is_expected)
        for change in changes:
            if change.kind == "moved":
                # The merged adjustment does not keep the order of the plugins' changes.
                continue
            removal = undone_removal(change, self.base, newest)
            if removal is not None:
                removal.settle(dropped(NOT_PASSED_ON))
                continue
            self.results.steps.append(self._by_owner(change, rest, last))

    def _add_remarks(self, adjustment: api.ContainerAdjustment, rest: Owner) -> None:
        """Settle the requests of the merged adjustment on which there are remarks."""
        rules = self.owner_list.rules
        requests = newest_steps(self.results.steps)
        changes = [each.change for each in requests.values()]
        for remark in oci.remarks(adjustment, self.base, rules=rules):
            asked = requests.get(path_of_change(remark, changes))
            if rules.refusals is not None:
                # `CreationEvaluation` settles them.
                remark = remark._replace(kind="unresolved", reason="")
            if asked is not None and asked.outcome == REQUESTED:
                asked.settle(outcome_of(remark))
            elif asked is None:
                names = self.owner_list.owners_of(self.id, remark.path)
                owner = one_of(*names) if names else rest
                source = RequestSource(owner, Evidence.VALIDATOR, self.owner_list.event)
                self.results.add_remark(self.id, source, remark)

    def _remover(self, path: str, removals: Mapping[str, frozenset[str]]) -> Owner:
        """Return the plugins that may have removed a key, by the path with the removal's mark."""
        unseen = self.chain.between(None, None)
        seen = [name for name, paths in removals.items() if path in paths]
        if not seen:
            return unseen
        is_none = unseen.who is OwnerKind.RUNTIME
        return one_of(*seen, *unseen.plugins) if unseen.plugins or is_none else UNKNOWN

    def _by_owner(self, change: Change, rest: Owner, last: ConnectionPart | None) -> ChangeStep:
        """Return a step for a change that only the merged adjustment shows."""
        names = self.owner_list.owners_of(self.id, change.path)
        takes_mount = change.kind == "removed" and change.path.startswith("/mounts/")
        if names:
            owner = one_of(*names)
        elif is_hidden(change):
            owner = self.chain.between(None, None)
        elif change.path.startswith(UNOWNED) or takes_mount:
            owner = rest
        else:
            owner = UNKNOWN
        made = step(
            self.id, change, RequestSource(owner, Evidence.VALIDATOR, self.owner_list.event)
        )
        unseen = is_hidden(change)
        if last is None or unseen or not names:
            return made
        if rest.who is not OwnerKind.UNKNOWN and any(rest.may_be(name) for name in names):
            return made
        # The owner was called before a connection that did not see the change.
        return replace(made, disputed=(Claim(Evidence.PROBES, rest, change.before),))

    def compare(self, final: Spec) -> None:
        """Mark steps whose owner contradicts the runtime's list of owners as disputed."""
        steps = self.results.steps
        for number in standing(steps):
            request = steps[number]
            path = request.change.path
            names = self.owner_list.owners_of(self.id, path)
            if request.disputed or not names or path in self.removers:
                continue
            if any(request.owner.may_be(name) for name in names):
                continue
            later = [name for name in names if request.owner.is_before(name)]
            if later:
                request.confirm_owner(f"set again by {', '.join(later)} to the same value")
                continue
            request.dispute(Claim(Evidence.VALIDATOR, one_of(*names), value_at(final, path)))
