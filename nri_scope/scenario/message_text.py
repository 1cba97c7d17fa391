# SPDX-License-Identifier: Apache-2.0
"""Single messages as YAML that people edit, and back; see `messages` for the form."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message

from nri_scope.text.yaml_text import to_yaml

from .messages import MessageShape, message_form
from .place import Place
from .reader import parse_document

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
