# SPDX-License-Identifier: Apache-2.0
"""Tests of `Truth` and `Verdict` for events during which probes are disconnected."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from time import time_ns
from typing import cast

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ import recording_differ
from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.blame.document import document as blame_of
from nri_scope.differ.render.document import JsonRenderer
from nri_scope.events import Gap
from nri_scope.recording.reading.reader import Recording
from tests.differ.live.delayed import OFFSET_NS, Delayed
from tests.differ.live.playing import Playing
from tests.differ.live.probing import Probing, a_container, create
from tests.in_memory import MEMORY

from .testbed.crowd import Life
from .testbed.deeds import Answers
from .testbed.diffing import PROBES
from .testbed.record import PATIENCE
from .testbed.truth import Truth, Unexplained
from .testbed.verdict import JsonObject, Verdict

PLUGIN = "20-meddler"
LIFE = Life("app-id", "shop/web/app", None)


@pytest.mark.parametrize("leaving", [("00",), ("00", "30"), ("30",), ("00", "30", "50")])
def test_a_creation_during_which_probes_disconnect_is_one_round(
    tmp_path: Path, leaving: tuple[str, ...]
) -> None:
    with Recording.open(created(tmp_path, leaving)) as recording:
        verdict = Verdict(Truth.of(recording, [noted(tmp_path)]), {LIFE.id: LIFE})
        document = render(recording_differ.rounds(recording))
        assert verdict.of_rounds(document["events"]) == []
        assert verdict.of_changes([*document["changes"], *document["requests"]]) == []
        histories = recording_differ.histories(recording)
        assert verdict.of_histories(histories) == []
        lines = blame_of(histories[LIFE.id])
        assert verdict.of_blame(cast(JsonObject, lines)) == []
    # The verdict detects a creation that is reported as two rounds.
    (one,) = document["events"]
    for parts in ((one["seen_by"][:1], one["seen_by"][1:]), (one["seen_by"][1:],), ()):
        assert verdict.of_rounds([one | {"seen_by": part} for part in parts])
    assert verdict.of_changes([])


def test_a_plugin_with_two_requests_for_one_creation_is_rejected(tmp_path: Path) -> None:
    with Recording.open(created(tmp_path, ())) as recording:
        answers = noted(tmp_path)
        Truth.of(recording, [answers])
        noted(tmp_path)
        with pytest.raises(Unexplained, match=f"more than one request.*{PLUGIN}.*CreateContainer"):
            Truth.of(recording, [answers])


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
@pytest.mark.exhaustive
def test_rounds_match_the_truth_live_and_afterwards(
    data: st.DataObject,
) -> None:
    node = Delayed(data.draw)
    # Plugins have no notes here, so they must not change anything.
    node.hidden = [replace(one, sets=False) for one in node.hidden]
    node.live()
    # Around a gap, fewer events are reported than a connection received.
    assume(not any(isinstance(entry, Gap) for _, entry in node.entries))
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as folder,
        Playing(Path(folder) / "a.nriscope.db", node.entries, wall_minus_mono_ns=OFFSET_NS) as one,
    ):
        live = [each for at_ns, _ in node.entries for each in one.until(at_ns)] + one.end()
        with Recording.open(one.path) as recording:
            truth = Truth.of(recording, [])
        for event, container in truth.looks:
            seen = [
                tuple(look.plugin for look in looks) for looks in truth.rounds(event, container)
            ]
            for found in (live, one.afterwards()):
                assert seen == [
                    each.seen_by
                    for each in found
                    if (each.name, each.container) == (event, container)
                ]


def created(folder: Path, leaving: Iterable[str]) -> Path:
    """A recording of one creation, in which some probes disconnect right after their reply."""
    probing = Probing(folder / "a.nriscope.db", *PROBES)
    for index in PROBES:
        by_plugin = {} if index < PLUGIN else {"by": PLUGIN}
        probing.sees(index, "CreateContainer", create(a_container(**by_plugin)))
        if index in leaving:
            probing.recorder.end_session(probing.sessions[index], "closed", time_ns())
    assert probing.recorder.close(PATIENCE).lost == 0
    return probing.path


def noted(folder: Path) -> Answers:
    """Append one request to a plugin's notes and return them."""
    adjust = api.ContainerAdjustment(annotations={"by": PLUGIN}).SerializeToString()
    note = {"event": "CreateContainer", "container": LIFE.id, "updates": []}
    with (folder / "notes").open("a") as notes:
        notes.write(json.dumps(note | {"adjust": [base64.b64encode(adjust).decode()]}) + "\n")
    return Answers(PLUGIN, folder / "notes", is_go=False)


def render(rounds: Iterable[RoundDiff]) -> JsonObject:
    """Render rounds like ``diff --format json``."""
    renderer = JsonRenderer(live=False, quiet_unchanged=False)
    parts = [part for one in rounds for part in renderer.round(one, lambda id: id)]
    return cast(JsonObject, json.loads("".join([*parts, *renderer.end()])))
