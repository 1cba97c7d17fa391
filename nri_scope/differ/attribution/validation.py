# SPDX-License-Identifier: Apache-2.0
"""Compare a creation with the runtime's request to validators: its adjustment and last owners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused
from nri_scope.nri import merging
from nri_scope.nri.merging import NOT_PASSED_ON
from nri_scope.specs import Change, Spec

from .attributed_changes import REQUESTED, ChangeStep, Claim, Evidence, dropped
from .chain import Chain, changes_of_chain
from .findings import Findings, Source, outcome_of, path_of_change, standing, step, value_at
from .hidden_changes import Hidden, is_back, is_hidden, maps_of, newest_steps
from .owner import UNKNOWN, Owned, Owner, OwnerKind, one_of
from .rounds import ConnectionPart

UNOWNED = ("/hooks/", "/linux/resources/devices/", "/nri/")
"""Paths whose owners are missing from the list of some runtime version."""


@dataclass(slots=True)
class Validation:
    """The comparison of one creation with its request to validators."""

    owned: Owned
    chain: Chain
    found: Findings
    base: Spec
    """The container before the chain."""
    removers: dict[str, Owner] = field(default_factory=dict)
    """The plugins that may have removed a key, by its path, which the merged adjustment also sets.
    The runtime applies both in random order."""

    @property
    def id(self) -> str:
        """The container's id."""
        return self.owned.request.container.id

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
        base, owned = self.base, self.owned
        request = owned.request
        turn = merging.Creation(
            api.CreateContainerRequest(pod=request.pod, container=request.container),
            version=owned.version,
        )
        merged = api.CreateContainerResponse(adjust=request.adjust)
        try:
            turn.apply(merged, "")
        except AdjustmentRefused as error:
            self.found.note(f"the request to validators cannot be evaluated: {error.problem}")
            return None
        shown = oci.spec_of(turn.request.container)
        hidden = Hidden(base)
        hidden.take(request.adjust, shown)
        final = hidden.put_on(shown)
        rest = self.chain.between(last, None)
        newest = newest_steps(one for one in self.found.steps if one.is_expected)
        for change in changes_of_chain(spec, final):
            if change.kind == "moved":
                # The merged adjustment does not keep the order of the plugins' changes.
                continue
            removal = is_back(change, base, newest)
            if removal is not None:
                removal.outcome = dropped(NOT_PASSED_ON)
                continue
            self.found.steps.append(self._by_owner(change, rest, last))
        standing_steps = newest_steps(self.found.steps)
        changes = [each.change for each in standing_steps.values()]
        for one in oci.remarks(request.adjust, base):
            asked = standing_steps.get(path_of_change(one, changes))
            if asked is not None and asked.outcome == REQUESTED:
                asked.outcome = outcome_of(one)
            elif asked is None:
                names = owned.owners_of(self.id, one.path)
                owner = one_of(*names) if names else rest
                source = Source(owner, Evidence.VALIDATOR, owned.event)
                self.found.add_remark(self.id, source, one)
        # The list of owners has those that set a value, not those that removed it.
        self.removers = {
            specs.pointer(path, key): self._remover(specs.pointer(path, f"-{key}"), removals)
            for path, keys in maps_of(request.adjust)
            for key in keys
            if f"-{key}" in keys
        }
        return final

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
        names = self.owned.owners_of(self.id, change.path)
        takes_mount = change.kind == "removed" and change.path.startswith("/mounts/")
        if names:
            owner = one_of(*names)
        elif is_hidden(change):
            owner = self.chain.between(None, None)
        elif change.path.startswith(UNOWNED) or takes_mount:
            owner = rest
        else:
            owner = UNKNOWN
        made = step(self.id, change, Source(owner, Evidence.VALIDATOR, self.owned.event))
        unseen = is_hidden(change)
        if last is None or unseen or not names:
            return made
        if rest.who is not OwnerKind.UNKNOWN and any(rest.may_be(name) for name in names):
            return made
        # The owner was called before a connection that did not see the change.
        made.disputed = (Claim(Evidence.PROBES, rest, change.before),)
        return made

    def compare(self, final: Spec) -> None:
        """Mark steps whose owner contradicts the runtime's list of owners as disputed."""
        steps = self.found.steps
        for number in standing(steps):
            one = steps[number]
            path = one.change.path
            names = self.owned.owners_of(self.id, path)
            if one.disputed or not names or path in self.removers:
                continue
            if any(one.owner.may_be(name) for name in names):
                continue
            later = [name for name in names if one.owner.is_before(name)]
            if later:
                again = f"set again by {', '.join(later)} to the same value"
                one.note, one.evidence = again, (*one.evidence, Evidence.VALIDATOR)
                continue
            one.disputed = (Claim(Evidence.VALIDATOR, one_of(*names), value_at(final, path)),)
