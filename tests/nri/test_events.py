# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.nri.events import (
    CONTAINER_EVENTS,
    METHODS,
    PASSIVE_EVENTS,
    POD_EVENTS,
    EventKind,
    events_in,
    mask_of,
    parse_events,
)


def test_numbers_are_those_of_the_protocol() -> None:
    protocol = {
        value.name.replace("_", "").lower(): value.number for value in api.Event.DESCRIPTOR.values
    }
    del protocol["unknown"], protocol["last"]
    assert {event.name.lower(): event.value for event in EventKind} == protocol


def test_event_n_is_bit_n_minus_1() -> None:
    assert mask_of([EventKind.RunPodSandbox, EventKind.CreateContainer]) == 0b1001
    assert mask_of(EventKind) == 0x3FFF


@given(st.frozensets(st.sampled_from(EventKind)))
def test_a_mask_round_trips(events: frozenset[EventKind]) -> None:
    assert events_in(mask_of(events)) == tuple(sorted(events))
    assert events_in(mask_of(events) | 1 << 20) == tuple(sorted(events))


def test_pod_events_are_those_without_a_container() -> None:
    fields = {event: METHODS[event.name].request.DESCRIPTOR.fields_by_name for event in EventKind}
    assert {event for event in EventKind if "container" not in fields[event]} == POD_EVENTS


def test_pod_and_container_events_are_all_passive_ones() -> None:
    assert POD_EVENTS | CONTAINER_EVENTS == PASSIVE_EVENTS == parse_events("all")
    assert EventKind.ValidateContainerAdjustment not in PASSIVE_EVENTS


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("CreateContainer", {EventKind.CreateContainer}),
        ("createcontainer, START_CONTAINER", {EventKind.CreateContainer, EventKind.StartContainer}),
        ("stop-pod-sandbox", {EventKind.StopPodSandbox}),
        ("pod", POD_EVENTS),
        ("Container", CONTAINER_EVENTS),
        ("-RunPodSandbox", PASSIVE_EVENTS - {EventKind.RunPodSandbox}),
        ("-pod,-RemoveContainer", CONTAINER_EVENTS - {EventKind.RemoveContainer}),
        ("-StopPodSandbox,pod", POD_EVENTS - {EventKind.StopPodSandbox}),
        ("all,ValidateContainerAdjustment", set(EventKind)),
    ],
)
def test_event_selections_are_parsed(text: str, events: set[EventKind]) -> None:
    assert parse_events(text) == events


@pytest.mark.parametrize("text", ["", " , ", "pod,-pod", "-all"])
def test_an_empty_selection_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="is empty"):
        parse_events(text)


def test_an_unknown_event_name_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="'CreateContiner'; did you mean CreateContainer"):
        parse_events("pod,CreateContiner")
    with pytest.raises(UsageError, match="events are RunPodSandbox"):
        parse_events("xyzzy")
