# SPDX-License-Identifier: Apache-2.0
"""Options and option types that several commands share."""

from __future__ import annotations

import math
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nri_scope.errors import UsageError
from nri_scope.nri.events import DEFAULT_SOCKET
from nri_scope.nri.identity import check_index, check_name

if TYPE_CHECKING:
    import os
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


class _Parsed(click.ParamType[_Value]):
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


class Checked(_Parsed[_Value]):
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


def _file_path(text: str) -> Path:
    if not text or text.endswith("/"):
        raise UsageError(f"{text!r} is not a file name" if text else "the path is empty")
    return Path(text)


def _cri_socket(text: str) -> Path:
    if text:
        return FILE_PATH(text)
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
WHERE = _Parsed("filter", _filter)
"""A filter expression; the error names the position of a mistake."""
RULES_FILE = _Parsed("rules", _rules, is_file=True)
"""Rules for redaction: a file, or "" for the default rules."""
FILE_PATH = Checked("path", _file_path, is_file=True)
"""Path of a file: neither empty nor ending in a slash."""
CRI_SOCKET = _Parsed("path", _cri_socket, is_file=True)
"""Path of the CRI's socket; "" for the only usual one that exists."""


class NewFile(_Parsed["Path | None"]):
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


class _AnyPath(click.Path):
    """Any path except an empty one, which `Path` would change to the current folder."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        """Check the path and return it."""
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


# Not readable=True: opening an unreadable file raises an error with a better hint.
ANY_PATH = _AnyPath(readable=False, path_type=Path)
"""Any path, whether or not it exists."""
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
    help="Set an additional environment variable for launched plugins. As by a runtime, only "
    "NRI_PLUGIN_NAME, NRI_PLUGIN_IDX and NRI_PLUGIN_SOCKET are set otherwise.",
)
external_option = click.option(
    "--external",
    is_flag=True,
    help="Start plugins as external ones, which connect by themselves and set their own index: "
    "with this environment, and a private socket in place of {socket} in their arguments, or "
    "else of /var/run/nri/nri.sock.",
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
    help="Take only events of this pod or container: ns/pod or ns/pod/container.",
)
socket_option = click.option(
    "--socket",
    type=FILE_PATH,
    default=Path(DEFAULT_SOCKET),
    show_default=True,
    help="The runtime's NRI socket.",
)
_CRI_SOCKETS = (
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/k3s/containerd/containerd.sock",
    "/var/run/isulad.sock",
)


def cri_option(prefix: str = "") -> Callable[[_Command], _Command]:
    """Return the option to query the CRI; ``prefix`` replaces the first word of its help text."""
    return click.option(
        "--cri",
        type=CRI_SOCKET,
        is_flag=False,
        flag_value="",
        metavar="[SOCKET]",
        help=f"{prefix or 'Also'} ask the runtime, by its CRI, for the specs of containers after "
        "they changed, and read their cgroups and config.json on this node, to show what took "
        "effect. No reply waits for that.  [default socket: that of containerd, CRI-O, k3s or "
        "iSulad]",
    )


def validate_option(prefix: str = "") -> Callable[[_Command], _Command]:
    """Return the option to be a validator; ``prefix`` replaces the first word of its help text."""
    return click.option(
        "--validate",
        is_flag=True,
        help=f"{prefix or 'Also'} subscribe to ValidateContainerAdjustment, which shows which "
        "plugin owns which change (NRI 0.10 and later). RISK: the runtime fails the creation of a "
        "container if this process stalls during such a request and, up to NRI 0.12.4, the next "
        "creation after it was killed (kill -9). If stopped, it first registers once more, "
        "passively, so that none fails.",
    )


where_option = click.option(
    "--where", type=WHERE, help="Include only events that match, e.g. 'ns:shop took:>1ms'."
)
set_option = click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="WHO:WHAT=VALUE",
    help="Change a pod or container, as in 'shop/web/app:env.DEBUG=1' or 'shop/web:labels.app-', "
    "which removes it. Can be repeated.",
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
        help="Replace secret and personal values, by the default rules or as modified by the file "
        "RULES. `export --preview` shows how many and where.",
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
        help="Redact, but keep the values of this variable, annotation, label, option or member "
        "of JSON, also of a credential; * matches any text. Can be repeated.",
    )
    return rules_option(type=RULES_FILE, is_eager=True)(keep(command))


class LiveOption(click.Option):
    """An option of a command with --live, and its help text for the same command without it."""

    def __init__(self, *names: Any, help_without_live: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.help_without_live = help_without_live


def format_option(formats: str, help_text: str, **settings: Any) -> Callable[[_Command], _Command]:
    """Return an option for the output format. ``formats``: as ``a|b``; the first is the default.

    ``settings``: further ones of the option, such as those of `LiveOption`.
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
