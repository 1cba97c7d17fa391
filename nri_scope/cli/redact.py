# SPDX-License-Identifier: Apache-2.0
"""``nri-scope redact``: copy a recording without its secrets, or preview the replacements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri_scope.errors import UsageError
from nri_scope.process.signals import interrupted_by_signals

from .output import Output
from .params import ANY_PATH, NewRecording, RulesFile, check_tokens, say, tokens_options
from .table import table

if TYPE_CHECKING:
    from nri_scope.share.redaction import Rules, Tally


@click.command()
@click.argument("file", type=ANY_PATH)
@click.option("--preview", is_flag=True, help="Show what would be replaced, and write nothing.")
@click.option(
    "-o", "--output", type=NewRecording(), metavar="X.nriscope.db", help="The recording to write."
)
@click.option(
    "--rules",
    type=RulesFile(),
    default="",
    metavar="RULES",
    help="Change the default rules as this file says.",
)
@tokens_options
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    help="Of --preview: lines for people (the default), or one JSON object.",
)
def command(
    file: Path,
    preview: bool,
    output: Path | None,
    rules: Rules,
    stable_tokens: bool,
    unlinked: bool,
    force: bool,
    output_format: str | None,
) -> None:
    """Replace secret and personal values in a recording by tokens.

    The same value of one container has the same token wherever it is, and other tokens in other
    containers; they are made with a key that is discarded afterwards. Everything that was written
    is searched for each replaced value, except for short and ordinary ones, and if one is found no
    file is kept. `export --redact` does the same for a bundle.

    --preview shows how many values each rule replaces, and where they are.
    """
    if preview == (output is not None):
        raise UsageError(
            "--preview shows and -o writes" if preview else "nothing was asked for",
            "leave one of them out" if preview else "add --preview, or -o X.nriscope.db",
        )
    if preview:
        if force:
            raise UsageError("--force is for -o", "leave it out")
        if stable_tokens or unlinked:
            raise UsageError("--stable-tokens and --unlinked are for -o", "leave them out")
        _preview(file, rules, output_format or "text")
        return
    assert output is not None
    if output_format is not None:
        raise UsageError("--format is for --preview", "leave it out")
    check_tokens(stable=stable_tokens, unlinked=unlinked)
    _write(file, rules, output, stable=stable_tokens, unlinked=unlinked, force=force)


def _preview(file: Path, rules: Rules, output_format: str) -> None:
    from nri_scope.recording.reader import Recording
    from nri_scope.recording.records import SCHEMA_VERSION, to_json
    from nri_scope.share.bundle import redactor_for
    from nri_scope.share.redacted_copy import preview

    from .share_options import progress

    with Output() as output:
        with interrupted_by_signals(), Recording.open(file) as recording:
            redactor = redactor_for(recording, rules)
            with progress(recording, "reading") as tell:
                tally = preview(recording, redactor, tell)
        if output_format == "text":
            _tell(output, tally)
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


def _tell(output: Output, tally: Tally) -> None:
    from .share_options import replaced

    if tally.total:
        rows = [(one.rule, f"{one.values:,}", one.place) for one in tally]
        for line in table(("rule", "values", "place"), rows, output.width, right=(1,)):
            output.line(line)
        output.line("")
    output.line(f"{replaced(tally.by_rule())}; nothing was written")


def _write(
    file: Path, rules: Rules, output: Path, *, stable: bool, unlinked: bool, force: bool
) -> None:
    from nri_scope.recording.display import many
    from nri_scope.recording.reader import Recording
    from nri_scope.share.bundle import redactor_for
    from nri_scope.share.redacted_copy import redact

    from .share_options import progress, replaced, tell_lost_marks

    with interrupted_by_signals(), Recording.open(file) as recording:
        redactor = redactor_for(recording, rules, stable=stable, unlinked=unlinked)
        with progress(recording, "redacting") as tell:
            rebuilt = redact(recording, output, redactor, force=force, on_progress=tell)
    found = replaced(redactor.tally.by_rule())
    say(f"{output}: {many(rebuilt.counts.events, 'event')}; {found}")
    tell_lost_marks(recording)
    if rebuilt.damage:
        say(f"what comes after that is missing: {rebuilt.damage}")
