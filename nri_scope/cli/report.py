# SPDX-License-Identifier: Apache-2.0
"""``nri-scope report``: make a document from a recording, or list its problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri_scope.errors import UsageError
from nri_scope.process.signals import interrupted_by_signals

from .output import Output
from .params import ANY_PATH, FilePath, redact_option, say

if TYPE_CHECKING:
    from nri_scope.report.report_data import Facts
    from nri_scope.share.redaction import Redactor, Rules

_EPILOG = """
\b
What --diagnose looks for:
  deadline                   a plugin near its deadline, or over it
  disconnected               a plugin that disconnected, and containers created without it
  conflict, failed           two plugins that set one field; errors and refusals
  dropped                    requests of plugins that were not applied
  unified-on-cgroup-v1       settings for cgroup v2 where a node has v1
  duplicate-name             two plugins of one name
  missed-around-synchronize  containers that a plugin was never notified of
  order                      an order of events, or of plugins, that may surprise
"""
_HTML, _MARKDOWN = (".html", ".htm"), (".md", ".markdown")


@click.command(epilog=_EPILOG)
@click.argument("file", type=ANY_PATH)
@click.argument("what", required=False)
@click.option(
    "-o",
    "--output",
    type=FilePath(),
    help="The file to write: *.html, one page that needs nothing else; or *.md for an issue.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@redact_option
@click.option(
    "--diagnose", is_flag=True, help="Print what needs attention, instead of writing a report."
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    help="Of --diagnose: lines for people (the default), or one JSON object.",
)
@click.pass_context
def command(
    context: click.Context,
    file: Path,
    what: str | None,
    output: Path | None,
    force: bool,
    redact: Rules | None,
    diagnose: bool,
    output_format: str | None,
) -> None:
    """Make a report of a recording, or diagnose what is wrong in it.

    WHAT narrows it down to a container (NAMESPACE/POD/CONTAINER), a pod (NAMESPACE/POD), the
    beginning of an id, or an event's number.

    The report has what ran, the chain of plugins with their times, a timeline, the changes with
    their owners, and the findings of --diagnose. Without --redact it shows values as they were
    recorded, secrets included.

    Exit status: 0 fine, 2 it could not be done. With --diagnose: 0 nothing found, 1 something.
    """
    if diagnose:
        if output is not None or force:
            raise UsageError("--diagnose prints, and writes no file", "leave out -o and --force")
        context.exit(_diagnose(file, what, redact, output_format or "text"))
    if output_format is not None:
        raise UsageError("--format is for --diagnose", "the name after -o says what is written")
    if output is None:
        raise UsageError(
            "no file to write was named", "add -o report.html or -o report.md, or --diagnose"
        )
    _write(file, what, redact, output, force=force)


def _diagnose(file: Path, what: str | None, rules: Rules | None, output_format: str) -> int:
    from nri_scope.recording.records import to_json
    from nri_scope.report import findings_list

    with Output() as output:
        with interrupted_by_signals():
            facts, _ = _collect(file, what, rules)
        if output_format == "json":
            output.line(to_json(findings_list.document(facts)))
        else:
            for line in findings_list.text(facts, width=output.width):
                output.line(line)
        return int(bool(facts.findings))
    return 0


def _write(file: Path, what: str | None, rules: Rules | None, output: Path, *, force: bool) -> None:
    from nri_scope.recording.display import many
    from nri_scope.report.output_file import write
    from nri_scope.share.output_files import Outputs

    from .share_options import replaced

    render = _renderer(output)
    with interrupted_by_signals(), Outputs(output, file, force=force) as outputs:
        facts, redactor = _collect(file, what, rules)
        draft = outputs.new(output.suffix)
        size = write(draft, render(facts))
        if redactor is None:
            done = "values as in the recording; --redact leaves secrets out"
        else:
            _look(redactor, draft, output)
            done = replaced(redactor.tally.by_rule())
        outputs.place([draft])
    found = f"; {many(len(facts.findings), 'finding')}" if facts.findings else ""
    say(f"{output}: {size:,} bytes; {done}{found}")


def _renderer(output: Path) -> Callable[[Facts], Iterable[str]]:
    suffix = output.suffix.lower()
    if suffix in _HTML:
        # Imported late, as it takes a tenth of a second to load.
        from nri_scope.report.html import html

        return html
    if suffix in _MARKDOWN:
        from nri_scope.report.markdown import markdown

        return lambda facts: [markdown(facts)]
    raise UsageError(f"{output}: the name does not say what to write", "end it in .html or .md")


def _look(redactor: Redactor, draft: Path, output: Path) -> None:
    """Search the report for replaced values. Raises RedactionLeak."""
    from html import unescape

    from nri_scope.report.own_words import own_words
    from nri_scope.share.bundle.leak_scan import Scan

    scan = Scan(redactor.originals(), output, words=own_words)
    scan.file(draft, "the report")
    scan.text(unescape(draft.read_text("utf-8")).encode(), "the report")
    scan.name(output.name)


def _collect(file: Path, what: str | None, rules: Rules | None) -> tuple[Facts, Redactor | None]:
    """Return the facts for a report, and the redactor that was applied to them."""
    from nri_scope.recording import lookup
    from nri_scope.report.collect import collect

    from .redacted_view import shown
    from .share_options import progress

    with shown(file, rules) as seen:
        thing = None if what is None else seen.same(lookup.find(seen.original, what))
        with progress(seen.recording, "reading") as tell:
            facts = collect(seen.recording, thing, on_progress=tell)
    if seen.redactor is not None:
        facts = replace(facts, file=seen.name, redacted=True)
    return facts, seen.redactor
