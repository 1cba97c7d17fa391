# SPDX-License-Identifier: Apache-2.0
"""Option types that several commands share: one spelling for one idea."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri_scope.errors import UsageError
from nri_scope.nri.identity import check_index, check_name
from nri_scope.nri.methods import DEFAULT_SOCKET

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem

    from nri_scope.filter import Filter
    from nri_scope.nri.events import Event
    from nri_scope.share.redaction.rules import Rules


def complete_path(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Have the shell complete a path."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


class Size(click.ParamType[int]):
    """Bytes, as an integer, from ``500M``, ``64KiB``, ``4096``."""

    name = "size"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Bytes."""
        from nri_scope.filter.quantity import parse_size

        size = value if isinstance(value, int) else parse_size(value)
        if not size:
            self.fail(f"{value!r} is no size; write for example 500M or 2G", param, ctx)
        return size


class Duration(click.ParamType[float]):
    """Seconds, as a float, from ``90s``, ``10m``, ``1.5h``."""

    name = "duration"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds."""
        from nri_scope.filter.quantity import parse_duration

        if not isinstance(value, str):
            return value
        nanoseconds = parse_duration(value)
        if not nanoseconds:
            self.fail(f"{value!r} is no duration; write for example 30s, 10m or 24h", param, ctx)
        return nanoseconds / 1e9


class Index(click.ParamType[str]):
    """A plugin index: two digits."""

    name = "index"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The index, checked."""
        try:
            return check_index(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


class PluginName(click.ParamType[str]):
    """A plugin name as runtimes accept it."""

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, checked."""
        try:
            return check_name(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


class Events(click.ParamType["frozenset[Event]"]):
    """A choice of NRI events."""

    name = "events"

    def convert(
        self,
        value: str | frozenset[Event],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> frozenset[Event]:
        """The chosen events."""
        from nri_scope.nri.events import parse_events

        if not isinstance(value, str):
            return value
        try:
            return parse_events(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


class Where(click.ParamType["Filter"]):
    """A filter expression."""

    name = "filter"

    def convert(
        self, value: str | Filter, param: click.Parameter | None, ctx: click.Context | None
    ) -> Filter:
        """The filter; `FilterError` says where it goes wrong."""
        from nri_scope.filter import parse

        return parse(value) if isinstance(value, str) else value


class RulesFile(click.ParamType["Rules"]):
    """Rules for redaction: a file, or nothing for the default."""

    name = "rules"

    def convert(
        self, value: str | Rules, param: click.Parameter | None, ctx: click.Context | None
    ) -> Rules:
        """The rules; `UsageError` says what is wrong with the file."""
        from nri_scope.share.redaction.rule_file import read_rules
        from nri_scope.share.redaction.rules import Rules

        if not isinstance(value, str):
            return value
        return read_rules(Path(value)) if value else Rules.DEFAULT

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Have the shell complete a path."""
        return complete_path(ctx, param, incomplete)


class FilePath(click.ParamType[Path]):
    """A path that could be a file's: not empty, and without a slash at the end."""

    name = "path"

    def convert(
        self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """The path."""
        if isinstance(value, str) and (not value or value.endswith("/")):
            self.fail(f"{value!r} is no name for a file" if value else "it is empty", param, ctx)
        return Path(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Have the shell complete a path."""
        return complete_path(ctx, param, incomplete)


class NewRecording(FilePath):
    """Where a recording is to be written: not under a bundle's name, as nobody could unpack it."""

    def convert(
        self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """The path."""
        path = super().convert(value, param, ctx)
        if path.suffix.lower() == ".zip":
            name = path.name[: -len(path.suffix)].removesuffix(".nriscope")
            raise UsageError(
                f"{path}: that is the name of a zip, and a recording is none",
                f"name it {name}.nriscope.db; `nri-scope export` makes bundles",
            )
        return path


# `readable`: whoever opens a file that may not be read says what can be done about it.
ANY_PATH = click.Path(readable=False, path_type=Path)
"""A path that may be of anything, or of nothing."""
command_line_argument = click.argument(
    "command_line",
    metavar="[-- COMMAND...]",
    nargs=-1,
    type=click.UNPROCESSED,
    shell_complete=complete_path,
)
socket_option = click.option(
    "--socket",
    type=FilePath(),
    default=Path(DEFAULT_SOCKET),
    show_default=True,
    help="The runtime's NRI socket.",
)
where_option = click.option(
    "--where", type=Where(), help="Only events that this filter matches, e.g. 'ns:shop took:>1ms'."
)
redact_option = click.option(
    "--redact",
    type=RulesFile(),
    is_flag=False,
    flag_value="",
    metavar="[RULES]",
    help="Replace what is secret or personal, by the default rules or as the file RULES changes "
    "them. `redact --preview` shows what that would be.",
)


def environment_of(texts: tuple[str, ...]) -> dict[str, str]:
    """Variables from ``NAME=VALUE``; raises `UsageError`."""
    environment: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--env {text!r} is no variable", "write NAME=VALUE")
        environment[name] = value
    return environment


def tokens_options(command: Callable[..., None]) -> Callable[..., None]:
    """What tokens tell about each other."""
    for name, help_text in (
        (
            "--unlinked",
            "Make other tokens in each event: not even in one container can values be compared, "
            "so diff and blame show them as changed from event to event.",
        ),
        (
            "--stable-tokens",
            "Make tokens with this user's key, so that the same recording has the same ones each "
            "time. Not for recordings that others made.",
        ),
    ):
        command = click.option(name, is_flag=True, help=help_text)(command)
    return command


def check_tokens(*, stable: bool, unlinked: bool) -> None:
    """Raise UsageError where both are asked for."""
    if stable and unlinked:
        raise UsageError("--stable-tokens and --unlinked contradict each other", "leave one out")
