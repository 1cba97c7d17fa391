# SPDX-License-Identifier: Apache-2.0
"""Compare a creation with the runtime's request to validators: its adjustment and last owners."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused
from nri_scope.nri import merging
from nri_scope.nri.merging import NOT_PASSED_ON
from nri_scope.specs import Change, Spec

from .attributed_changes import REQUESTED, ChangeStep, Claim, Evidence, dropped
from .chain import RoundChain, changes_of_chain
from .hidden_changes import HiddenChanges, is_hidden, maps_of, newest_steps, undone_removal
from .observed_round import ConnectionPart
from .owner import UNKNOWN, Owner, OwnerKind, one_of
from .owner_list import OwnerList
from .round_results import (
    RequestSource,
    RoundResults,
    outcome_of,
    path_of_change,
    standing,
    step,
    value_at,
)

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
        requests = newest_steps(self.results.steps)
        changes = [each.change for each in requests.values()]
        for remark in oci.remarks(adjustment, self.base):
            asked = requests.get(path_of_change(remark, changes))
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
