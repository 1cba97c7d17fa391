# SPDX-License-Identifier: Apache-2.0
"""Stages of pods and containers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nri_scope.nri.events import CONTAINER_ORDER, POD_ORDER, EventStage
from nri_scope.recording.query import lifetimes
from nri_scope.recording.query.lifetimes import Lifetime, Lifetimes, container_stage
from tests.recording.made import an_event


def seen(*names: str) -> tuple[Lifetime, Lifetime]:
    """Return the lifetimes of a pod and its container after some events."""
    known = Lifetimes()
    found = dict[bool, Lifetime]()
    for number, name in enumerate(names, 1):
        subject = "shop/web" if name in POD_ORDER else "shop/web/app"
        event = an_event(number, event=name, subject=subject)
        found.update((one.is_pod, one) for one in known.see(replace(event, at_ns=number)))
    return found[True], found[False]


def test_stages_follow_the_usual_order() -> None:
    pod, container = seen(POD_ORDER[0], *CONTAINER_ORDER, *POD_ORDER[1:])
    assert container.reached == {
        EventStage.CREATING: 2,
        EventStage.CREATED: 3,
        EventStage.STARTED: 4,
        EventStage.STOPPED: 6,
        EventStage.REMOVED: 7,
    }
    assert pod.reached == {EventStage.STARTED: 1, EventStage.STOPPED: 8, EventStage.REMOVED: 9}
    assert pod.has_start and container.has_start


def test_a_late_event_does_not_lead_back() -> None:
    _, container = seen("CreateContainer", "StartContainer", "StopContainer", "PostStartContainer")
    assert container.stage is EventStage.STOPPED


def test_a_container_neither_begins_nor_ends_its_pod() -> None:
    pod, container = seen("CreateContainer", "StopContainer", "RemoveContainer")
    assert container.stage is EventStage.REMOVED
    assert pod.stage is EventStage.LISTED and not pod.has_start


def test_an_id_that_is_used_again_begins_anew() -> None:
    _, container = seen(*CONTAINER_ORDER, "CreateContainer")
    assert container.reached == {EventStage.CREATING: 7}


@pytest.mark.parametrize(
    ("runtime", "stage"), [("isulad", EventStage.LISTED), ("cri-o", EventStage.STARTED)]
)
def test_isulad_sends_startcontainer_also_if_the_start_failed(
    runtime: str, stage: EventStage
) -> None:
    assert container_stage("StartContainer", runtime) is stage
    assert container_stage("PostStartContainer", runtime) is EventStage.STARTED


def test_removed_pods_are_dropped_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifetimes, "SETTLE_EVENTS", 2)
    known = Lifetimes()
    complete, newest = list[int](), list[Lifetime]()
    for number, name in enumerate(["RemovePodSandbox", "", "", "", "StopPodSandbox"], 1):
        newest = known.see(an_event(number, event=name, subject="shop/web" if name else ""))
        complete += [number for _ in known.pop_complete()]
    assert complete == [3]
    (resumed,) = newest
    assert resumed.is_resumed and resumed.stage is EventStage.REMOVED
    assert [*known.remaining()] == newest
