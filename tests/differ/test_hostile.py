# SPDX-License-Identifier: Apache-2.0
"""Messages that no runtime sends: the cost of handling them is linear in their size.

At these sizes a nested loop makes the tests noticeably slow.
"""

from __future__ import annotations

from collections import Counter

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ.attribution import rounds, updates
from nri_scope.differ.attribution.attributed_changes import OutcomeKind
from nri_scope.differ.attribution.differ import Differ
from nri_scope.differ.attribution.rounds import MISSED_MAX
from nri_scope.events import Role

from .chains import POD, Traffic, traffic

MANY = 20_000


def container(*env: str) -> api.Container:
    return api.Container(id="app-id", name="app", pod_sandbox_id=POD.id, args=["run"], env=env)


def create(*env: str) -> api.CreateContainerRequest:
    return api.CreateContainerRequest(pod=POD, container=container(*env))


def test_a_conflict_after_thousands_of_changes() -> None:
    chain = traffic(p10_a=Role.TAP, p15_b=Role.PROBE, p20_c=Role.TAP)
    reply = api.CreateContainerResponse()
    reply.adjust.env.add(key="FOO", value="1")
    chain.send("10-a", "CreateContainer", create(), reply)
    chain.send("15-b", "CreateContainer", create("FOO=1"))
    other = api.CreateContainerResponse()
    for number in range(MANY):
        other.adjust.env.add(key=f"E{number}", value="1")
    other.adjust.env.add(key="FOO", value="2")
    chain.send("20-c", "CreateContainer", create("FOO=1"), other)
    (one,) = chain.end()
    by_owner = Counter(str(step.owner) for step in one.steps)
    assert by_owner == {"10-a": 1, "20-c": MANY + 1}
    assert {step.outcome.kind for step in one.steps} == {OutcomeKind.REFUSED}


@pytest.mark.exhaustive
def test_rules_for_thousands_of_devices() -> None:
    chain = traffic(p10_a=Role.TAP)
    reply, shown = api.CreateContainerResponse(), container()
    for number in range(MANY):
        device = reply.adjust.linux.devices.add(path=f"/dev/{number}", type="c", major=number)
        shown.linux.devices.append(device)
        rule = shown.linux.resources.devices.add(allow=True, type="c", access="rwm")
        rule.major.value, rule.minor.value = number, 0
    chain.send("10-a", "CreateContainer", create(), reply)
    start = api.StartContainerRequest(pod=POD, container=shown)
    chain.send("10-a", "StartContainer", start)
    rules = chain.end()[1].steps
    assert len(rules) == MANY
    assert {str(step.owner) for step in rules} == {"10-a"}


def test_omitted_updates_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "UPDATES_MAX", 10)
    chain = traffic(p10_a=Role.TAP)
    reply = api.StopContainerResponse()
    for number in range(1_234):
        chain.differ.add_existing(api.Container(id=f"c{number}"))
        reply.update.add(container_id=f"c{number}").linux.resources.cpu.shares.value = 5
    request = api.StopContainerRequest(pod=POD, container=container())
    chain.send("10-a", "StopContainer", request, reply)
    (one,) = chain.end()
    assert len(one.side_effects) == 10
    assert one.remarks == ("1,224 more updates of other containers are omitted",)


def test_the_list_of_connections_that_missed_an_event_is_bounded() -> None:
    chain = Traffic(Differ())
    chain.connect("00-a")
    for number in range(3 * MISSED_MAX):
        chain.connect(f"50-{number}")
    chain.send("00-a", "StopPodSandbox", api.StopPodSandboxRequest(pod=POD))
    (one,) = chain.end()
    assert len(one.missed_by) == MISSED_MAX


def test_a_rounds_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "ROUND_MAX", 1_000)
    chain = Traffic(Differ())
    for number in range(20):
        chain.connect(f"{number:02}-p")
    for plugin in chain.sessions:
        request = api.StopContainerRequest(pod=POD, container=container(f"FOO={'1' * 100}"))
        chain.send(plugin, "StopContainer", request)
    found = chain.end()
    assert len(found) > 1
    assert [plugin for one in found for plugin in one.seen_by] == list(chain.sessions)


def test_the_number_of_connections_of_a_round_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "CONNECTIONS_MAX", 8)
    chain = Traffic(Differ())
    for number in range(20):
        chain.connect(f"{number:02}-p")
    for plugin in chain.sessions:
        chain.send(plugin, "StopPodSandbox", api.StopPodSandboxRequest(pod=POD))
    assert [len(one.seen_by) for one in chain.end()] == [8, 8, 4]
