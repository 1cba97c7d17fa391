# SPDX-License-Identifier: Apache-2.0
"""Index ranges of the plugins called between two connections."""

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
    chain = traffic(**{f"p{first}_a": Role.PROBE, f"p{last}_b": Role.PROBE})
    chain.send(f"{first}-a", "CreateContainer", create())
    chain.send(f"{last}-b", "CreateContainer", create(FOO="1"))
    (one,) = chain.end()
    assert [str(step.owner) for step in one.steps] == [owner]


@pytest.mark.parametrize(
    ("last", "owner"),
    [("50", "one of 51–99, or the runtime"), ("99", "a plugin at 99, or the runtime")],
)
def test_a_change_after_the_last_connection(last: str, owner: str) -> None:
    chain = traffic(p00_a=Role.PROBE, **{f"p{last}_b": Role.PROBE})
    chain.send("00-a", "CreateContainer", create())
    chain.send(f"{last}-b", "CreateContainer", create())
    after = create(FOO="1")
    post_create = api.StateChangeEvent(
        event=api.POST_CREATE_CONTAINER, pod=POD, container=after.container
    )
    chain.send("00-a", "StateChange", post_create, event="PostCreateContainer")
    owners = [str(step.owner) for one in chain.end() for step in one.steps]
    assert owners == [owner]


def test_a_plugin_with_the_index_of_the_first_connection_is_a_tie() -> None:
    chain = traffic(p50_b=Role.PROBE)
    chain.send("50-b", "CreateContainer", create())
    update = api.UpdateContainerRequest(pod=POD, container=create().container)
    update.linux_resources.cpu.shares.value = 100
    chain.send("50-b", "UpdateContainer", update)
    (step,) = (step for one in chain.end() for step in one.steps)
    assert str(step.owner) == "CRI request, or one of 00–49"
    assert step.owner.ties == ("50",)
