# SPDX-License-Identifier: Apache-2.0
"""Who was asked between two connections, by their indices."""

from __future__ import annotations

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Role

from ..chains import POD, traffic


def create(**env: str) -> api.CreateContainerRequest:
    variables = [f"{key}={value}" for key, value in env.items()]
    container = api.Container(id="app-id", name="app", args=["run"], env=variables)
    return api.CreateContainerRequest(pod=POD, container=container)


@pytest.mark.parametrize(
    ("first", "last", "owner"),
    [
        ("00", "99", "one of 01–98"),
        ("10", "12", "a plugin at 11"),
        ("10", "11", "one of 10–11"),
        ("10", "10", "a plugin at 10"),
        ("00", "00", "a plugin at 00"),
        ("99", "99", "a plugin at 99"),
    ],
)
def test_a_change_between_two_connections(first: str, last: str, owner: str) -> None:
    made = traffic(**{f"p{first}_a": Role.PROBE, f"p{last}_b": Role.PROBE})
    made.send(f"{first}-a", "CreateContainer", create())
    made.send(f"{last}-b", "CreateContainer", create(FOO="1"))
    (one,) = made.end()
    assert [str(step.owner) for step in one.steps] == [owner]


@pytest.mark.parametrize(
    ("last", "owner"),
    [("50", "one of 51–99, or the runtime"), ("99", "a plugin at 99, or the runtime")],
)
def test_a_change_behind_the_last_connection(last: str, owner: str) -> None:
    made = traffic(p00_a=Role.PROBE, **{f"p{last}_b": Role.PROBE})
    made.send("00-a", "CreateContainer", create())
    made.send(f"{last}-b", "CreateContainer", create())
    after = create(FOO="1")
    told = api.StateChangeEvent(event=api.POST_CREATE_CONTAINER, pod=POD, container=after.container)
    made.send("00-a", "StateChange", told, event="PostCreateContainer")
    owners = [str(step.owner) for one in made.end() for step in one.steps]
    assert owners == [owner]


def test_who_shares_the_index_of_the_first_connection_may_be_meant_too() -> None:
    made = traffic(p50_b=Role.PROBE)
    made.send("50-b", "CreateContainer", create())
    update = api.UpdateContainerRequest(pod=POD, container=create().container)
    update.linux_resources.cpu.shares.value = 100
    made.send("50-b", "UpdateContainer", update)
    (step,) = (step for one in made.end() for step in one.steps)
    assert str(step.owner) == "CRI request, or one of 00–49"
    assert step.owner.ties == ("50",)
