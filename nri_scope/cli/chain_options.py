# SPDX-License-Identifier: Apache-2.0
"""Options shared by the commands that replay: plugins, session and emulated runtime."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import click

from nri_scope.errors import UsageError
from nri_scope.runtime import RECORDED

from .option_rules import Exclude, Need, NeedOneOf
from .params import (
    ANY_PATH,
    GRACE,
    TIMEOUT,
    Checked,
    command_line_argument,
    env_option,
    external_option,
    file_path,
    index_option,
    name_option,
    only_option,
    session_option,
    set_option,
    together,
    where_option,
)
from .time_arguments import since_place_option, until_place_option

if TYPE_CHECKING:
    from nri_scope.filter import Filter


class Listening(NamedTuple):
    """The value of ``--listen``."""

    socket: Path
    expected: int
    """Number of plugins that connect before the replay begins."""

    @classmethod
    def parse(cls, text: str) -> Listening:
        """Return the socket, and the number that may precede it: ``2=nri.sock``."""
        number, equals, path = text.partition("=")
        if not equals or not (number.isascii() and number.isdigit()):
            return cls(file_path(text), 1)
        if not 1 <= int(number[:4]) <= _PLUGINS_MAX:
            raise UsageError(f"{number} plugins cannot be awaited", f"at most {_PLUGINS_MAX} can")
        return cls(file_path(path), int(number))


_PLUGINS_MAX = 100
VERBATIM = "verbatim"
"""The profile that sends requests as recorded, regardless of replies."""
WITH_SYNC = "+sync"
"""Suffix of profiles that send Synchronize to launched plugins in any case."""


def _profile(text: str) -> str:
    if "+" in text.removesuffix(WITH_SYNC):
        raise UsageError(f"{text!r} is not a profile", "write NAME or NAME+sync")
    return text


def runtime_named(profile: str) -> str:
    """Return the name of the runtime of a profile, which is not checked."""
    name = profile.removesuffix(WITH_SYNC)
    return RECORDED if name == VERBATIM else name


class PlayOptions(TypedDict):
    """The options as click passes them."""

    file: Path
    command_line: tuple[str, ...]
    plugins: tuple[str, ...]
    index: str | None
    name: str | None
    configs: tuple[str, ...]
    variables: tuple[str, ...]
    external: bool
    must_reconnect: bool
    grace: float
    session: int | None
    profile: str
    faults: tuple[str, ...]
    changes: tuple[str, ...]
    notes: list[str]
    """Remarks on FILE, set by `played`."""
    listen: Listening | None
    timeout: float | None
    where: Filter | None
    since: str | None
    until: str | None
    only: str


play_options = together(
    click.argument("file", type=ANY_PATH),
    command_line_argument,
    click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="NN=COMMAND",
        help="Launch this plugin with this index. Repeat it for a chain.",
    ),
    index_option,
    name_option,
    click.option(
        "--config",
        "configs",
        multiple=True,
        metavar="[NN=]FILE",
        help="Send this file in Configure to all launched plugins, or to the one with index NN.",
    ),
    env_option,
    external_option,
    click.option(
        "--grace",
        type=GRACE,
        default="1s",
        show_default=True,
        help="Time for a plugin to end by itself, and after SIGTERM; 0: SIGKILL at once.",
    ),
    click.option(
        "--listen",
        type=Checked("socket", Listening.parse, is_file=True),
        metavar="[N=]SOCK",
        help="Listen on this NRI socket, and start when N external plugins have connected.  "
        "[default: 1]",
    ),
    click.option(
        "--must-reconnect",
        is_flag=True,
        help="Fail an external plugin that ends with its connection, e.g. at a restart of the "
        "runtime, instead of starting it again.",
    ),
    session_option,
    click.option(
        "--profile",
        type=Checked("profile", _profile),
        default=RECORDED,
        show_default=True,
        metavar="NAME[+sync]",
        help="Behave like this runtime, e.g. containerd-2.1; verbatim: send each request as "
        "recorded, regardless of replies; +sync: send launched plugins Synchronize in any case.",
    ),
    set_option,
    click.option(
        "--fault",
        "faults",
        multiple=True,
        metavar="FAULT",
        help="Inject this fault; `nri-scope help faults` lists all. Can be repeated.",
    ),
    click.option(
        "--timeout",
        type=TIMEOUT,
        metavar="DURATION|none",
        help="Deadline of each request instead of the runtime's; none: plugins may also register "
        "at any time.",
    ),
    where_option,
    since_place_option,
    until_place_option,
    only_option,
)


PLAY_RULES = (
    Exclude(("--config", "--external"), hint="runtimes send no configuration to external plugins"),
    Need(("--index", "--name"), ("COMMAND",), "write it after --"),
    Need(("--config", "--env", "--external"), ("COMMAND", "--plugin")),
    NeedOneOf(("COMMAND", "--plugin", "--listen"), hint="write the plugin's command after --"),
)
"""Rules of ``play_options``."""
FORMER_OPTIONS = {
    "--from": "--since",
    "--to": "--until",
    "--expect": "--listen N=SOCK",
    "--ideal": "--profile NAME+sync",
    "--no-effects": "--profile verbatim",
    "--quiet": "--format problems",
    "--only-changes": "--format changes",
    "--max-idle": "--speed 1x:MAX",
    "--golden-from": "--golden REC",
    "--compare-with": "`nri-scope replay compare` with --with",
    "--without": "`nri-scope replay compare`, which has it",
}
"""Options that commands which replay had, and what replaced them."""


@contextmanager
def played(options: PlayOptions, *, quiet: bool = False) -> Iterator[None]:
    """Replace FILE by a recording of it, with the changes of ``--set``, inside the block.

    Remarks on a manifest, unless ``quiet``, become the job's notes, which are printed only when the
    replay begins: errors of options are found inside the block. Stop signals raise
    KeyboardInterrupt in the block, unless handled otherwise, as that recording must be removed.
    Raises UsageError and RecordingError.
    """
    from nri_scope.process.signals import interrupted_by_signals
    from nri_scope.scenario.playable import is_scenario_file, playable

    given = options["file"]
    changes, session = options["changes"], options["session"]
    profile = runtime_named(options["profile"])
    notes: list[str] = []
    with (
        interrupted_by_signals(),
        playable(
            given, changes=changes, session=session, profile=profile, on_note=notes.append
        ) as recording,
    ):
        options["file"], options["notes"] = recording, [] if quiet else notes
        if recording != given and not is_scenario_file(given):
            # The only session was made from the chosen one.
            options["session"] = None
        yield
