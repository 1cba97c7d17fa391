# SPDX-License-Identifier: Apache-2.0
"""``kubectl nri-scope pull``: a local recording of what a node recorded."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nri_scope.errors import UsageError
from nri_scope.process.signals import stop_signals
from nri_scope.text.quantities import many

from ..option_rules import Need, NeedOneOf, RuledCommand
from ..params import NOT_EMPTY, output_option, say
from . import ClusterOptions, cluster_options, namespace_option
from .views import client_of

if TYPE_CHECKING:
    from nri_scope._gen.agent.nri_scope.agent import v1
    from nri_scope.cluster.agent_client import AgentClient
    from nri_scope.cluster.target import Target


@click.command(
    "pull",
    cls=RuledCommand,
    rules=(
        Need(("--namespace",), ("WHAT",)),
        NeedOneOf(("WHAT", "--node"), hint="write NAMESPACE/POD, or --node NAME"),
    ),
)
@click.argument("what", required=False, type=NOT_EMPTY)
@click.option(
    "--node",
    type=NOT_EMPTY,
    metavar="NAME",
    help="Read this node's recordings. Without WHAT: all pods.",
)
@output_option("Recording to create.", required=True)
@click.option("-f", "--follow", is_flag=True, help="Go on with new events, until ^C.")
@namespace_option
@cluster_options
def command(
    what: str | None, node: str | None, output: Path, follow: bool, namespace: str, **options: Any
) -> None:
    """Copy the events of a pod or a node to a recording.

    WHAT is a pod, or a workload, of which a pod is chosen as by `kubectl logs`. With --follow,
    other commands can show the file while it grows.
    """
    from nri_scope.cluster.target import NamedTarget, events_request

    cluster = ClusterOptions(**options)
    named = NamedTarget.parse(what, namespace) if what else None
    if named is not None and named.container:
        raise UsageError(f"{what} is a container", "leave it out: a copy has the whole pod")
    if os.path.lexists(output):
        raise UsageError(f"{output} exists", "name another file")
    if not output.absolute().parent.is_dir():
        raise UsageError(f"{output.parent}: no such folder", "make it, or name another one")
    target = asyncio.run(named.pod(cluster.kubectl, node or "", say)) if named else None
    request = events_request(target, follow=follow)
    events = asyncio.run(_pulled(client_of(target, node or "", cluster), output, request))
    say(f"{output}: {_counted(output, events, target)}")


def _counted(output: Path, events: int, target: Target | None) -> str:
    """Return the number of events as text; for a pod, events at the start of sessions apart."""
    from nri_scope.recording.query.lookup import events_about
    from nri_scope.recording.reading.reader import Recording

    if target is None:
        return many(events, "event")
    with Recording.open(output) as recording:
        own = sum(len(events_about(recording, pod)) for pod in recording.pods())
    others = f", and {events - own} of the beginnings of sessions" if events > own else ""
    return f"{many(own, 'event')}{others}"


async def _pulled(
    finding: Awaitable[AgentClient], output: Path, request: v1.GetEventsRequest
) -> int:
    from nri_scope.cluster.pull import pull

    async def pulled() -> int:
        client = await finding

        def tell(text: str) -> None:
            say(text or f"{client.node}: connected again")

        responses = client.events(request, tell)
        return await pull(responses, client.node, output, follow=request.follow, on_renumbered=say)

    task = asyncio.ensure_future(pulled())
    with stop_signals(lambda number, reason: task.cancel(), loop=asyncio.get_running_loop()):
        try:
            return await task
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
