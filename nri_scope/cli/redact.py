# SPDX-License-Identifier: Apache-2.0
"""``nri-scope redact``: copy a recording without its secrets, or preview the replacements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri_scope.process.signals import interrupted_by_signals

from .option_rules import Exclude, Need, NeedOneOf, RuledCommand
from .output import Output, table
from .params import (
    ANY_PATH,
    TOKENS_RULE,
    NewRecording,
    RulesFile,
    format_option,
    say,
    tokens_options,
)

if TYPE_CHECKING:
    from nri_scope.share.redaction import Rules, Tally


@click.command(
    cls=RuledCommand,
    rules=(
        Exclude(("--preview",), ("-o", "--force", "--stable-tokens", "--unlinked")),
        TOKENS_RULE,
        Need(("--format",), ("--preview",)),
        NeedOneOf(("--preview", "-o"), hint="add --preview, or -o X.nriscope.db"),
    ),
)
@click.argument("file", type=ANY_PATH)
@click.option("--preview", is_flag=True, help="Show the replacements, and write nothing.")
@click.option(
    "-o", "--output", type=NewRecording(), metavar="X.nriscope.db", help="Recording to write."
)
@click.option(
    "--rules",
    type=RulesFile(),
    default="",
    metavar="RULES",
    help="File of rules that change the default ones.",
)
@tokens_options
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@format_option("text|json", "With --preview: text for people, or one JSON object.")
def command(
    file: Path,
    preview: bool,
    output: Path | None,
    rules: Rules,
    stable_tokens: bool,
    unlinked: bool,
    force: bool,
    output_format: str,
) -> None:
    """Replace secret and personal values in a recording with tokens.

    Within one container, equal values get equal tokens; in other containers they get different
    ones. Tokens are made with a key that is discarded afterwards. All output is searched for each
    replaced value, except short and ordinary ones; if one is found, no file is kept. `export
    --redact` does the same for a bundle.

    --preview shows how many values each rule replaces, and in which places.
    """
    if output is None:
        _preview(file, rules, output_format)
    else:
        _write(file, rules, output, stable=stable_tokens, unlinked=unlinked, force=force)


def _preview(file: Path, rules: Rules, output_format: str) -> None:
    from nri_scope.recording.reader import Recording
    from nri_scope.recording.records import SCHEMA_VERSION, to_json
    from nri_scope.recording.redacted import is_redacted
    from nri_scope.share.bundle import redactor_for
    from nri_scope.share.redacted_copy import preview

    from .recording_views import progress

    with Output() as output:
        with interrupted_by_signals(), Recording.open(file) as recording:
            redactor = redactor_for(recording, rules)
            with progress(recording, "reading") as on_progress:
                tally = preview(recording, redactor, on_progress)
            before = is_redacted(recording)
        if output_format == "text":
            _print_tally(output, tally, before=before)
            return
        output.line(
            to_json(
                {
                    "schema_version": SCHEMA_VERSION,
                    "total": tally.total,
                    "by_rule": dict(tally.by_rule()),
                    "replaced": [
                        {"rule": one.rule, "place": one.place, "values": one.values}
                        for one in tally
                    ],
                }
            )
        )


def _print_tally(output: Output, tally: Tally, *, before: bool) -> None:
    from .recording_views import replacement_counts

    if tally.total:
        rows = [(one.rule, f"{one.values:,}", one.place) for one in tally]
        for line in table(("rule", "values", "place"), rows, output.width, right=(1,)):
            output.line(line)
        output.line("")
    counts = replacement_counts(tally.by_rule(), before=before)
    output.line(f"{counts}; nothing was written")


def _write(
    file: Path, rules: Rules, output: Path, *, stable: bool, unlinked: bool, force: bool
) -> None:
    from nri_scope.recording.display import many
    from nri_scope.recording.reader import Recording
    from nri_scope.recording.redacted import is_redacted
    from nri_scope.share.bundle import redactor_for
    from nri_scope.share.redacted_copy import copy_recording

    from .recording_views import progress, replacement_counts, warn_unreadable_marks

    with interrupted_by_signals(), Recording.open(file) as recording:
        redactor = redactor_for(recording, rules, stable=stable, unlinked=unlinked)
        with progress(recording, "redacting") as on_progress:
            rebuilt = copy_recording(
                recording, output, redactor, force=force, on_progress=on_progress
            )
        before = is_redacted(recording)
    counts = replacement_counts(redactor.tally.by_rule(), before=before)
    say(f"{output}: {many(rebuilt.counts.events, 'event')}; {counts}")
    warn_unreadable_marks(recording)
    if rebuilt.damage:
        say(f"data after the damage is missing: {rebuilt.damage}")
