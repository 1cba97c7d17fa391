# SPDX-License-Identifier: Apache-2.0
"""``nri-scope help``: what the help of several commands shares, each topic once.

A topic is text for click: paragraphs that begin with a backspace are not wrapped.
"""

from __future__ import annotations

import click

from nri_scope.filter.fields import FIELDS

_SYNTAX = """
\b
Filters:
  field:value      the field has this value; * matches any text
  field:~regex     this regular expression matches a part of the field
  field:>5         or >= < <=; for index, session, took, time and size
  time:a..b        from a until before b, as --since a --until b; or one of them
  word             a name or id contains this word, in any case
  -term, NOT term  events that do not match the term
  a b, a AND b     both; binds more tightly than OR
  a OR b           at least one; operators must be in capitals
  ( … )            grouping
  "…"              exactly this text, without special characters
"""
_TIMES = """
\b
Times:
  2026-01-31T14:05:07Z  or with a zone such as +02:00, else local time
  2026-01-31            this day; also today, yesterday; alone or before a time
  14:05, 14:05:07.25    on the recording's own day; of several, add the date
  +30s                  30 s after the recording's first event
  -10m                  10 minutes before its last event
  10m, now              10 minutes ago; now

An empty value matches events without one: container:"" matches those about no container.

pod:shop/web is short for ns:shop pod:web, and container:shop/web/app adds container:app.

To match events unknown to this version, use * or a regular expression: event:Future*.

A number or time without > or < matches with the precision written: took:3ms matches 3 ms up to 4
ms, time:14:05 the whole minute.

The end of a range is not included, but with one to three digits after the second, as times are
shown, it includes all that is shown like it: ..14:05:07.250 ends before 14:05:07.251.

While events are being recorded, + and - count from the start of the command, and a time without a
date is today.

Regular expressions have the syntax of RE2, without back-references and look-around. They are
case-sensitive unless they begin with (?i).
"""
_WHAT = """
\b
WHAT of `show`, `diff`, `blame` and `report`:
  17                the event of this number, the first column of `log`
  shop/web          a pod, as NAMESPACE/POD
  shop/web/app      the newest container of this name, NAMESPACE/POD/CONTAINER
  4f2a9c            the pod or container whose id begins so
  env FOO, FOO      the only container in which this path of its spec changed
  /process/env/FOO  also such a path

`blame` needs a container, an event about one, or a pod with only one. In a cluster, WHAT is as in
`kubectl nri-scope --help`.
"""
_PLUGINS = """
`replay`, `debug` and `tap` launch a plugin as a runtime would, with only the variables
NRI_PLUGIN_NAME, NRI_PLUGIN_IDX, NRI_PLUGIN_SOCKET and those of --env. Index and name are those of a
file named NN-name, else 10 and the file's name.

An external plugin sets its own index and connects to a socket by itself. It gets no configuration,
and is started with your environment and a private socket in place of {socket} in its arguments, or
else of /var/run/nri/nri.sock. --external makes all plugins external; otherwise, those with {socket}
are, and those that end as their index is already set are started again so. To start it yourself,
use --listen.

At the end, a plugin's connection is closed, and it has the time of --grace to end by itself, then
the same time after SIGTERM, before SIGKILL. --grace 0 kills it at once, as runtimes do.
"""
_FAULTS = """
\b
Faults, each of which was observed on a real runtime:
  slow:EVENT:DURATION      each reply to EVENT is delayed by DURATION
  error:EVENT              EVENT fails after the plugins have replied
  drop-connection:after=N  all connections are closed after N events
  restart-runtime:after=N  the runtime is restarted after N events
  split-sync               Synchronize is sent in parts, whatever its size
  duplicate:EVENT          EVENT is sent twice
  skip:EVENT               EVENT takes effect, but is not sent
  reorder                  StopPodSandbox is sent before containers are stopped
  unknown-event            an event of a later NRI version is sent first

\b
Modifiers of slow, error, duplicate and skip:
  :once                    only the first matching event
  :only=NS/POD             only events of this pod and its containers
  :only=NS/POD/CTR         only events of this container
"""
TOPICS = {
    "filters": "filters and times, as in --where, --since and --until",
    "what": "WHAT: events, pods, containers and paths",
    "plugins": "how plugins are started",
    "faults": "what `replay --fault` injects",
}
"""Each topic, with its title."""


def write_topic(name: str, formatter: click.HelpFormatter) -> None:
    """Write a topic."""
    if name == "filters":
        formatter.write_text(_SYNTAX.strip("\n"))
        with formatter.section("Fields"):
            formatter.write_dl([(field.name, field.doc) for field in FIELDS])
        formatter.write_paragraph()
    texts = {"filters": _TIMES, "what": _WHAT, "plugins": _PLUGINS, "faults": _FAULTS}
    formatter.write_text(texts[name].strip("\n"))


@click.command("help")
@click.argument("words", nargs=-1, metavar="[TOPIC|COMMAND]")
@click.pass_context
def help_command(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a topic or a command; without it, the topics."""
    topic = " ".join(words)
    group = context.parent
    assert group is not None and isinstance(group.command, click.Group)
    formatter = context.make_formatter()
    if not topic:
        with formatter.section(f"Topics of `{group.command_path} help TOPIC`"):
            formatter.write_dl([*TOPICS.items()])
    elif topic in TOPICS:
        write_topic(topic, formatter)
    else:
        command = group.command.get_command(group, topic)
        if command is None:
            context.fail(f"no topic or command {topic!r}; topics are {', '.join(TOPICS)}")
        with command.make_context(topic, [], group, resilient_parsing=True) as below:
            command.format_help(below, formatter)
    click.echo(formatter.getvalue().strip("\n"))
