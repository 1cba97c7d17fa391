# SPDX-License-Identifier: Apache-2.0
"""The agent's messages are encoded as betterproto2 encodes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.agent.event_reader import EventReader
from nri_scope.agent.node_recordings import NodeRecordings
from nri_scope.agent.run import Codec
from nri_scope.agent.selected_parts import EventQuery
from tests.agent.drained_reader import drained
from tests.demo_recording import DEMO_EVENTS

_DEMO = Path(__file__).parents[2] / "recordings" / "demo.nriscope.db"
_OUTCOME = v1.CreationOutcome(fate="failed", event=7, name="StopContainer", after_ns=0)
_EVENT = v1.Event(
    id=1,
    plugin="10-é",
    request=b"\xff",
    held_ns=0,
    metadata=[v1.Metadata(key="a", value="b"), v1.Metadata()],
    changed=["/process/env/A", ""],
    outcome=_OUTCOME,
)


@pytest.mark.parametrize(
    "message",
    [
        v1.GetEventsResponse(),
        v1.GetEventsResponse(cursor="node:1:2:3", event=_EVENT),
        v1.GetEventsResponse(event=v1.Event()),
        v1.GetEventsResponse(gap=v1.Gap(lost=0)),
        v1.GetEventsResponse(session=v1.Session(id=-1, nri_version_inferred=True, synced_ns=0)),
        # Of a damaged recording: it does not fit, and is sent as before.
        v1.GetEventsResponse(event=v1.Event(id=1 << 63)),
        v1.GetStatusResponse(recordings=[v1.RecordingStatus(plugins=["a"], session=v1.Session())]),
        v1.GetRecordingResponse(recording="node", data=b"x" * 1_000),
    ],
)
def test_a_message_has_the_bytes_of_betterproto2(message: v1.GetEventsResponse) -> None:
    assert Codec().encode(message, type(message)) == bytes(message)


def test_the_responses_for_a_recording_have_the_bytes_of_betterproto2(tmp_path: Path) -> None:
    (tmp_path / "node.nriscope.db").write_bytes(_DEMO.read_bytes())
    reader = EventReader(NodeRecordings(tmp_path), EventQuery(), None)

    responses = list(drained(reader))

    assert len(responses) > DEMO_EVENTS
    for response in responses:
        assert Codec().encode(response, v1.GetEventsResponse) == bytes(response)
