# SPDX-License-Identifier: Apache-2.0
"""``kubectl nri-scope missing``: pods and containers that were created without a plugin."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from nri_scope.errors import UsageError

from .. import missing
from ..option_rules import RuledCommand
from ..output import Output
from ..params import say
from . import ClusterOptions, cluster_options

if TYPE_CHECKING:
    from nri_scope.differ.missing_plugin import Expectation


_PARAMS = [each for each in missing.command.params if isinstance(each, click.Option)]


@click.command("missing", cls=RuledCommand, rules=missing.command.rules, params=_PARAMS)
@cluster_options
def command(
    since: str | None,
    until: str | None,
    output_format: str,
    plugin: str | None,
    expected: Sequence[Expectation],
    **options: Any,
) -> int:
    """List pods and containers created without a plugin.

    Lists those of all nodes as `nri-scope missing` does, and the nodes on which the plugin was
    never seen. NRI names plugins only to validators: without the overlay "validate", most answers
    are "unknown".

    Exit status: 0 the plugin took part in each creation; 1 it missed one, or that is unknown, or a
    node did not answer; 2 an error occurred.
    """
    from nri_scope._gen.agent.nri_scope.agent import v1
    from nri_scope.cluster.agent_pods import NO_AGENT, agent_pods, nodes_without_agent
    from nri_scope.cluster.gather import Answers, in_utc, read_nodes
    from nri_scope.differ.missing_plugin import WHERE
    from nri_scope.filter.moments import interval

    begin, end = in_utc(since or "", until or "")
    times = interval(begin, end)
    cluster = ClusterOptions.taken_from(options)
    kubectl = cluster.kubectl
    request = v1.GetEventsRequest(where=WHERE, since=begin, until=end)

    async def ask() -> Answers[missing.Missed]:
        agents = await agent_pods(kubectl, cluster.agent_namespace)
        without = await nodes_without_agent(kubectl, agents, say)
        read = partial(missing.answer_of, times=times, plugin=plugin, expected=expected)
        by_node, silent = await read_nodes(kubectl, agents, request, read)
        return by_node, {**dict.fromkeys(without, NO_AGENT), **silent}

    by_node, silent = asyncio.run(ask())
    for node, problem in sorted(silent.items()):
        say(f"{node}: no answer: {problem}")
    if not by_node:
        raise UsageError("no node answered", "see the messages above")
    with Output() as output:
        return missing.print_answers(output, plugin, by_node, silent, output_format)
    return 0
