# SPDX-License-Identifier: Apache-2.0
"""Which plugins a replay asks, as the command line names them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import PurePath

from nri_scope.errors import UsageError
from nri_scope.nri.identity import check_index, check_name, plugin_id

DEFAULT_INDEX = "10"
"""Of a plugin that is given as nothing but a command."""


@dataclass(frozen=True, slots=True)
class Command:
    """A plugin that is launched."""

    index: str
    name: str
    argv: tuple[str, ...]

    @property
    def id(self) -> str:
        """``NN-name``."""
        return plugin_id(self.index, self.name)

    def __str__(self) -> str:
        return f"{self.index}={shlex.join(self.argv)}"


def command(argv: tuple[str, ...], index: str = "", name: str = "") -> Command:
    """A plugin from its command line.

    Index and name are those of its file where that is called ``NN-name``, as runtimes demand, else
    `DEFAULT_INDEX` and the file's name. Raises `UsageError`.
    """
    if not argv or not argv[0]:
        raise UsageError(
            "the plugin's command is empty", "write it after --, as in: -- ./my-plugin"
        )
    file_index, file_name = _of_file(PurePath(argv[0]).name)
    return Command(
        check_index(index or file_index or DEFAULT_INDEX), check_name(name or file_name), argv
    )


def parse_plugin(text: str) -> Command:
    """A plugin from ``NN=COMMAND``, the command in the shell's quoting. Raises `UsageError`."""
    index, equals, words = text.partition("=")
    if not equals:
        raise UsageError(f"{text!r} is no plugin", "write it as NN=COMMAND, as in 10=./my-plugin")
    check_index(index)
    try:
        argv = tuple(shlex.split(words))
    except ValueError as error:
        raise UsageError(f"{text!r}: {str(error).lower()}", "check its quotes") from error
    if not argv:
        raise UsageError(f"{text!r} names no command", "write it as NN=COMMAND")
    return command(argv, index)


def _of_file(file: str) -> tuple[str, str]:
    index, dash, name = file.partition("-")
    if dash and name and len(index) == 2 and index.isascii() and index.isdigit():
        return index, name
    # A runtime would not take the file under this name; the plugin may still be called like it.
    fitting = "".join(
        one if one.isascii() and (one.isalnum() or one in "_.+-") else "-" for one in file
    )
    return "", fitting or "plugin"
