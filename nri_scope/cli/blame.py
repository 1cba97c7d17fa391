# SPDX-License-Identifier: Apache-2.0
"""``nri-scope blame``: show the owner of each line of a container's OCI spec."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from nri_scope.errors import UsageError

from .option_rules import Exclude, RuledCommand
from .output import Output
from .params import ANY_PATH, format_option, redact_option

if TYPE_CHECKING:
    from nri_scope.differ.attribution.attributed_changes import ChangeStep
    from nri_scope.differ.attribution.history import History
    from nri_scope.differ.blame import OwnedLine, PathHistory, View
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
    "text|json|markdown",
    "Lines for people, one JSON object with all lines, or Markdown for an issue.",
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
    output_format: Literal["text", "json", "markdown"],
) -> None:
    """Show which plugin set each line of a container's OCI spec.

    WHAT is a container as NAMESPACE/POD/CONTAINER (the newest of this name), the beginning of its
    id, the number of an event about it, its pod if the pod has only one container, or a path of the
    spec, as for --history, that changed in only one container.

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
    from nri_scope.differ import blame
    from nri_scope.differ.recording_differ import history_of
    from nri_scope.events import Container
    from nri_scope.recording.records import json_in_parts

    from .recording_views import open_view
    from .what_argument import container_with_path

    steps: Sequence[ChangeStep] = ()
    with Output() as output, open_view(file, rules) as view:
        named, changed_path = container_with_path(view.original, what)
        container = view.counterpart(named)
        if kind == "usual" and path is None:
            path = changed_path or None
        assert isinstance(container, Container)
        history = history_of(view.recording, container)
        if not (history.spec or history.base or history.steps or history.real):
            raise UsageError(
                f"{file} does not contain the spec of {history.name}",
                "start recording before the container is created",
            )
        lines = blame.lines(history)
        resolved = "" if path is None else blame.resolve(history, path)
        pasts = None if path is None else blame.past(history, resolved)
        steps = history.steps if pasts is None else [s for past in pasts for s in past.steps]
        if form == "json":
            for text in json_in_parts(blame.document(history, lines, pasts, resolved)):
                output.text(text)
            output.line("")
        else:
            width = output.width if form == "text" else None
            part = None if pasts is None else (pasts, blame.asked_for(history, resolved))
            for line in _text(history, lines, part, kind, width, markdown=form == "markdown"):
                output.line(line)
    return _by_plugins(steps)


def _text(
    history: History,
    lines: Sequence[OwnedLine],
    part: tuple[Sequence[PathHistory], Sequence[ChangeStep]] | None,
    kind: View,
    width: int | None,
    *,
    markdown: bool,
) -> Iterator[str]:
    """Yield all lines of a container, or the history and the requests of one path."""
    from nri_scope.differ import blame

    if part is None:
        about = None
        body, explained = blame.body(blame.view(lines, kind), width)
    else:
        pasts, about = part
        body, explained = blame.past_body(history, pasts, width)
    of_all = lines if part is None else None
    if markdown:
        yield from blame.markdown(history, of_all, body, explained, about)
        return
    yield from blame.head(history, of_all, width, about)
    yield from blame.legend(explained, width)
    if body:
        yield ""
    yield from body


def _by_plugins(steps: Sequence[ChangeStep]) -> bool:
    """Return whether any step may be a plugin's."""
    from nri_scope.differ.attribution.owner import OwnerKind

    return any(step.owner.who not in (OwnerKind.RUNTIME, OwnerKind.REQUEST) for step in steps)
