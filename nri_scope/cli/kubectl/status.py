# SPDX-License-Identifier: Apache-2.0
"""``kubectl nri-scope status``: the recorders of all nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..output import Output, table
from ..params import format_option, say
from . import ClusterOptions, cluster_options

if TYPE_CHECKING:
    from nri_scope.cluster.node_states import NodeState

_HEADINGS = ("node", "recorder", "since", "gaps", "lost", "runtime", "NRI", "disk", "plugins")
"""The most important first, as narrow terminals show the first ones only."""


@click.command("status")
@cluster_options
@format_option("text|json", "json: one object, with a list of nodes.")
def command(output_format: str, **options: Any) -> int:
    """Show the runtime, recorder, gaps and disk of each node.

    Exit status 1 if a node has no agent, does not answer, or has no connected recorder.
    """
    from nri_scope.cluster.node_states import node_states

    cluster = ClusterOptions(**options)

    async def ask() -> list[NodeState]:
        return [node async for node in node_states(cluster.kubectl, cluster.agent_namespace, say)]

    states = sorted(asyncio.run(ask()), key=lambda node: node.node)
    with Output() as output:
        if output_format == "json":
            from nri_scope.recording.reading.records import to_json

            output.line(to_json({"nodes": [node.document() for node in states]}))
        else:
            for line in status_lines(states, output.width):
                output.line(line)
    return 0 if all(node.is_good for node in states) else 1


def status_lines(states: Sequence[NodeState], width: int | None) -> Iterator[str]:
    """Yield the table of agents that replied, then the others; None: of unlimited width."""
    from nri_scope.text.quantities import many

    answered = [node for node in states if node.status is not None]
    if answered:
        yield from table(_HEADINGS, [status_row(node) for node in answered], width, right=(3, 4))
    silent: dict[str, list[str]] = {}
    for node in states:
        if node.status is None:
            silent.setdefault(node.problem, []).append(node.node)
    for problem, nodes in silent.items():
        yield f"no answer from {many(len(nodes), 'node')}: {problem}: {', '.join(nodes)}"
    remarks = (
        (
            "NRI names other plugins only to validators; see deploy/kustomize/validate",
            any(not node.validates for node in answered),
        ),
        (
            "unknown until a container is created",
            any(node.validates and node.plugins is None for node in answered),
        ),
        (
            "as of the newest creation of a container; one that has ended since is still listed",
            any(node.plugins for node in answered),
        ),
    )
    if any(is_true for _, is_true in remarks):
        yield ""
    yield from (f"plugins: {text}" for text, is_true in remarks if is_true)


def status_row(state: NodeState) -> tuple[str, ...]:
    """Return the cells of a node whose agent replied."""
    from nri_scope.text.quantities import moment, size

    status = state.status
    assert status is not None
    session, plugins, since = state.runtime, state.plugins, state.connected_since
    return (
        state.node,
        _recorder(state),
        "" if since is None else moment(since),
        str(state.gaps),
        _lost(state),
        f"{session.runtime_name} {session.runtime_version}" if session else "unknown",
        session.nri_version if session else "",
        f"{size(status.recorded_bytes)}, {size(status.free_bytes)} free",
        "unknown" if plugins is None else ", ".join(plugins),
    )


def _lost(state: NodeState) -> str:
    if not state.has_unknown_losses:
        return str(state.lost)
    return f"at least {state.lost}" if state.lost else "unknown"


def _recorder(state: NodeState) -> str:
    from nri_scope.text.quantities import moment

    current = state.current
    if current is None:
        return "none is running"
    if current.problem:
        return current.problem
    if current.trouble:
        since_ns = current.unwritten_since_ns or current.heartbeat_ns
        return current.trouble + (f", since {moment(since_ns)}" if since_ns else "")
    if not current.connected:
        return "not connected"
    return "synchronised" if current.synchronized else "connected, not synchronised"
