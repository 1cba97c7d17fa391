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
    from nri_scope.api import OpenRecording
    from nri_scope.events import Event


@click.command()
@click.argument("file", type=ANY_PATH)
@click.argument("what")
@format_option(
    "yaml|json|raw",
    "raw: the protobuf bytes of an event's request, or of the newest message about a pod or "
    "container; with --reply of the event's reply.",
)
@click.option("--request", "part", flag_value="request", help="Only the request of an event.")
@click.option("--reply", "part", flag_value="reply", help="Only the reply to an event.")
def command(file: Path, what: str, output_format: str, part: str | None) -> None:
    """Show one event, pod or container in full.

    WHAT is an event's number, NAMESPACE/POD[/CONTAINER], an id or a path of the spec: see `help
    what`. An event of one connection is shown with the paths that plugins before it changed, or
    that its own plugin changed; `diff` shows all changes of an operation. Pods and containers are
    shown with the newest message about them and all their events.

    The output contains everything that the runtime sent, environment variables included.
    """
    import nri_scope
    from nri_scope.events import Event
    from nri_scope.recording.documents import message_bytes
    from nri_scope.recording.reading.records import SCHEMA_VERSION, to_json
    from nri_scope.text.yaml_text import to_yaml

    with Output() as output, nri_scope.open(file) as recording:
        if output_format == "raw" and output.is_terminal:
            raise UsageError(
                "--format raw is binary, and the output is a terminal", "redirect it: > message.bin"
            )
        subject = recording.find(what, say)
        if recording.is_redacted:
            say("this recording is redacted: tokens and made-up addresses replace values")
        if part and not isinstance(subject, Event):
            raise UsageError(f"--{part} is of an event, and {what} is none", "give its number")
        if output_format == "raw":
            output.bytes(message_bytes(recording.reader, subject, part))
            return
        if isinstance(subject, Event) and not part:
            subject = _with_outcomes(recording, subject)
        document = recording.document(subject)
        is_json = output_format == "json"
        version = {"schema_version": SCHEMA_VERSION} if is_json else {}
        shown = document[part] if part else {**version, **document}
        output.text(f"{to_json(shown)}\n" if is_json else to_yaml(shown))


def _with_outcomes(recording: OpenRecording, event: Event) -> Event:
    """Return the event with what only several events show, if they can be read."""
    try:
        return recording.with_outcomes(event)
    except (RecordingError, UsageError) as error:
        # Raises RecordingError if the event itself is damaged.
        recording.reader.request(event.id)
        say(f"without the changes that only several events show: {error}")
        return event
