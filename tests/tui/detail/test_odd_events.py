# SPDX-License-Identifier: Apache-2.0
"""All outputs describe malformed and unknown events alike."""

from __future__ import annotations

import json
from pathlib import Path

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.cli.log_lines import LogLines
from nri_scope.events import Event
from nri_scope.recording.documents import document
from nri_scope.recording.reading.reader import Recording
from nri_scope.tui.detail.tab_lines import Tab
from nri_scope.tui.store.rows import event_row
from tests.recording.traffic import a_container, a_pod, an_item, record

from .tab_lines import a_row, tab_lines

POD = a_pod()
GOOD = api.CreateContainerRequest(pod=POD, container=a_container(POD)).SerializeToString()
BAD = b"\x0a\xff\xff"
REPLY = api.CreateContainerResponse(
    adjust=api.ContainerAdjustment(annotations={"a": "b"})
).SerializeToString()

ITEMS = [
    an_item(method, request, reply, service=service)
    for method, service in (
        ("CreateContainer", ""),
        ("CreateContainer", "strange.Service"),
        ("Hibernate", "strange.Service"),
        ("Hibernate", ""),
    )
    for request in (GOOD, BAD, b"\x08\x01")
    for reply in (b"", REPLY, BAD)
]


def all_texts(recording: Recording, event: Event) -> str:
    """Return all texts about an event, from all outputs."""
    tabs = (Tab.SUMMARY, Tab.CONTAINER, Tab.CHANGES, Tab.RAW)
    queries = ("nri_json(?)", "nri_json(?, 'reply')")
    return "\n".join(
        [
            *LogLines().of(event),
            *event_row(event, 0).cells,
            *(line for tab in tabs for line in tab_lines(recording, a_row(event), tab)),
            *(
                str(recording.connection.execute(f"SELECT {query}", (event.id,)).fetchone()[0])
                for query in queries
            ),
            json.dumps(document(recording, event)),
        ]
    )


def test_only_malformed_events_are_described_as_malformed(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    record(path, ITEMS)
    with Recording.open(path) as recording:
        for item, event in zip(ITEMS, recording.events(), strict=True):
            text = all_texts(recording, event)
            unknown = bool(item.service) or item.method == "Hibernate"
            malformed = not unknown and item.request == BAD
            assert ("malformed" in text) == (malformed or (not unknown and item.reply == BAD))
            assert ("unknown method or service" in text) == unknown
            # No claims are made about content that could not be decoded.
            if unknown or malformed:
                assert "cannot change anything" not in text
                assert "no pod" not in text and "no container" not in text
            # The reply to a malformed request is decoded all the same.
            assert ('"annotations": {"a": "b"}' in text) == (not unknown and item.reply == REPLY)
