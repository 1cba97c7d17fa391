# SPDX-License-Identifier: Apache-2.0
"""Commands of nri-scope on the recordings of a node: they get a copy, which follows them."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Sequence, Set
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nri_scope.errors import UsageError

from ..option_rules import Exclude, Need, NeedOneOf, OptionRule, RuledCommand, spellings
from ..params import NOT_EMPTY, say
from . import ClusterOptions, cluster_options, namespace_option

if TYPE_CHECKING:
    from nri_scope._gen.agent.nri_scope.agent import v1
    from nri_scope.cluster.agent_client import AgentClient
    from nri_scope.cluster.target import NamedTarget, Target
    from nri_scope.filter import Filter

_OTHER_FILE = frozenset({"file", "what", "arguments", "live"})
"""Parameters of a command on a file that name the file, or replace it."""
_SIGNAL_SECONDS = 2.0
"""Seconds between two signals that end a command whose agent broke."""


@dataclass(frozen=True, slots=True)
class View:
    """A command on a file that also shows the recordings of a node."""

    help: str
    with_node: bool = False
    """Whether it also shows a whole node, without WHAT."""
    is_interface: bool = False
    """Whether it is the terminal interface, which always follows the node."""
    arguments: Sequence[click.Argument] = ()
    """Arguments after WHAT."""
    options: Sequence[click.Option] = ()
    """Options that the command on a file does not have."""
    rules: Sequence[OptionRule] = ()
    """Rules that the command on a file does not have."""
    with_pod_events: Callable[[dict[str, Any]], bool] = lambda options: False
    """Function that returns whether the Kubernetes Events of a pod are shown."""
    check: Callable[[dict[str, Any]], None] = lambda options: None
    """Function that raises UsageError for options that the command would refuse later."""


def _check_output(options: dict[str, Any]) -> None:
    """Raise UsageError for what `report` would refuse after the events were copied."""
    from nri_scope.share.output_files import Outputs

    from ..report import NO_PAGE, renderer_of

    output = options["output"]
    if output not in (None, NO_PAGE):
        renderer_of(output)
        Outputs(output, Path(os.devnull), force=options["force"]).check(output)


_NAMES_POD = "write NAMESPACE/POD[/CONTAINER], or --node NAME"
_NEED_NAME = (
    Need(("--namespace",), ("WHAT",), "name a pod, or leave it out"),
    NeedOneOf(("WHAT", "--node"), hint=_NAMES_POD),
)
VIEWS = {
    "blame": View("Show which plugin set each line of a container's spec."),
    "diff": View(
        "Show which plugin changed what in a pod, or compare pods.\n\nWith OTHER, WHAT and OTHER "
        "are containers, or pods with one container.",
        arguments=(click.Argument(["other"], required=False, metavar="[OTHER]", type=NOT_EMPTY),),
        rules=(Exclude(("OTHER",), ("--node", "--where", "--since", "--until", "--all")),),
    ),
    "show": View("Show a pod or container in full."),
    "log": View(
        "Show the events of a pod, of labelled pods, or of a node.",
        with_node=True,
        options=(
            click.Option(
                ["-l", "--selector"],
                type=NOT_EMPTY,
                metavar="LABELS",
                help="Show the events of the pods with these labels, on all nodes.",
            ),
            click.Option(
                ["--all-nodes"],
                is_flag=True,
                help="Show the events of all nodes, also of pods that were deleted.",
            ),
        ),
        rules=(
            Need(("--namespace",), ("WHAT", "-l"), "name a pod; a number of events is --last"),
            Exclude(("-l", "--all-nodes"), ("WHAT", "--node", "--operations", "--printed")),
            Exclude(("--all-nodes",), ("-l", "-f")),
            NeedOneOf(("WHAT", "--node", "-l", "--all-nodes"), hint=_NAMES_POD),
        ),
        # A filter is about events of NRI.
        with_pod_events=lambda options: options["where"] is None,
    ),
    "tui": View(
        "Browse the events of a pod, or of a whole node.",
        with_node=True,
        is_interface=True,
        rules=_NEED_NAME,
    ),
    "report": View(
        "Find problems of a pod or a node, or write a page.",
        with_node=True,
        # A copy of one pod's events has no sizes or rates of its own.
        rules=(*_NEED_NAME, NeedOneOf(("-o", "--diagnose"), hint="add -o x.html, or --diagnose")),
        # Their messages are not redacted.
        with_pod_events=lambda options: options["diagnose"] and options["redact"] is None,
        check=_check_output,
    ),
}
"""By name; `main.VIEW_NAMES` has the same names, so that it need not import this module."""


def view(name: str) -> click.Command:
    """Return the command of this name for pods of a cluster."""
    shown = VIEWS[name]
    local: click.Command = importlib.import_module(f"nri_scope.cli.{name}").command
    rules = local.rules if isinstance(local, RuledCommand) else ()
    # Each command declares the options that need --live, which this one lacks, in its rules.
    live_only = {spelled for rule in rules if rule.others == ("--live",) for spelled in rule.names}
    params = _params_of(shown, local, live_only)
    known = {spelled for parameter in params for spelled in spellings(parameter)}
    command = RuledCommand(
        name,
        callback=partial(_perform, shown, local),
        params=params,
        help=f"{shown.help}\n\nThe exit status is that of `nri-scope {name}`.",
        epilog=local.epilog,
        rules=[
            *(rule for rule in rules if known.issuperset(rule.names + rule.others)),
            *shown.rules,
        ],
    )
    return cluster_options(namespace_option(command))


def _params_of(shown: View, local: click.Command, live_only: Set[str]) -> list[click.Parameter]:
    """Return the view's own parameters, and those of the command on a file except ``live_only``."""
    return [
        click.Argument(
            ["what"],
            required=not shown.with_node,
            metavar="[WHAT]" if shown.with_node else "WHAT",
            type=NOT_EMPTY,
        ),
        *shown.arguments,
        *(
            _without_n(option)
            for option in local.params
            if isinstance(option, click.Option)
            and option.name not in _OTHER_FILE
            and live_only.isdisjoint(option.opts)
        ),
        click.Option(
            ["--node"],
            type=NOT_EMPTY,
            metavar="NAME",
            help="Read the recordings of this node, e.g. where the pod ran before."
            + (" Without WHAT: all pods." if shown.with_node else ""),
        ),
        *shown.options,
    ]


def _perform(shown: View, local: click.Command, **options: Any) -> object:
    """Run the view with the values of all its parameters."""
    from nri_scope.cluster.target import NamedTarget

    from .labelled_log import print_labelled, print_workload

    cluster = ClusterOptions.taken_from(options)
    what, node = options.pop("what") or "", options.pop("node") or ""
    other = options.pop("other", None) or ""
    selector, namespace = options.pop("selector", None), options.pop("namespace", "")
    if options.pop("all_nodes", False) or selector:
        return print_labelled(selector or "", namespace, cluster, options)
    named = NamedTarget.parse(what, namespace) if what else None
    if named is not None and named.is_workload and shown is VIEWS["log"]:
        return print_workload(named, what, node, cluster, options)
    make = partial(_node_view, shown, local, cluster, options)
    if named is not None and other:
        pair = named, NamedTarget.parse(other, namespace)
        return _compare(partial(make, ""), pair, options)
    return _show(shown, partial(make, node, named), node, cluster)


def _without_n(option: click.Option) -> click.Option:
    """Return an option of a command whose -n is a namespace."""
    option = copy(option)
    option.opts = [spelled for spelled in option.opts if spelled != "-n"]
    return option


def _show(
    shown: View, make: Callable[[Path], NodeView], node: str, cluster: ClusterOptions
) -> object:
    from nri_scope.cluster.pod_events import pod_events
    from nri_scope.cluster.target import moved
    from nri_scope.recording.file.temporary_files import temporary_folder

    with temporary_folder() as folder:
        node_view = make(folder)
        target = node_view.target
        if target is not None and shown.with_pod_events(node_view.options):
            reading = pod_events(cluster.kubectl, target, say)
            click.get_current_context().obj = asyncio.run(reading)
        if not node_view.request.follow:
            node_view.copy_once()
            return node_view.show()
        if target is None or node:
            return node_view.follow()
        return node_view.follow(partial(moved, cluster.kubectl, target, node_view.client.node))


def _node_view(
    shown: View,
    local: click.Command,
    cluster: ClusterOptions,
    options: dict[str, Any],
    node: str,
    named: NamedTarget | None,
    folder: Path,
) -> NodeView:
    """Return the view of a pod or node, which is not copied yet. Raises UsageError."""
    from nri_scope.cluster.target import events_request
    from nri_scope.recording.node_files import SUFFIX

    shown.check(options)
    target = asyncio.run(named.pod(cluster.kubectl, node, say)) if named else None
    follows = shown.is_interface or options.get("follow", False)
    client = asyncio.run(client_of(target, node, cluster, wait=follows))
    request = events_request(target, follow=follows)
    what, file = target.name if target else "", folder / f"{client.node}{SUFFIX}"
    return NodeView(shown, local, what, target, options, client, request, file)


def _compare(
    make: Callable[[NamedTarget, Path], NodeView],
    pair: Sequence[NamedTarget],
    options: dict[str, Any],
) -> int:
    """Print the differences between containers of two pods; return the exit status."""
    from nri_scope.recording.file.temporary_files import standing_for, temporary_folder

    from ..diff_files import two_containers

    with ExitStack() as stack:
        views = list[NodeView]()
        for named in pair:
            node_view = make(named, stack.enter_context(temporary_folder()))
            node_view.copy_once()
            node_view.check_name()
            stack.enter_context(standing_for(node_view.file, node_view.source))
            views.append(node_view)
        a, b = ((each.file, each.what) for each in views)
        names = [each.client.node for each in views]
        return int(two_containers(a, b, options["redact"], options["output_format"], names))


@dataclass
class NodeView:
    """A view of a node: copies its events to a temporary file, and runs the command on that."""

    view: View
    local: click.Command
    """The command on a file."""
    what: str
    target: Target | None
    """What WHAT names; None for the whole node."""
    options: dict[str, Any]
    """The options of `local` that this command has, by parameter."""
    client: AgentClient
    request: v1.GetEventsRequest
    file: Path
    """The copy, which this creates."""

    def __post_init__(self) -> None:
        from ..tui import tui_obstacle

        self._has_screen = self.view.is_interface and not tui_obstacle()
        self._is_drawn = False
        self._is_renumbered = False
        self._is_over = threading.Event()

    def copy_once(self) -> None:
        """Copy the events recorded so far. Raises UsageError if there are none."""
        from nri_scope.cluster.pull import pull

        events = self.client.events(self.request, self._say)
        copying = partial(pull, is_view=True, on_renumbered=self._renumbered)
        if not asyncio.run(copying(events, self.client.node, self.file)):
            self._copy_state()

    def _copy_state(self) -> None:
        """Copy what Synchronize tells of a pod without events. Raises UsageError without it."""
        from nri_scope._gen.agent.nri_scope.agent import v1
        from nri_scope.cluster.pull import pull
        from nri_scope.recording.query.coverage import coverage
        from nri_scope.recording.reading.reader import Recording

        with Recording.open(self.file) as recording:
            observed = coverage(recording)
        if self.target is None:
            raise UsageError(self._no_events(), observed.words)
        self.file.unlink()
        request = v1.GetEventsRequest(where="event:Synchronize", context=True)
        request.namespaces = self.request.namespaces
        events = self.client.events(request, self._say)
        asyncio.run(pull(events, self.client.node, self.file, is_view=True))
        with Recording.open(self.file) as recording:
            names = {(pod.namespace, pod.name) for pod in recording.pods()}
        if (self.target.namespace, self.target.pod) not in names:
            raise UsageError(self._no_events(), observed.words)
        say(
            f"{self._no_events()}: they have its spec, from Synchronize, but not which plugins "
            "changed it"
        )

    def follow(self, watch: Callable[[], Awaitable[str]] | None = None) -> object:
        """Copy events as they are recorded, while the command shows them; ``watch``: see `Puller`.

        Raises NriScopeError.
        """
        from nri_scope.cluster.pull import Puller

        from ..tui import Followed

        callbacks = self._say, self._end, watch, self._renumbered
        with Puller(self.client, self.request, self.file, *callbacks) as puller:
            if self.view.is_interface:
                named = (self.what,) if self.what else ("--node", self.client.node)
                title = f"{self.what} on {self.client.node}" if self.what else self.client.node
                click.get_current_context().obj = Followed(title, named, puller)
            result: object = None
            try:
                if not puller.events:
                    say(f"{self._no_events()} yet; waiting for them")
                    puller.wait_for_event()
                result = self.show()
            except KeyboardInterrupt:
                if puller.error is None:
                    raise
            finally:
                self._is_over.set()
            if puller.error is not None and not self._has_screen:
                raise puller.error
            return result

    def show(self) -> object:
        """Run the command on the copy; return its result. Raises NriScopeError."""
        from nri_scope.recording.file.temporary_files import standing_for

        target = self.target
        self.check_name()
        with standing_for(self.file, self.source):
            if "where" in self.options and target is not None and target.container:
                # The copy has the whole pod, as a part needs its context.
                self.options["where"] = _within(self.file, self.what, target, self.options["where"])
            self._is_drawn = self._has_screen
            return click.get_current_context().invoke(self.local, **self._parameters())

    def check_name(self) -> None:
        """Raise UsageError if the copy cannot have what WHAT names under this name."""
        target, node = self.target, self.client.node
        if target is not None and (target.container or not self.view.with_node):
            if self._is_renumbered and target.container.isdigit():
                raise UsageError(
                    f"{self.what}: the number of an event, but events of {node} have other numbers "
                    "in each view, as its recordings overlap in time",
                    "name the container or the beginning of its id",
                )
            _check_named(self.file, target, node)

    def _parameters(self) -> dict[str, Any]:
        """Return the values of all parameters of the command on a file, with its defaults."""
        pair = str(self.file), self.what
        values = {"file": self.file, "what": self.what or None, "arguments": pair, **self.options}
        context, params = click.Context(self.local), self.local.params
        defaults = {one.name: one.get_default(context) for one in params if one.expose_value}
        return {str(name): values.get(name, default) for name, default in defaults.items()}

    @property
    def source(self) -> str:
        """What the copy was made from, in words."""
        return f"the recordings of {self.client.node}"

    def _no_events(self) -> str:
        about = f" about {self.what}" if self.what else ""
        return f"{self.source} have no events{about}"

    def _renumbered(self, text: str) -> None:
        self._is_renumbered = True
        self._say(text)

    def _say(self, text: str) -> None:
        # The terminal interface shows the puller's state itself.
        if not self._is_drawn:
            say(text or f"{self.client.node}: connected again")

    def _end(self) -> None:
        # This ends the command, which would wait for more; SIGINT may be ignored. An exception
        # is lost where SQLite calls back, so one signal may not be enough.
        while not (self._has_screen or self._is_over.is_set()):
            os.kill(os.getpid(), signal.SIGTERM)
            self._is_over.wait(_SIGNAL_SECONDS)


def _within(file: Path, what: str, target: Target, where: Filter | None) -> Filter:
    """Return a filter of the events about a container, which also match ``where``.

    Raises UsageError if the recording has no such container.
    """
    from nri_scope.events import Container, Pod
    from nri_scope.filter import parse
    from nri_scope.filter.tree import quote
    from nri_scope.recording.query.lookup import container_name, find
    from nri_scope.recording.reading.reader import Recording

    with Recording.open(file) as recording:
        match find(recording, what):
            case Container() as container if container_name(container) == what:
                # All of this name.
                term = f"container:{quote(target.container, is_name=True)}"
            case Container(id=number) | Pod(id=number):
                term = f"id:{quote(number)}"
            case event:
                raise UsageError(f"{what} is event {event.id}", "`show` shows an event")
    return parse(term if where is None else f"({where.text}) {term}")


def _check_named(file: Path, target: Target, node: str) -> None:
    """Raise UsageError if a pod has events, but not under its name."""
    from nri_scope.recording.reading.reader import Recording

    with Recording.open(file) as recording:
        names = {(pod.namespace, pod.name) for pod in recording.pods()}
    if names and (target.namespace, target.pod) not in names:
        raise UsageError(
            f"the agent of {node} hides the names of pods or namespaces, so "
            f"{target.namespace}/{target.pod} cannot be shown by its name",
            "use `kubectl nri-scope log`, or other rules for the agent's --redact",
        )


async def client_of(
    target: Target | None, node: str, cluster: ClusterOptions, *, wait: bool = False
) -> AgentClient:
    """Return the client for a node, by default for the node of a pod. Raises UsageError.

    ``wait``: until the pod is scheduled.
    """
    from nri_scope.cluster.agent_client import AgentClient
    from nri_scope.cluster.agent_pods import agent_pods
    from nri_scope.cluster.target import node_of

    kubectl, namespace = cluster.kubectl, cluster.agent_namespace
    if target is not None and not node:
        agent = await node_of(kubectl, namespace, target, say, wait=wait)
    else:
        agents = await agent_pods(kubectl, namespace)
        if node not in agents:
            raise UsageError(f"no agent runs on node {node}", f"they run on {', '.join(agents)}")
        agent = agents[node]
    return AgentClient(kubectl, agent)
