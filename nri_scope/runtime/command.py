# SPDX-License-Identifier: Apache-2.0
"""The command line of a plugin: the program to run, and why it cannot be run."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nri_scope.errors import UsageError
from nri_scope.nri.identity import check_index, check_name

PLUGIN_DESCRIPTOR = 3
"""The descriptor of a launched plugin's end of the connection."""

INTERPRETER_MAX = 256
"""Number of bytes of a script's first line that Linux reads."""


@dataclass(frozen=True, slots=True)
class Command:
    """The program of a plugin, with its arguments and environment."""

    path: str
    """Absolute path of the program."""
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: str

    def problem(self, number: int, step: str) -> UsageError:
        """Return why the plugin could not be started, from the errno of chdir (``cwd``) or execve
        (``exec``).
        """
        if step == "cwd":
            return UsageError(
                f"{self.cwd}: no folder to run a plugin in: {_words(number)}", "name another one"
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
                "the dynamic loader that it needs does not exist here",
                "build it for this system",
            )
        if number == errno.ENOEXEC:
            return _problem(
                self.argv[0],
                _words(number),
                "a plugin is a program for this machine, or a script that begins with #! and its"
                " interpreter",
            )
        return _problem(self.argv[0], _words(number))


def command_of(
    argv: Sequence[str],
    index: str,
    name: str,
    environment: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
) -> Command:
    """Return the command of a plugin; find its program as a shell does. Raises UsageError.

    The lookup uses our own PATH and working folder. The plugin gets neither: as in a real runtime,
    its environment consists of the three variables of a launched plugin and ``environment``. It
    runs in ``cwd`` (None: in our folder, as a real runtime's plugins run in the runtime's).
    """
    check_index(index)
    if not name:
        check_name(name)
    if not argv or not argv[0]:
        raise UsageError("an empty command is no plugin", "name the program after --")
    told = {
        "NRI_PLUGIN_NAME": name,
        "NRI_PLUGIN_IDX": index,
        "NRI_PLUGIN_SOCKET": str(PLUGIN_DESCRIPTOR),
    }
    added = dict(environment or {})
    for variable in added:
        if variable in told:
            raise UsageError(
                f"{variable} cannot be set for a launched plugin",
                "it is how the runtime tells the plugin who it is",
            )
        if not variable or "=" in variable:
            raise UsageError(f"{variable!r} is no name of an environment variable")
    complete = {**told, **added}
    for text in (*argv, *complete, *complete.values()):
        try:
            sound = b"\0" not in os.fsencode(text)
        except UnicodeEncodeError:
            sound = False
        if not sound:
            raise UsageError(f"{text!r} cannot be given to a program")
    folder = os.fspath(cwd) if cwd is not None else str(Path.cwd())
    program = _program(argv[0])
    # Programs that search for their own file (Python does, for its virtual environment) have no
    # PATH.
    return Command(program, (program, *argv[1:]), complete, folder)


def _program(word: str) -> str:
    """Return the absolute path of a program, with the checks that a shell makes."""
    if "/" not in word:
        found = shutil.which(word)
        if found is None:
            here = f"for a file here write ./{word}" if Path(word).exists() else ""
            raise _problem(word, "no such program in the folders of PATH", here)
        word = found
    path = str(Path(word).absolute())
    try:
        found_mode = Path(path).stat().st_mode
    except OSError as error:
        raise _problem(word, _words(error.errno or 0)) from error
    if stat.S_ISDIR(found_mode):
        raise _problem(word, "it is a folder")
    if not os.access(path, os.X_OK):
        raise _problem(word, _words(errno.EACCES), "make it executable: chmod +x")
    return path


def _problem(word: str, problem: str, hint: str = "a plugin is an executable file") -> UsageError:
    return UsageError(f"{word}: cannot be launched: {problem}", hint)


def _words(number: int) -> str:
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
