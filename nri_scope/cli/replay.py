# SPDX-License-Identifier: Apache-2.0
"""``nri-scope replay``: feed a recording to a plugin under development."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Unpack

import click

from .chain_options import chain_options, manner_options
from .params import ANY_PATH, Duration, FilePath, NewRecording, format_option, where_option
from .time_arguments import FORMS, parse_moment

if TYPE_CHECKING:
    from nri_scope.replay.script import RecordingPlace

    from .replay_options import Options

EXIT_DIFFERS = 1

_FAULTS = """
\b
Faults, each of which a real runtime has shown:
  slow:EVENT:DURATION        each reply to EVENT is delayed by that time
  error:EVENT                EVENT fails after the plugins were asked
  drop-connection:after=N    all connections are closed after N events
  restart-runtime:after=N    the runtime is restarted after N events
  split-sync                 Synchronize comes in parts, however small it is
  duplicate:EVENT            EVENT comes twice
  skip:EVENT                 EVENT happens, and is not sent
  reorder                    containers end after StopPodSandbox
  unknown-event              an event of a later NRI version comes first
  huge-sync:N                N more containers exist from the beginning
"""


def _speed(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        speed = float(text.removesuffix("x"))
    except ValueError:
        speed = math.nan
    if not 0 < speed < math.inf:
        raise click.BadParameter(f"{text!r} is no speed; write 1x, 10x or 0.5x", param=parameter)
    return speed


def _bound(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> RecordingPlace | None:
    import time

    from nri_scope.replay.script import RecordingPlace

    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return RecordingPlace(event_id=int(text[:18]))
    at_ns = parse_moment(text, time.time_ns())
    if at_ns is None:
        raise click.BadParameter(
            f"{text!r} is neither the number of an event nor a time; write 17 or {FORMS}",
            param=parameter,
        )
    return RecordingPlace(at_ns=at_ns)


@click.command(epilog=_FAULTS)
@chain_options
@click.option(
    "--listen",
    type=FilePath(),
    metavar="SOCK",
    help="Listen on this NRI socket for plugins that connect by themselves.",
)
@click.option(
    "--expect",
    type=click.IntRange(1, 100),
    metavar="N",
    help="Begin when N plugins have connected to --listen.  [default: 1]",
)
@manner_options
@where_option
@click.option("--from", "begin", callback=_bound, metavar="EVENT|TIME", help="First event to play.")
@click.option("--to", "end", callback=_bound, metavar="EVENT|TIME", help="First one not to play.")
@click.option("--only", default="", metavar="POD[/CTR]", help="Play ns/pod or ns/pod/container.")
@click.option(
    "--speed", callback=_speed, metavar="1x", help="Keep the recorded pace, or N times it."
)
@click.option("--max-idle", type=Duration(), help="With --speed: wait no longer than this.")
@click.option("--step", is_flag=True, help="Wait for Enter before each event.")
@click.option(
    "--loop",
    "rounds",
    type=click.IntRange(1, 1_000_000),
    default=1,
    metavar="N",
    help="Play everything N times; the runtime restarts in between.",
)
@click.option("-o", "--output", type=NewRecording(), metavar="REC", help="Record the run itself.")
@click.option("--golden", type=FilePath(), metavar="FILE", help="Compare replies with this file.")
@click.option(
    "--golden-from",
    type=ANY_PATH,
    metavar="REC",
    help="Compare replies with what the plugin answered in production: REC is a recording by "
    "`tap`, possibly FILE itself.",
)
@click.option("--update-golden", is_flag=True, help="Write --golden from these replies.")
@click.option(
    "--compare-with",
    "others",
    multiple=True,
    metavar="NN=COMMAND",
    help="Replay to this chain too ('none': to no plugin), and compare the containers.",
)
@click.option("--junit", type=FilePath(), metavar="FILE", help="Write JUnit XML as well.")
@format_option("text|json", "Lines for people, or one JSON object.")
def command(**options: Unpack[Options]) -> None:
    """Feed a recording to a plugin, and see what it answers.

    An emulated runtime starts COMMAND as a real one would, sends it the events of a recorded
    session, merges its replies, and shows what that did to each container. No container runtime is
    needed and nothing on this machine is touched. Later events show containers as the plugins of
    this replay have adjusted them.

    Exit status: 0 all replies are fine, or match the golden; 1 otherwise; 2 it could not be done.
    """
    from .replay_job import perform
    from .replay_options import understood

    job, wishes = understood(options)
    if not perform(job, wishes):
        click.get_current_context().exit(EXIT_DIFFERS)
