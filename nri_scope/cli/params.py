# SPDX-License-Identifier: Apache-2.0
"""Options and option types that several commands share."""

from __future__ import annotations

import math
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nri_scope.errors import UsageError
from nri_scope.nri.identity import check_index, check_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem

    from nri_scope.filter import Filter
    from nri_scope.nri.events import EventKind
    from nri_scope.share.redaction.rules import Rules

_Value = TypeVar("_Value")
_Command = TypeVar("_Command", bound="Callable[..., Any] | click.Command")


def complete_path(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Let the shell complete a path."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def together(*options: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    """Return a decorator that adds arguments and options in this order."""
    return lambda command: reduce(lambda done, option: option(done), reversed(options), command)


class Parsed(click.ParamType[_Value]):
    """Value parsed by a function, whose errors are raised unchanged."""

    def __init__(self, name: str, parse: Callable[[str], _Value], *, is_file: bool = False) -> None:
        self.name = name
        self._parse = parse
        self._is_file = is_file

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Let the shell complete a path."""
        return complete_path(ctx, param, incomplete) if self._is_file else []

    def convert(
        self, value: str | _Value, param: click.Parameter | None, ctx: click.Context | None
    ) -> _Value:
        """Return the value."""
        return self._parse(value) if isinstance(value, str) else value


class Checked(Parsed[_Value]):
    """Value parsed by a function, with errors that name the parameter."""

    def convert(
        self, value: str | _Value, param: click.Parameter | None, ctx: click.Context | None
    ) -> _Value:
        """Return the value."""
        try:
            return super().convert(value, param, ctx)
        except UsageError as error:
            self.fail(str(error), param, ctx)


def _size(text: str) -> int:
    from nri_scope.filter.moments import parse_size

    size = parse_size(text)
    if not size:
        raise UsageError(f"{text!r} is not a size", "write for example 500M or 2G")
    return size


def _duration(text: str) -> float:
    from nri_scope.filter.moments import parse_duration

    nanoseconds = parse_duration(text)
    if not nanoseconds:
        raise UsageError(f"{text!r} is not a duration", "write for example 30s, 10m or 24h")
    return nanoseconds / 1e9


def _events(text: str) -> frozenset[EventKind]:
    from nri_scope.nri.events import parse_events

    return parse_events(text)


def _not_empty(text: str) -> str:
    if not text:
        raise UsageError("the text is empty")
    return text


def _filter(text: str) -> Filter:
    from nri_scope.filter import parse

    return parse(text)


def _rules(text: str) -> Rules:
    from nri_scope.share.redaction.rules import Rules, read_rules

    return read_rules(Path(text)) if text else Rules.DEFAULT


def _path(text: str) -> Path:
    if not text:
        raise UsageError("the path is empty")
    return Path(text)


def file_path(text: str) -> Path:
    """Return the path of a file: neither empty nor ending in a slash. Raises UsageError."""
    if text.endswith("/"):
        raise UsageError(f"{text!r} is not a file name")
    return _path(text)


def _cri_socket(text: str) -> Path:
    if text:
        return file_path(text)
    found = [path for path in map(Path, _CRI_SOCKETS) if path.exists()]
    if len(found) != 1:
        listed = ", ".join(map(str, found or _CRI_SOCKETS))
        problem = "several sockets of a CRI exist" if found else "no socket of a CRI found"
        raise UsageError(f"--cri: {problem}: {listed}", "write --cri SOCKET")
    return found[0]


SIZE = Checked("size", _size)
"""Number of bytes, as an integer, from ``500M``, ``64KiB``, ``4096``."""
DURATION = Checked("duration", _duration)
"""Duration in seconds, as a float, from ``90s``, ``10m``, ``1.5h``."""
GRACE = Checked("duration", lambda text: 0.0 if text == "0" else _duration(text))
"""Duration in seconds, or ``0``."""
TIMEOUT = Checked("timeout", lambda text: math.inf if text == "none" else _duration(text))
"""Duration in seconds; infinity for ``none``."""
INDEX = Checked("index", check_index)
"""A plugin index: two digits."""
PLUGIN_NAME = Checked("name", check_name)
"""A plugin name as runtimes accept it."""
EVENTS = Checked("events", _events)
"""A selection of NRI events."""
NOT_EMPTY = Checked("text", _not_empty)
"""A text that is not "", which an unset variable of a script would be."""
WHERE = Parsed("filter", _filter)
"""A filter expression; the error names the position of a mistake."""
RULES_FILE = Parsed("rules", _rules, is_file=True)
"""Rules for redaction: a file, or "" for the default rules."""
ANY_PATH = Checked("path", _path, is_file=True)
"""Any path, whether or not it exists, except an empty one."""
FILE_PATH = Checked("path", file_path, is_file=True)
"""Path of a file: neither empty nor ending in a slash."""
CRI_SOCKET = Parsed("path", _cri_socket, is_file=True)
"""Path of the CRI's socket; "" for the only usual one that exists."""


class NewFile(Parsed["Path | None"]):
    """Path of a file to write; None for ``-``, standard output, if ``is_text``."""

    def __init__(self, content: str, *, is_text: bool = False, is_folder: bool = False) -> None:
        """``content``: what is written, for messages."""
        path: Any = ANY_PATH if is_folder else FILE_PATH
        super().__init__("path", path, is_file=True)
        self._content = content
        self._is_text = is_text

    def convert(
        self, value: str | Path | None, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path | None:
        """Check the path and return it."""
        if value != "-":
            return super().convert(value, param, ctx)
        if not self._is_text:
            option = f"{param.opts[-1]}: " if param is not None else ""
            raise UsageError(
                f"{option}{self._content} cannot be written to standard output",
                "name a file; ./- is one of that name",
            )
        return None


class NewRecording(NewFile):
    """Path of a recording to write. Rejects ``.zip``, which would be opened as a bundle."""

    def __init__(self) -> None:
        super().__init__("a recording")

    def convert(
        self, value: str | Path | None, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path | None:
        """Check the path and return it."""
        path = super().convert(value, param, ctx)
        if path is not None and path.suffix.lower() == ".zip":
            name = path.name[: -len(path.suffix)].removesuffix(".nriscope")
            raise UsageError(
                f"{path}: a recording must not be named *.zip",
                f"name it {name}.nriscope.db; `nri-scope export` makes bundles",
            )
        return path


command_line_argument = click.argument(
    "command_line",
    metavar="[-- COMMAND...]",
    nargs=-1,
    type=click.UNPROCESSED,
    shell_complete=complete_path,
)
index_option = click.option(
    "--index", type=INDEX, help="Index of COMMAND.  [default: from its file name NN-name, else 10]"
)
name_option = click.option(
    "--name", type=PLUGIN_NAME, help="Name of COMMAND.  [default: from its file name]"
)
env_option = click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set an environment variable of plugins. Can be repeated.",
)
external_option = click.option(
    "--external",
    is_flag=True,
    help="Start plugins as external ones, which connect by themselves and set their own index: "
    "see `nri-scope help plugins`.",
)
session_option = click.option(
    "--session",
    type=click.IntRange(min=1),
    metavar="N",
    help="Take this session.  [default: that of the first plugin in the chain]",
)
only_option = click.option(
    "--only",
    default="",
    metavar="POD[/CTR]",
    help="Only events of this pod or container: ns/pod or ns/pod/container.",
)
_CRI_SOCKETS = (
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/k3s/containerd/containerd.sock",
    "/var/run/isulad.sock",
)


where_option = click.option(
    "--where",
    type=WHERE,
    help="Only events that match, e.g. 'ns:shop took:>1ms'; see `help filters`.",
)
force_option = click.option("--force", is_flag=True, help="Overwrite an existing file.")
set_option = click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="WHO:WHAT=VALUE",
    help="Change a pod or container: 'shop/web/app:env.DEBUG=1', or 'shop/web:labels.app-', which "
    "removes it. Can be repeated.",
)


def output_option(
    help_text: str, metavar: str = "FILE", **settings: Any
) -> Callable[[_Command], _Command]:
    """Return the option for the recording to write. ``settings``: further ones of the option."""
    return click.option(
        *("-o", "--output"), type=NewRecording(), metavar=metavar, help=help_text, **settings
    )


def rules_option(**settings: Any) -> Callable[[_Command], _Command]:
    """Return the option to redact alone. ``settings``: further ones of the option."""
    return click.option(
        "--redact",
        is_flag=False,
        flag_value="",
        metavar="[RULES]",
        help="Replace secret and personal values, by the default rules or those of the file RULES; "
        "`export --preview` shows where.",
        **settings,
    )


def _keep(context: click.Context, _parameter: click.Parameter, keys: tuple[str, ...]) -> None:
    """Add the keys to the rules of --redact, an eager option, which is parsed before."""
    if keys:
        from nri_scope.share.redaction.rules import Rules

        context.params["redact"] = (context.params["redact"] or Rules.DEFAULT).keeping(keys)


def redact_option(command: _Command) -> _Command:
    """Add --redact and --keep to a command, which gets the rules of both, or None."""
    keep = click.option(
        "--keep",
        type=NOT_EMPTY,
        multiple=True,
        metavar="KEY",
        callback=_keep,
        expose_value=False,
        help="Redact, but keep the values of this key, such as a variable or a label, also of a "
        "credential; * matches any text. Can be repeated.",
    )
    return rules_option(type=RULES_FILE, is_eager=True)(keep(command))


def format_option(formats: str, help_text: str, **settings: Any) -> Callable[[_Command], _Command]:
    """Return an option for the output format. ``formats``: as ``a|b``; the first is the default.

    ``settings``: further ones of the option.
    """
    names = formats.split("|")
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(names),
        default=names[0],
        show_default=True,
        help=help_text,
        **settings,
    )


def say(text: str) -> None:
    """Print a line on stderr, with control characters escaped."""
    from nri_scope.text.escape import safe

    click.echo(safe(text), err=True)


def environment_of(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse variables written as ``NAME=VALUE``. Raise `UsageError`."""
    environment: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--env {text!r} is not a variable", "write NAME=VALUE")
        environment[name] = value
    return environment
