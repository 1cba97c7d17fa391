# SPDX-License-Identifier: Apache-2.0
"""Options shared by the commands that replay: plugins, session and emulated runtime."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import click

from .params import (
    ANY_PATH,
    INDEX,
    PLUGIN_NAME,
    Duration,
    FilePath,
    Grace,
    command_line_argument,
    set_option,
    where_option,
)
from .time_arguments import from_option, to_option

if TYPE_CHECKING:
    from nri_scope.filter import Filter

_Command = TypeVar("_Command", bound="Callable[..., Any] | click.Command")


class Timeout(Duration):
    """Duration in seconds; infinity for ``none``."""

    name = "timeout"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the duration in seconds."""
        return math.inf if value == "none" else super().convert(value, param, ctx)


class ChainOptions(TypedDict):
    """The options as click passes them."""

    file: Path
    command_line: tuple[str, ...]
    plugins: tuple[str, ...]
    index: str | None
    name: str | None
    configs: tuple[str, ...]
    variables: tuple[str, ...]
    external: bool
    grace: float
    session: int | None
    profile: str
    ideal: bool
    no_effects: bool
    faults: tuple[str, ...]
    changes: tuple[str, ...]
    notes: list[str]
    """Remarks on FILE, set by `played`."""


class PlayOptions(ChainOptions):
    """The options of the commands that play events to plugins once."""

    listen: Path | None
    expect: int | None
    timeout: float | None
    where: Filter | None
    begin: str | None
    end: str | None
    only: str
    watched: tuple[Path, ...]
    build: str | None


_CHAIN = (
    click.argument("file", type=ANY_PATH),
    command_line_argument,
    click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="NN=COMMAND",
        help="Launch this plugin with this index. Repeat it for a chain of plugins.",
    ),
    click.option(
        "--index",
        type=INDEX,
        help="Index of COMMAND.  [default: from its file name NN-name, else 10]",
    ),
    click.option(
        "--name", type=PLUGIN_NAME, help="Name of COMMAND.  [default: from its file name]"
    ),
    click.option(
        "--config",
        "configs",
        multiple=True,
        metavar="[NN=]FILE",
        help="Send this file in Configure to all launched plugins, or to the one with index NN.",
    ),
    click.option(
        "--env",
        "variables",
        multiple=True,
        metavar="NAME=VALUE",
        help="Set an additional environment variable for launched plugins. Like a runtime, replay "
        "otherwise sets only NRI_PLUGIN_NAME, NRI_PLUGIN_IDX and NRI_PLUGIN_SOCKET.",
    ),
    click.option(
        "--external",
        is_flag=True,
        help="Start plugins as external ones, which connect by themselves and set their own index: "
        "with this environment, and a private socket in place of {socket} in their arguments, or "
        "else of /var/run/nri/nri.sock.",
    ),
    click.option(
        "--grace",
        type=Grace(),
        default="1s",
        show_default=True,
        help="Time for a plugin to end by itself after the replay, and again after SIGTERM, before "
        "SIGKILL; 0 kills it at once, as runtimes do.",
    ),
)
_EMULATION = (
    click.option(
        "--session",
        type=click.IntRange(min=1),
        metavar="N",
        help="Replay this session.  [default: that of the first plugin in the chain]",
    ),
    click.option(
        "--profile",
        default="recorded",
        show_default=True,
        metavar="NAME",
        help="Behave like this runtime, such as containerd-2.1 or cri-o; an unknown name lists the "
        "valid ones.",
    ),
    click.option(
        "--ideal",
        is_flag=True,
        help="Send Synchronize to launched plugins even if this runtime does not, as containerd up "
        "to 1.7.25 and iSulad.",
    ),
    click.option(
        "--no-effects",
        is_flag=True,
        help="Send every request as it was recorded, regardless of the plugins' replies.",
    ),
    set_option,
    click.option(
        "--fault",
        "faults",
        multiple=True,
        metavar="FAULT",
        help="Inject this fault; `replay --help` lists all. Can be repeated.",
    ),
)


_LISTEN = (
    click.option(
        "--listen",
        type=FilePath(),
        metavar="SOCK",
        help="Listen on this NRI socket for external plugins.",
    ),
    click.option(
        "--expect",
        type=click.IntRange(1, 100),
        metavar="N",
        help="Start when N plugins have connected to --listen.  [default: 1]",
    ),
)
_SELECTION = (
    where_option,
    from_option,
    to_option,
    click.option(
        "--only",
        default="",
        metavar="POD[/CTR]",
        help="Play only events of this pod or container: ns/pod or ns/pod/container.",
    ),
)
_WATCH = (
    click.option(
        "--watch",
        "watched",
        multiple=True,
        type=FilePath(),
        metavar="PATH",
        help="On every save of this file, or of a file in this folder, run --build, replay again "
        "and show what differs from the run before. Can be repeated.",
    ),
    click.option(
        "--build",
        metavar="COMMAND",
        help="Shell command that builds the plugin, for --watch.",
    ),
)


timeout_option = click.option(
    "--timeout",
    type=Timeout(),
    metavar="DURATION|none",
    help="Deadline of each request instead of the runtime's; none lets a plugin reply, and "
    "register, at any time, for example in a debugger.",
)


def _adding(options: Sequence[Callable[[_Command], _Command]]) -> Callable[[_Command], _Command]:
    """Return a decorator that adds options to a command, in the order of its help."""

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


chain_options = _adding(_CHAIN)
"""Add FILE, COMMAND and the options of the plugins to launch."""
emulation_options = _adding(_EMULATION)
"""Add the options of the session and of the emulated runtime."""
listen_options = _adding(_LISTEN)
"""Add the options of external plugins."""
selection_options = _adding(_SELECTION)
"""Add the options that select the events to play."""
watch_options = _adding(_WATCH)
"""Add --watch and --build."""
