# SPDX-License-Identifier: Apache-2.0
"""What comes from beside the chain while an event is on its way through it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ import blame
from nri_scope.differ.attribution.attributed_changes import Applied, RoundDiff
from nri_scope.differ.render import Format
from nri_scope.differ.render import renderer as renderer_of
from nri_scope.events import Role

from .chains import POD, Traffic, traffic

OLD, ASKED, NEW = 100, 200, 300
SHARES = "/linux/resources/cpu/shares"


def container(shares: int = OLD) -> api.Container:
    made = api.Container(id="app-id", name="app", args=["run"])
    made.linux.resources.cpu.shares.value = shares
    return made


def updating(shares: int) -> api.UpdateContainerRequest:
    made = api.UpdateContainerRequest(pod=POD, container=container())
    made.linux_resources.cpu.shares.value = shares
    return made


def updated(shares: int) -> api.StateChangeEvent:
    return api.StateChangeEvent(
        event=api.POST_UPDATE_CONTAINER, pod=POD, container=container(shares)
    )


def begun() -> Traffic:
    """A container that was created, with two probes and the CRI looking on."""
    made = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE, p_cri=Role.CRI)
    for probe in ("00-a", "50-b"):
        made.send(
            probe, "CreateContainer", api.CreateContainerRequest(pod=POD, container=container())
        )
    return made


def tell(made: Traffic, shares: int, **more: object) -> None:
    """The CRI says, when it is asked now, that the container has these shares."""
    spec = {"linux": {"resources": {"cpu": {"shares": shares}}}, "process": {"args": ["run"]}}
    about = api.StateChangeEvent(container=container())
    reply = json.dumps({"runtimeSpec": spec, **more}).encode()
    made.send("-cri", "ContainerStatus", about, raw_reply=reply)


def changes(found: list[RoundDiff]) -> list[tuple[object, str]]:
    return [
        (step.change.after, str(step.owner))
        for one in found
        for step in one.steps
        if step.event in one.events
    ]


@pytest.mark.parametrize("beside", ["the CRI tells", "another probe connects"])
def test_an_update_stays_one_round(beside: str) -> None:
    made = begun()
    made.send("00-a", "UpdateContainer", updating(ASKED))
    if beside == "the CRI tells":
        tell(made, OLD)
    else:
        made.connect("99-c")
        made.send("99-c", "Configure", api.ConfigureRequest(runtime_name="containerd"))
    made.send("50-b", "UpdateContainer", updating(NEW))
    assert changes(made.end()) == [(ASKED, "CRI request"), (NEW, "one of 01–49")]


def test_a_creation_and_its_validation_stay_together() -> None:
    made = begun()
    other = api.Container(id="other-id", name="other", args=["run"])
    create = api.CreateContainerRequest(pod=POD, container=other)
    for probe in ("00-a", "50-b"):
        made.send(probe, "CreateContainer", create)
    tell(made, OLD)
    validate = api.ValidateContainerAdjustmentRequest(pod=POD, container=other)
    validate.plugins.add(name="x", index="60")
    made.send("00-a", "ValidateContainerAdjustment", validate)
    (one,) = (one for one in made.end() if one.container == "other-id")
    assert one.chain == ("60-x",)


def test_an_answer_from_before_an_update_was_done_does_not_judge_it() -> None:
    made = begun()
    for probe in ("00-a", "50-b"):
        made.send(probe, "UpdateContainer", updating(ASKED))
    tell(made, OLD)
    for probe in ("00-a", "50-b"):
        made.send(probe, "StateChange", updated(ASKED), event="PostUpdateContainer")
    tell(made, ASKED)
    judged = [
        (step.change.after, step.applied)
        for one in made.end()
        for step in one.steps
        if step.applied is not None
    ]
    assert judged == [(ASKED, Applied.YES)]


def test_an_answer_from_before_a_side_effect_was_done_does_not_judge_it() -> None:
    made = begun()
    made.connect("60-x", Role.TAP)
    other = api.Container(id="other-id", name="other", args=["run"])
    reply = api.StopContainerResponse()
    reply.update.add(container_id="app-id").linux.resources.cpu.shares.value = NEW
    made.send("60-x", "StopContainer", api.StopContainerRequest(pod=POD, container=other), reply)
    tell(made, OLD)
    made.send("60-x", "RunPodSandbox", api.RunPodSandboxRequest(pod=POD))
    tell(made, NEW)
    judged = [
        (step.change.after, step.applied)
        for one in made.end()
        for step in one.steps
        if step.applied is not None and step.change.path == SHARES
    ]
    assert judged == [(NEW, Applied.YES)]


def test_resources_may_be_changed_beside_any_event_before_a_creation_is_told_to_be_over() -> None:
    made = traffic(p00_a=Role.PROBE, p99_b=Role.PROBE)
    for probe in ("00-a", "99-b"):
        made.send(
            probe, "CreateContainer", api.CreateContainerRequest(pod=POD, container=container())
        )
    # A plugin at 50 has connected meanwhile, and answered to its Synchronize by an update.
    after = container(NEW)
    after.annotations["by"] = "somebody at the end of the chain"
    created = api.StateChangeEvent(event=api.POST_CREATE_CONTAINER, pod=POD, container=after)
    made.send("00-a", "StateChange", created, event="PostCreateContainer")
    owners = {step.change.path: str(step.owner) for one in made.end() for step in one.steps}
    assert owners == {
        SHARES: "one of 00–99, or the runtime",
        "/annotations/by": "a plugin at 99, or the runtime",
    }


def test_the_swap_limit_that_follows_the_memory_limit_is_of_who_came_last() -> None:
    made = traffic(p00_a=Role.PROBE, p99_b=Role.PROBE)
    limited = container()
    limited.linux.resources.memory.limit.value = 1 << 20
    for probe in ("00-a", "99-b"):
        made.send(probe, "CreateContainer", api.CreateContainerRequest(pod=POD, container=limited))
    limited.linux.resources.memory.swap.value = 1 << 20
    created = api.StateChangeEvent(event=api.POST_CREATE_CONTAINER, pod=POD, container=limited)
    made.send("00-a", "StateChange", created, event="PostCreateContainer")
    owners = [(step.change.path, str(step.owner)) for one in made.end() for step in one.steps]
    assert owners == [("/linux/resources/memory/swap", "a plugin at 99, or the runtime")]


def test_a_connection_that_is_lost_takes_no_round_apart() -> None:
    made = begun()
    made.connect("99-c")
    made.now_ns += 10**6
    made.send("00-a", "UpdateContainer", updating(ASKED))
    made.send("50-b", "UpdateContainer", updating(ASKED))
    lost = replace(made.sessions["50-b"], ended_ns=made.now_ns + 1, end_reason="closed")
    made.differ.begin(lost)
    made.send("99-c", "UpdateContainer", updating(NEW))
    (one,) = (one for one in made.end() if one.name == "UpdateContainer")
    assert one.seen_by == ("00-a", "50-b", "99-c")
    assert changes([one]) == [(ASKED, "CRI request"), (NEW, "one of 51–98")]
    assert not one.failure


def test_a_new_attempt_without_the_connection_that_was_lost_is_a_round_of_its_own() -> None:
    made = begun()
    made.connect("99-c")
    made.now_ns += 10**6
    made.send("00-a", "UpdateContainer", updating(ASKED))
    lost = replace(made.sessions["00-a"], ended_ns=made.now_ns + 1, end_reason="closed")
    made.differ.begin(lost)
    for probe in ("50-b", "99-c"):
        made.send(probe, "UpdateContainer", updating(ASKED))
    seen = [one.seen_by for one in made.end() if one.name == "UpdateContainer"]
    assert seen == [("00-a",), ("50-b", "99-c")]


def test_a_container_that_failed_to_start_is_not_simply_applied() -> None:
    made = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE, p_cri=Role.CRI)
    for probe, shares in (("00-a", OLD), ("50-b", NEW)):
        request = api.CreateContainerRequest(pod=POD, container=container(shares))
        made.send(probe, "CreateContainer", request)
    for probe in ("00-a", "50-b"):
        post = api.StateChangeEvent(
            event=api.POST_CREATE_CONTAINER, pod=POD, container=container(NEW)
        )
        made.send(probe, "StateChange", post, event="PostCreateContainer")
    failed = {"state": "CONTAINER_EXITED", "exitCode": 128, "reason": "StartError"}
    tell(made, NEW, status={**failed, "message": "runc: no\x1b[31m such file\nor directory"})
    differ, found = made.differ, made.end()
    assert found[-1].name == "ContainerStatus"
    assert found[-1].failure.startswith("the container failed to start and never ran (StartError")
    forms: tuple[Format, ...] = ("text", "markdown")
    for form in forms:
        renderer = renderer_of(form)
        lines = [line for one in found for line in renderer.round(one, differ.name_of)]
        text = "\n".join([*lines, *renderer.end()])
        assert "failed to start" in text
        assert "1 of 1 earlier changes are in the spec; the container never ran" in text
        assert "\x1b" not in text and "such file\nor" not in text
    (history,) = differ.histories.values()
    head = "\n".join(blame.head(history, blame.lines(history)))
    assert "note: this spec was created, but never ran: the container failed to start" in head
    assert "\x1b" not in head


# -- changes that no connection sees, and the CRI's answers -------------------------------------

ANYONE = "one of 00–99, or the runtime"


def shares_of(made: Traffic) -> list[tuple[object, str]]:
    """Value and owner of the shares, as `blame` shows them."""
    (history,) = made.differ.histories.values()
    return [(line.value, str(line.owner)) for line in blame.lines(history) if line.path == SHARES]


def show(made: Traffic, shares: int) -> None:
    made.send("00-a", "StateChange", updated(shares), event="PostUpdateContainer")


def test_an_update_that_only_the_cri_shows_is_not_the_runtimes_own() -> None:
    """Plugins ask for it when they connect, beside other containers' events, or out of turn."""
    made = begun()
    show(made, OLD)
    tell(made, NEW)
    made.end()
    assert shares_of(made) == [(NEW, ANYONE)]


@pytest.mark.parametrize("by", ["an event", "the plugin"])
def test_an_older_answer_of_the_cri_undoes_nothing(by: str) -> None:
    """It was asked before the change, and is recorded after the event that shows that."""
    made = begun()
    show(made, ASKED)
    asked_ns = made.now_ns
    if by == "an event":
        show(made, NEW)
    else:
        made.connect("70-t", Role.TAP)
        update = updating(NEW)
        wanted = api.ContainerUpdate(container_id="app-id")
        wanted.linux.resources.CopyFrom(update.linux_resources)
        request = api.UpdateContainersRequest(update=[wanted])
        made.send("70-t", "UpdateContainers", request, api.UpdateContainersResponse())
    later_ns, made.now_ns = made.now_ns, asked_ns - 10**6
    tell(made, ASKED)
    made.now_ns = later_ns
    found = made.end()
    assert shares_of(made) == [(NEW, ANYONE if by == "an event" else "70-t")]
    assert not any(step.applied for one in found for step in one.steps)
    # A newer one counts.
    tell(made, NEW)
    made.end()
    (history,) = made.differ.histories.values()
    assert history.steps[-1].applied is Applied.YES


def test_members_of_one_key_in_another_order_are_laid_to_nobody() -> None:
    def with_mounts(*sources: str) -> api.Container:
        made = container()
        for source in sources:
            made.mounts.add(destination="/data", source=source)
        return made

    made = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE, p99_c=Role.PROBE)
    first, last = with_mounts("/src"), with_mounts("/src", "/by-20")
    for probe, each in (("00-a", first), ("50-b", last), ("99-c", last)):
        made.send(probe, "CreateContainer", api.CreateContainerRequest(pod=POD, container=each))
    post = api.StateChangeEvent(
        event=api.POST_CREATE_CONTAINER, pod=POD, container=with_mounts("/by-20", "/src")
    )
    made.send("00-a", "StateChange", post, event="PostCreateContainer")
    made.end()
    (history,) = made.differ.histories.values()
    (line,) = (one for one in blame.lines(history) if one.value == "/by-20")
    assert str(line.owner) in ("unknown", "one of 01–49")
