# SPDX-License-Identifier: Apache-2.0
"""``nri-scope``: run a command, and turn its errors into one line and an exit status."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pathlib
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, TextIO, cast

import click

from nri_scope import __version__
from nri_scope.errors import NriScopeError, RecordingCut, did_you_mean, reason_of

GROUPS = {
    "Look": ("demo", "tui", "log", "show", "diff", "blame", "missing", "report", "sql"),
    "Record": ("record", "tap", "doctor"),
    "Test a plugin": ("replay", "debug", "scenario", "new-plugin"),
    "Share": ("export",),
    "Cluster": ("agent",),
}
"""Commands by their group in the help. ``nri_scope.cli.NAME`` contains the command NAME."""
COMMANDS = tuple(chain.from_iterable(GROUPS.values()))
COMPARE = "replay compare"
"""The command of two words, which has the same options as its first word."""
FORMER = {"stats": "`nri-scope report FILE`"}
"""Former commands, and what replaced them."""

HELP_WIDTH = 80
"""Maximum number of columns of the list of commands."""
RECORDING_SUFFIXES = (".nriscope.db", ".nriscope.zip")
EXIT_TROUBLE = 2
"""As in diff(1): 0 success, 1 a difference or failed check, 2 an error."""
EXIT_INTERRUPTED = 130


GROUP_SETTINGS: dict[str, Any] = {
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 100},
    "subcommand_metavar": "COMMAND [ARGS]...",
    "options_metavar": "[--help|--version]",
}


class CommandGroup(click.Group):
    """Command group that imports a command's module only when it runs.

    Its help has a line for each command, and fits on a terminal of 24 lines and 80 columns.
    """

    groups: Mapping[str, Sequence[str]]
    unlisted: Sequence[str] = ()
    """Commands that the help of others names."""
    package: str

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the help text."""
        return list(chain.from_iterable(self.groups.values()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name == "help":
            from .help_topics import help_command

            return help_command
        if cmd_name not in (*self.list_commands(ctx), *self.unlisted):
            return None
        module = importlib.import_module(f"{self.package}.{re.sub('[- ]', '_', cmd_name)}")
        assert isinstance(module.command, click.Command)
        return module.command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, each with its group and summary, instead of the few options."""
        width = max(map(len, self.list_commands(ctx)))
        title_width = max(map(len, self.groups))
        limit = HELP_WIDTH - len("    ") - title_width - width
        formatter.write_paragraph()
        for group, names in self.groups.items():
            title = group
            for name in names:
                command = self.get_command(ctx, name)
                assert command is not None, name
                summary = command.get_short_help_str(limit)
                formatter.write(f"{title:{title_width}}  {name:{width}}  {summary}\n")
                title = ""


class LazyGroup(CommandGroup):
    """The commands of ``nri-scope``."""

    groups = GROUPS
    unlisted = (COMPARE,)
    package = "nri_scope.cli"

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write nothing: the list of commands needs the lines."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command named first in ``args``; ``tui`` for the name of a recording.

        An error suggests the nearest command.
        """
        name = args[0]
        if args[:2] == COMPARE.split():
            return COMPARE, self.get_command(ctx, COMPARE), args[2:]
        if name not in (*COMMANDS, "help") and not name.startswith("-"):
            if name.endswith(RECORDING_SUFFIXES) or _is(pathlib.Path.is_file, name):
                return "tui", self.get_command(ctx, "tui"), args
            if "/" in name and _is(pathlib.Path.is_dir, name):
                ctx.fail(f"{name!r} is a folder, not a recording")
            if "/" in name or "." in name:
                ctx.fail(f"no such file {name!r}")
            if name in FORMER:
                ctx.fail(f"there is no command {name!r} any more; use {FORMER[name]}")
            hint = did_you_mean(name, COMMANDS)
            ctx.fail(f"no such command {name!r}{hint and '; '}{hint}")
        return super().resolve_command(ctx, args)


@click.command(
    name="nri-scope",
    cls=LazyGroup,
    **GROUP_SETTINGS,
    epilog="`nri-scope FILE` opens a recording; `nri-scope help` lists topics.",
)
@click.version_option(__version__, message="nri-scope %(version)s")
def cli() -> None:
    """Record, inspect and debug the traffic of NRI plugins."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the ``nri-scope`` command and exit with its status."""
    prepare_streams()
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def prepare_streams() -> None:
    """Prepare the standard streams of a command."""
    _open_standard_streams()
    _buffer_stdout()
    _unbuffer_stderr()


def _open_standard_streams() -> None:
    """Open /dev/null in place of standard streams that were closed at start (``>&-``).

    Sockets would get their numbers, which libuv refuses to close.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is this one.
            os.open(os.devnull, os.O_RDWR)


class _WholeWrites(io.FileIO):
    """A file whose `write` does not return before everything is written.

    `io.TextIOWrapper` takes a short write for a whole one: a stopped process (^Z) lost output.
    """

    def write(self, data: Any, /) -> int:
        """Write all data, or as much as a non-blocking file accepts."""
        rest = memoryview(data)
        while rest:
            count = super().write(rest)
            if count is None:
                break
            rest = rest[count:]
        return len(data) - len(rest)


def _buffer_stdout() -> None:
    """Buffer stdout although PYTHONUNBUFFERED is set: commands flush it, see `_WholeWrites`."""
    stdout = sys.__stdout__
    if stdout is not None and sys.stdout is stdout and isinstance(stdout.buffer, io.RawIOBase):
        encoding, errors, number = stdout.encoding, stdout.errors, stdout.fileno()
        sys.stdout = open(number, "w", encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115


def _unbuffer_stderr() -> None:
    """Make stderr write immediately.

    The interpreter flushes buffered text at exit: it would block forever on a stalled reader, or
    exit with status 120 if stderr was closed.
    """
    # None: closed at start. Another stream: a caller of `main` captures the output.
    stderr = sys.__stderr__
    if stderr is not None and sys.stderr is stderr:
        sys.stderr = io.TextIOWrapper(
            _WholeWrites(stderr.fileno(), "w", closefd=False),
            encoding=stderr.encoding,
            errors=stderr.errors,
            write_through=True,
        )


def run(arguments: Sequence[str], group: click.Command | None = None) -> int:
    """Run one command line of a group of commands, by default `cli`; return its exit status."""
    cuts: dict[str, None] = {}
    with warnings.catch_warnings():
        show = warnings.showwarning

        def collect(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            if issubclass(category, RecordingCut):
                cuts[str(message)] = None
            else:
                show(message, category, *rest)

        warnings.simplefilter("always", RecordingCut)
        warnings.showwarning = cast("Any", collect)
        status = _run(arguments, group)
    for cut in cuts:
        _say(cut)
    return status


def _run(arguments: Sequence[str], group: click.Command | None) -> int:
    if group is None and not arguments and os.environ.get("NRI_PLUGIN_SOCKET"):
        # A runtime launched this process as a plugin, without arguments.
        from nri_scope.logger.launched import record_launched

        return record_launched()
    try:
        group = group or cli
        result = group.main(args=list(arguments), prog_name=group.name, standalone_mode=False)
        _flush(sys.stdout)
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return EXIT_TROUBLE
    except click.ClickException as error:
        return _fail(_one_line(error), f"{_command_path(error)}{_file_hint(arguments)}")
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except NriScopeError as error:
        return _fail(str(error))
    except BrokenPipeError:
        # The reader of standard output is gone.
        from .output import discard

        discard(sys.stdout)
        return 0
    except OSError as error:
        # No command has handled the error: print the operating system's message.
        return _fail(_os_words(error))


def _flush(stdout: TextIO | None) -> None:
    # None: stdout was closed when this process started.
    if stdout is not None:
        stdout.flush()


def _os_words(error: OSError) -> str:
    words = reason_of(error)
    try:
        pathlib.Path.cwd()
    except OSError:
        return "the current folder no longer exists; change to another"
    return f"{error.filename}: {words}" if error.filename else words


def _one_line(error: click.ClickException) -> str:
    return " ".join(error.format_message().split()).rstrip(".")


def _command_path(error: click.ClickException) -> str:
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"; see `{error.ctx.command_path} --help`"
    return ""


def _is(kind: Callable[[pathlib.Path], bool], name: str) -> bool:
    try:
        return kind(pathlib.Path(name))
    except (OSError, ValueError):
        return False


def _file_hint(arguments: Sequence[str]) -> str:
    """Explain how to open a file with the name of a command, if that may have been meant."""
    if (
        len(arguments) != 1
        or arguments[0] not in COMMANDS
        or not _is(pathlib.Path.is_file, arguments[0])
    ):
        return ""
    return f"; to open the file of this name, type `nri-scope ./{arguments[0]}`"


def _fail(text: str, more: str = "") -> int:
    _say(text, more)
    return EXIT_TROUBLE


def _say(text: str, more: str = "") -> None:
    # An error may quote text from a recording or a peer, which must not reach the terminal
    # unescaped.
    from nri_scope.text.escape import safe

    with contextlib.suppress(OSError):
        click.echo(f"nri-scope: {safe(text)}{more}", err=True)
