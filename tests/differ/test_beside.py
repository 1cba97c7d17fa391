# SPDX-License-Identifier: Apache-2.0
"""Entries from outside the chain during a round: CRI replies, connections, unsolicited updates."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ.attribution.attributed_changes import OutcomeKind, RoundDiff
from nri_scope.differ.blame import owned_lines
from nri_scope.differ.blame.text import head as head_of
from nri_scope.differ.render import renderer as renderer_of
from nri_scope.events import Role

from .chains import POD, Traffic, traffic

OLD, ASKED, NEW = 100, 200, 300
SHARES = "/linux/resources/cpu/shares"


def container(shares: int = OLD) -> api.Container:
    message = api.Container(id="app-id", name="app", args=["run"])
    message.linux.resources.cpu.shares.value = shares
    return message


def update_request(shares: int) -> api.UpdateContainerRequest:
    request = api.UpdateContainerRequest(pod=POD, container=container())
    request.linux_resources.cpu.shares.value = shares
    return request


def post_update(shares: int) -> api.StateChangeEvent:
    return api.StateChangeEvent(
        event=api.POST_UPDATE_CONTAINER, pod=POD, container=container(shares)
    )


def created_container() -> Traffic:
    """Return traffic after a creation, observed by two probes and the CRI."""
    chain = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE, p_cri=Role.CRI)
    for probe in ("00-a", "50-b"):
        chain.send(
            probe, "CreateContainer", api.CreateContainerRequest(pod=POD, container=container())
        )
    return chain


def reply_of_cri(chain: Traffic, shares: int, **more: object) -> None:
    """Send a CRI reply, requested now, with these CPU shares."""
    spec = {"linux": {"resources": {"cpu": {"shares": shares}}}, "process": {"args": ["run"]}}
    about = api.StateChangeEvent(container=container())
    reply = json.dumps({"runtimeSpec": spec, **more}).encode()
    chain.send("-cri", "ContainerStatus", about, raw_reply=reply)


def outcomes(chain: Traffic) -> list[tuple[object, OutcomeKind]]:
    return [
        (step.change.after, step.outcome.kind)
        for one in chain.end()
        for step in one.steps
        if step.change.path == SHARES
    ]


def changes(found: list[RoundDiff]) -> list[tuple[object, str]]:
    return [
        (step.change.after, str(step.owner))
        for one in found
        for step in one.steps
        if step.event in one.events
    ]


@pytest.mark.parametrize("beside", ["CRI reply", "another probe"])
def test_an_update_stays_one_round(beside: str) -> None:
    chain = created_container()
    chain.send("00-a", "UpdateContainer", update_request(ASKED))
    if beside == "CRI reply":
        reply_of_cri(chain, OLD)
    else:
        chain.connect("99-c")
        chain.send("99-c", "Configure", api.ConfigureRequest(runtime_name="containerd"))
    chain.send("50-b", "UpdateContainer", update_request(NEW))
    assert changes(chain.end()) == [(ASKED, "CRI request"), (NEW, "one of 01–49")]


def test_a_creation_and_its_validation_stay_together() -> None:
    chain = created_container()
    other = api.Container(id="other-id", name="other", args=["run"])
    create = api.CreateContainerRequest(pod=POD, container=other)
    for probe in ("00-a", "50-b"):
        chain.send(probe, "CreateContainer", create)
    reply_of_cri(chain, OLD)
    validate = api.ValidateContainerAdjustmentRequest(pod=POD, container=other)
    validate.plugins.add(name="x", index="60")
    chain.send("00-a", "ValidateContainerAdjustment", validate)
    (one,) = (one for one in chain.end() if one.container == "other-id")
    assert one.chain == ("60-x",)


def test_a_cri_reply_before_an_update_is_done_does_not_judge_it() -> None:
    chain = created_container()
    for probe in ("00-a", "50-b"):
        chain.send(probe, "UpdateContainer", update_request(ASKED))
    reply_of_cri(chain, OLD)
    for probe in ("00-a", "50-b"):
        chain.send(probe, "StateChange", post_update(ASKED), event="PostUpdateContainer")
    reply_of_cri(chain, ASKED)
    assert outcomes(chain) == [(ASKED, OutcomeKind.IN_EFFECT)]


def test_a_cri_reply_before_a_side_effect_is_done_does_not_judge_it() -> None:
    chain = created_container()
    chain.connect("60-x", Role.TAP)
    other = api.Container(id="other-id", name="other", args=["run"])
    reply = api.StopContainerResponse()
    reply.update.add(container_id="app-id").linux.resources.cpu.shares.value = NEW
    chain.send("60-x", "StopContainer", api.StopContainerRequest(pod=POD, container=other), reply)
    reply_of_cri(chain, OLD)
    chain.send("60-x", "RunPodSandbox", api.RunPodSandboxRequest(pod=POD))
    reply_of_cri(chain, NEW)
    assert outcomes(chain) == [(NEW, OutcomeKind.IN_EFFECT)]


def test_only_the_last_plugins_or_the_runtime_change_a_container_until_post_create() -> None:
    chain = traffic(p00_a=Role.PROBE, p99_b=Role.PROBE)
    for probe in ("00-a", "99-b"):
        chain.send(
            probe, "CreateContainer", api.CreateContainerRequest(pod=POD, container=container())
        )
    # Runtimes drop updates of a container that does not exist yet.
    after = container(NEW)
    after.annotations["by"] = "the last plugin of the chain"
    created = api.StateChangeEvent(event=api.POST_CREATE_CONTAINER, pod=POD, container=after)
    chain.send("00-a", "StateChange", created, event="PostCreateContainer")
    owners = {step.change.path: step.owner for one in chain.end() for step in one.steps}
    assert {path: str(owner) for path, owner in owners.items()} == {
        SHARES: "a plugin at 99, or the runtime",
        "/annotations/by": "a plugin at 99, or the runtime",
    }
    # containerd repeats the CRI's annotations in events, and another plugin at 00 may come first.
    assert owners["/annotations/by"].ties == ("00",)


def test_a_swap_limit_equal_to_the_memory_limit_belongs_to_the_last_plugin_or_the_runtime() -> None:
    chain = traffic(p00_a=Role.PROBE, p99_b=Role.PROBE)
    limited = container()
    limited.linux.resources.memory.limit.value = 1 << 20
    for probe in ("00-a", "99-b"):
        chain.send(probe, "CreateContainer", api.CreateContainerRequest(pod=POD, container=limited))
    limited.linux.resources.memory.swap.value = 1 << 20
    created = api.StateChangeEvent(event=api.POST_CREATE_CONTAINER, pod=POD, container=limited)
    chain.send("00-a", "StateChange", created, event="PostCreateContainer")
    owners = [(step.change.path, str(step.owner)) for one in chain.end() for step in one.steps]
    assert owners == [("/linux/resources/memory/swap", "a plugin at 99, or the runtime")]


def test_a_lost_connection_does_not_split_a_round() -> None:
    chain = created_container()
    chain.connect("99-c")
    chain.now_ns += 10**6
    chain.send("00-a", "UpdateContainer", update_request(ASKED))
    chain.send("50-b", "UpdateContainer", update_request(ASKED))
    lost = replace(chain.sessions["50-b"], ended_ns=chain.now_ns + 1, end_reason="closed")
    chain.differ.begin(lost)
    chain.send("99-c", "UpdateContainer", update_request(NEW))
    (one,) = (one for one in chain.end() if one.name == "UpdateContainer")
    assert one.seen_by == ("00-a", "50-b", "99-c")
    assert changes([one]) == [(ASKED, "CRI request"), (NEW, "one of 51–98")]
    assert not one.failure


def test_a_retry_without_a_lost_connection_is_a_separate_round() -> None:
    chain = created_container()
    chain.connect("99-c")
    chain.now_ns += 10**6
    chain.send("00-a", "UpdateContainer", update_request(ASKED))
    lost = replace(chain.sessions["00-a"], ended_ns=chain.now_ns + 1, end_reason="closed")
    chain.differ.begin(lost)
    for probe in ("50-b", "99-c"):
        chain.send(probe, "UpdateContainer", update_request(ASKED))
    seen = [one.seen_by for one in chain.end() if one.name == "UpdateContainer"]
    assert seen == [("00-a",), ("50-b", "99-c")]


def test_a_container_that_failed_to_start_never_ran() -> None:
    chain = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE, p_cri=Role.CRI)
    for probe, shares in (("00-a", OLD), ("50-b", NEW)):
        request = api.CreateContainerRequest(pod=POD, container=container(shares))
        chain.send(probe, "CreateContainer", request)
    for probe in ("00-a", "50-b"):
        post = api.StateChangeEvent(
            event=api.POST_CREATE_CONTAINER, pod=POD, container=container(NEW)
        )
        chain.send(probe, "StateChange", post, event="PostCreateContainer")
    failed = {"state": "CONTAINER_EXITED", "exitCode": 128, "reason": "StartError"}
    reply_of_cri(
        chain, NEW, status={**failed, "message": "runc: no\x1b[31m such file\nor directory"}
    )
    differ, found = chain.differ, chain.end()
    assert found[-1].name == "ContainerStatus"
    assert found[-1].failure.startswith("the container failed to start and never ran (StartError")
    renderer = renderer_of("text")
    lines = [line for one in found for line in renderer.round(one, differ.name_of)]
    text = "\n".join([*lines, *renderer.end()])
    assert "failed to start" in text
    assert "\x1b" not in text and "such file\nor" not in text
    (history,) = differ.histories.values()
    head = "\n".join(head_of(history, owned_lines.lines(history)))
    assert "note: this spec was created, but never ran: the container failed to start" in head
    assert "\x1b" not in head


# -- changes visible only over CRI --------------------------------------------------------------

ANYONE = "one of 00–99, or the runtime"


def shares_of(chain: Traffic) -> list[tuple[object, str]]:
    """Value and owner of the shares, as `blame` shows them."""
    (history,) = chain.differ.histories.values()
    return [
        (line.value, str(line.owner)) for line in owned_lines.lines(history) if line.path == SHARES
    ]


def show(chain: Traffic, shares: int) -> None:
    chain.send("00-a", "StateChange", post_update(shares), event="PostUpdateContainer")


def test_an_update_visible_only_over_cri_may_be_a_plugins() -> None:
    """Plugins may request it when they connect, in other containers' replies, or unsolicited."""
    chain = created_container()
    show(chain, OLD)
    reply_of_cri(chain, NEW)
    chain.end()
    assert shares_of(chain) == [(NEW, ANYONE)]


@pytest.mark.parametrize("by", ["an event", "the plugin"])
def test_an_older_cri_reply_undoes_no_change(by: str) -> None:
    """The reply was requested before the change and recorded after the event that shows it."""
    chain = created_container()
    show(chain, ASKED)
    asked_ns = chain.now_ns
    if by == "an event":
        show(chain, NEW)
    else:
        chain.connect("70-t", Role.TAP)
        update = update_request(NEW)
        own_update = api.ContainerUpdate(container_id="app-id")
        own_update.linux.resources.CopyFrom(update.linux_resources)
        request = api.UpdateContainersRequest(update=[own_update])
        chain.send("70-t", "UpdateContainers", request, api.UpdateContainersResponse())
    later_ns, chain.now_ns = chain.now_ns, asked_ns - 10**6
    reply_of_cri(chain, ASKED)
    chain.now_ns = later_ns
    found = chain.end()
    assert shares_of(chain) == [(NEW, ANYONE if by == "an event" else "70-t")]
    assert not any(
        step.outcome.kind is OutcomeKind.IN_EFFECT for one in found for step in one.steps
    )
    # A newer reply counts.
    reply_of_cri(chain, NEW)
    chain.end()
    (history,) = chain.differ.histories.values()
    assert history.steps[-1].outcome.kind is OutcomeKind.IN_EFFECT


def test_reordered_members_with_equal_keys_keep_their_owner() -> None:
    def with_mounts(*sources: str) -> api.Container:
        mounted = container()
        for source in sources:
            mounted.mounts.add(destination="/data", source=source)
        return mounted

    chain = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE, p99_c=Role.PROBE)
    first, last = with_mounts("/src"), with_mounts("/src", "/by-20")
    for probe, each in (("00-a", first), ("50-b", last), ("99-c", last)):
        chain.send(probe, "CreateContainer", api.CreateContainerRequest(pod=POD, container=each))
    post = api.StateChangeEvent(
        event=api.POST_CREATE_CONTAINER, pod=POD, container=with_mounts("/by-20", "/src")
    )
    chain.send("00-a", "StateChange", post, event="PostCreateContainer")
    chain.end()
    (history,) = chain.differ.histories.values()
    (line,) = (line for line in owned_lines.lines(history) if line.value == "/by-20")
    assert str(line.owner) in ("unknown", "one of 01–49")


@pytest.mark.parametrize("is_updated", [False, True])
def test_an_update_between_creation_and_first_event_is_known(is_updated: bool) -> None:
    chain = traffic(p00_a=Role.PROBE, p50_b=Role.TAP)
    for connection in ("00-a", "50-b"):
        chain.send(
            connection,
            "CreateContainer",
            api.CreateContainerRequest(pod=POD, container=container()),
        )
    other = api.Container(id="other-id", name="other", args=["run"])
    request = api.CreateContainerRequest(pod=POD, container=other)
    chain.send("00-a", "CreateContainer", request)
    update = api.ContainerUpdate(container_id="app-id")
    update.linux.resources.cpu.shares.value = NEW
    updates = [update] if is_updated else []
    chain.send("50-b", "CreateContainer", request, api.CreateContainerResponse(update=updates))
    after = api.StateChangeEvent(event=api.POST_CREATE_CONTAINER, pod=POD, container=container(NEW))
    for connection in ("00-a", "50-b"):
        chain.send(connection, "StateChange", after, event="PostCreateContainer")
    owner = "50-b" if is_updated else "one of 51–99, or the runtime"
    assert [who for value, who in changes(chain.end()) if value == NEW] == [owner]
