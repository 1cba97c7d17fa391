# SPDX-License-Identifier: Apache-2.0
"""Commands of nri-scope on the recordings of a node: they get a copy, which follows them."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import re
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nri_scope.errors import NriScopeError, UsageError

from ..option_rules import Exclude, Need, NeedOneOf, Rule, RuledCommand, spellings
from ..params import NOT_EMPTY, say
from . import NAMES, cluster_options, kubectl_of

if TYPE_CHECKING:
    from nri_scope.cluster.agent_client import AgentClient
    from nri_scope.cluster.target import Target
    from nri_scope.filter import Filter

_OTHER_FILE = frozenset({"file", "what", "arguments", "live", "keys", "json_spec"})
"""Parameters of a command on a file that name the file, or replace it."""
_LIVE = re.compile(r"[.;] (With|with) --live[^.]*")
"""What the help of an option says about --live."""
_HELP = {
    "blame": "Show which plugin set each line of a container's OCI spec.",
    "diff": "Show which plugin changed what in the containers of a pod.",
    "show": "Show a pod or container in full.",
    "log": "Show the events of a pod, of labelled pods, or of a whole node, newest last.",
    "tui": "Browse the events of a pod, or of a whole node, in the terminal.",
    "report": "Write a report of a pod or a whole node, or diagnose problems in it.",
}
_SIGNAL_SECONDS = 2.0
"""Seconds between two signals that end a command whose agent broke."""
_NAMES_POD = "write NAMESPACE/POD[/CONTAINER], or --node NAME"
_RULES: dict[str, Sequence[Rule]] = {
    "log": (
        Exclude(("-l",), ("WHAT", "--node", "--operations", "--printed")),
        Need(("--namespace",), ("-l",), "write NAMESPACE/POD"),
        NeedOneOf(("WHAT", "--node", "-l"), hint=_NAMES_POD),
    ),
    "tui": (NeedOneOf(("WHAT", "--node"), hint=_NAMES_POD),),
    "report": (NeedOneOf(("WHAT", "--node"), hint=_NAMES_POD),),
}
"""Rules in addition to those of a command on a file."""
_WITH_NODE = frozenset({"log", "tui", "report"})
"""Commands that also show a whole node."""


def view(name: str) -> click.Command:
    """Return the command of this name for pods of a cluster."""
    local: click.Command = importlib.import_module(f"nri_scope.cli.{name}").command
    shared = [
        parameter
        for parameter in local.params
        if isinstance(parameter, click.Option) and parameter.name not in _OTHER_FILE
    ]
    if name == "tui":
        from .. import tui

        shared = [option for option in shared if option not in tui.RECORD_OPTIONS]
    if name == "diff":
        from .. import diff

        shared = [option for option in shared if set(option.opts).isdisjoint(diff.LIVE_ONLY)]
    shared = [_without_live(option) for option in shared]

    def perform(**options: Any) -> object:
        what = options.pop("what")
        node = options.pop("node", None)
        selector, namespace = options.pop("selector", None), options.pop("namespace", "")
        cluster = {key: options.pop(key) for key in NAMES}
        if selector:
            from .labelled_log import print_labelled

            return print_labelled(selector, namespace, cluster, options)
        return _show(name, local, what or "", node or "", cluster, options)

    command = RuledCommand(
        name,
        callback=perform,
        params=[
            click.Argument(
                ["what"],
                required=name not in _WITH_NODE,
                metavar="[WHAT]" if name in _WITH_NODE else "WHAT",
                type=NOT_EMPTY,
            ),
            *shared,
        ],
        help=_HELP[name] + _exit_status(local),
        epilog=local.epilog,
    )
    command.params.append(
        click.Option(
            ["--node"],
            type=NOT_EMPTY,
            metavar="NAME",
            help="Read the recordings of this node, e.g. where the pod ran before."
            + (" Without WHAT: all pods." if name in _WITH_NODE else ""),
        )
    )
    if name == "log":
        for parameter in command.params:
            if parameter.name == "last":
                parameter.type = _Count(min=0)
        command.params += [
            click.Option(
                ["-l", "--selector"],
                type=NOT_EMPTY,
                metavar="LABELS",
                help="Show the events of the pods with these labels, on all nodes.",
            ),
            click.Option(
                ["--namespace"], metavar="NAME", default="", help="-l: only pods of this namespace."
            ),
        ]
    known = {spelled for parameter in command.params for spelled in spellings(parameter)}
    rules = local.rules if isinstance(local, RuledCommand) else ()
    command.rules = [
        *(rule for rule in rules if known.issuperset(rule.names + rule.others)),
        *_RULES.get(name, ()),
    ]
    return cluster_options(command)


class _Count(click.IntRange):
    """A number; in other commands, -n is a namespace."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value).lstrip("-").isdecimal():
            self.fail(f"{value!r} is no number of events; a namespace is --namespace NAME")
        return super().convert(value, param, ctx)


def _without_live(option: click.Option) -> click.Option:
    """Return an option whose help does not mention --live."""
    option = copy(option)
    option.help = _LIVE.sub("", option.help or "")
    return option


def _exit_status(command: click.Command) -> str:
    """Return the paragraph of a command's help about its exit status, with a blank line before."""
    _, title, words = inspect.cleandoc(command.help or "").partition("\n\nExit status:")
    return title + words


def _show(
    name: str,
    local: click.Command,
    what: str,
    node: str,
    cluster: dict[str, Any],
    options: dict[str, Any],
) -> object:
    from nri_scope._gen.agent.nri_scope.agent import v1
    from nri_scope.cluster.pull import Puller, pull, with_open_sessions
    from nri_scope.cluster.target import Target, moved
    from nri_scope.recording.node_files import SUFFIX
    from nri_scope.recording.temporary_files import temporary_folder

    from ..tui import Followed, tui_obstacle

    target = Target.parse(what) if what else None
    if name == "report" and options["output"] is not None:
        _check_output(options["output"], force=options["force"])
    context = click.get_current_context()
    arguments = _arguments(name, local, what)
    with temporary_folder() as folder:
        follows = name == "tui" or options.get("follow", False)
        client = asyncio.run(client_of(target, node, cluster, wait=follows))
        request = v1.GetEventsRequest(where=target.where if target else "", context=True)
        file = folder / f"{client.node}{SUFFIX}"

        uses_screen = False

        def show() -> object:
            nonlocal uses_screen
            if target is not None and (target.container or name not in _WITH_NODE):
                _check_named(file, target, client.node)
            if "where" in options and target is not None and target.container:
                # The copy has the whole pod, as a part needs its context.
                with _without_path(file, client.node):
                    options["where"] = _within(file, what, target, options["where"])
            uses_screen = is_tui
            with _without_path(file, client.node):
                return context.invoke(local, **arguments(file), **options, **_rest(local, options))

        def tell(text: str) -> None:
            # The terminal interface shows the puller's state itself.
            if not uses_screen:
                say(text or f"{client.node}: connected again")

        is_tui = name == "tui" and not tui_obstacle()
        if not follows:
            responses = with_open_sessions(client, request, tell)
            events = asyncio.run(pull(responses, client.node, file))
            _check_found(events, what, client.node)
            return show()
        request.follow = True

        over = threading.Event()

        def end() -> None:
            # This ends the command, which would wait for more; SIGINT may be ignored. An exception
            # is lost where SQLite calls back, so one signal may not be enough.
            while not (is_tui or over.is_set()):
                os.kill(os.getpid(), signal.SIGTERM)
                over.wait(_SIGNAL_SECONDS)

        async def watch() -> str:
            assert target is not None
            kubectl = kubectl_of(cluster)
            other = await moved(kubectl, target, client.node)
            return (
                f"{target.namespace}/{target.pod} runs on {other} now; these are its events on "
                f"{client.node}; run the command again for those on {other}"
            )

        with Puller(
            *(client, request, file, tell, end), watch if target is not None and not node else None
        ) as puller:
            if name == "tui":
                words = ("kubectl", "nri-scope", "tui", *([what] if what else ["--node", node]))
                title = f"{what} on {client.node}" if what else client.node
                context.obj = Followed(title, words, puller)
            result: object = None
            try:
                if not puller.events:
                    say(f"{_no_events(what, client.node)} yet; waiting for them")
                    puller.wait_for_event()
                result = show()
            except KeyboardInterrupt:
                if puller.error is None:
                    raise
            finally:
                over.set()
            if puller.error is not None and not is_tui:
                raise puller.error
            return result


@contextmanager
def _without_path(file: Path, node: str) -> Iterator[None]:
    """Name the node in errors that name the temporary copy."""
    try:
        yield
    except NriScopeError as error:
        text = str(error)
        if str(file) not in text:
            raise
        raise UsageError(text.replace(str(file), f"the recordings of {node}")) from error


def _within(file: Path, what: str, target: Target, where: Filter | None) -> Filter:
    """Return a filter of the events about a container, which also match ``where``.

    Raises UsageError if the recording has no such container.
    """
    from nri_scope.events import Container, Pod
    from nri_scope.filter import parse
    from nri_scope.filter.tree import quote
    from nri_scope.recording.lookup import container_name, find
    from nri_scope.recording.reader import Recording

    with Recording.open(file) as recording:
        match find(recording, what):
            case Container() as found if container_name(found) == what:
                # All of this name.
                term = f"container:{quote(target.container, is_name=True)}"
            case Container(id=number) | Pod(id=number):
                term = f"id:{quote(number)}"
            case event:
                raise UsageError(f"{what} is event {event.id}", "`show` shows an event")
    return parse(term if where is None else f"({where.text}) {term}")


def _check_output(output: Path, *, force: bool) -> None:
    """Raise UsageError for what `report` would refuse after the events were copied."""
    from nri_scope.share.output_files import Outputs

    from ..report import renderer_of

    renderer_of(output)
    Outputs(output, Path(os.devnull), force=force).check(output)


def _check_named(file: Path, target: Target, node: str) -> None:
    """Raise UsageError if a pod has events, but not under its name."""
    from nri_scope.recording.reader import Recording

    with Recording.open(file) as recording:
        names = {(pod.namespace, pod.name) for pod in recording.pods()}
    if names and (target.namespace, target.pod) not in names:
        raise UsageError(
            f"the agent of {node} hides the names of pods or namespaces, so "
            f"{target.namespace}/{target.pod} cannot be shown by its name",
            "use `kubectl nri-scope log`, or other rules for the agent's --redact",
        )


def _rest(local: click.Command, options: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of the command's options that this one lacks."""
    context = click.Context(local)
    return {
        option.name: option.get_default(context)
        for option in local.params
        if isinstance(option, click.Option) and option.name and option.name not in options
    }


def _arguments(name: str, local: click.Command, what: str) -> Any:
    names = {one.name for one in local.params if isinstance(one, click.Argument)}

    def arguments(file: Path) -> dict[str, Any]:
        if name == "diff":
            return {"arguments": (str(file), what)}
        return {"file": file, **({"what": what or None} if "what" in names else {})}

    return arguments


def _check_found(events: int, what: str, node: str) -> None:
    if not events:
        raise UsageError(_no_events(what, node))


def _no_events(what: str, node: str) -> str:
    return f"the recordings of {node} have no events{f' about {what}' if what else ''}"


async def client_of(
    target: Target | None, node: str, cluster: dict[str, Any], *, wait: bool = False
) -> AgentClient:
    """Return the client for a node, or else for that of a pod. Raises UsageError.

    ``wait``: until the pod is scheduled.
    """
    from nri_scope.cluster.agent_client import AgentClient
    from nri_scope.cluster.agent_pods import agent_pods
    from nri_scope.cluster.target import node_of

    kubectl = kubectl_of(cluster)
    namespace = cluster["agent_namespace"]
    if target is not None and not node:
        agent = await node_of(kubectl, namespace, target, say, wait=wait)
    else:
        agents = await agent_pods(kubectl, namespace)
        if node not in agents:
            raise UsageError(f"no agent runs on node {node}", f"they run on {', '.join(agents)}")
        agent = agents[node]
    return AgentClient(kubectl, agent)
