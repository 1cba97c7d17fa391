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
from nri_scope.filter.fields import FIELDS

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


_SYNTAX = """
\b
Filters:
  field:value      the field has this value; * matches any text
  field:~regex     this regular expression matches a part of the field
  field:>5         or >= < <=; for index, session, took, time and size
  time:a..b        from a until before b, as --since a --until b; or one of them
  word             a name or id contains this word, in any case
  -term, NOT term  events that do not match the term
  a b, a AND b     both; binds more tightly than OR
  a OR b           at least one; operators must be in capitals
  ( … )            grouping
  "…"              exactly this text, without special characters
"""
_TIMES = """
\b
Times:
  2026-01-31T14:05:07Z  or with a zone such as +02:00, else local time
  2026-01-31            this day; also today, yesterday; alone or before a time
  14:05, 14:05:07.25    on the recording's own day; of several, add the date
  +30s                  30 s after the recording's first event
  -10m                  10 minutes before its last event
  10m, now              10 minutes ago; now

An empty value matches events without one: container:"" matches those about no container.

pod:shop/web is short for ns:shop pod:web, and container:shop/web/app adds container:app.

To match events unknown to this version, use * or a regular expression: event:Future*.

A number or time without > or < matches with the precision written: took:3ms matches 3 ms up to 4
ms, time:14:05 the whole minute.

The end of a range is not included, but with one to three digits after the second, as times are
shown, it includes all that is shown like it: ..14:05:07.250 ends before 14:05:07.251.

While events are being recorded, + and - count from the start of the command, and a time without a
date is today.

Regular expressions have the syntax of RE2, without back-references and look-around. They are
case-sensitive unless they begin with (?i).
"""
_WHAT = """
\b
WHAT of `show`, `diff`, `blame` and `report`:
  17                the event of this number, the first column of `log`
  shop/web          a pod, as NAMESPACE/POD
  shop/web/app      the newest container of this name, NAMESPACE/POD/CONTAINER
  4f2a9c            the pod or container whose id begins so
  env FOO, FOO      the only container in which this path of its spec changed
  /process/env/FOO  also such a path

`blame` needs a container, an event about one, or a pod with only one. In a cluster, WHAT is as in
`kubectl nri-scope --help`.
"""
_PLUGINS = """
`replay`, `debug` and `tap` launch a plugin as a runtime would, with only the variables
NRI_PLUGIN_NAME, NRI_PLUGIN_IDX, NRI_PLUGIN_SOCKET and those of --env. Index and name are those of a
file named NN-name, else 10 and the file's name.

An external plugin sets its own index and connects to a socket by itself. It gets no configuration,
and is started with your environment and a private socket in place of {socket} in its arguments, or
else of /var/run/nri/nri.sock. --external makes all plugins external; otherwise, those with {socket}
are, and those that end as their index is already set are started again so. To start it yourself,
use --listen.

At the end, a plugin's connection is closed, and it has the time of --grace to end by itself, then
the same time after SIGTERM, before SIGKILL. --grace 0 kills it at once, as runtimes do.
"""
_FAULTS = """
\b
Faults, each of which was observed on a real runtime:
  slow:EVENT:DURATION      each reply to EVENT is delayed by DURATION
  error:EVENT              EVENT fails after the plugins have replied
  drop-connection:after=N  all connections are closed after N events
  restart-runtime:after=N  the runtime is restarted after N events
  split-sync               Synchronize is sent in parts, whatever its size
  duplicate:EVENT          EVENT is sent twice
  skip:EVENT               EVENT takes effect, but is not sent
  reorder                  StopPodSandbox is sent before containers are stopped
  unknown-event            an event of a later NRI version is sent first

\b
Modifiers of slow, error, duplicate and skip:
  :once                    only the first matching event
  :only=NS/POD             only events of this pod and its containers
  :only=NS/POD/CTR         only events of this container
"""
TOPICS = {
    "filters": "filters and times, as in --where, --since and --until",
    "what": "WHAT: events, pods, containers and paths",
    "plugins": "how plugins are started",
    "faults": "what `replay --fault` injects",
}
"""Each topic, with its title."""


def write_topic(name: str, formatter: click.HelpFormatter) -> None:
    """Write a topic."""
    if name == "filters":
        formatter.write_text(_SYNTAX.strip("\n"))
        with formatter.section("Fields"):
            formatter.write_dl([(field.name, field.doc) for field in FIELDS])
        formatter.write_paragraph()
    texts = {"filters": _TIMES, "what": _WHAT, "plugins": _PLUGINS, "faults": _FAULTS}
    formatter.write_text(texts[name].strip("\n"))


@click.command("help")
@click.argument("words", nargs=-1, metavar="[TOPIC|COMMAND]")
@click.pass_context
def help_command(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a topic or a command; without it, the topics."""
    topic = " ".join(words)
    group = context.parent
    assert group is not None and isinstance(group.command, click.Group)
    formatter = context.make_formatter()
    if not topic:
        with formatter.section(f"Topics of `{group.command_path} help TOPIC`"):
            formatter.write_dl([*TOPICS.items()])
    elif topic in TOPICS:
        write_topic(topic, formatter)
    else:
        command = group.command.get_command(group, topic)
        if command is None:
            context.fail(f"no topic or command {topic!r}; topics are {', '.join(TOPICS)}")
        with command.make_context(topic, [], group, resilient_parsing=True) as below:
            command.format_help(below, formatter)
    click.echo(formatter.getvalue().strip("\n"))
