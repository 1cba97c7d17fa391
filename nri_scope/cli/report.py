# SPDX-License-Identifier: Apache-2.0
"""``nri-scope report``: make a document from a recording, or list its problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from nri_scope.errors import UsageError
from nri_scope.process.signals import interrupted_by_signals
from nri_scope.report.finding import CommandStyle, FindingKind

from .option_rules import Exclude, Need, RuledCommand
from .output import Output
from .params import ANY_PATH, NewFile, force_option, format_option, redact_option, say

if TYPE_CHECKING:
    from nri_scope.api import OpenRecording
    from nri_scope.cluster.pod_events import PodEvents
    from nri_scope.recording.query.lookup import Found
    from nri_scope.recording.reading.work_budget import OnShare
    from nri_scope.report.report_data import Diagnosed, Facts
    from nri_scope.share.redaction import Redactor, Rules

_EPILOG = "\n".join(
    ["\b", "Findings of --diagnose:", *(f"  {kind:<25}  {kind.meaning}" for kind in FindingKind)]
)
_D = TypeVar("_D", bound="Diagnosed")
NO_PAGE = Path()
"""Default of ``--output``; None is standard output."""
_HTML, _MARKDOWN = (".html", ".htm"), (".md", ".markdown")


@click.command(
    epilog=_EPILOG,
    cls=RuledCommand,
    rules=(
        Exclude(("--diagnose",), ("-o", "--force")),
        Exclude(("--format",), ("-o",), "the suffix of -o selects the format"),
        Need(("WHAT", "--force", "--redact", "--keep"), ("-o", "--diagnose"), "add one of them"),
    ),
)
@click.argument("file", type=ANY_PATH)
@click.argument("what", required=False)
@click.option(
    "-o",
    "--output",
    type=NewFile("a report", is_text=True),
    default=NO_PAGE,
    help="File to write: *.html for one self-contained page, *.md for an issue; - writes that to "
    "standard output.",
)
@force_option
@redact_option
@click.option("--diagnose", is_flag=True, help="Print the findings instead of writing a report.")
@format_option("text|json", "json: one object, with all pods and gaps, or the findings.")
@click.pass_context
def command(
    context: click.Context,
    file: Path,
    what: str | None,
    output: Path | None,
    force: bool,
    redact: Rules | None,
    diagnose: bool,
    output_format: str,
) -> None:
    """Summarise a recording, find problems, write a page.

    The summary has event counts, rates, gaps, sizes, and response times, of nri-scope itself or of
    tapped and replayed plugins. Between connections of one chain, it has the time in plugins, with
    some tens of µs of the runtime itself; with `record --metrics`, calls by containerd's metrics.

    A page lists pods and containers, the chain of plugins with their times, a timeline, the
    changes with their owners, and the findings of --diagnose. WHAT limits a page and findings to
    a pod, a container or an event: see `help what`. Without --redact, values are shown as recorded,
    secrets included.

    Exit status: 0 success, 2 an error occurred. With --diagnose: 0 no findings, 1 findings.
    """
    if diagnose:
        context.exit(_diagnose(file, what, redact, output_format))
    if output == NO_PAGE:
        _summarise(file, output_format)
    elif output is None:
        _print(file, what, redact)
    else:
        _write(file, what, redact, output, force=force)


def _summarise(file: Path, output_format: str) -> None:
    from nri_scope.api import OpenRecording
    from nri_scope.recording.reading.records import SCHEMA_VERSION, to_json

    from .summary_output import summary_lines

    with Output() as output, OpenRecording(file) as recording:
        found = recording.statistics()
        if output_format == "json":
            output.line(to_json({"schema_version": SCHEMA_VERSION, **found.record()}))
        else:
            for line in summary_lines(found, file, output.width):
                output.line(line)


def _diagnose(file: Path, what: str | None, rules: Rules | None, output_format: str) -> int:
    from nri_scope.api import OpenRecording
    from nri_scope.cluster.pod_events import PodEvents
    from nri_scope.recording.reading.records import to_json
    from nri_scope.report import findings_list

    pod_events = click.get_current_context().find_object(PodEvents)
    with Output() as output:
        with interrupted_by_signals():
            facts, _, _ = _read(file, what, rules, OpenRecording.diagnosis)
        if output_format == "json":
            found = findings_list.document(facts)
            if pod_events is not None:
                found["kubernetes_events"] = [event.record() for event in pod_events.events]
            output.line(to_json(found))
        else:
            for line in findings_list.text(facts, width=output.width):
                output.line(line)
            for line in _pod_events(pod_events, output.width):
                output.line(line)
        return int(bool(facts.findings))
    # The reader of the output is gone.
    return 0


def _pod_events(pod_events: PodEvents | None, width: int | None) -> Iterator[str]:
    if pod_events is None:
        return
    from .log_lines import LogLines

    kept = "" if pod_events.events else " none now; clusters delete them, after an hour by default"
    yield from ("", f"Kubernetes Events of {pod_events.pod}:{kept}")
    lines = LogLines(width=width)
    for event in pod_events.events:
        yield from lines.of(event)


def _print(file: Path, what: str | None, rules: Rules | None) -> None:
    from nri_scope.api import OpenRecording
    from nri_scope.recording.file.temporary_files import temporary_folder
    from nri_scope.report.markdown import markdown
    from nri_scope.share.output_files import write_text

    with Output() as output, interrupted_by_signals(), temporary_folder() as folder:
        facts, redactor, _ = _read(file, what, rules, OpenRecording.report)
        draft = folder / "report.md"
        write_text(draft, [markdown(facts)])
        if redactor is not None:
            _scan_for_leaks(redactor, draft, Path("standard output"))
        output.text(draft.read_text("utf-8"))


def _write(file: Path, what: str | None, rules: Rules | None, output: Path, *, force: bool) -> None:
    from nri_scope.api import OpenRecording
    from nri_scope.share.output_files import Outputs, write_text
    from nri_scope.text.quantities import many

    render = renderer_of(output)
    with interrupted_by_signals(), Outputs(output, file, force=force) as outputs:
        facts, redactor, values = _read(file, what, rules, OpenRecording.report)
        draft = outputs.new(output.suffix)
        size = write_text(draft, render(facts))
        if redactor is not None:
            _scan_for_leaks(redactor, draft, output)
        outputs.place(draft)
    found = f"; {many(len(facts.findings), 'finding')}" if facts.findings else ""
    say(f"{output}: {size:,} bytes; {values}{found}")


def renderer_of(output: Path) -> Callable[[Facts], Iterable[str]]:
    """Return the format for the suffix of a file. Raises UsageError for another one."""
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

    from nri_scope.report.html import fixed_text
    from nri_scope.share.bundle.leak_scan import Scan

    scan = Scan(redactor.replaced_words, output, fixed_text)
    scan.file(draft, "the report")
    scan.text(unescape(draft.read_text("utf-8")).encode(), "the report")
    scan.name(output.name)


def _read(
    file: Path,
    what: str | None,
    rules: Rules | None,
    read: Callable[[OpenRecording, Found | None, OnShare | None], _D],
) -> tuple[_D, Redactor | None, str]:
    """Return the result of a method for the subject, the applied redactor, and a remark on it."""
    from .recording_views import open_view, progress, values_remark

    commands = click.get_current_context().find_object(CommandStyle) or CommandStyle.FILE
    with open_view(file, rules) as recording:
        subject = None if what is None else recording.find(what, say)
        with progress(recording.reader, "reading") as on_progress:
            found = read(recording, subject, on_progress)
        found = replace(
            found, findings=tuple(finding.with_commands(commands) for finding in found.findings)
        )
        return found, recording.redactor, values_remark(recording, recording.redactor)
