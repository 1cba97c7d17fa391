# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nri_scope.differ.attribution.attributed_changes import ChangeStep, Evidence, RoundDiff
from nri_scope.differ.attribution.owner import plugin
from nri_scope.differ.live.cri_queue import Starting, is_gone, worth_asking
from nri_scope.specs import changes
from tests.recording.made import an_event


def _round(name: str, *changed: str) -> RoundDiff:
    (change,) = changes({}, {"hostname": "x"})
    steps = tuple(
        ChangeStep(container, change, plugin("20-a"), (Evidence.TAP,), 1, 1)
        for container in changed
    )
    return RoundDiff(
        event=1,
        events=(1,),
        name=name,
        at_ns=1,
        container="own",
        pod="pod",
        seen_by=(),
        missed_by=(),
        chain=(),
        steps=steps,
        asked=(),
        spans=(),
        failure="",
    )


def test_side_effects_queue_the_changed_containers() -> None:
    rounds = [_round("CreateContainer", "own", "one"), _round("UpdateContainers", "two")]
    assert worth_asking(None, rounds) == {"one", "two"}


def test_own_changes_queue_only_an_existing_container() -> None:
    assert worth_asking(None, [_round("UpdateContainer", "own")]) == {"own"}
    assert worth_asking(None, [_round("CreateContainer", "own")]) == set()


def test_changes_from_the_cri_queue_nothing() -> None:
    assert worth_asking(None, [_round("ContainerStatus", "own", "one")]) == set()


@pytest.mark.parametrize("name", ["PostCreateContainer", "PostStartContainer"])
def test_a_created_or_started_container_is_queued(name: str) -> None:
    event = an_event(1, subject="ns/pod/app", event=name)
    assert worth_asking(event, ()) == {event.container_id}


def test_an_updated_container_is_queued() -> None:
    event = an_event(1, subject="ns/pod/app", event="PostUpdateContainer")
    assert worth_asking(event, ()) == {event.container_id}


@pytest.mark.parametrize("name", ["RunPodSandbox", "CreateContainer", "StopContainer"])
def test_events_before_completion_queue_nothing(name: str) -> None:
    assert worth_asking(an_event(1, event=name), ()) == set()
    assert worth_asking(None, ()) == set()


def test_a_removed_container_is_gone() -> None:
    event = an_event(1, subject="ns/pod/app", event="RemoveContainer")
    assert is_gone(event) == event.container_id != ""
    assert is_gone(an_event(1)) == is_gone(None) == ""


def _take(starting: Starting, name: str, now: float = 0.0) -> str:
    return starting.failed(an_event(1, subject="ns/pod/app", event=name), now)


def test_a_container_that_stops_before_it_has_started_is_queued() -> None:
    starting, container = Starting(), an_event(1, subject="ns/pod/app").container_id
    assert [_take(starting, name) for name in ("StartContainer", "StopContainer")] == [
        "",
        container,
    ]
    names = ("StartContainer", "PostStartContainer", "StopContainer", "StopContainer")
    assert [_take(starting, name) for name in names] == [""] * 4


def test_a_container_that_does_not_start_is_queued_at_intervals() -> None:
    starting, container = Starting(), an_event(1, subject="ns/pod/app").container_id
    _take(starting, "PostCreateContainer", 10.0)
    asked = [bool(starting.due(10.0 + tenth / 10)) for tenth in range(100)]
    assert sum(asked) == 2
    _take(starting, "PostCreateContainer", 30.0)
    assert starting.rest() == {container}
    _take(starting, "StartContainer", 30.1)
    assert starting.due(100.0) == set()
    assert starting.rest() == {container}
    _take(starting, "PostStartContainer", 30.2)
    assert starting.rest() == set()
    assert starting.failed(None, 0.0) == ""
