# SPDX-License-Identifier: Apache-2.0
"""A caller decides on each event of a replay: send, edit, skip, answer, send again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.replay.playback import (
    EDITED,
    SEND,
    SENT_AGAIN,
    SKIPPED,
    PendingEvent,
    StepDecision,
)
from nri_scope.replay.result import PlayedEvent, Replayed
from nri_scope.replay.run import replay
from nri_scope.transport.loop import run
from tests.replay.plays import CallCounter

from .plays import job_of, played
from .recordings import BUNDLED, container, life, recording, run_pod

AGAIN = StepDecision(again=True)


@dataclass
class Script:
    """Control that follows a list of decisions, then sends everything as it is."""

    decisions: list[StepDecision] = field(default_factory=list[StepDecision])
    pending: list[PendingEvent | None] = field(default_factory=list[PendingEvent | None])
    played: list[PlayedEvent] = field(default_factory=list[PlayedEvent])

    async def before(self, pending: PendingEvent | None) -> StepDecision:
        self.pending.append(pending)
        return self.decisions.pop(0) if self.decisions else SEND

    def after(self, pending: PendingEvent, played: PlayedEvent) -> None:
        self.played.append(played)


@pytest.fixture
def one_life(tmp_path: Path) -> Path:
    return recording(tmp_path / "life.nriscope.db", [run_pod(), *life(container())])


def controlled(path: Path, control: Script, plugin: object) -> Replayed:
    job = job_of(path, {"10-plugin": plugin})
    return run(replay(replace(job, playback=replace(job.playback, control=control))))


def at(control: Script, event: str) -> int:
    """Return the position of an event's first decision."""
    return next(n for n, one in enumerate(control.pending) if one and one.event == event)


@pytest.mark.parametrize("path", BUNDLED.values(), ids=BUNDLED)
def test_a_controlled_replay_that_changes_nothing_is_an_ordinary_one(path: Path) -> None:
    control = Script()
    ours = controlled(path, control, CallCounter())
    other = played(path, {"10-plugin": CallCounter()})
    assert control.pending[-1] is None
    assert [event.event for event in ours.events] == [event.event for event in other.events]
    assert {name: one.spec for name, one in ours.containers.items()} == {
        name: one.spec for name, one in other.containers.items()
    }
    sent = [one.event_id for one in control.pending if one is not None]
    assert sent == [one.event_id for one in control.played]


def _decisions(path: Path, event: str, *decisions: StepDecision) -> Script:
    seen = Script()
    controlled(path, seen, CallCounter())
    return Script([SEND] * at(seen, event) + list(decisions))


def test_an_edited_request_is_sent_and_takes_effect(one_life: Path) -> None:
    seen = Script()
    controlled(one_life, seen, CallCounter())
    pending = seen.pending[at(seen, "CreateContainer")]
    assert pending is not None
    edited = api.CreateContainerRequest()
    edited.CopyFrom(cast("api.CreateContainerRequest", pending.request))
    edited.container.env.append("EDITED=1")
    plugin = CallCounter()
    control = _decisions(one_life, "CreateContainer", StepDecision(request=edited))
    result = controlled(one_life, control, plugin)
    assert "EDITED=1" in plugin.created[0].env
    (only,) = result.containers.values()
    assert {"EDITED=1", "CALL=1"} <= set(only.spec["process"]["env"])  # type: ignore[index, call-overload, arg-type]
    assert [one.note for one in control.played if one.note] == [EDITED]


def test_a_skipped_event_takes_effect_without_being_sent(one_life: Path) -> None:
    plugin = CallCounter()
    control = _decisions(one_life, "CreateContainer", StepDecision(skip=True))
    controlled(one_life, control, plugin)
    assert plugin.calls == ["StopContainer"]
    assert [one.event for one in control.played if one.skipped == SKIPPED] == ["CreateContainer"]


def test_an_answer_replaces_that_of_the_plugin(one_life: Path) -> None:
    answer = api.CreateContainerResponse()
    answer.adjust.annotations["by"] = "hand"
    plugin = CallCounter()
    control = _decisions(
        one_life,
        "CreateContainer",
        StepDecision(answers={"10-plugin": answer.SerializeToString()}),
    )
    result = controlled(one_life, control, plugin)
    assert plugin.calls == ["StopContainer"]
    (only,) = result.containers.values()
    assert only.spec["annotations"]["by"] == "hand"  # type: ignore[index, call-overload]


def test_an_event_is_sent_again_before_the_next_one(one_life: Path) -> None:
    plugin = CallCounter()
    seen = _decisions(one_life, "CreateContainer", SEND, AGAIN, AGAIN)
    controlled(one_life, seen, plugin)
    assert plugin.calls == ["CreateContainer"] * 3 + ["StopContainer"]
    notes = [one.note for one in seen.played if one.event == "CreateContainer"]
    assert notes == ["", SENT_AGAIN, SENT_AGAIN]


def test_the_last_event_is_sent_again_at_the_end(one_life: Path) -> None:
    seen = Script()
    controlled(one_life, seen, CallCounter())
    control = Script([SEND] * (len(seen.pending) - 1) + [AGAIN])
    controlled(one_life, control, CallCounter())
    assert control.played[-1].note == SENT_AGAIN
    assert control.played[-1].event == control.played[-2].event
