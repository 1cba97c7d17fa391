# SPDX-License-Identifier: Apache-2.0
"""The differ over a recording: all of it, or what is about one container, pod or event."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.recorder import lookup
from nri_scope.recorder.model import Container, Event, Pod
from nri_scope.recorder.reader import Recording

from .differ import Differ
from .history import History
from .model import RoundDiff


def rounds(
    recording: Recording, thing: lookup.Found | None = None, *, differ: Differ | None = None
) -> Iterator[RoundDiff]:
    """What each round of a recording changed, in order.

    Of one container or pod: its own rounds, and those with side effects on it. Of an event: the
    round that it belongs to. Raises RecordingError.
    """
    differ = differ or Differ(recording.sessions())
    for event, request in recording.exchanges():
        reply = recording.reply(event.id)
        yield from differ.feed(event, request, reply)
    yield from differ.flush()


def histories(recording: Recording) -> dict[str, History]:
    """Every container's history, by its id. Raises RecordingError."""
    differ = Differ(recording.sessions())
    for _ in rounds(recording, differ=differ):
        pass
    return differ.histories
