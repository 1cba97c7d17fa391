# SPDX-License-Identifier: Apache-2.0
"""Options of all commands that replay: to which plugins, what of a recording, and how."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import click

from .params import ANY_PATH, Index, PluginName, command_line_argument

_Command = TypeVar("_Command", bound="Callable[..., Any] | click.Command")


class ChainOptions(TypedDict):
    """As click hands them over."""

    file: Path
    command_line: tuple[str, ...]
    plugins: tuple[str, ...]
    index: str | None
    name: str | None
    configs: tuple[str, ...]
    variables: tuple[str, ...]
    session: int | None
    profile: str
    no_effects: bool
    faults: tuple[str, ...]


_CHAIN = (
    click.argument("file", type=ANY_PATH),
    command_line_argument,
    click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="NN=COMMAND",
        help="A plugin of the chain, with its index. Several make a chain.",
    ),
    click.option("--index", type=Index(), help="Index of COMMAND.  [default: 10, or its file's]"),
    click.option("--name", type=PluginName(), help="Name of COMMAND.  [default: its file's]"),
    click.option(
        "--config",
        "configs",
        multiple=True,
        metavar="[NN=]FILE",
        help="Configuration that Configure brings to launched plugins, or to the one with this "
        "index.",
    ),
    click.option(
        "--env",
        "variables",
        multiple=True,
        metavar="NAME=VALUE",
        help="One more variable for launched plugins; a runtime gives them none but its own three.",
    ),
)
_MANNER = (
    click.option("--session", type=click.IntRange(min=1), metavar="N", help="Session to replay."),
    click.option(
        "--profile",
        default="recorded",
        show_default=True,
        metavar="NAME",
        help="Behave like this runtime: containerd-1.7, -2.1, -2.2, -2.3, cri-o or isulad.",
    ),
    click.option(
        "--no-effects",
        is_flag=True,
        help="Send every request as it was recorded, whatever plugins answer.",
    ),
    click.option(
        "--fault",
        "faults",
        multiple=True,
        metavar="FAULT",
        help="Something that goes wrong on purpose; `replay --help` lists what. Several may.",
    ),
)


def chain_options(command: _Command) -> _Command:
    """FILE, COMMAND and the plugins beside it."""
    for option in reversed(_CHAIN):
        command = option(command)
    return command


def manner_options(command: _Command) -> _Command:
    """Which session, and how the runtime behaves."""
    for option in reversed(_MANNER):
        command = option(command)
    return command
