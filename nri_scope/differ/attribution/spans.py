# SPDX-License-Identifier: Apache-2.0
"""Compute the time that plugins took in one round."""

from __future__ import annotations

from itertools import pairwise

from nri_scope.events import Role
from nri_scope.nri.lifecycle import SYNCHRONIZE, VALIDATE

from .attributed_changes import Span
from .chain import Chain
from .owner import plugin
from .rounds import ASIDE, Round


def spans(one: Round, chain: Chain) -> tuple[Span, ...]:
    """Return the spans of observed plugins and between two observed connections, in order.

    A span between two connections includes the runtime's own time, but not the time of nri-scope's
    passive connections.
    """
    found: list[Span] = []
    if one.first.method in ASIDE and one.name != SYNCHRONIZE:
        return ()
    for station in one.stations:
        if not station.is_passive:
            event = station.event
            found.append(Span(plugin(station.plugin), "", "", event.took_ns, event.timeout_ns))
    if one.name != VALIDATE:
        # Validators are asked in parallel.
        for after, before in pairwise(one.stations):
            passed = before.event.mono_ns - after.answered_ns
            if after.session.role == before.session.role == Role.REPLAY:
                # nri-scope was the runtime: no plugin was between them.
                continue
            if passed >= 0:
                found.append(
                    Span(
                        chain.between(after, before),
                        after.plugin,
                        before.plugin,
                        passed,
                        before.event.timeout_ns,
                    )
                )
    return tuple(found)
