# SPDX-License-Identifier: Apache-2.0
"""Shares of plugins in the time that one round took."""

from __future__ import annotations

from itertools import pairwise

from nri_scope.events import Role

from .chain import Chain
from .model import Span
from .owner import plugin
from .rounds import ASIDE, SYNCHRONIZE, VALIDATE, Round


def spans(one: Round, chain: Chain) -> tuple[Span, ...]:
    """Return the time in plugins that were seen, and between two connections that were; in order.

    What passes between two connections is spent by the plugins between them, but for what the
    runtime itself takes. Our own time, in passive connections, is not among it.
    """
    found: list[Span] = []
    if one.first.method in ASIDE and one.name != SYNCHRONIZE:
        return ()
    for station in one.stations:
        if not station.is_passive:
            event = station.event
            found.append(Span(plugin(station.plugin), "", "", event.took_ns, event.timeout_ns))
    if one.name != VALIDATE:
        # Validators are asked all at once.
        for after, before in pairwise(one.stations):
            passed = before.event.mono_ns - after.answered_ns
            if after.session.role == before.session.role == Role.REPLAY:
                # We were the runtime: no plugin was between them.
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
