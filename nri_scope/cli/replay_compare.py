# SPDX-License-Identifier: Apache-2.0
"""``nri-scope replay compare``: replay a recording to two chains of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from .chain_options import FORMER_OPTIONS, PLAY_RULES, PlayOptions, play_options, played
from .option_rules import Exclude, NeedOneOf, RuledCommand
from .params import INDEX, format_option
from .replay import EXIT_DIFFERS, junit_option

if TYPE_CHECKING:
    from .replay_options import CompareOptions


@click.command(
    cls=RuledCommand,
    rules=(
        Exclude(("--with", "--without")),
        Exclude(("--with", "--without"), ("--listen",)),
        *PLAY_RULES,
        NeedOneOf(("--with", "--without")),
    ),
    former=FORMER_OPTIONS,
    described=("nri-scope replay", PlayOptions.__annotations__),
)
@click.option(
    "--with",
    "others",
    multiple=True,
    metavar="NN=COMMAND",
    help="Compare with a chain of this plugin. Repeat it for a longer chain; none: no plugins.",
)
@click.option(
    "--without",
    multiple=True,
    type=INDEX,
    metavar="NN",
    help="Compare with the chain without the plugin of this index. Can be repeated.",
)
@junit_option
@format_option("text|json", "text: the differences. json: one object.")
@play_options
@click.pass_context
def command(context: click.Context, /, **options: Unpack[CompareOptions]) -> None:
    """Replay to two chains of plugins, and show what differs.

    Prints the failures, and the differences between the resulting containers: what they would be
    with the other chain.

    Exit status: 0 no container differs, and all replies are valid; 1 otherwise; 2 an error
    occurred.
    """
    from .replay_options import parse_comparison
    from .replay_output import perform

    with played(options):
        if not perform(*parse_comparison(options)):
            context.exit(EXIT_DIFFERS)
