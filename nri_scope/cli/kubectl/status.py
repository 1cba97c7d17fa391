# SPDX-License-Identifier: Apache-2.0
"""``kubectl nri-scope status``: the recorders of all nodes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from ..output import Output
from ..params import format_option
from .options import cluster_options, kubectl_of

if TYPE_CHECKING:
    from nri_scope.cluster.node_states import NodeState


@click.command("status")
@cluster_options
@format_option("text|json", "json: one object, with a list of nodes.")
def command(output_format: str, **cluster: Any) -> int:
    """Show each node: its runtime, what its recorder observes, gaps and disk.

    Exit status 1 if a node does not answer or no recorder is connected.
    """
    from nri_scope.cluster.node_states import node_states

    kubectl = kubectl_of(cluster["kubeconfig"], cluster["kube_context"])

    async def ask() -> list[NodeState]:
        return [one async for one in node_states(kubectl, cluster["agent_namespace"])]

    states = sorted(asyncio.run(ask()), key=lambda one: one.node)
    with Output() as output:
        if output_format == "json":
            from nri_scope.recording.records import to_json

            output.line(to_json({"nodes": [one.document() for one in states]}))
        else:
            from .status_table import table_lines

            for line in table_lines(states, output.width):
                output.line(line)
    return 0 if all(one.is_good for one in states) else 1
