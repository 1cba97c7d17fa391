# SPDX-License-Identifier: Apache-2.0
"""``kubectl nri-scope collect``: bundles of pods from all their nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from nri_scope.errors import UsageError

from ..params import NOT_EMPTY, NewFile, say
from . import ClusterOptions, cluster_options, namespace_option


@click.command("collect")
@click.option(
    "-l",
    "--selector",
    type=NOT_EMPTY,
    required=True,
    metavar="LABELS",
    help="Pods with these labels, as of kubectl.",
)
@namespace_option
@click.option(
    "-o",
    "--output",
    type=NewFile("a folder of bundles", is_folder=True),
    required=True,
    metavar="DIR",
    help="Folder of the bundles.",
)
@cluster_options
def command(selector: str, namespace: str, output: Path, **options: Any) -> int:
    """Copy recordings of labelled pods from all their nodes.

    DIR gets a bundle for each node and recording, redacted unless the agents are configured
    otherwise. Exit status 1 if a node did not answer, or not all its recordings could be read.
    """
    from nri_scope.cluster.agent_pods import agent_pods, labelled_pods
    from nri_scope.cluster.gather import by_node, collect_bundles

    cluster = ClusterOptions(**options)
    kubectl = cluster.kubectl

    async def collect() -> bool:
        agents, pods = await asyncio.gather(
            agent_pods(kubectl, cluster.agent_namespace),
            labelled_pods(kubectl, selector, namespace),
        )
        scheduled = by_node(pods)
        if not scheduled:
            raise UsageError(f"no pod that matches -l {selector} is scheduled yet")
        return await collect_bundles(kubectl, agents, scheduled, output, say)

    return 0 if asyncio.run(collect()) else 1
