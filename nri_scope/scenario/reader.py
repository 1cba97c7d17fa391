# SPDX-License-Identifier: Apache-2.0
"""Read scenarios and single messages from text and files, which may be untrusted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import Message

from nri_scope.errors import UsageError
from nri_scope.recording.file_errors import error_words
from nri_scope.recording.schema_check import FIRST_BYTES
from nri_scope.text.yaml_reader import MAX_BYTES, MalformedYaml, Node, parse_yaml
from nri_scope.text.yaml_text import to_yaml

from .document import read_document
from .messages import MessageShape, message_form
from .model import Place, Scenario
from .source import STANDARD_INPUT, source_name


def read_text(path: Path) -> str:
    """Return the text of a file, or of standard input for `STANDARD_INPUT`.

    Pipes are read, too. Raises UsageError.
    """
    name = source_name(path)
    try:
        if path == STANDARD_INPUT:
            # Python has no stdin if it was started with a closed descriptor.
            if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
                raise UsageError("standard input is closed", "name a file instead of -")
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file", "check the path") from None
    except (OSError, ValueError) as error:
        words = error_words(error) if isinstance(error, OSError) else str(error)
        raise UsageError(f"{name}: cannot be read: {words}", "name a readable file") from None
    if content.startswith(FIRST_BYTES):
        raise UsageError(
            f"{name}: a recording, not text", "`scenario from-recording` makes a scenario of it"
        )
    if len(content) > MAX_BYTES:
        raise UsageError(
            f"{name}: larger than {MAX_BYTES >> 20} MiB", "a scenario can have copies of a pod"
        )
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{name}:{line}: not UTF-8", "save it as UTF-8") from None


def parse_document(text: str, source: str) -> Node:
    """Return the only document in a text. Raises UsageError."""
    try:
        return parse_yaml(text)
    except MalformedYaml as error:
        raise Place(source, error.line).error(error.problem, error.hint) from None


def parse_scenario(text: str, source: str = "scenario") -> Scenario:
    """Return the scenario in a text; ``source`` names it in errors. Raises UsageError."""
    return read_document(parse_document(text, source), Place(source, 1))


_Message = TypeVar("_Message", bound=Message)


def message_text(message: Message) -> str:
    """Return a message as YAML; "" for an empty one."""
    form = message_form(message)
    return to_yaml(form) if form else ""


def read_message(text: str, kind: type[_Message], source: str) -> _Message:
    """Return the message in a text, of which comments may be all. Raises UsageError.

    ``source`` names the text in errors.
    """
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        return kind()
    message = MessageShape(kind).read(parse_document(text, source), Place(source, 1))
    assert isinstance(message, kind)
    return message
