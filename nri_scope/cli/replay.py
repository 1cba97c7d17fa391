# SPDX-License-Identifier: Apache-2.0
"""``nri-scope replay``: feed a recording to a plugin under development."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Unpack

import click

from nri_scope.errors import UsageError

from .chain_options import FORMER_OPTIONS, PLAY_RULES, play_options, played
from .option_rules import Need, RuledCommand
from .params import (
    DURATION,
    FILE_PATH,
    NewFile,
    Parsed,
    format_option,
    output_option,
)

if TYPE_CHECKING:
    from .replay_options import ReplayOptions

EXIT_DIFFERS = 1

junit_option = click.option(
    "--junit",
    type=NewFile("JUnit XML"),
    metavar="FILE",
    help="Also write the result as JUnit XML to FILE.",
)


def _pace(text: str) -> tuple[float, float]:
    from nri_scope.filter.moments import parse_duration

    factor, colon, longest = text.partition(":")
    max_idle_ns = parse_duration(longest) if colon else math.inf
    try:
        speed = float(factor.removesuffix("x"))
    except ValueError:
        speed = math.nan
    if not 0 < speed < math.inf or not max_idle_ns:
        raise UsageError(f"{text!r} is not a speed", "write 1x, 10x or 0.5x, or 1x:2s")
    return speed, max_idle_ns / 1e9


@click.command(
    epilog="`nri-scope replay compare --help`: compare two chains of plugins.",
    cls=RuledCommand,
    rules=(
        Need(("--update-golden",), ("--golden",), "add --golden FILE"),
        *PLAY_RULES,
    ),
    former=FORMER_OPTIONS,
)
@click.option(
    "--speed",
    "pace",
    type=Parsed("speed", _pace),
    metavar="1x[:MAX]",
    help="Keep the recorded pauses, up to the duration MAX; 10x plays ten times as fast.  "
    "[default: no pauses]",
)
@click.option(
    "--max-took",
    type=DURATION,
    help="Fail replies that take longer, such as 5ms, even if the runtime accepts them.",
)
@output_option("Record this replay to REC.", "REC")
@click.option(
    "--golden",
    type=FILE_PATH,
    metavar="FILE|REC",
    help="Compare replies with those of this file, or those that `tap` recorded in REC, which may "
    "be FILE itself.",
)
@click.option("--update-golden", is_flag=True, help="Write these replies to the file of --golden.")
@junit_option
@format_option(
    "text|changes|problems|json",
    "text: each event with its replies. changes: events with changes or problems. problems: failed "
    "events. json: one object.",
    metavar="FORMAT",
)
@play_options
@click.pass_context
def command(context: click.Context, /, **options: Unpack[ReplayOptions]) -> None:
    """Replay a recording to a plugin, and show its replies.

    An emulated runtime launches COMMAND as a real one would, sends it the events of a recorded
    session, merges its replies, and shows the changes to each container. In later events,
    containers are as adjusted by the plugins of this replay. No container runtime is needed, and
    nothing on this machine is modified.

    FILE can also be a scenario, or a manifest of Kubernetes; `-` reads either from standard input.

    Exit status: 0 all replies are valid, or match the golden; 1 otherwise; 2 an error occurred.
    """
    from .replay_options import parse_options
    from .replay_output import perform

    with played(options, quiet=options["output_format"] == "problems"):
        if not perform(*parse_options(options)):
            context.exit(EXIT_DIFFERS)
