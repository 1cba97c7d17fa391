# SPDX-License-Identifier: Apache-2.0
"""Single messages as text: read as written, changed by one assignment, and clear errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.nri.events import METHODS
from nri_scope.recording.reading.reader import Recording
from nri_scope.scenario.document import message_text, read_message

RECORDINGS = sorted((Path(__file__).parents[2] / "recordings").glob("*.nriscope.*"))
REQUEST = api.CreateContainerRequest(
    pod=api.PodSandbox(id="p", name="web"), container=api.Container(id="c", env=["A=1"])
)


def messages(path: Path) -> list[Message]:
    """The requests and replies of a recording that are well-formed."""
    found: list[Message] = []
    with Recording.open(path) as recording:
        for event, request, reply in recording.exchanges():
            method = METHODS.get(event.method)
            if method is not None and not event.mark:
                found += [method.request.FromString(request), method.reply.FromString(reply)]
    return found


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_unedited_text_gives_the_same_message(path: Path) -> None:
    found = messages(path)
    assert found
    for message in found:
        assert read_message(message_text(message), type(message), "text") == message


def test_keyed_values_of_replies_are_written_as_values() -> None:
    reply = api.CreateContainerResponse()
    reply.adjust.env.add(key="DEBUG", value="1")
    reply.adjust.env.add(key="-OLD")
    text = message_text(reply)
    assert text == "adjust:\n  env:\n    DEBUG: '1'\n    -OLD: ''\n"
    assert read_message(text, type(reply), "text") == reply


def test_comments_alone_are_an_empty_message() -> None:
    empty = api.CreateContainerResponse()
    assert read_message("# nothing\n\n  # else\n", type(empty), "text") == empty


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("container:\n  envv: {}\n", "request:2: container.envv: unknown key; did you mean env?"),
        ("container: [1]\n", "request:1: container: a list is not a mapping"),
        ("container:\n  pid: x\n", "request:2: container.pid: 'x' is not an integer"),
        ("a: b: c\n", "request:1: not YAML"),
        ("text\n", "request:1: 'text' is not a mapping"),
    ],
)
def test_text_that_is_no_message_is_reported_with_its_place(text: str, words: str) -> None:
    with pytest.raises(UsageError) as error:
        read_message(text, api.CreateContainerRequest, "request")
    assert str(error.value).startswith(words)
