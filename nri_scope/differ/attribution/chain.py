# SPDX-License-Identifier: Apache-2.0
"""The plugins between two observed connections, and the time that they took.

Without an order of calls, as in iSulad, these can be any plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from nri_scope import oci, specs
from nri_scope.events import Role
from nri_scope.nri.events import SYNCHRONIZE, VALIDATE
from nri_scope.oci.runtime_rules import runtime_rules_of
from nri_scope.specs import Change, Spec

from .attributed_changes import PluginSpan
from .observed_round import ConnectionPart, Round
from .owner import UNKNOWN, Owner, OwnerKind, one_of, plugin
from .rounds import ASIDE

LOWEST, HIGHEST = "00", "99"


@dataclass(frozen=True, slots=True)
class RoundChain:
    """The known plugins of a round, in call order."""

    plugins: tuple[str, ...] = ()
    """All plugins (``NN-name``), if the runtime sent them to a validator; () otherwise."""
    seen: frozenset[str] = frozenset()
    """Plugins whose connections were observed; their changes are known from their replies."""
    is_ordered: bool = True
    """Whether plugins are called in the order of their indices."""

    @classmethod
    def of(cls, parts: Iterable[ConnectionPart], plugins: Sequence[str] = ()) -> RoundChain:
        """Return the chain of one round."""
        seen = _seen(tuple([(each.plugin, each.session.runtime_name) for each in parts]))
        return seen if not plugins else replace(seen, plugins=tuple(plugins))

    def between(
        self,
        after: ConnectionPart | None,
        before: ConnectionPart | None,
        *,
        or_runtime: bool = False,
    ) -> Owner:
        """Return the plugins between two connections; None for the chain's beginning or end."""
        if not self.is_ordered:
            return Owner(OwnerKind.ONE_OF, or_runtime=or_runtime)
        named = self._named(after, before)
        if named is None:
            low, high = (None if part is None else part.index for part in (after, before))
            return _range(low, high, or_runtime)
        if named:
            return one_of(*named, or_runtime=or_runtime)
        return Owner(OwnerKind.RUNTIME) if or_runtime else UNKNOWN

    def _named(
        self, after: ConnectionPart | None, before: ConnectionPart | None
    ) -> tuple[str, ...] | None:
        """Return the plugins by name; None if names are unknown or ambiguous."""
        if not self.plugins or len(set(self.plugins)) != len(self.plugins):
            return None
        start, end = 0, len(self.plugins)
        try:
            if after is not None:
                start = self.plugins.index(after.plugin) + 1
            if before is not None:
                end = self.plugins.index(before.plugin)
        except ValueError:
            return None
        return tuple(name for name in self.plugins[start:end] if name not in self.seen)


@lru_cache(maxsize=256)
def _seen(connections: tuple[tuple[str, str], ...]) -> RoundChain:
    """Return the chain of observed connections, by the names of plugins and runtimes."""
    ordered = all(runtime_rules_of(runtime).has_ordered_chain for _, runtime in connections)
    return RoundChain((), frozenset(plugin for plugin, _ in connections), ordered)


@lru_cache(maxsize=4096)
def _range(after: str | None, before: str | None, or_runtime: bool) -> Owner:
    low = LOWEST if after is None else after
    high = HIGHEST if before is None else before
    # Equal indices have no defined order: another plugin with the index of an observed one may be
    # called before or after it.
    ties = tuple(dict.fromkeys(each for each in (after, before) if each is not None))
    first = low if after is None else _next(low)
    last = high if before is None else _previous(high)
    if not (first and last and first <= last):
        # No index is in between: the owner can only share the index of an observed connection.
        first, last, ties = low, high, ()
    return Owner(OwnerKind.ONE_OF, first=first, last=last, ties=ties, or_runtime=or_runtime)


def _next(index: str) -> str:
    """Return the next index; "" after the highest."""
    return f"{int(index) + 1:02}" if index.isdigit() and index < HIGHEST else ""


def _previous(index: str) -> str:
    """Return the previous index; "" before the lowest."""
    return f"{int(index) - 1:02}" if index.isdigit() and index > LOWEST else ""


def changes_of_chain(before: Spec, after: Spec) -> tuple[Change, ...]:
    """Return the differences between two states of a container in the chain.

    Mounts have their final positions: a runtime that applies an adjustment with mounts sorts all
    mounts, regardless of the order that plugins saw.
    """
    if before.get("mounts") == after.get("mounts"):
        return specs.changes(before, after)
    return specs.changes(oci.sort_mounts(before), oci.sort_mounts(after))


def spans(round_: Round, chain: RoundChain) -> tuple[PluginSpan, ...]:
    """Return the spans of observed plugins and between two observed connections, in order.

    A span between two connections includes the runtime's own time, but not the time of nri-scope's
    passive connections.
    """
    result: list[PluginSpan] = []
    if round_.first.method in ASIDE and round_.name != SYNCHRONIZE:
        return ()
    for part in round_.parts:
        if not part.is_passive:
            event = part.event
            result.append(PluginSpan(plugin(part.plugin), "", "", event.took_ns, event.timeout_ns))
    if round_.name != VALIDATE:
        # Validators are asked in parallel.
        for after, before in pairwise(round_.parts):
            passed = before.event.mono_ns - after.answered_ns
            if after.session.role == before.session.role == Role.REPLAY:
                # nri-scope was the runtime: no plugin was between them.
                continue
            if passed >= 0:
                result.append(
                    PluginSpan(
                        chain.between(after, before),
                        after.plugin,
                        before.plugin,
                        passed,
                        before.event.timeout_ns,
                    )
                )
    return tuple(result)
