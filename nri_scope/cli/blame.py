# SPDX-License-Identifier: Apache-2.0
"""``nri-scope blame``: show the owner of each line of a container's OCI spec."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from nri_scope.errors import THE_RECORDING, UsageError

from .option_rules import Exclude, RuledCommand
from .output import Output
from .params import ANY_PATH, format_option, redact_option, say

if TYPE_CHECKING:
    from nri_scope.differ.attribution.history import History
    from nri_scope.differ.blame.text import View
    from nri_scope.share.redaction import Rules

_EPILOG = """
\b
The gutter: owner, evidence (letters, explained above the lines), and kind of change:
  + added, - removed, ~ changed, > moved to another place, ! refused,
  ? asked for, outcome not known.
"""


@click.command(
    epilog=_EPILOG,
    cls=RuledCommand,
    rules=(Exclude(("--full", "--changed", "--history")),),
)
@click.argument("file", type=ANY_PATH)
@click.argument("what")
@click.option(
    "--history",
    "path",
    metavar="PATH",
    help="Show every change to one path of the spec in order: FOO, `env FOO`, /process/env/FOO.",
)
@click.option("--full", is_flag=True, help="Show every line, not only the changed ones.")
@click.option(
    "--changed", is_flag=True, help="Show only changed lines and the keys that contain them."
)
@click.option(
    "--exit-code", is_flag=True, help="Exit with status 1 if a plugin changed the container."
)
@redact_option
@format_option(
    "text|json",
    "Text, or one JSON object with all lines.",
)
@click.pass_context
def command(
    context: click.Context,
    file: Path,
    what: str,
    path: str | None,
    full: bool,
    changed: bool,
    exit_code: bool,
    redact: Rules | None,
    output_format: Literal["text", "json"],
) -> None:
    """Show which plugin set each line of a spec.

    WHAT is NAMESPACE/POD/CONTAINER, its id, the number of an event about it, or a path of the spec:
    see `help what`.

    Lines are YAML in the order of the spec, with their former values. Without --full, lines that no
    plugin changed are only counted. Without --redact, values are shown as recorded, secrets
    included.

    Exit status: 0 shown; 2 an error occurred. With --exit-code: 0 no change by a plugin was
    observed; 1 a plugin changed the container or the path.
    """
    view: View = "full" if full else "changed" if changed else "usual"
    by_plugins = _perform(file, redact, what, path, view, output_format)
    context.exit(int(exit_code and by_plugins))


def _perform(
    file: Path, rules: Rules | None, what: str, path: str | None, kind: View, form: str
) -> bool:
    """Show the container or the path. Return whether a plugin changed any of it."""
    from nri_scope.differ.blame.document import document
    from nri_scope.differ.blame.path_history import resolve
    from nri_scope.recording.reading.records import json_in_parts

    from .recording_views import open_view

    with open_view(file, rules) as recording:
        container = recording.container(what, say)
        if kind == "usual" and path is None:
            path = container.changed_path or None
        history = container.history
        if not (history.spec or history.base or history.steps or history.real):
            raise UsageError(
                f"{THE_RECORDING} does not contain the spec of {history.name}",
                "start recording before the container is created",
                file,
            )
        resolved = "" if path is None else resolve(history, path)
        with Output() as output:
            if form == "json":
                for text in json_in_parts(document(history, resolved)):
                    output.text(text)
                output.line("")
            else:
                for line in _page(history, resolved, kind, output.width):
                    output.line(line)
    return any(step.owner.may_be_plugin for step in history.steps_at(resolved))


def _page(history: History, path: str, kind: View, width: int | None) -> Iterator[str]:
    """Yield the lines of a container, or the history of a ``path``, with a head and a legend."""
    from nri_scope.differ.blame import path_history
    from nri_scope.differ.blame.owned_lines import lines
    from nri_scope.differ.blame.text import body, head, legend, view

    if path:
        histories = path_history.path_histories(history, path)
        shown, items = path_history.history_body(history, histories, width)
        yield from head(history, None, width, path_history.whole_container_requests(history))
    else:
        known = lines(history)
        shown, items = body(view(known, kind), width)
        yield from head(history, known, width)
    yield from ("", *shown, "") if shown else ()
    yield from legend(items, width)
