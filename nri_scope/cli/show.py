# SPDX-License-Identifier: Apache-2.0
"""``nri-scope show``: show an event, a pod or a container in full."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri_scope.errors import RecordingError, UsageError

from .output import Output
from .params import ANY_PATH, format_option, say

if TYPE_CHECKING:
    from nri_scope.api import Recording
    from nri_scope.events import Event


@click.command()
@click.argument("file", type=ANY_PATH)
@click.argument("what")
@format_option(
    "yaml|json|raw",
    "raw: the protobuf bytes of an event's request, or of the newest message about a pod or "
    "container.",
)
def command(file: Path, what: str, output_format: str) -> None:
    """Show one event, pod or container in full.

    WHAT is an event's number (the first column of `log`), a pod as NAMESPACE/POD, a container as
    NAMESPACE/POD/CONTAINER, the beginning of a pod's or container's id, or a path of the spec, such
    as `env FOO` or FOO, for the only container in which it changed. An event of one connection is
    shown with the paths that plugins before it changed, or that its own plugin changed; `diff`
    shows all changes of an operation. Pods and containers are shown with the newest message about
    them and all their events.

    The output contains everything that the runtime sent, environment variables included.
    """
    import nri_scope
    from nri_scope.events import Event
    from nri_scope.recording.documents import message_bytes
    from nri_scope.recording.records import SCHEMA_VERSION, to_json
    from nri_scope.text.yaml_text import to_yaml

    with Output() as output, nri_scope.open(file) as recording:
        if output_format == "raw" and output.is_terminal:
            raise UsageError(
                "--format raw is binary, and the output is a terminal", "redirect it: > message.bin"
            )
        subject = recording.find(what, say)
        if recording.is_redacted:
            say("this recording is redacted: tokens and made-up addresses replace values")
        if isinstance(subject, Event) and output_format != "raw":
            subject = _with_outcomes(recording, subject)
        match output_format:
            case "raw":
                output.bytes(message_bytes(recording.reader, subject))
            case "json":
                document = recording.document(subject)
                output.line(to_json({"schema_version": SCHEMA_VERSION, **document}))
            case _:
                output.text(to_yaml(recording.document(subject)))


def _with_outcomes(recording: Recording, event: Event) -> Event:
    """Return the event with what only several events show, if they can be read."""
    try:
        return recording.with_outcomes(event)
    except (RecordingError, UsageError) as error:
        # Raises RecordingError if the event itself is damaged.
        recording.reader.request(event.id)
        say(f"without the changes that only several events show: {error}")
        return event
