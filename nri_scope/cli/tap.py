# SPDX-License-Identifier: Apache-2.0
"""``nri-scope tap``: stand between a runtime and one plugin, and record what both say."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, TypedDict, Unpack

import click
from click.core import ParameterSource

import nri_scope
from nri_scope.cli.params import Duration, FilePath, Index, PluginName, Size, socket_option
from nri_scope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nri_scope.cli.trace import Trace
    from nri_scope.logger.background import Background
    from nri_scope.runtime.output import Stream
    from nri_scope.tap.launching import Launch
    from nri_scope.tap.run import Tap
    from nri_scope.tap.settings import Settings

_FAULTS = (
    "Faults, for tests of resilience on a runtime that may suffer: EVENT is an event's name, or"
    " `all`, P a probability (1 unless given). What they did is noted in the recording."
)


class Options(TypedDict):
    """As click hands them over."""

    command_line: tuple[str, ...]
    output: Path | None
    socket: Path
    index: str | None
    name: str | None
    variables: tuple[str, ...]
    listen: Path | None
    wrap: Path | None
    unwrap: Path | None
    where: str
    max_size: int | None
    max_age: float | None
    wait: bool
    print_format: str | None
    redact: str | None
    delays: tuple[str, ...]
    drops: tuple[str, ...]
    errors: tuple[str, ...]
    seed: int


@click.command(epilog=_FAULTS)
@click.argument("command_line", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-o",
    "--output",
    type=FilePath(),
    metavar="FILE",
    help="Recording to write, or to continue.  [default: nri-<host>-<UTC time>.nriscope.db, "
    "with --wrap /var/lib/nri-scope/NN-name.nriscope.db]",
)
@socket_option
@click.option("--index", type=Index(), help="Two digits for COMMAND.  [default: its file's, or 10]")
@click.option("--name", type=PluginName(), help="Name for COMMAND.  [default: its file's]")
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    help="One more variable for COMMAND; a runtime gives it none but its own three.",
)
@click.option(
    "--listen",
    type=FilePath(),
    metavar="SOCKET",
    help="Be a socket for plugins that are started elsewhere, and connect each to the runtime.",
)
@click.option(
    "--wrap",
    type=FilePath(),
    metavar="PLUGIN",
    help="Have a pre-installed plugin, e.g. /opt/nri/plugins/10-name, tapped whenever the runtime "
    "launches it.",
)
@click.option(
    "--unwrap", type=FilePath(), metavar="PLUGIN", help="Put such a plugin back as it was."
)
@click.option("--where", default="", metavar="FILTER", help="Keep only events that this matches.")
@click.option(
    "--max-size",
    type=Size(),
    help="Keep the file below this size, e.g. 500M: the oldest stretches go.  "
    "[default: 256 MiB with --wrap]",
)
@click.option("--max-age", type=Duration(), help="Keep no events older than this, e.g. 24h.")
@click.option("--wait", is_flag=True, help="Wait for the runtime if it is not there.")
@click.option(
    "--print",
    "print_format",
    type=click.Choice(["text", "jsonl"]),
    help="Show what is asked and answered while it happens, as strace does.",
)
@click.option(
    "--redact",
    is_flag=False,
    flag_value="",
    metavar="[RULES]",
    help="Replace what is secret or personal before it is written, by the default rules or as the "
    "file RULES changes them.",
)
@click.option(
    "--delay",
    "delays",
    multiple=True,
    metavar="EVENT=DURATION[:P]",
    help="Hold the plugin's reply back.",
)
@click.option(
    "--drop",
    "drops",
    multiple=True,
    metavar="EVENT[:P]",
    help="Keep the request from the plugin; the runtime waits until its deadline.",
)
@click.option(
    "--error",
    "errors",
    multiple=True,
    metavar="EVENT[:P]",
    help="Answer with an error in the plugin's place.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="For the probabilities.")
@click.pass_context
def command(ctx: click.Context, /, **options: Unpack[Options]) -> int:
    """See exactly what one plugin gets and answers.

    Launches the plugin COMMAND as a runtime would, connects it to the real runtime, relays every
    byte and records both directions, with the time that the plugin took and what it printed. The
    plugin need not be changed. Its exit status is the tap's. ^C is passed on to it.

    The file holds all that the runtime says about its containers, environment variables included.
    """
    given = {
        name for name in options if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    _check(options, given)
    if options["unwrap"] is not None:
        return _unwrap(options["unwrap"])
    if options["wrap"] is not None:
        return _wrap(options["wrap"], options)
    return _tap(options)


_ALONE = {
    "unwrap": frozenset[str](),
    "wrap": frozenset(
        ("output", "where", "max_size", "max_age", "redact", "delays", "drops", "errors", "seed")
    ),
}
_SPELLED = {
    "command_line": "COMMAND",
    "variables": "--env",
    "print_format": "--print",
    "delays": "--delay",
    "drops": "--drop",
    "errors": "--error",
    "output": "-o",
}


def _check(options: Options, given: set[str]) -> None:
    """Refuse what contradicts each other."""
    values: dict[str, object] = dict(options)
    ways = [way for way in ("command_line", "listen", "wrap", "unwrap") if values[way]]
    if not ways:
        raise UsageError(
            "nothing to tap", "write the plugin's command after --, or use --listen or --wrap"
        )
    if len(ways) > 1:
        raise UsageError(
            f"{_spelled(ways[0])} and {_spelled(ways[1])} exclude each other",
            "leave one of them out",
        )
    way = ways[0]
    if way in _ALONE:
        beside = sorted(given - _ALONE[way] - {way})
        if beside:
            raise UsageError(f"{_spelled(beside[0])} means nothing with --{way}", "leave it out")
    if way == "listen":
        for name in ("index", "name", "variables"):
            if name in given:
                raise UsageError(
                    f"{_spelled(name)} is for a plugin that the tap launches",
                    "those that come to --listen say themselves who they are",
                )


def _spelled(name: str) -> str:
    return _SPELLED.get(name, f"--{name.replace('_', '-')}")


def _settings(options: Options, output: Path) -> Settings:
    from nri_scope.tap.settings import Settings

    return Settings(
        output=str(output),
        where=options["where"],
        redact=options["redact"],
        max_size=options["max_size"],
        max_age=options["max_age"],
        delays=options["delays"],
        drops=options["drops"],
        errors=options["errors"],
        seed=options["seed"],
    )


def _tap(options: Options) -> int:
    from nri_scope.cli.trace import Trace
    from nri_scope.logger.background import Background
    from nri_scope.logger.destination import default_path
    from nri_scope.tap.run import run_tap

    listen = options["listen"]
    output = options["output"] or default_path(Path(), with_host=options["redact"] is None)
    settings = _settings(options, output)
    settings.check()
    plugin = _launch(options) if listen is None else None
    # In the background: a terminal that was stopped must not keep the runtime waiting.
    notices = Background(_say, waiting_max=1000)
    printed = Background(_say, waiting_max=10_000)
    print_format = options["print_format"]
    trace = Trace(print_format, several=listen is not None) if print_format else None
    try:
        work = _work(options, plugin, trace, printed)
        return run_tap(settings, work, notices.put, trace.show if trace else None)
    finally:
        if trace:
            trace.close()
        printed.close()
        notices.close()


def _work(
    options: Options, plugin: Launch | None, trace: Trace | None, printed: Background[str]
) -> Callable[[Tap], Awaitable[int]]:
    socket, wait, listen = options["socket"], options["wait"], options["listen"]
    if plugin is None:
        from nri_scope.tap.listening import at_socket

        assert listen is not None
        return at_socket(listen, socket, wait=wait)
    from nri_scope.nri.identity import plugin_id
    from nri_scope.tap.launching import to_socket

    name = plugin_id(plugin.identity.index, plugin.identity.name)

    def on_output(stream: Stream, line: str, mono_ns: int) -> None:
        if trace is not None:
            trace.said(time_ns(), name, stream.value, line)
        else:
            printed.put(line)

    return to_socket(plugin, socket, on_output, wait=wait)


def _launch(options: Options) -> Launch:
    from nri_scope.plugin import Identity
    from nri_scope.replay import chain
    from nri_scope.runtime.command import command_of
    from nri_scope.tap.launching import Launch

    named = chain.command(options["command_line"], options["index"] or "", options["name"] or "")
    command = command_of(named.argv, named.index, named.name, _environment(options["variables"]))
    return Launch(command, Identity(index=named.index, name=named.name))


def _environment(texts: tuple[str, ...]) -> dict[str, str]:
    environment: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--env {text!r} is no variable", "write NAME=VALUE")
        environment[name] = value
    return environment


def _wrap(plugin: Path, options: Options) -> int:
    from nri_scope.logger.destination import SUFFIX
    from nri_scope.logger.settings import DEFAULT_MAX_SIZE, LAUNCHED_FOLDER
    from nri_scope.tap.wrapping import Places, wrap

    places = Places.of(plugin)
    output = options["output"]
    if output is None:
        output = LAUNCHED_FOLDER / f"{places.place.name}{SUFFIX}"
    elif not output.absolute().parent.is_dir():
        raise UsageError(f"{output}: no such folder", "make it, or name another one")
    settings = _settings(options, output.absolute())
    if settings.max_size is None and settings.max_age is None:
        # Nobody watches it.
        settings = replace(settings, max_size=DEFAULT_MAX_SIZE)
    if settings.redact:
        settings = replace(settings, redact=str(Path(settings.redact).absolute()))
    settings.check()
    starter = files("nri_scope.cli").joinpath("wrapper_start.py").read_bytes()
    manner = {"settings": settings.plain(), "paths": _paths()}
    wrap(plugin, starter, json.dumps(manner).encode())
    _say(
        f"wrapped {places.place}: it is tapped from when the runtime starts it the next time, to"
        f" {settings.output}; --unwrap puts it back"
    )
    for path in (Path(sys.executable).resolve(), Path(nri_scope.__file__).parent):
        if _may_be_changed(path, places.place):
            _say(f"warning: others than the plugin's owner can change {path}, which runs with it")
    return 0


def _may_be_changed(path: Path, plugin: Path) -> bool:
    """By somebody who could not change the plugin itself."""
    status = path.stat()
    return status.st_uid not in (0, plugin.stat().st_uid) or bool(status.st_mode & 0o022)


def _paths() -> list[str]:
    """Where nri-scope and what it needs are, for a Python that is told nothing by its environment.

    Not the folder in which this runs, which `python -m` adds: the wrapper runs as root.
    """
    own = str(Path(nri_scope.__file__).parents[1])
    return [own, *(path for path in sys.path if path.endswith(("site-packages", "dist-packages")))]


def _unwrap(plugin: Path) -> int:
    from nri_scope.tap.wrapping import Places, State, unwrap

    found = unwrap(plugin)
    place = Places.of(plugin).place
    if found in (State.WRAPPED, State.GONE):
        _say(f"{place} is what it was before; the runtime runs that when it starts it again")
    else:
        _say(f"{place} was not wrapped; what was left of an interrupted --wrap is removed")
    return 0


def _say(text: str) -> None:
    from nri_scope.recorder.escape import safe

    click.echo(safe(text), err=True)
