# SPDX-License-Identifier: Apache-2.0
"""``kubectl nri-scope status``: the recorders of all nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..output import Output, table
from ..params import format_option, say
from . import cluster_options, kubectl_of

if TYPE_CHECKING:
    from nri_scope.cluster.node_states import NodeState

_HEADINGS = ("node", "recorder", "since", "gaps", "lost", "runtime", "NRI", "disk", "plugins")
"""The most important first, as narrow terminals show the first ones only."""


@click.command("status")
@cluster_options
@format_option("text|json", "json: one object, with a list of nodes.")
def command(output_format: str, **cluster: Any) -> int:
    """Show each node: its runtime, what its recorder observes, gaps and disk.

    Exit status 1 if a node has no agent, does not answer, or has no connected recorder.
    """
    from nri_scope.cluster.node_states import node_states

    kubectl = kubectl_of(cluster)

    async def ask() -> list[NodeState]:
        return [one async for one in node_states(kubectl, cluster["agent_namespace"], say)]

    states = sorted(asyncio.run(ask()), key=lambda one: one.node)
    with Output() as output:
        if output_format == "json":
            from nri_scope.recording.records import to_json

            output.line(to_json({"nodes": [one.document() for one in states]}))
        else:
            for line in _lines(states, output.width):
                output.line(line)
    return 0 if all(one.is_good for one in states) else 1


def _lines(states: Sequence[NodeState], width: int | None) -> Iterator[str]:
    yield from table(_HEADINGS, [_row(one) for one in states], width, right=(3, 4))
    answered = [one for one in states if one.status is not None]
    remarks = (
        (
            "NRI names other plugins only to validators; see deploy/kustomize/validate",
            any(not one.validates for one in answered),
        ),
        (
            "unknown until a container is created",
            any(one.validates and one.plugins is None for one in answered),
        ),
        (
            "as of the newest creation of a container; one that has ended since is still listed",
            any(one.plugins for one in answered),
        ),
    )
    if any(is_true for _, is_true in remarks):
        yield ""
    yield from (f"plugins: {text}" for text, is_true in remarks if is_true)


def _row(state: NodeState) -> tuple[str, ...]:
    from nri_scope.recording.display import moment, size

    status = state.status
    if status is None:
        return (state.node, state.problem, *[""] * 7)
    session, plugins, since = state.runtime, state.plugins, state.connected_since
    return (
        state.node,
        _recorder(state),
        "" if since is None else moment(since),
        str(state.gaps),
        str(state.lost),
        f"{session.runtime_name} {session.runtime_version}" if session else "unknown",
        session.nri_version if session else "",
        f"{size(status.recorded_bytes)}, {size(status.free_bytes)} free",
        "unknown" if plugins is None else ", ".join(plugins),
    )


def _recorder(state: NodeState) -> str:
    current = state.current
    if current is None:
        return "none is running"
    if current.problem:
        return current.problem
    if not current.connected:
        return "not connected"
    return "synchronised" if current.synchronized else "connected, not synchronised"
