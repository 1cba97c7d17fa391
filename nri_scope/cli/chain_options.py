# SPDX-License-Identifier: Apache-2.0
"""Options shared by the commands that replay: plugins, session and emulated runtime."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from .option_rules import Exclude, Need, NeedOneOf
from .params import (
    ANY_PATH,
    FILE_PATH,
    GRACE,
    TIMEOUT,
    command_line_argument,
    env_option,
    external_option,
    index_option,
    name_option,
    only_option,
    session_option,
    set_option,
    together,
    where_option,
)
from .time_arguments import from_option, to_option

if TYPE_CHECKING:
    from nri_scope.filter import Filter


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
    ideal: bool
    no_effects: bool
    faults: tuple[str, ...]
    changes: tuple[str, ...]
    notes: list[str]
    """Remarks on FILE, set by `played`."""
    listen: Path | None
    expect: int | None
    timeout: float | None
    where: Filter | None
    begin: str | None
    end: str | None
    only: str


play_options = together(
    click.argument("file", type=ANY_PATH),
    command_line_argument,
    click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="NN=COMMAND",
        help="Launch this plugin with this index. Repeat it for a chain of plugins.",
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
        help="Time for a plugin to end by itself after the replay, and again after SIGTERM, before "
        "SIGKILL; 0 kills it at once, as runtimes do.",
    ),
    click.option(
        "--listen",
        type=FILE_PATH,
        metavar="SOCK",
        help="Listen on this NRI socket for external plugins.",
    ),
    click.option(
        "--expect",
        type=click.IntRange(1, 100),
        metavar="N",
        help="Start when N plugins have connected to --listen.  [default: 1]",
    ),
    click.option(
        "--must-reconnect",
        is_flag=True,
        help="Fail an external plugin that ends when its connection is closed, as at a restart of "
        "the runtime, instead of connecting again. Without this, replay starts it again, as a "
        "service manager may do.",
    ),
    session_option,
    click.option(
        "--profile",
        default="recorded",
        show_default=True,
        metavar="NAME",
        help="Behave like this runtime, such as containerd-2.1 or cri-o; an unknown name lists the "
        "valid ones.",
    ),
    click.option(
        "--ideal",
        is_flag=True,
        help="Send Synchronize to launched plugins even if this runtime does not, as containerd up "
        "to 1.7.25 and iSulad.",
    ),
    click.option(
        "--no-effects",
        is_flag=True,
        help="Send every request as it was recorded, regardless of the plugins' replies.",
    ),
    set_option,
    click.option(
        "--fault",
        "faults",
        multiple=True,
        metavar="FAULT",
        help="Inject this fault; `replay --help` lists all. Can be repeated.",
    ),
    click.option(
        "--timeout",
        type=TIMEOUT,
        metavar="DURATION|none",
        help="Deadline of each request instead of the runtime's; none lets a plugin reply, and "
        "register, at any time, for example in a debugger.",
    ),
    where_option,
    from_option,
    to_option,
    only_option,
)


PLAY_RULES = (
    Exclude(("--config", "--external"), hint="runtimes send no configuration to external plugins"),
    Need(("--index", "--name"), ("COMMAND",), "write it after --"),
    Need(("--config", "--env", "--external"), ("COMMAND", "--plugin")),
    Need(("--expect",), ("--listen",), "add --listen SOCK"),
    NeedOneOf(("COMMAND", "--plugin", "--listen"), hint="write the plugin's command after --"),
)
"""Rules of ``play_options``."""


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
    changes, session, profile = options["changes"], options["session"], options["profile"]
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
