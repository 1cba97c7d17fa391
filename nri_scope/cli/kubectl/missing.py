# SPDX-License-Identifier: Apache-2.0
"""``kubectl nri-scope missing``: containers created while a plugin was not connected."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from nri_scope.errors import UsageError

from ..output import Output, table
from ..params import NOT_EMPTY, format_option, say
from . import cluster_options, kubectl_of

if TYPE_CHECKING:
    from nri_scope.nri.plain import Plain
    from nri_scope.report.missing_plugin import Creation


@click.command("missing")
@click.option(
    "--plugin",
    type=NOT_EMPTY,
    required=True,
    metavar="NAME",
    help="Name of the plugin, or its index and name.",
)
@click.option(
    "--since", metavar="TIME", default="", help="Creations from this time, as for `log -l`."
)
@click.option("--until", metavar="TIME", default="", help="Creations before this time.")
@cluster_options
@format_option(
    "text|json", "json: one object, with all creations, including those it did not miss."
)
def command(plugin: str, since: str, until: str, output_format: str, **cluster: Any) -> int:
    """List the containers that were created while a plugin was not connected.

    Each has its evidence. NRI names plugins only to validators: without the overlay "validate",
    most answers are "unknown". Exit status 1 if a creation was missed, or not all nodes answered.
    """
    from nri_scope._gen.agent.nri_scope.agent import v1
    from nri_scope.cluster.agent_pods import NO_AGENT, agent_pods, nodes_without_agent
    from nri_scope.cluster.gather import Answers, in_utc, read_nodes
    from nri_scope.filter.moments import interval
    from nri_scope.report.missing_plugin import WHERE, Presence, creations

    since, until = in_utc(since, until)
    since_ns, _ = interval(since, "")
    kubectl = kubectl_of(cluster)
    request = v1.GetEventsRequest(where=WHERE, since=since, until=until)

    async def ask() -> Answers[list[Creation]]:
        agents = await agent_pods(kubectl, cluster["agent_namespace"])
        without = await nodes_without_agent(kubectl, agents, say)
        by_node, silent = await read_nodes(
            kubectl, agents, request, lambda recording: list(creations(recording, plugin, since_ns))
        )
        return by_node, {**dict.fromkeys(without, NO_AGENT), **silent}

    by_node, silent = asyncio.run(ask())
    for node, problem in sorted(silent.items()):
        say(f"{node}: no answer: {problem}")
    if not by_node:
        raise UsageError("no node answered", "see the messages above")
    every = [
        (node, creation)
        for node, some in sorted(by_node.items())
        for creation in sorted(some, key=lambda creation: creation.at_ns)
    ]
    _check_name(plugin, every)
    with Output() as output:
        if output_format == "json":
            from nri_scope.recording.records import to_json

            documents: list[Plain] = [_document(node, creation) for node, creation in every]
            nodes: dict[str, Plain] = dict(silent)
            output.line(to_json({"creations": documents, "without_answer": nodes}))
        else:
            for line in _lines(every, output.width):
                output.line(line)
    return int(bool(silent) or any(creation.presence is Presence.MISSING for _, creation in every))


def _check_name(plugin: str, every: list[tuple[str, Creation]]) -> None:
    """Say which plugins were seen if this one was not: its name may be misspelt."""
    from nri_scope.report.missing_plugin import Presence

    seen = sorted({name for _, one in every for name in one.plugins})
    is_seen = any(plugin in (name, name.partition("-")[2]) for name in seen)
    if seen and not is_seen and all(one.presence is not Presence.CONNECTED for _, one in every):
        say(f"{plugin} was never connected in the recorded time; seen were {', '.join(seen)}")


def _lines(every: list[tuple[str, Creation]], width: int | None) -> Any:
    from nri_scope.recording.display import many, moment
    from nri_scope.report.missing_plugin import Presence

    listed = [(node, one) for node, one in every if one.presence is not Presence.CONNECTED]
    if listed:
        yield from table(
            ("node", "created", "container", "plugin", "evidence"),
            [
                (
                    node,
                    moment(one.at_ns) if one.at_ns else "unknown",
                    one.container,
                    one.presence,
                    one.evidence,
                )
                for node, one in listed
            ],
            width,
        )
        yield ""
    counts = {each: sum(one.presence is each for _, one in every) for each in Presence}
    yield (
        f"{many(len(every), 'creation')}: {counts[Presence.MISSING]} missing, "
        f"{counts[Presence.CONNECTED]} connected, {counts[Presence.UNKNOWN]} unknown"
    )


def _document(node: str, creation: Creation) -> Plain:
    from nri_scope.recording.records import rfc3339

    return {
        "node": node,
        "created": rfc3339(creation.at_ns) if creation.at_ns else None,
        "container": creation.container,
        "container_id": creation.container_id,
        "plugin": creation.presence.value,
        "evidence": creation.evidence,
        "event": creation.event,
    }
