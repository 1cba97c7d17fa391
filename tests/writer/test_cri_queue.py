# SPDX-License-Identifier: Apache-2.0
"""When containers are queried: after the runtime has done what an event announces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CapturedCall
from nri_scope.recording.query.cri_answers import CREATION_SECONDS
from nri_scope.writer import cri_thread
from nri_scope.writer.cri_thread import CriQueue, QueriedSubject
from tests.recording.made import an_event

DEADLINE = 2.0
CREATE, CREATED = "CreateContainer", "PostCreateContainer"


def seen(event: str, container: str = "a", *targets: str) -> QueriedSubject:
    return QueriedSubject(event, "pod", container, DEADLINE, frozenset(targets))


def test_a_creation_is_asked_about_when_it_is_done() -> None:
    queue = CriQueue()
    assert queue.feed(seen(CREATE), 0) == set()
    # Other probes see the same event, and the validator.
    assert (
        queue.feed(seen(CREATE), 0) == queue.feed(seen("ValidateContainerAdjustment"), 0) == set()
    )
    assert queue.feed(seen(CREATED), 0.1) == {"a"}


@pytest.mark.parametrize(
    ("name", "seconds"),
    [(CREATE, CREATION_SECONDS), ("StartContainer", DEADLINE), ("UpdateContainer", DEADLINE)],
)
def test_an_event_without_a_later_one_is_asked_about_after_a_time(
    name: str, seconds: float
) -> None:
    queue = CriQueue()
    queue.feed(seen(name), 10.0)
    queue.feed(seen("RunPodSandbox", ""), 10.1)
    assert queue.due(10.0 + seconds - 0.01) == set()
    assert queue.due(10.0 + seconds) == {"a"}
    assert queue.due(100.0) == set()


def test_an_update_of_another_container_is_over_with_the_next_event() -> None:
    queue = CriQueue()
    assert queue.feed(seen("StopContainer", "a", "b", "c"), 0) == set()
    assert queue.feed(seen("StopContainer", "a", "d"), 0) == set()
    assert queue.feed(seen("RunPodSandbox", ""), 0.1) == {"b", "c", "d"}
    assert queue.feed(seen(CREATE, "a", "b"), 0) == set()
    assert queue.due(DEADLINE) == {"b"}
    assert queue.due(CREATION_SECONDS) == {"a"}


def test_an_unsolicited_update_is_over_with_its_reply() -> None:
    assert CriQueue().feed(seen("UpdateContainers", "", "b"), 0) == {"b"}


def test_a_start_that_fails_is_asked_about() -> None:
    queue = CriQueue()
    queue.feed(seen("StartContainer"), 0)
    assert queue.feed(seen("StopContainer"), 0.1) == {"a"}
    assert queue.feed(seen("StopContainer"), 0.1) == set()


def test_a_container_that_does_not_start_is_asked_about_at_intervals() -> None:
    queue = CriQueue()
    queue.feed(seen(CREATED), 10.0)
    assert queue.is_waiting
    assert sum(bool(queue.due(10.0 + tenth / 10)) for tenth in range(100)) == 2
    queue.feed(seen(CREATED), 30.0)
    assert queue.remaining() == {"a"}
    assert queue.feed(seen("StartContainer"), 30.1) == set()
    assert queue.feed(seen("PostStartContainer"), 30.2) == {"a"}
    assert queue.remaining() == set()
    assert not queue.is_waiting


NAMES = st.sampled_from(
    [CREATE, CREATED, "StartContainer", "PostStartContainer", "UpdateContainer", "StopContainer"]
)


@given(st.lists(st.tuples(NAMES, st.sampled_from("abc"), st.sets(st.sampled_from("abcdef")))))
def test_every_announced_change_is_asked_about_later(
    events: list[tuple[str, str, set[str]]],
) -> None:
    queue = CriQueue()
    owed: dict[str, float] = {}
    for number, (name, container, targets) in enumerate(events):
        now = float(number)
        for asked in queue.feed(seen(name, container, *targets), now):
            owed.pop(asked, None)
        if name in (CREATE, "StartContainer", "UpdateContainer"):
            owed[container] = now
        owed |= dict.fromkeys(targets, now)
        for asked in queue.due(now):
            owed.pop(asked, None)
    assert owed.keys() <= queue.due(len(events) + CREATION_SECONDS)


def test_a_full_queue_asks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cri_thread, "WAITING_MAX", 2)
    queue = CriQueue()
    assert queue.feed(seen("StopContainer", "a", "b", "c"), 0) == set()
    assert queue.feed(seen("StopContainer", "a", "d"), 0) == {"d"}


def call(
    method: str, request: bytes = b"", reply: bytes = b"", timeout_ns: int = 0
) -> CapturedCall:
    return CapturedCall(0, 0, method, request, reply, 0, "", 0, timeout_ns)


def test_the_containers_that_a_reply_asks_to_update_are_its_targets() -> None:
    event = an_event(1, subject="ns/pod/app", event=CREATE)
    reply = api.CreateContainerResponse(
        update=[
            api.ContainerUpdate(container_id="other"),
            api.ContainerUpdate(container_id=""),
            api.ContainerUpdate(container_id=event.container_id),
        ]
    )
    assert QueriedSubject.of(
        event, call(CREATE, reply=reply.SerializeToString())
    ) == QueriedSubject(CREATE, event.pod_id, event.container_id, 2.0, frozenset({"other"}))
    assert QueriedSubject.of(event, call(CREATE, reply=b"\xff\xff\xff")).targets == frozenset()
    assert QueriedSubject.of(event, call(CREATE, timeout_ns=10**12)).deadline == 60.0
