# SPDX-License-Identifier: Apache-2.0
"""``kubectl nri-scope collect``: bundles of pods from all their nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from nri_scope.errors import UsageError
from nri_scope.recording.display import size
from nri_scope.recording.file_errors import error_words

from ..params import NOT_EMPTY, NewFile, say
from . import cluster_options, kubectl_of


@click.command("collect")
@click.option(
    "-l",
    "--selector",
    type=NOT_EMPTY,
    required=True,
    metavar="LABELS",
    help="Pods with these labels, as of kubectl.",
)
@click.option("-n", "--namespace", metavar="NAME", default="", help="Only pods of this namespace.")
@click.option(
    "-o",
    "--output",
    type=NewFile("a folder of bundles", is_folder=True),
    required=True,
    metavar="DIR",
    help="Folder of the bundles.",
)
@cluster_options
def command(selector: str, namespace: str, output: Path, **cluster: Any) -> int:
    """Copy the recordings of labelled pods, as bundles, from all nodes on which they run.

    DIR gets a file for each node and recording. They are redacted unless the agents are configured
    otherwise. Exit status 1 if a node did not answer, or not all its recordings could be read.
    """
    from nri_scope._gen.agent.nri_scope.agent import v1
    from nri_scope.cluster.agent_client import AgentClient, AgentError, each_node
    from nri_scope.cluster.agent_pods import AgentPod, agent_pods, labelled_pods
    from nri_scope.cluster.gather import (
        READ_TIMEOUT_S,
        READ_TOGETHER,
        by_node,
        pods_filters,
        save_bundles,
    )

    kubectl = kubectl_of(cluster)

    async def collect() -> bool:
        agents, pods = await asyncio.gather(
            agent_pods(kubectl, cluster["agent_namespace"]),
            labelled_pods(kubectl, selector, namespace),
        )
        wanted = by_node(pods)
        if not wanted:
            raise UsageError(f"no pod that matches -l {selector} is scheduled yet")
        _create(output)
        good = True

        def not_read(text: str) -> None:
            nonlocal good
            good = False
            say(text)

        for node in sorted(wanted.keys() - agents.keys()):
            say(f"{node}: not collected: it has no agent")
            good = False

        async def save(agent: AgentPod) -> list[Path]:
            client = AgentClient(kubectl, agent)
            paths: list[Path] = []
            try:
                for number, (where, _) in enumerate(pods_filters(wanted[agent.node]), 1):
                    request = v1.GetRecordingRequest(where=where)
                    suffix = f"-{number}" if number > 1 else ""
                    paths += await save_bundles(client, request, output, suffix, not_read)
            except BaseException:
                for path in paths:
                    path.unlink(missing_ok=True)
                raise
            return paths

        asked = {node: agent for node, agent in agents.items() if node in wanted}
        async for node, answer in each_node(
            asked, save, timeout=READ_TIMEOUT_S, together=READ_TOGETHER
        ):
            if isinstance(answer, AgentError):
                say(f"{node}: not collected: {answer.problem}")
                good = False
                continue
            if not answer:
                say(f"{node}: not collected: its recordings have no events of these pods")
                good = False
            for path in answer:
                say(f"{path}: {size(path.stat().st_size)}")
        return good

    return 0 if asyncio.run(collect()) else 1


def _create(folder: Path) -> None:
    """Create the output folder, and missing ones above it. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be created: {error_words(error)}", "name another folder"
        ) from error
