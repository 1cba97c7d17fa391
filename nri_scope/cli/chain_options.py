# SPDX-License-Identifier: Apache-2.0
"""Options of all commands that replay: the plugins, the session, and the runtime's behaviour."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import click

from .params import ANY_PATH, INDEX, PLUGIN_NAME, command_line_argument

_Command = TypeVar("_Command", bound="Callable[..., Any] | click.Command")


class ChainOptions(TypedDict):
    """The options as click passes them."""

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
    click.option("--index", type=INDEX, help="Index of COMMAND.  [default: 10, or its file's]"),
    click.option("--name", type=PLUGIN_NAME, help="Name of COMMAND.  [default: its file's]"),
    click.option(
        "--config",
        "configs",
        multiple=True,
        metavar="[NN=]FILE",
        help="Configuration to send to launched plugins with Configure, or to the one with this "
        "index.",
    ),
    click.option(
        "--env",
        "variables",
        multiple=True,
        metavar="NAME=VALUE",
        help="An additional variable for launched plugins, which otherwise get only the three of a "
        "runtime.",
    ),
)
_MANNER = (
    click.option("--session", type=click.IntRange(min=1), metavar="N", help="Session to replay."),
    click.option(
        "--profile",
        default="recorded",
        show_default=True,
        metavar="NAME",
        help="Behave like this runtime, such as containerd-2.1 or cri-o; an unknown name prints "
        "all names.",
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
        help="A fault to inject; `replay --help` lists them. Can be given several times.",
    ),
)


def chain_options(command: _Command) -> _Command:
    """Add FILE, COMMAND and the options of its plugins."""
    for option in reversed(_CHAIN):
        command = option(command)
    return command


def manner_options(command: _Command) -> _Command:
    """Add the options of the session and of the runtime's behaviour."""
    for option in reversed(_MANNER):
        command = option(command)
    return command
