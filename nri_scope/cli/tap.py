# SPDX-License-Identifier: Apache-2.0
"""``nri-scope tap``: relay between a runtime and one plugin, recording both directions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from . import record
from .option_rules import Exclude, Need, NeedOneOf, RuledCommand
from .params import (
    FILE_PATH,
    GRACE,
    SIZE,
    command_line_argument,
    env_option,
    environment_of,
    external_option,
    index_option,
    name_option,
    output_option,
    rules_option,
    say,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nri_scope.replay.plugin_command import PluginCommand
    from nri_scope.tap.launched_plugin import Launch
    from nri_scope.tap.run import Tap, TapSettings
    from nri_scope.writer.background_output import Background

TRACES = "nri_scope.cli.trace_printer"
"""Name of the module of a writer that also prints a trace."""

_OF_PLUGIN = ("--index", "--name", "--env", "--external", "--grace")
_OF_CONNECTION = ("--socket", "--wait", "--print")
_OF_RECORDING = ("-o", "--where", "--max-size", "--max-age", "--cri", "--redact")
_OF_RECORD = {"socket", "max_age", "wait", "cri"}
_MODES = ("COMMAND", "--listen", "--wrap", "--unwrap")


class TapOptions(TypedDict):
    """The options as click passes them."""

    command_line: tuple[str, ...]
    output: Path | None
    socket: Path
    index: str | None
    name: str | None
    variables: tuple[str, ...]
    external: bool
    grace: float
    listen: Path | None
    wrap: Path | None
    unwrap: Path | None
    v01: str | None
    where: str
    max_size: int | None
    max_age: float | None
    wait: bool
    print_format: str | None
    cri: Path | None
    redact: str | None


@click.command(
    cls=RuledCommand,
    described=("nri-scope record", _OF_RECORD),
    rules=(
        Exclude(_MODES),
        Exclude(("--listen",), _OF_PLUGIN, "leave it out: external plugins set their own"),
        Exclude(("--wrap",), (*_OF_PLUGIN, *_OF_CONNECTION)),
        Exclude(("--unwrap",), (*_OF_PLUGIN, *_OF_CONNECTION, *_OF_RECORDING, "--v01")),
        Need(("--v01",), ("--wrap",), "write --wrap PLUGIN"),
        NeedOneOf(_MODES, hint="write the plugin's command after --"),
    ),
)
@command_line_argument
@output_option(
    "Recording to create or continue.  [default: nri-<host>-<UTC time>.nriscope.db, "
    "with --wrap /var/lib/nri-scope/NN-name.nriscope.db]",
)
@index_option
@name_option
@env_option
@external_option
@click.option(
    "--grace",
    type=GRACE,
    default="2s",
    show_default=True,
    help="Time for COMMAND to end by itself when its connection has ended, and again after "
    "SIGTERM, before SIGKILL; also after ^C.",
)
@click.option(
    "--listen",
    type=FILE_PATH,
    metavar="SOCKET",
    help="Listen on this socket for external plugins, and connect each to the runtime.",
)
@click.option(
    "--wrap",
    type=FILE_PATH,
    metavar="PLUGIN",
    help="Install a wrapper that taps this pre-installed plugin, e.g. /opt/nri/plugins/10-name, "
    "whenever the runtime launches it.",
)
@click.option(
    "--unwrap",
    type=FILE_PATH,
    metavar="PLUGIN",
    help="Remove the wrapper of such a plugin.",
)
@click.option(
    "--v01",
    is_flag=False,
    flag_value="",
    metavar="[SPOOL]",
    help="With --wrap: PLUGIN is one of NRI 0.1, such as those in /opt/nri/bin. Its calls go to a "
    "spool, from which `record` reads them.  "
    "[default: /var/lib/nri-scope/v01]",
)
@click.option(
    "--where", default="", metavar="FILTER", help="Record only events that match this filter."
)
@click.option(
    "--max-size",
    type=SIZE,
    help="Keep the file below this size, e.g. 500M, by deleting the oldest events.  "
    "[default: 256 MiB with --wrap]",
)
@click.option(
    "--print",
    "print_format",
    type=click.Choice(["text", "jsonl"]),
    help="Print requests and replies as they happen, like strace.",
)
@rules_option()
def command(**options: Unpack[TapOptions]) -> int:
    """Record the requests and replies of one plugin.

    Launches the plugin COMMAND as a runtime would, connects it to the real runtime, relays every
    byte and records both directions, with response times and output. ^C is forwarded to it, and its
    exit status becomes that of tap. The file contains everything that the runtime sends about its
    containers, environment variables included.
    """
    if options["unwrap"] is not None:
        from nri_scope.tap.wrapping import unwrap_plugin

        unwrap_plugin(options["unwrap"], say)
        return 0
    if options["wrap"] is not None:
        from nri_scope.tap.wrapping import wrap_plugin

        wrap_plugin(options["wrap"], _settings_of(options, options["output"]), options["v01"], say)
        return 0
    return _tap(options)


command.params += record.shared_options(_OF_RECORD)


def _tap(options: TapOptions) -> int:
    from nri_scope.tap.run import run_tap
    from nri_scope.writer.background_output import Background, default_path

    from .output import Output

    listen = options["listen"]
    output = options["output"] or default_path(Path(), with_host=options["redact"] is None)
    settings = _settings_of(options, output)
    plugin = _command(options) if listen is None else None
    # In the background: a stopped terminal must not delay the runtime.
    notices = Background(say, waiting_max=1000)
    printed = Background(say, waiting_max=10_000)
    print_format = options["print_format"]
    program = ()
    if print_format:
        # Checked before anything is recorded.
        Output()
        program = (TRACES, print_format, *(("several",) if listen is not None else ()))
    try:
        return run_tap(settings, _work(options, plugin, printed), notices.put, *program)
    finally:
        printed.close()
        notices.close()


def _settings_of(options: TapOptions, output: Path | None) -> TapSettings:
    from nri_scope.tap.run import TapSettings

    return TapSettings(
        output=str(output or ""),
        where=options["where"],
        redact=options["redact"],
        cri=None if options["cri"] is None else str(options["cri"].absolute()),
        # The runtime launches a wrapped plugin before it serves the CRI.
        cri_waits=options["wait"] or options["wrap"] is not None,
        max_size=options["max_size"],
        max_age=options["max_age"],
    )


def _work(
    options: TapOptions, plugin: PluginCommand | None, printed: Background[str]
) -> Callable[[Tap], Awaitable[int]]:
    socket, wait, listen = options["socket"], options["wait"], options["listen"]
    if plugin is None:
        from nri_scope.tap.plugin_socket import at_socket

        assert listen is not None
        return at_socket(listen, socket, wait=wait)
    from nri_scope.tap.launched_plugin import as_external, to_socket

    show = None if options["print_format"] else printed.put
    environment, grace_s = environment_of(options["variables"]), options["grace"]
    external = as_external(plugin.argv, environment, socket, show, wait=wait, grace_s=grace_s)
    if plugin.external:
        return external
    return to_socket(
        _launch(plugin, environment, grace_s), socket, show, wait=wait, fallback=external
    )


def _command(options: TapOptions) -> PluginCommand:
    from nri_scope.replay.plugin_command import given_command
    from nri_scope.tap.wrapper import check_unwrapped

    plugin = given_command(
        options["command_line"], options["index"], options["name"], external=options["external"]
    )
    check_unwrapped(plugin.argv[0])
    return plugin


def _launch(plugin: PluginCommand, environment: dict[str, str], grace_s: float) -> Launch:
    from nri_scope.plugin import Identity
    from nri_scope.runtime.command import command_of
    from nri_scope.tap.launched_plugin import Launch

    command = command_of(plugin.argv, plugin.index, plugin.name, environment)
    return Launch(command, Identity(index=plugin.index, name=plugin.name), grace_s=grace_s)
