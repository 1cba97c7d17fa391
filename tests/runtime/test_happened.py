# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tests.runtime.testbed.happened import Happened, Parallel, Step, in_order


def event(name: str, container: str = "") -> Happened:
    return Happened(name, "shop", "web", container, "pod-1", container and f"id-{container}")


RUN, END = event("RunPodSandbox"), event("RemovePodSandbox")
STOP_A, STOP_B = event("StopContainer", "a"), event("StopContainer", "b")
REMOVE_A, REMOVE_B = event("RemoveContainer", "a"), event("RemoveContainer", "b")

STEPS: list[Step] = [RUN, Parallel([(STOP_A, REMOVE_A), (STOP_B, REMOVE_B)]), END]


def test_any_order_between_chains_is_accepted() -> None:
    seen = [RUN, STOP_B, STOP_A, REMOVE_A, REMOVE_B, END]
    assert in_order(STEPS, seen) == seen


def test_the_order_within_a_chain_is_checked() -> None:
    seen = [RUN, STOP_B, REMOVE_A, STOP_A, REMOVE_B, END]
    assert in_order(STEPS, seen) != seen


def test_the_order_outside_of_chains_is_checked() -> None:
    assert in_order([RUN, END], [END, RUN]) == [RUN, END]


def test_a_missing_a_duplicate_and_a_foreign_event_are_detected() -> None:
    whole = [RUN, STOP_A, REMOVE_A, STOP_B, REMOVE_B, END]
    for seen in (whole[:-1], whole[1:], [*whole, END], [RUN, RUN, *whole[1:]]):
        assert in_order(STEPS, seen) != seen
    changed = [*whole[:3], STOP_B._replace(container_id="id-x"), *whole[4:]]
    assert in_order(STEPS, changed) != changed
