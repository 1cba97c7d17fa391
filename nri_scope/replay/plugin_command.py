# SPDX-License-Identifier: Apache-2.0
"""Plugins to launch, as given on the command line."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import PurePath

from nri_scope.errors import UsageError
from nri_scope.nri.identity import check_index, check_name, plugin_id
from nri_scope.runtime.command import SOCKET

DEFAULT_INDEX = "10"
"""Index of a plugin whose file is not named ``NN-name``."""

_INTERPRETER = re.compile(r"python[0-9.]*|(ba|da)?sh|node|perl|ruby", re.ASCII)


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """Plugin to launch."""

    index: str
    name: str
    argv: tuple[str, ...]
    external: bool = False
    """Whether it connects to a private socket by itself, and sets its own index and name."""

    @property
    def id(self) -> str:
        """``NN-name``; if it is external, not necessarily what it registers."""
        return plugin_id(self.index, self.name)

    @property
    def title(self) -> str:
        """The plugin before it has registered, for display."""
        return f"external {self.name}" if self.external else self.id

    def __str__(self) -> str:
        text = shlex.join(self.argv)
        return text if self.external else f"{self.index}={text}"


def command(
    argv: tuple[str, ...], index: str = "", name: str = "", *, external: bool = False
) -> PluginCommand:
    """Create a plugin from its command line; it is also external if that has `SOCKET`.

    Index and name are taken from its file if that is named ``NN-name``, as runtimes require;
    otherwise `DEFAULT_INDEX` and the file's name are used ("x" for ``python3 x.py``). Raises
    `UsageError`.
    """
    if not argv or not argv[0]:
        raise UsageError(
            "the plugin's command is empty", "write it after --, as in: -- ./my-plugin"
        )
    file_index, file_name = _of_file(_program(argv))
    return PluginCommand(
        check_index(index or file_index or DEFAULT_INDEX),
        check_name(name or file_name),
        argv,
        external or any(SOCKET in word for word in argv),
    )


def given_command(
    argv: tuple[str, ...], index: str | None, name: str | None, *, external: bool
) -> PluginCommand:
    """Create COMMAND with the options --index and --name. Raises `UsageError`."""
    plugin = command(argv, index or "", name or "", external=external)
    if plugin.external and (index or name):
        raise UsageError(
            "--index and --name are only valid for launched plugins",
            "leave them out: external plugins set their own",
        )
    return plugin


def _program(argv: tuple[str, ...]) -> str:
    """Return the file name of the program; of the script if an interpreter runs one."""
    program = PurePath(argv[0]).name
    if _INTERPRETER.fullmatch(program) and len(argv) > 1 and not argv[1].startswith("-"):
        return PurePath(argv[1]).stem
    return program


def parse_plugin(text: str, *, external: bool = False) -> PluginCommand:
    """Parse ``NN=COMMAND``, with the command in shell quoting. Raises UsageError."""
    index, equals, command_line = text.partition("=")
    if not equals:
        raise UsageError(
            f"{text!r} is not a plugin", "write it as NN=COMMAND, as in 10=./my-plugin"
        )
    check_index(index)
    try:
        argv = tuple(shlex.split(command_line))
    except ValueError as error:
        raise UsageError(f"{text!r}: {str(error).lower()}", "check its quotes") from error
    if not argv:
        raise UsageError(f"{text!r} names no command", "write it as NN=COMMAND")
    return command(argv, index, external=external)


def _of_file(file: str) -> tuple[str, str]:
    index, dash, name = file.partition("-")
    if dash and name and len(index) == 2 and index.isascii() and index.isdigit():
        return index, name
    # Runtimes reject a file of this name, but replay and tap can launch it.
    valid = "".join(c if c.isascii() and (c.isalnum() or c in "_.+-") else "-" for c in file)
    return "", valid or "plugin"
