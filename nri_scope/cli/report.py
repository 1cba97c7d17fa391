# SPDX-License-Identifier: Apache-2.0
"""``nri-scope report``: make a document from a recording, or list its problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from nri_scope.errors import UsageError
from nri_scope.process.signals import interrupted_by_signals

from .output import Output
from .params import ANY_PATH, FilePath, redact_option, say

if TYPE_CHECKING:
    from nri_scope.report.report_data import Diagnosed, Facts
    from nri_scope.share.redaction import Redactor, Rules

_EPILOG = """
\b
Findings of --diagnose:
  runtime-crash              an update of a container at which iSulad ended
  deadline                   a plugin that came close to its deadline, or exceeded it
  disconnected               a plugin that disconnected, and containers created without it
  conflict, failed           two plugins that set the same field; errors and rejections
  dropped                    requests that the runtime did not apply
  replaced                   values of plugins that an update by the CRI replaced
  unified-on-cgroup-v1       cgroup v2 settings on a node with cgroup v1
  duplicate-name             two plugins with the same name
  missed-around-synchronize  containers of which a plugin was never notified
  order                      an unusual order of events, or of plugins
"""
_D = TypeVar("_D", bound="Diagnosed")
_HTML, _MARKDOWN = (".html", ".htm"), (".md", ".markdown")


@click.command(epilog=_EPILOG)
@click.argument("file", type=ANY_PATH)
@click.argument("what", required=False)
@click.option(
    "-o",
    "--output",
    type=FilePath(),
    help="File to write: *.html for one self-contained page, *.md for an issue.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@redact_option
@click.option("--diagnose", is_flag=True, help="Print the findings instead of writing a report.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    help="With --diagnose: text for people (the default), or one JSON object.",
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
    """Write a report of a recording, or diagnose problems in it.

    WHAT limits it to a container (NAMESPACE/POD/CONTAINER) or a pod (NAMESPACE/POD), which can also
    be given by the beginning of its id, to the subject of an event, given by its number, or to the
    only container in which a path of the spec changed, such as `env FOO` or FOO.

    The report lists pods and containers, the chain of plugins with their times, a timeline, the
    changes with their owners, and the findings of --diagnose. Without --redact, values are shown as
    recorded, secrets included.

    Exit status: 0 success, 2 an error occurred. With --diagnose: 0 no findings, 1 findings.
    """
    check_options(output, output_format, force=force, diagnose=diagnose)
    if output is None:
        context.exit(_diagnose(file, what, redact, output_format or "text"))
    _write(file, what, redact, output, force=force)


def check_options(
    output: Path | None, output_format: str | None, *, force: bool, diagnose: bool
) -> None:
    """Raise UsageError for options that exclude each other, or for an output of no known format."""
    if diagnose:
        if output is not None or force:
            raise UsageError("--diagnose writes no file", "leave out -o and --force")
        return
    if output_format is not None:
        raise UsageError(
            "--format is only valid with --diagnose", "the suffix of -o selects the format"
        )
    if output is None:
        raise UsageError("-o is missing", "add -o report.html or -o report.md, or --diagnose")
    _renderer(output)


def _diagnose(file: Path, what: str | None, rules: Rules | None, output_format: str) -> int:
    from nri_scope.recording.records import to_json
    from nri_scope.report import findings_list
    from nri_scope.report.finder import diagnose

    with Output() as output:
        with interrupted_by_signals():
            facts, _, _ = _read(file, what, rules, diagnose)
        if output_format == "json":
            output.line(to_json(findings_list.document(facts)))
        else:
            for line in findings_list.text(facts, width=output.width):
                output.line(line)
        return int(bool(facts.findings))
    return 0


def _write(file: Path, what: str | None, rules: Rules | None, output: Path, *, force: bool) -> None:
    from nri_scope.recording.display import many
    from nri_scope.report.collect import collect
    from nri_scope.report.output_file import write
    from nri_scope.share.output_files import Outputs

    from .share_messages import as_recorded, replacement_counts

    render = _renderer(output)
    with interrupted_by_signals(), Outputs(output, file, force=force) as outputs:
        facts, redactor, before = _read(file, what, rules, collect)
        draft = outputs.new(output.suffix)
        size = write(draft, render(facts))
        if redactor is None:
            values = as_recorded(redacted=before)
        else:
            _scan_for_leaks(redactor, draft, output)
            values = replacement_counts(redactor.tally.by_rule(), before=before)
        outputs.place([draft])
    found = f"; {many(len(facts.findings), 'finding')}" if facts.findings else ""
    say(f"{output}: {size:,} bytes; {values}{found}")


def _renderer(output: Path) -> Callable[[Facts], Iterable[str]]:
    suffix = output.suffix.lower()
    if suffix in _HTML:
        # Imported late, as loading it takes 0.1 s.
        from nri_scope.report.html import html

        return html
    if suffix in _MARKDOWN:
        from nri_scope.report.markdown import markdown

        return lambda facts: [markdown(facts)]
    raise UsageError(f"{output}: unknown format", "name the file *.html or *.md")


def _scan_for_leaks(redactor: Redactor, draft: Path, output: Path) -> None:
    """Raise RedactionLeak if the report contains a replaced value."""
    from html import unescape

    from nri_scope.report.own_words import own_words
    from nri_scope.share.bundle.leak_scan import Scan

    scan = Scan(redactor.originals(), output, words=own_words)
    scan.file(draft, "the report")
    scan.text(unescape(draft.read_text("utf-8")).encode(), "the report")
    scan.name(output.name)


def _read(
    file: Path, what: str | None, rules: Rules | None, read: Callable[..., _D]
) -> tuple[_D, Redactor | None, bool]:
    """Return the result of `diagnose` or `collect`, the redactor that was applied to it, and
    whether the recording had been redacted before.
    """
    from nri_scope.recording.redacted import is_redacted

    from .redacted_view import open_view
    from .share_messages import progress
    from .what_argument import find_subject

    with open_view(file, rules) as view:
        subject = None if what is None else view.counterpart(find_subject(view.original, what))
        with progress(view.recording, "reading") as on_progress:
            found = read(view.recording, subject, on_progress=on_progress)
        before = is_redacted(view.original)
    if view.redactor is not None:
        found = replace(found, file=view.name)
    return found, view.redactor, before
