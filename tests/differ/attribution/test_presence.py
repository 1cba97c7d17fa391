# SPDX-License-Identifier: Apache-2.0
"""Who was there: clocks that are set, recorders that were killed, several runtimes in one file."""

from __future__ import annotations

import json
from dataclasses import replace

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.attribution.differ import WAITING_BYTES_MAX, Differ
from nri_scope.events import CONTAINER_STATUS, Event, Gap, Role, Session
from nri_scope.nri.events import Event as NriEvent
from nri_scope.recording.cri_answers import status_request

from ..chains import BEGUN_NS, POD, START_NS, Traffic, session, traffic

HOUR = 3600 * 10**9


def container(**env: str) -> api.Container:
    made = [f"{key}={value}" for key, value in env.items()]
    return api.Container(id="app-id", name="app", pod_sandbox_id=POD.id, args=["run"], env=made)


def create(**env: str) -> api.CreateContainerRequest:
    return api.CreateContainerRequest(pod=POD, container=container(**env))


def updating(shares: int) -> api.UpdateContainerRequest:
    made = api.UpdateContainerRequest(pod=POD, container=container())
    made.linux_resources.cpu.shares.value = shares
    return made


def validation() -> api.ValidateContainerAdjustmentRequest:
    made = api.ValidateContainerAdjustmentRequest(pod=POD, container=container())
    made.adjust.env.add(key="FOO", value="1")
    made.owners.owners["app-id"].compound[api.Env].owners["FOO"] = "10-foo"
    for plugin in ("00-a", "10-foo", "99-c"):
        made.plugins.add(index=plugin[:2], name=plugin[3:])
    return made


class _Jumping(Differ):
    """Fed by sessions of which some began after the clock had been set."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead: dict[int, int] = {}

    def feed(self, event: Event, request: bytes = b"", reply: bytes = b"") -> list[RoundDiff]:
        at_ns = event.at_ns + self.ahead.get(event.session, 0)
        return super().feed(replace(event, at_ns=at_ns), request, reply)


def jumping(*sessions: Session, ahead: dict[int, int]) -> Traffic:
    differ = _Jumping()
    differ.ahead = ahead
    made = Traffic(differ)
    for one in sessions:
        made.sessions[one.plugin] = one
        differ.begin(one)
    return made


class TestClocks:
    def test_one_that_joined_after_the_clock_was_set_ahead_is_there(self) -> None:
        made = jumping(
            session(1, "00-a"),
            session(2, "99-c"),
            session(3, "50-b", started_ns=BEGUN_NS + HOUR),
            ahead={3: HOUR},
        )
        made.send("00-a", "CreateContainer", create())
        made.send("50-b", "CreateContainer", create(FOO="1"))
        made.send("99-c", "CreateContainer", create(FOO="1"))
        (one,) = made.end()
        assert [str(step.owner) for step in one.steps] == ["one of 01–49"]
        assert not one.failure and not one.missed_by

    def test_one_that_joined_after_the_clock_was_set_back_saw_another_round(self) -> None:
        # As blame has it: without the Synchronize in between.
        made = jumping(
            session(1, "00-a", ended_ns=START_NS + 2 * 10**6 + 1),
            session(2, "50-b", started_ns=START_NS + 3 * 10**6 - HOUR),
            ahead={2: -HOUR},
        )
        made.send("00-a", "UpdateContainer", updating(100))
        made.now_ns += 2 * 10**6
        made.send("50-b", "UpdateContainer", updating(200))
        assert [one.seen_by for one in made.end()] == [("00-a",), ("50-b",)]
        owners = [str(step.owner) for one in made.found for step in one.steps]
        assert owners[0] == "CRI request"
        assert "one of 01–49" not in owners

    def test_one_that_had_gone_before_the_clock_was_set_back_has_gone(self) -> None:
        # Who is asked first is asked about a new attempt.
        made = jumping(
            session(1, "00-a", ended_ns=START_NS + 10**6 + 1),
            session(2, "50-b", started_ns=BEGUN_NS - HOUR),
            ahead={2: -HOUR},
        )
        stop = api.StopContainerRequest(pod=POD, container=container())
        made.send("00-a", "StopContainer", stop)
        made.send("50-b", "StopContainer", stop)
        assert [one.seen_by for one in made.end()] == [("00-a",), ("50-b",)]


class TestWhoIsNotMissing:
    def test_one_whose_recorder_was_killed_before(self) -> None:
        killed = "killed"
        gone = replace(session(30, "50-old"), end_reason=killed)
        gaps = [Gap(1, None, BEGUN_NS + 5, BEGUN_NS + 10, killed, None)]
        made = Traffic(Differ([gone], gaps=gaps))
        made.sessions["50-old"] = gone
        made.connect("00-a")
        made.connect("40-b")
        made.send("00-a", "UpdateContainer", updating(100))
        made.send("40-b", "UpdateContainer", updating(100))
        (one,) = made.end()
        assert (one.missed_by, one.failure) == ((), "")

    def test_but_until_its_recorder_was_killed_it_is(self) -> None:
        killed = "killed"
        gone = replace(session(30, "50-old"), end_reason=killed)
        gaps = [Gap(1, None, START_NS + HOUR, START_NS + 2 * HOUR, killed, None)]
        made = Traffic(Differ([gone], gaps=gaps))
        made.sessions["50-old"] = gone
        made.connect("00-a")
        made.send("00-a", "UpdateContainer", updating(100))
        made.send("00-a", "StopContainer", api.StopContainerRequest(pod=POD))
        one, _ = made.end()
        assert one.missed_by == ("50-old",)
        assert "50-old did not receive the event" in one.failure

    def test_one_of_another_runtime(self) -> None:
        made = traffic(p00_a=Role.PROBE, p40_b=Role.PROBE)
        made.differ.begin(replace(session(9, "99-c"), runtime_name="cri-o"))
        made.send("00-a", "UpdateContainer", updating(100))
        made.send("40-b", "UpdateContainer", updating(100))
        (one,) = made.end()
        assert (one.missed_by, one.failure) == ((), "")

    def test_runtimes_have_no_round_together(self) -> None:
        made = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE)
        other = replace(made.sessions["50-b"], runtime_name="cri-o")
        made.sessions["50-b"] = other
        made.differ.begin(other)
        made.send("00-a", "CreateContainer", create())
        made.send("50-b", "CreateContainer", create(FOO="1"))
        assert [one.steps for one in made.end()] == [(), ()]


class TestBeforeValidatorsAreTold:
    def creation(self, *, ended: bool) -> Traffic:
        made = traffic(p00_a=Role.PROBE, p99_c=Role.PROBE, p10_t=Role.TAP)
        for number, one in enumerate((*made.sessions.values(), session(9, "-cri", Role.CRI))):
            ended_ns = START_NS + HOUR if ended else None
            # The tapped plugin is not in the chain.
            mask = NriEvent.StopPodSandbox.bit if one.role == Role.TAP else one.mask
            kept = replace(one, ended_ns=ended_ns, mask=mask)
            made.sessions[one.plugin if number < 3 else "cri"] = kept
            made.differ.begin(kept)
        made.send("00-a", "CreateContainer", create())
        made.send("99-c", "CreateContainer", create(FOO="1"))
        return made

    def test_the_cri_may_answer_and_plugins_may_ask(self) -> None:
        for ended in (False, True):
            made = self.creation(ended=ended)
            made.send("cri", CONTAINER_STATUS, status_request("other"), raw_reply=b"{}")
            update = api.UpdateContainersRequest()
            update.update.add(container_id="other").linux.resources.cpu.shares.value = 2
            made.send("10-t", "UpdateContainers", update, api.UpdateContainersResponse())
            made.send("00-a", "ValidateContainerAdjustment", validation())
            creation, beside = made.end()
            assert [str(step.owner) for step in creation.steps] == ["10-foo"]
            assert len(creation.events) == 3
            assert beside.name == "UpdateContainers"

    def test_but_what_they_say_does_not_wait_for_as_long_as_it_takes(self) -> None:
        made = self.creation(ended=False)
        update = api.UpdateContainersRequest()
        update.update.add(container_id="x" * (WAITING_BYTES_MAX // 4))
        for _ in range(5):
            made.send("10-t", "UpdateContainers", update, api.UpdateContainersResponse())
        assert [one.name for one in made.found] == ["UpdateContainers"] * 4
        made.send("00-a", "ValidateContainerAdjustment", validation())
        names = [one.name for one in made.end()]
        assert names == ["UpdateContainers"] * 4 + ["CreateContainer", "UpdateContainers"]


def test_validators_that_were_told_nonsense_clear_nobody_of_what_shows_later() -> None:
    made = traffic(p00_a=Role.PROBE, p50_b=Role.PROBE)
    for plugin in ("00-a", "50-b"):
        made.send(plugin, "CreateContainer", create())
    told = api.ValidateContainerAdjustmentRequest(pod=POD, container=container())
    for plugin in ("00-a", "50-b", "60-c"):
        told.plugins.add(index=plugin[:2], name=plugin[3:])
    for _ in range(2):
        told.adjust.mounts.add(destination="/data")
    made.send("00-a", "ValidateContainerAdjustment", told)
    start = api.StartContainerRequest(pod=POD, container=container(FOO="1"))
    made.send("00-a", "StartContainer", start)
    creation, started = made.end()
    assert "cannot be evaluated" in creation.remarks[0]
    assert [str(step.owner) for step in started.steps] == ["one of 60-c, or the runtime"]


class TestAnswersOfTheCri:
    def answer(self, made: Traffic, *, asked: int, shares: int) -> None:
        """The CRI's word on the container, asked for so many milliseconds ago."""
        spec = {"process": {"args": ["run"]}, "linux": {"resources": {"cpu": {"shares": shares}}}}
        now_ns, made.now_ns = made.now_ns, made.now_ns - asked * 10**6
        content = json.dumps({"runtimeSpec": spec}).encode()
        made.send(
            "cri", CONTAINER_STATUS, status_request("app-id"), raw_reply=content, about="app-id"
        )
        made.now_ns = now_ns

    def test_asked_for_before_an_update_says_nothing_of_it_though_the_clock_was_set(self) -> None:
        cri = replace(session(9, "-cri", Role.CRI), mask=0)
        made = jumping(session(1, "00-a"), session(2, "99-b"), cri, ahead={9: HOUR})
        made.sessions["cri"] = cri
        made.send("00-a", "CreateContainer", create())
        made.send("99-b", "CreateContainer", create())
        for plugin in ("00-a", "99-b"):
            made.send(plugin, "UpdateContainer", updating(200))
        for plugin in ("00-a", "99-b"):
            done = api.PostUpdateContainerRequest(pod=POD, container=container())
            made.send(plugin, "PostUpdateContainer", done)
        made.differ.flush()
        self.answer(made, asked=5, shares=100)
        made.end()
        history = made.differ.histories["app-id"]
        assert history.real is None
        self.answer(made, asked=0, shares=200)
        made.end()
        assert history.real is not None

    def test_of_an_earlier_container_with_the_same_id_say_nothing_of_this_one(self) -> None:
        made = traffic(p00_a=Role.PROBE, p99_b=Role.PROBE)
        made.sessions["cri"] = session(9, "-cri", Role.CRI)
        made.differ.begin(made.sessions["cri"])
        for plugin in ("00-a", "99-b", "00-a", "99-b"):
            made.send(plugin, "CreateContainer", create())
        made.differ.flush()
        self.answer(made, asked=4, shares=100)
        made.end()
        assert made.differ.histories["app-id"].real is None


def test_a_container_that_takes_over_an_id_has_a_name_of_its_own() -> None:
    made = traffic(p00_a=Role.PROBE, p99_b=Role.PROBE)
    for name in ("app", "next"):
        request = create()
        request.container.name = name
        for plugin in ("00-a", "99-b"):
            made.send(plugin, "CreateContainer", request)
    made.end()
    assert made.differ.histories["app-id"].name == "shop/web/next"
