# SPDX-License-Identifier: Apache-2.0
"""``nri-scope replay``: feed a recording to a plugin under development."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Unpack

import click

from nri_scope.errors import UsageError

from .chain_options import PLAY_RULES, play_options, played
from .option_rules import Exclude, Need, RuledCommand
from .params import (
    ANY_PATH,
    DURATION,
    FILE_PATH,
    INDEX,
    Checked,
    NewFile,
    format_option,
    output_option,
)

if TYPE_CHECKING:
    from .replay_options import ReplayOptions

EXIT_DIFFERS = 1

_FAULTS = """
\b
Faults, each of which was observed on a real runtime:
  slow:EVENT:DURATION        each reply to EVENT is delayed by DURATION
  error:EVENT                EVENT fails after the plugins have replied
  drop-connection:after=N    all connections are closed after N events
  restart-runtime:after=N    the runtime is restarted after N events
  split-sync                 Synchronize is sent in parts, regardless of its size
  duplicate:EVENT            EVENT is sent twice
  skip:EVENT                 EVENT takes effect, but is not sent
  reorder                    StopPodSandbox is sent before the pod's containers are stopped
  unknown-event              an event of a later NRI version is sent first
  huge-sync:N                Synchronize lists N additional containers

\b
Modifiers of slow, error, duplicate and skip:
  :once                      only the first matching event
  :only=NS/POD               only events of this pod and its containers
  :only=NS/POD/CTR           only events of this container
"""


def _speed(text: str) -> float:
    try:
        speed = float(text.removesuffix("x"))
    except ValueError:
        speed = math.nan
    if not 0 < speed < math.inf:
        raise UsageError(f"{text!r} is not a speed", "write 1x, 10x or 0.5x")
    return speed


_COMPARISONS = ("--compare-with", "--without")


@click.command(
    epilog=_FAULTS,
    cls=RuledCommand,
    rules=(
        Exclude(("--golden", "--golden-from")),
        Exclude(("--quiet", "--only-changes", "--format json")),
        Exclude(_COMPARISONS),
        Exclude(_COMPARISONS, ("--listen", "--no-effects", "--only-changes")),
        Need(("--update-golden",), ("--golden",), "add --golden FILE"),
        Need(("--max-idle",), ("--speed",), "add --speed 1x"),
        *PLAY_RULES,
    ),
)
@play_options
@click.option(
    "--speed",
    type=Checked("speed", _speed),
    metavar="1x",
    help="Keep the recorded pauses; 10x plays ten times as fast.  [default: no pauses]",
)
@click.option("--max-idle", type=DURATION, help="With --speed: maximum pause between two events.")
@click.option(
    "--max-took",
    type=DURATION,
    help="Fail replies that take longer, such as 5ms, even if they are in time for the runtime.",
)
@click.option(
    "--quiet", is_flag=True, help="Print only failed events, the changes to containers, and totals."
)
@click.option("--only-changes", is_flag=True, help="Print only events with changes or problems.")
@output_option("Record this replay to REC.", "REC")
@click.option("--golden", type=FILE_PATH, metavar="FILE", help="Compare replies with this file.")
@click.option(
    "--golden-from",
    type=ANY_PATH,
    metavar="REC",
    help="Compare replies with those recorded in production: REC is a recording by `tap`, possibly "
    "FILE itself.",
)
@click.option("--update-golden", is_flag=True, help="Write these replies to the file of --golden.")
@click.option(
    "--compare-with",
    "others",
    multiple=True,
    metavar="NN=COMMAND",
    help="Also replay to this plugin and print only the differences of the resulting containers. "
    "Repeat it for a chain; 'none' means no plugins.",
)
@click.option(
    "--without",
    multiple=True,
    type=INDEX,
    metavar="NN",
    help="Compare with the chain without the plugin with index NN. Can be repeated.",
)
@click.option(
    "--junit",
    type=NewFile("JUnit XML"),
    metavar="FILE",
    help="Also write the result as JUnit XML to FILE.",
)
@format_option("text|json", "text: what the plugin replied, and problems. json: one object.")
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

    with played(options, quiet=options["quiet"]):
        if not perform(*parse_options(options)):
            context.exit(EXIT_DIFFERS)
