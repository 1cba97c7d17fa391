# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nri_scope.differ.attribution.attributed_changes import ChangeStep, Evidence, RoundDiff
from nri_scope.differ.attribution.owner import plugin
from nri_scope.differ.live.cri_queue import Starting, is_gone, worth_asking
from nri_scope.oci import changes
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


def test_whoever_was_changed_beside_is_asked_about() -> None:
    rounds = [_round("CreateContainer", "own", "one"), _round("UpdateContainers", "two")]
    assert worth_asking(None, rounds) == {"one", "two"}


def test_its_own_changes_count_where_the_container_is_there() -> None:
    assert worth_asking(None, [_round("UpdateContainer", "own")]) == {"own"}
    assert worth_asking(None, [_round("CreateContainer", "own")]) == set()


def test_what_the_cri_told_leads_to_no_question() -> None:
    assert worth_asking(None, [_round("ContainerStatus", "own", "one")]) == set()


@pytest.mark.parametrize("name", ["PostCreateContainer", "PostStartContainer"])
def test_a_container_is_asked_about_when_it_is_there(name: str) -> None:
    event = an_event(1, subject="ns/pod/app", event=name)
    assert worth_asking(event, ()) == {event.container_id}


def test_and_after_an_update() -> None:
    event = an_event(1, subject="ns/pod/app", event="PostUpdateContainer")
    assert worth_asking(event, ()) == {event.container_id}


@pytest.mark.parametrize("name", ["RunPodSandbox", "CreateContainer", "StopContainer"])
def test_nothing_is_asked_before_it_is_done(name: str) -> None:
    assert worth_asking(an_event(1, event=name), ()) == set()
    assert worth_asking(None, ()) == set()


def test_who_is_removed_is_not_asked_about() -> None:
    event = an_event(1, subject="ns/pod/app", event="RemoveContainer")
    assert is_gone(event) == event.container_id != ""
    assert is_gone(an_event(1)) == is_gone(None) == ""


def _take(starting: Starting, name: str, now: float = 0.0) -> str:
    return starting.failed(an_event(1, subject="ns/pod/app", event=name), now)


def test_a_container_that_ends_instead_of_having_started_is_asked_about() -> None:
    starting, container = Starting(), an_event(1, subject="ns/pod/app").container_id
    assert [_take(starting, name) for name in ("StartContainer", "StopContainer")] == [
        "",
        container,
    ]
    names = ("StartContainer", "PostStartContainer", "StopContainer", "StopContainer")
    assert [_take(starting, name) for name in names] == [""] * 4


def test_a_container_that_does_not_start_is_asked_about_now_and_then() -> None:
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
