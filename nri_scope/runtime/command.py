# SPDX-License-Identifier: Apache-2.0
"""Command lines of plugins: lookup of the program, its environment, and errors of starting it."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nri_scope.errors import UsageError
from nri_scope.nri.events import DEFAULT_SOCKET
from nri_scope.nri.identity import check_index, check_name

PLUGIN_DESCRIPTOR = 3
"""The descriptor of a launched plugin's end of the connection."""

SOCKET = "{socket}"
"""Text in the arguments of an external plugin that stands for the path of its private socket."""

_SET_BY_RUNTIME = "NRI_PLUGIN_"
"""Prefix of the variables of launched plugins."""

INTERPRETER_MAX = 256
"""Number of bytes of a script's first line that Linux reads."""


@dataclass(frozen=True, slots=True)
class PluginProgram:
    """The program of a plugin, with its arguments and environment."""

    path: str
    """Absolute path of the program."""
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: str
    folders: tuple[str, ...] = ()
    """A folder and the one that the plugin finds in its place; empty for none."""

    def problem(self, number: int, step: str) -> UsageError:
        """Return an error for a failed start with the errno ``number``: of chdir, if ``step`` is
        ``cwd``, of the mounts for `folders`, if it is ``folders``, or else of execve.
        """
        if step == "cwd":
            return UsageError(
                f"{self.cwd}: cannot run a plugin in this folder: {_error_text(number)}",
                "name another folder",
            )
        if step == "folders":
            return _problem(
                self.argv[0],
                f"it would connect to {DEFAULT_SOCKET}, in place of which it cannot be given "
                f"another socket here: {_error_text(number)}",
                f"write {SOCKET} in its arguments where they name its socket",
            )
        if number == errno.ENOENT and Path(self.path).exists():
            interpreter = _interpreter(self.path)
            if interpreter:
                return _problem(
                    self.argv[0],
                    f"its interpreter {interpreter} does not exist",
                    "correct its first line",
                )
            return _problem(
                self.argv[0],
                "its dynamic loader does not exist here",
                "build it for this system",
            )
        if number == errno.ENOEXEC:
            return _problem(
                self.argv[0],
                _error_text(number),
                "a plugin is a program for this machine, or a script that begins with #! and its"
                " interpreter",
            )
        return _problem(self.argv[0], _error_text(number))


def command_of(
    argv: Sequence[str],
    index: str,
    name: str,
    environment: Mapping[str, str] | None = None,
) -> PluginProgram:
    """Return the command of a plugin; find its program as a shell does. Raises UsageError.

    The lookup uses the PATH and working folder of this process. The plugin's environment has no
    PATH: as in a real runtime, it consists of the three variables of a launched plugin, and
    ``environment``. The plugin runs in the folder of this process, just as real runtimes start
    plugins in their own.
    """
    check_index(index)
    if not name:
        check_name(name)
    required = {
        "NRI_PLUGIN_NAME": name,
        "NRI_PLUGIN_IDX": index,
        "NRI_PLUGIN_SOCKET": str(PLUGIN_DESCRIPTOR),
    }
    added = dict(environment or {})
    for variable in added:
        if variable in required:
            raise UsageError(
                f"{variable} cannot be set for a launched plugin",
                "the runtime sets it to the plugin's own value",
            )
    return _command(argv, {**required, **added})


def external_command_of(
    argv: Sequence[str],
    socket: str,
    environment: Mapping[str, str] | None = None,
) -> PluginProgram:
    """Return the command of a plugin that connects to ``socket`` by itself. Raises UsageError.

    `SOCKET` in its arguments or variables is replaced by the path. Without any, the plugin finds
    the socket at `DEFAULT_SOCKET`. It has the variables of this process, as if it was started by
    hand, without those of launched plugins.
    """
    added = dict(environment or {})
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(_SET_BY_RUNTIME)
    }
    command = _command(
        [word.replace(SOCKET, socket) for word in argv],
        {**own, **{name: value.replace(SOCKET, socket) for name, value in added.items()}},
    )
    if any(SOCKET in word for word in (*argv, *added.values())):
        return command
    return replace(command, folders=(str(Path(DEFAULT_SOCKET).parent), str(Path(socket).parent)))


def _command(argv: Sequence[str], environment: Mapping[str, str]) -> PluginProgram:
    if not argv or not argv[0]:
        raise UsageError("the command of the plugin is empty", "name the program after --")
    for variable in environment:
        if not variable or "=" in variable:
            raise UsageError(f"{variable!r} is not a valid name of an environment variable")
    for text in (*argv, *environment, *environment.values()):
        try:
            is_valid = b"\0" not in os.fsencode(text)
        except UnicodeEncodeError:
            is_valid = False
        if not is_valid:
            raise UsageError(f"{text!r} cannot be passed to a program")
    program = _program(argv[0])
    # argv[0] is absolute: programs that look up their own file (as Python does for its virtual
    # environment) have no PATH.
    return PluginProgram(program, (program, *argv[1:]), environment, str(Path.cwd()))


def _program(word: str) -> str:
    """Return the absolute path of a program, with the checks that a shell makes."""
    if "/" not in word:
        program = shutil.which(word)
        if program is None:
            hint = f"for a file here write ./{word}" if Path(word).exists() else ""
            raise _problem(word, "no such program in the folders of PATH", hint)
        word = program
    path = str(Path(word).absolute())
    try:
        found_mode = Path(path).stat().st_mode
    except OSError as error:
        raise _problem(word, _error_text(error.errno or 0)) from error
    if stat.S_ISDIR(found_mode):
        raise _problem(word, "it is a folder")
    if not os.access(path, os.X_OK):
        raise _problem(word, _error_text(errno.EACCES), "make it executable: chmod +x")
    return path


def _problem(word: str, problem: str, hint: str = "a plugin is an executable file") -> UsageError:
    return UsageError(f"{word}: cannot be launched: {problem}", hint)


def _error_text(number: int) -> str:
    return os.strerror(number).lower()


def _interpreter(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            line = file.read(INTERPRETER_MAX).partition(b"\n")[0]
    except OSError:
        return ""
    if not line.startswith(b"#!"):
        return ""
    return os.fsdecode((line[2:].split() or [b""])[0])
