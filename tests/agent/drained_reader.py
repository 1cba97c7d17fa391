# SPDX-License-Identifier: Apache-2.0
"""All responses of a reader, and copies of recordings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.agent.event_reader import EventReader
from nri_scope.agent.node_recordings import NodeRecordings
from nri_scope.agent.selected_parts import EventQuery
from nri_scope.cluster.local_copy import LocalCopy
from nri_scope.filter import parse
from nri_scope.recorder.complete_recording import complete_recording


def drained(reader: EventReader) -> Iterator[v1.GetEventsResponse]:
    with closing(reader):
        while True:
            responses, is_done = reader.batch()
            yield from responses
            if is_done:
                return


def copied(folder: Path, path: Path, where: str, *, context: bool) -> None:
    query = EventQuery(where=parse(where), context=context)
    with complete_recording(path) as recording:
        copy = LocalCopy(recording)
        for response in drained(EventReader(NodeRecordings(folder), query, None)):
            copy.add(response)
        copy.flush()
